"""The learning-rate range test: the rate it suggests trains, and what it cannot tell it says."""

import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engram.cli import main
from engram.cli._find_lr import _say
from engram.errors import DivergedError, OptionError, StoppedError
from engram.tasks import Adding, Batch, Copy, LagCopy
from engram.train import Group, RateTest, Settings, find_lr, train
from engram.train._find_lr import smooth
from engram.train._loop import Loop
from tiers import slow_but

TASKS: dict[str, Callable[[], Settings]] = {
    "a linear one": lambda: Settings.of(LagCopy(lag=1, features=2), "linear-rnn", optimizer="sgd", clip=0.0, hidden=4),
    "sgd": lambda: Settings.of(Copy(4, 2), "rnn", optimizer="sgd", hidden=16),
    "adam": lambda: Settings.of(Copy(4, 2), "exprnn", hidden=16),
    "rmsprop": lambda: Settings.of(Adding(10), "lstm", optimizer="rmsprop", hidden=16),
}


def quick(settings: Settings) -> Settings:
    return settings.replace(batch=16, steps=150, validate_every=0, test_samples=128, threads=1)


@pytest.fixture
def copy() -> Settings:
    return quick(TASKS["adam"]())


@pytest.mark.parametrize("case", slow_but(TASKS, {"adam", "a linear one"}))
def test_the_suggested_rate_trains(case: str, tmp_path: Path) -> None:
    """Better than one of a hundredth, and without an explosion."""
    settings = quick(TASKS[case]())
    test = find_lr(settings, lr_steps=120)
    loss = {}
    for lr in (test.lr, test.lr / 100):
        run = train(settings.replace(lr=lr), tmp_path, f"{lr:g}")
        loss[lr] = run.facts["results"]["test"]["loss"]
    assert loss[test.lr] < 0.9 * loss[test.lr / 100]
    assert loss[test.lr] < test.losses[0]


def test_the_rule_by_hand(copy: Settings) -> None:
    test = find_lr(copy, 1e-4, 1.0, lr_steps=60)
    ratio = test.rates[1] / test.rates[0]
    assert test.rates[0] == 1e-4
    assert ratio == pytest.approx(1e4 ** (1 / 59))
    assert all(b / a == pytest.approx(ratio) for a, b in zip(test.rates, test.rates[1:], strict=False))
    start = sum(test.losses[:10]) / 10
    goal = start - 0.95 * (start - min(test.smoothed))
    assert test.fallen == test.rates[[loss <= goal for loss in test.smoothed].index(True)]
    assert test.lr == pytest.approx(test.fallen / 10, rel=0.05)
    assert test.lr_orthogonal == pytest.approx(test.lr / 10)


def test_smoothing_by_hand() -> None:
    """Weights 0.9^j on the loss j steps before, which sum to one."""
    losses = [3.0, 1.0, 4.0]
    weights = [0.81, 0.9, 1.0]
    assert smooth(losses)[2] == pytest.approx(sum(map(lambda w, x: w * x, weights, losses)) / sum(weights))
    assert smooth(losses)[0] == pytest.approx(3.0)
    assert smooth([2.0] * 9) == pytest.approx([2.0] * 9)


def test_the_same_numbers_every_time(copy: Settings) -> None:
    """Whatever the rate of the settings is, and its schedule: only ratios count."""
    first = find_lr(copy, lr_steps=30)
    torch.rand(3)
    assert find_lr(copy, lr_steps=30) == first
    other = copy.replace(lr=0.7, schedule="cosine", warmup=9)
    assert find_lr(other, lr_steps=30).losses == pytest.approx(first.losses, rel=1e-5)
    assert find_lr(copy.replace(seed=1), lr_steps=30).losses != first.losses


