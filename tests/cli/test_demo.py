"""``engram demo``: runs, tells the same story for the same seed, and says truly which one remembers."""

import copy
import math
import re
from pathlib import Path

import pytest
import torch

from engram.cli import main
from engram.cli._demo import HIDDEN, Runner, _verdict
from engram.maps import orthogonality_error
from engram.nn import RNN
from engram.tasks import Copy

SHORT = ["demo", "--updates", "2", "--delay", "5"]


def story(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the demo prints, in one line, without its times."""
    assert main([*SHORT, *words]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    text = re.sub(r"\s+", " ", told.out)
    return re.sub(r"[\d.]+ s of training|\d+:\d+:\d+", "", text)


def test_tells_the_story(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figure = tmp_path / "demo.svg"
    text = story(capsys, "--figure", str(figure))
    assert "10 symbols, 5 blank steps" in text
    assert "the loss stays at 0.832 and the recall at 12.5%" in text  # 10 ln 8 / 25, 1/8
    assert re.search(r"engram\.nn\.RNN does not remember: \d+\.\d% of the symbols of 1000 new sequences", text)
    assert re.search(r"torch\.nn\.LSTM does not remember: \d+\.\d% of the symbols", text)
    error = re.search(r"still orthogonal to (\S+)\.", text)
    assert error is not None
    assert float(error[1]) < 1e-5
    assert "<svg" in figure.read_text()


def test_a_pipe_gets_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """`engram demo | cat` shows that something happens: at most ten lines, the last one at the end."""
    for updates, lines in (("2", 2), ("25", 10)):
        assert main(["demo", "--updates", updates, "--delay", "1"]) == 0
        told = re.findall(r"^update (\d+) of \d+: (.*)$", capsys.readouterr().out, re.MULTILINE)
        assert len(told) == lines
        assert told[-1][0] == updates
        assert re.fullmatch(r"engram\.nn\.RNN loss \d\.\d{3}, recall [\d.]+%; torch\.nn\.LSTM loss .*%", told[-1][1])


def test_same_seed_same_story(capsys: pytest.CaptureFixture[str]) -> None:
    first = story(capsys, "--seed", "3")
    assert "recalled" in first
    assert story(capsys, "--seed", "3") == first
    assert story(capsys, "--seed", "4") != first


def test_the_orthogonal_layer_learns_a_short_delay() -> None:
    """What the demo shows at full length, in seconds: from chance to better than chance, the matrix orthogonal."""
    task = Copy(delay=3, length=2)
    runner = Runner(RNN(task.input_size, HIDDEN, map="exponential", activation="modrelu", bias=False), task, 150)
    generator = torch.Generator().manual_seed(0)
    losses = [runner.update(task.sample(32, generator))[0] for _ in range(150)]
    assert sum(losses[-10:]) / 10 < 0.5 * task.memoryless_baseline < losses[0]
    assert runner.examine(task.sample(200, generator)) > 0.8
    assert len(runner.history) == 150
    assert runner.history[0] < 0.5
    assert orthogonality_error(runner.layer.cells[0].weight_hh.detach()) < 1e-5  # float32, N = 128
    assert runner.seconds > 0


def test_an_update_sees_its_own_batch_only() -> None:
    """No gradient of an earlier step is left: a copy of everything but the gradients does the same next step."""
    torch.manual_seed(0)
    task, generator = Copy(delay=2, length=3), torch.Generator().manual_seed(0)
    runner = Runner(RNN(task.input_size, HIDDEN, map="exponential", activation="modrelu", bias=False), task, 10)
    for k in range(1, 4):
        runner.update(task.sample(4, generator))
        rates = [group["lr"] for group in runner.optimiser.param_groups]
        half = (1 + math.cos(math.pi * k / 10)) / 2  # half a turn of a cosine over all updates
        assert rates == pytest.approx([2e-3 * half, 2e-4 * half])
        norm = math.sqrt(sum(float(p.grad.square().sum()) for p in runner.plain if p.grad is not None))
        assert norm <= 1 + 1e-5  # clipped
    fresh, batch = copy.deepcopy(runner), task.sample(4, generator)
    for module in (fresh.layer, fresh.head):
        for parameter in module.parameters():
            parameter.grad = None
    assert runner.update(batch) == fresh.update(batch)
    for one, other in zip(runner.plain, fresh.plain, strict=True):
        assert torch.equal(one, other)


def test_what_is_said_of_a_network() -> None:
    """Parameters by hand: skew matrix, inputs, biases of modReLU, readout; the recall is that of the exam."""
    task = Copy(delay=2, length=3)
    runner = Runner(RNN(task.input_size, HIDDEN, map="exponential", activation="modrelu", bias=False), task, 10)
    inside = HIDDEN * (HIDDEN - 1) // 2 + HIDDEN * task.input_size + HIDDEN
    count = inside + HIDDEN * task.output_size + task.output_size
    batch = task.sample(50, torch.Generator().manual_seed(0))
    recall = runner.examine(batch)
    asked = runner.logits(batch.inputs)[-3:].argmax(-1)  # the last three steps are the answer
    assert recall == pytest.approx(float((asked == batch.targets[-3:]).float().mean()))
    runner.seconds = 12.34
    assert runner.summary() == (
        f"{recall:.1%} of the symbols of 1000 new sequences recalled ({count:,} parameters, 12.3 s of training)"
    )
    assert runner.history == []  # an exam is no training


VERDICTS = {
    1.0: "remembers",
    0.91: "remembers",
    0.9: "remembers in part",
    0.5: "does not remember",
    0.0: "does not remember",
}


@pytest.mark.parametrize("recall", VERDICTS)
def test_verdict(recall: float) -> None:
    assert _verdict(recall) == VERDICTS[recall]


def test_orthogonal_parameters_get_their_own_rate() -> None:
    """A tenth of the learning rate, and every parameter is in exactly one group."""
    task = Copy(delay=3)
    runner = Runner(RNN(task.input_size, HIDDEN, map="exponential", activation="modrelu"), task, 20)
    plain, mapped = runner.optimiser.param_groups
    assert mapped["lr"] == plain["lr"] / 10
    assert [p.numel() for p in mapped["params"]] == [HIDDEN * (HIDDEN - 1) // 2]
    every = [*runner.layer.parameters(), *runner.head.parameters()]
    assert len(every) == 6
    assert {id(p) for p in every} == {id(p) for group in (plain, mapped) for p in group["params"]}
