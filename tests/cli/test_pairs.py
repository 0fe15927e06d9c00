"""Every model learns every task: one step of each pair changes the weights and gives a finite loss."""

import math

import pytest
import torch

from engram.errors import OptionError
from engram.models import MODELS
from engram.nn import TensorNet
from engram.tasks import TASKS, Task, make_task
from engram.train import Settings, make_fabric, make_network
from engram.train._loop import Loop
from tiers import slow

pytestmark = pytest.mark.usefixtures("data_sets")

SMALL = {
    "copy": {"delay": 3, "length": 2},
    "copying-memory": {"delay": 3, "length": 2},
    "transfer-copy": {"delay": 3, "length": 2},
    "denoise": {"delay": 4, "length": 2},
    "adding": {"length": 8},
    "start-end": {"length": 8, "data": 2},
    "lag-copy": {"lag": 2, "length": 6},
    "sinus": {"length": 6},
    "copy-sinus": {"length": 6, "lag": 2},
    "parity": {"length": 6},
    "contractive": {"length": 8},
    "smnist": {},
    "psmnist": {},
    "mnist-patches": {},
    "ptb": {"bptt": 5},
    "shakespeare": {"length": 8},
    "pautomac": {},
    "same-different": {},
    "rmts": {},
    "dist3": {},
    "identity-rules": {},
    "rmts3": {},
    "same-different6": {},
    "identity-rules4": {},
    "dist-n": {"number": 3},
    "separated": {},
    "comparison": {},
    "transitive-comparison": {},
    "relational-game": {},
}
"""Options that make a step quick. A new task needs a line here."""
PRODUCTS = ("rac", "birnn", "cpbirnn")
ASLEEP = {("eurnn", task) for task, kind in TASKS.items() if kind.answer == "last"}
"""The start of the source, input weights within 0.01 and a modReLU bias of -0.01, leaves the last state at zero."""
ASLEEP |= {(model, task) for model in PRODUCTS for task in ("smnist", "psmnist", "mnist-patches")}
"""A product with an input of zeros, the margin of an image, is zero."""
ASLEEP |= {("mirnn", "smnist")}
"""The last rows of pixels are zero, and let it forget all."""


LONGEST = 60
"""Steps of a sequence that relational networks are tried on."""


def small(name: str) -> Task:
    return make_task(name, **SMALL[name])


# In the fast tier a ninth of the pairs: two tasks for every model or one, four models for every task.
PAIRS = [
    (model, task) if (k + n) % 18 == 0 else slow(model, task)
    for k, model in enumerate(name for name, entry in MODELS.items() if not entry.answers_itself)
    for n, task in enumerate(TASKS)
]


@pytest.mark.parametrize(("model", "task"), PAIRS)
def test_one_step(model: str, task: str) -> None:
    samples = 8 if TASKS[task].is_data_set and task != "ptb" else 0  # of a text: all of it
    settings = Settings.of(small(task), model, hidden=8, batch=2, samples=samples)
    loop = Loop(settings, make_fabric(settings))
    before = {name: value.detach().clone() for name, value in loop.network.named_parameters()}
    loss, scores = loop.train_step()
    assert math.isfinite(loss)
    batch = settings.batches("train")[0]
    assert loop.network(batch.inputs)[0].shape == (*batch.targets.shape[:2], settings.task.output_size)
    assert loop.step == 1
    after = dict(loop.network.named_parameters())
    assert all(bool(value.isfinite().all()) for value in after.values())
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert "head.bias" in changed
    if (model, task) not in ASLEEP:
        assert "head.weight" in changed
        assert any(name.startswith("core.") for name in changed)
    assert settings.task.metric in scores()
    assert all(math.isfinite(score) for score in scores().values())


def is_tensor(model: str) -> bool:
    return issubclass(MODELS[model].kind, TensorNet)


WHOLE = [
    (model, task) if is_tensor(model) or (k + n) % 9 == 0 else slow(model, task)
    for k, model in enumerate(name for name, entry in MODELS.items() if entry.answers_itself)
    for n, task in enumerate(TASKS)
]


@pytest.mark.parametrize(("model", "task"), WHOLE)
def test_one_step_of_a_whole_network(model: str, task: str) -> None:
    """Networks with a read-out of their own answer once; what asks at every step is refused."""
    samples = 8 if TASKS[task].is_data_set and task != "ptb" else 0
    options = {"rescale": True} if is_tensor(model) else {}
    if not options and small(task).steps > LONGEST:
        return  # all pairs of steps: a relational network is for a few objects
    settings = Settings.of(small(task), model, hidden=3, batch=2, samples=samples, options=options)
    if settings.task.answer == "every":
        with pytest.raises(OptionError, match="answers once"):
            make_network(settings)
        return
    loop = Loop(settings, make_fabric(settings))
    before = {name: value.detach().clone() for name, value in loop.network.named_parameters()}
    loss, scores = loop.train_step()
    assert math.isfinite(loss)
    assert loop.network(settings.batches("train")[0].inputs)[0].shape == (1, 2, settings.task.output_size)
    assert all(math.isfinite(score) for score in scores().values())
    after = dict(loop.network.named_parameters())
    assert any(not torch.equal(value, before[name]) for name, value in after.items())
    assert all(bool(value.isfinite().all()) for value in after.values())


def test_every_task_is_in_the_table() -> None:
    assert list(SMALL) == list(TASKS)