def test_the_generator_of_the_caller_stays(copy: Settings) -> None:
    state = torch.random.get_rng_state()
    find_lr(copy, lr_steps=20)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_other_rates_keep_their_ratio(copy: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orthogonal parameters and groups; those of a state space stay below 0.001, as in a run."""
    seen: list[list[float]] = []
    real = Loop.train_step

    def watched(self: Loop) -> Any:
        found = real(self)
        seen.append([group["lr"] for optimizer in self.optimizers.all for group in optimizer.param_groups])
        return found

    monkeypatch.setattr(Loop, "train_step", watched)
    groups = (Group("head.bias", lr=5e-4),)
    test = find_lr(copy.replace(lr=1e-3, lr_orthogonal=2e-3, groups=groups), 1e-5, 1e-2, lr_steps=20)
    for rate, rates in zip(test.rates, seen, strict=True):
        assert rates == pytest.approx([rate, 2 * rate, rate / 2])
    assert test.lr_orthogonal == pytest.approx(2 * test.lr)
    assert test.groups[0].lr == pytest.approx(test.lr / 2)
    seen.clear()
    test = find_lr(quick(Settings.of(Copy(4, 2), "s4d", hidden=4)), 1e-4, 1.0, lr_steps=20)
    for rate, rates in zip(test.rates, seen, strict=True):
        assert sorted(rates) == pytest.approx(sorted([rate, min(rate, 1e-3)]))


@pytest.mark.parametrize(("last", "explodes"), [(30.0, False), (45.0, False), (60.0, True), (120.0, True)])
def test_what_counts_as_an_explosion(
    last: float, explodes: bool, copy: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean above four times the least one and above the first: a loss that fell far may rise again to its start."""
    script = iter([50.0] * 11 + [1.0] * 60 + [last] * 50)
    monkeypatch.setattr(Loop, "train_step", lambda self: (next(script), {}))
    test = find_lr(copy, lr_steps=121)
    assert (test.exploded is not None) == explodes
    assert len(test.rates) == len(test.losses)
    if test.exploded is not None:  # the first rate that is not among those of the test
        assert test.exploded == pytest.approx(1e-6 * 1e7 ** (len(test.rates) / 120))
    assert 4 * min(test.smoothed) < 0.2 * last


def test_several_processes_are_one(copy: Settings) -> None:
    assert find_lr(copy.replace(processes=2), lr_steps=20).losses == find_lr(copy, lr_steps=20).losses


@dataclass(frozen=True)
class Broken(Copy):
    """Its loss is not finite from the start, or never falls."""

    value: float = math.nan

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return 0.0 * super().loss(outputs, batch) + self.value


@dataclass(frozen=True)
class Noisy(Copy):
    """A loss that no weight changes: what is left are the random symbols of each batch."""

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return 0.0 * super().loss(outputs, batch) + batch.targets.float().mean()


def test_noise_is_no_fall(copy: Settings) -> None:
    """The smoothed loss is below that of the start now and then, by less than the losses scatter."""
    with pytest.raises(StoppedError, match=r"lowered the loss, 1\.\d+ at the start, by more than its noise"):
        find_lr(copy.replace(task=Noisy(4, 2)))


def test_what_is_refused(copy: Settings) -> None:
    for given, words in [
        ({"lr_from": 1.0, "lr_to": 1.0}, "lr_from must be below lr_to, got 1 and 1"),
        ({"lr_from": 20.0}, "lr_from must be below lr_to, got 20 and 10"),
        ({"lr_from": 0.0}, "lr_from must be positive, got 0.0"),
        ({"lr_to": math.inf}, "lr_to must be positive, got inf"),
        ({"lr_from": math.nan}, "lr_from must be positive, got nan"),
        ({"lr_steps": 19}, "lr_steps must be at least 20, got 19"),
    ]:
        with pytest.raises(OptionError, match=words):
            find_lr(copy, **given)  # type: ignore[arg-type]


def test_what_it_cannot_tell(copy: Settings) -> None:
    with pytest.raises(DivergedError, match=r"loss is nan at step 1, at a rate of 1e-06 already: .*initial weights"):
        find_lr(copy.replace(task=Broken(4, 2)))
    with pytest.raises(
        StoppedError, match=r"no rate from 1e-06 to 10 lowered the loss, 0\.5 at the start, by more than"
    ):
        find_lr(copy.replace(task=Broken(4, 2, value=0.5)), lr_steps=20)
    linear = quick(TASKS["a linear one"]())
    with pytest.raises(DivergedError, match=r"at a rate of .* already: too early to suggest one. Try a smaller"):
        find_lr(linear, lr_from=1e3, lr_to=1e6)


# As typed.
WORDS = ["train", "copy", "--delay", "4", "--hidden", "8", "--batch", "8", "--threads", "1", "--find-lr"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--lr-orthogonal", "2e-3", "--group", "head.* lr=1e-3"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"│ +1e-06 │ +2\.\d+ │ +2\.\d+ │ +│", out)
    assert out.count("95 % of the fall │") == 1
    (lr,) = re.findall(r"suggested: --lr ([\d.e-]+) ", out)
    assert f"--lr-orthogonal {lr}" in out
    assert f'--group "head.* lr={float(lr) / 2:g}"' in out
    assert "(a tenth of the smallest rate at which" in out
    assert not list(Path().iterdir())  # nothing was written


@pytest.mark.parametrize(("orthogonal", "said"), [(0.001, False), (0.01, True), (0.0001, True)])
def test_a_rate_that_is_not_the_default_is_suggested_too(
    orthogonal: float, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tenth of the rate is what orthogonal parameters have anyway; more and less must be typed."""
    _say(RateTest((0.001, 0.1), (2.0, 1.0), (2.0, 1.0), 0.1, 1.0, 0.01, orthogonal))
    assert (f"--lr 0.01 --lr-orthogonal {orthogonal:g}\n" in capsys.readouterr().out) is said


def test_json_and_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--json", "--lr-steps", "30", "--lr-figure", "rates.svg"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert said.err == "figure: rates.svg\n"
    assert len(found["rates"]) == len(found["losses"]) == len(found["smoothed"]) <= 30
    assert found["lr"] == pytest.approx(found["fallen"] / 10, rel=0.05)
    assert found["rule"].startswith("a tenth of")
    content = Path("rates.svg").read_text(encoding="utf-8")
    assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
    shown = " ".join(re.findall(r"<!-- (.*?) -->", content))
    assert f"suggested: {found['lr']:g}, a tenth of the smallest rate" in shown
    assert [path.name for path in Path().iterdir()] == ["rates.svg"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--dry-run"], "give --find-lr or --dry-run, not both"),
        (["--seeds", "2"], "give --find-lr or --seeds, not both"),
        (["--lr-from", "20"], "--lr-from must be below --lr-to, got 20 and 10"),
        (["--lr-steps", "5"], "--lr-steps must be at least 20, got 5"),
        (["--lr-figure", "rates.txt"], "a figure must end in .svg or .png, got rates.txt"),
    ],
)
def test_one_line_for_what_is_refused(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, *words]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert line in said.err


def test_its_options_need_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS[:-1], "--lr-to", "3"]) == 2
    assert "--lr-to is for --find-lr, which was not given" in capsys.readouterr().err
