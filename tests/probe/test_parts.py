"""What a part is: its place in a profile, its cost by hand, its short form; and parts that do not apply."""

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

from engram.errors import DTypeError
from engram.probe import (
    PARTS,
    Cost,
    Decay,
    FisherMemory,
    GradientReach,
    Lyapunov,
    MemoryCapacity,
    NotMeasured,
    Part,
    SeparationRank,
    Setup,
    Subject,
    fisher_memory,
    learned_structure,
    profile,
    spectrum,
)
from engram.probe._figure import figure_of
from engram.probe._json import as_json


def test_built_in_parts_say_what_they_ask() -> None:
    assert list(PARTS) == [part.name for part in PARTS.values()]
    assert len({part.title for part in PARTS.values()}) == len(PARTS) == 7
    assert all(part.question.endswith("?") and issubclass(part, Part) for part in PARTS.values())


# Parts of one's own


@dataclass(frozen=True)
class LastState(Part):
    name = "last_state"
    title = "Last state"
    question = "How large is it?"

    norm: float

    @classmethod
    def cost(cls, setup: Setup) -> Cost:
        return Cost(passes=3, steps=2)

    @classmethod
    def measure(cls, setup: Setup) -> "LastState":
        setup.subject.require_state()
        setup.notes.append(f"measured on {setup.length} steps")
        return cls(float(setup.subject.advance(None, setup.inputs)[1].norm()))

    def headline(self) -> str:
        return f"a norm of {self.norm:.2f}."

    def brief(self) -> str:
        return f"{self.norm:.2f}"

    def plot(self, axes: Any) -> None:
        axes.bar([0], [self.norm])


def test_a_part_of_ones_own() -> None:
    """Beside a built-in one: in words, JSON, table, notes, cost and picture."""
    model = nn.RNN(2, 3)
    x = torch.randn(9, 4, 2)
    found = profile(model, data=x, length=9, parts=["structure", LastState, LastState])
    right = float(model(x)[1].detach().norm())
    assert list(found.parts) == ["structure", "last_state"]
    assert found.parts["last_state"].norm == pytest.approx(right)
    assert found.words().splitlines()[-1] == f"- Last state: a norm of {right:.2f}."
    assert found.to_dict()["last_state"] == {"norm": found.parts["last_state"].norm}
    assert found.summary()["Last state"] == f"{right:.2f}"
    assert found.notes == ["measured on 9 steps"]
    assert (found.cost.passes, found.cost.steps) == (3, 2)
    assert len([axes for axes in found.figure().axes if axes.patches]) == 1
    verdict = profile(model, length=9, parts=[LastState]).verdict
    assert verdict.startswith("A norm of ")


def test_a_part_that_does_not_apply() -> None:
    reason = "the state of this model cannot be handed in: it returns none"
    found = profile(nn.Linear(2, 3), length=9, parts=[LastState])
    missing = found.parts["last_state"]
    assert missing == NotMeasured("Last state", reason)
    assert found.verdict == "Nothing could be measured."
    assert found.summary() == {"Last state": "-"}
    assert found.to_dict()["last_state"] == {"reason": reason}
    assert found.words().endswith(f"- Last state: not measured: {reason}")
    axes = Figure().subplots()
    missing.plot(axes)
    assert axes.texts[0].get_text().replace("\n", " ") == f"not measured: {reason}"


@pytest.mark.parametrize("part", [3, Cost, LastState(1.0)])
def test_what_is_no_part(part: Any) -> None:
    with pytest.raises(DTypeError, match=r"a part is a name or a subclass of engram\.probe\.Part, got"):
        profile(nn.Linear(2, 3), parts=[part])


# Costs, with calls of known length


def cost_of(name: str, module: nn.Module, length: int = 20) -> Cost:
    """With a step of 0.5 s, a backward pass of 7 s, and 100 s + 1 s per row for a pass over a batch."""
    subject = Subject(module)
    setup = Setup(subject, subject.sample(length, 4, torch.Generator()))
    setup.__dict__["timings"] = SimpleNamespace(step=0.5, backward=7.0, forward=lambda rows: 100.0 + rows)
    return PARTS[name].cost(setup)


def test_costs() -> None:
    """Numbers by hand, for N = 6 states and C = 6 outputs, T = 20."""
    model = nn.GRU(3, 6)
    assert cost_of("gradient_reach", model) == Cost(1 + 6, 2 * 20, 6 * 7.0 + 6 * 20 * 0.5)
    assert cost_of("fisher_memory", model) == Cost(2, 2, 4 * 0.5 + (100 + 12) / 20)
    capacity = cost_of("memory_capacity", model)  # 2 x 2000 samples, read at 2 steps of each sequence
    assert (capacity.passes, capacity.steps) == (1, 2)
    assert capacity.seconds == pytest.approx(100 + 2000 + 2 * 0.5 + 2 * 4000 * 6 * (6 + 20 * 3 + 600) / 5e9)
    assert cost_of("spectrum", model).seconds == pytest.approx(0.18)
    assert cost_of("separation_rank", model) == Cost(1, 0, (100 + 729) * 6 / 20)
    assert cost_of("structure", model) == Cost()
    walk = cost_of("lyapunov", model)
    assert (walk.passes, walk.steps) == (0, 20)
    assert walk.seconds > 0


def test_costs_of_large_and_of_closed_models() -> None:
    assert cost_of("gradient_reach", nn.GRU(3, 70)) == Cost(33, 40, 32 * 7.0 + 6 * 20 * 0.5)
    large = nn.RNN(3, 600)
    assert cost_of("fisher_memory", large) == Cost(0, 128 + 40, 3 * 148 * 0.5 + 3 * 228)
    assert cost_of("spectrum", large).seconds == pytest.approx(0.03 * 128)
    closed = nn.Linear(3, 6)
    assert cost_of("fisher_memory", closed) == cost_of("lyapunov", closed) == Cost()
    assert (cost_of("gradient_reach", closed).steps, cost_of("memory_capacity", closed).steps) == (0, 0)


def test_cost_adds_up() -> None:
    total = Cost(1, 20, 0.25) + Cost(1200, 1, 2.0)
    assert total == Cost(1201, 21, 2.25)
    assert total.words() == "1,201 passes over whole sequences and 21 single steps, about 2.2 s"


def test_timings_are_those_of_the_calls() -> None:
    """A pass of so many rows lies on the line through one row and the batch; what cannot step takes no step."""
    subject = Subject(nn.Linear(3, 6))
    timings = Setup(subject, subject.sample(20, 4, torch.Generator())).timings
    assert timings.step == 0
    one, four, seven = (timings.forward(rows) for rows in (1, 4, 7))
    assert 0 < one <= four <= seven
    assert seven - four == pytest.approx(four - one)
    assert timings.backward > 0


def test_timings_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row takes 5 s and four take 11 s: 2 s for each further row. One that seems faster with more takes no less."""
    subject = Subject(nn.Linear(3, 6))
    for seconds, expected in (([5.0, 11.0], [5.0, 11.0, 17.0]), ([5.0, 4.0], [5.0, 5.0, 5.0])):
        left = iter(seconds)
        monkeypatch.setattr("engram.probe._cost.seconds_of", lambda call, left=left: next(left))
        timings = Setup(subject, subject.sample(20, 4, torch.Generator())).timings
        assert [timings.forward(rows) for rows in (1, 4, 7)] == expected


def test_panels_of_a_profile() -> None:
    """Three in a row; the places that are left over are empty."""
    with_words = [lambda axes, k=k: axes.set_title(f"{k}") for k in range(4)]
    figure = figure_of("a title", with_words)
    assert figure.axes[0].get_subplotspec().get_gridspec().get_geometry() == (2, 3)  # type: ignore[union-attr]
    assert [axes.get_title("left") for axes in figure.axes] == ["0", "1", "2", "3", "", ""]
    assert [axes.axison for axes in figure.axes] == [True] * 4 + [False] * 2
    assert figure_of("nothing", []).axes[0].axison is False


@pytest.mark.parametrize(("panels", "columns", "width"), [(1, 1, 8), (2, 2, 8), (3, 3, 12), (4, 3, 12)])
def test_a_figure_is_as_wide_as_its_panels(panels: int, columns: int, width: float) -> None:
    """Of one part or two no place is left empty."""
    figure = figure_of("a title", [lambda axes: axes.plot([1, 2])] * panels)
    assert figure.axes[0].get_gridspec().ncols == columns  # type: ignore[union-attr]
    assert figure.get_figwidth() == width


def test_numbers_as_json() -> None:
    found = as_json({1: np.array([1 + 2j, -np.inf]), "all": Cost(1, 2, math.nan), "one": np.float32(0.5)})
    nothing = {"passes": 1, "steps": 2, "seconds": None}
    assert found == {"1": [[1.0, 2.0], [None, 0.0]], "all": nothing, "one": 0.5}


# The number that people quote


def gradient(norms: list[float], law: Decay, horizon: int | None) -> GradientReach:
    return GradientReach(norms, "none", True, law, horizon, None)


def test_brief() -> None:
    falling = Decay("exponential", -0.5, 0.01, 1.0)
    assert gradient([1.0, 0.5, 0.001], falling, 2).brief() == "vanishes at 2"
    assert gradient([1.0, 0.5, 0.4], falling, None).brief() == "keeps, past 2"
    assert fisher_memory(0.5 * np.eye(3), np.ones(3)).brief() == "1 of 3"
    assert MemoryCapacity([1.0, 0.25], 1.25, 0.0, 2, 5, "state", 2000, 0.1).brief() == "1.25 of 5"
    assert spectrum(np.diag([0.5, -0.75]), grid=0).brief() == "radius 0.75"
    values = np.array([-0.5, -1.0])
    assert Lyapunov(values, 0 * values, values[None], 10, 0, 1, 2).brief() == "-0.5 per step"
    assert SeparationRank(3, (9, 27), [1.0], {1: 3}, 1.5, 6, 3, True, 0.0).brief() == "3 of 9"
    model = nn.RNN(2, 4)
    nn.init.zeros_(model.weight_hh_l0)
    assert learned_structure(model).brief() == "drift 1"


@pytest.mark.parametrize(("change", "verdict"), [(9.9, "keeps"), (10.1, "explodes")])
def test_tenfold_growth_explodes(change: float, verdict: str) -> None:
    assert gradient([1.0, 5.0, change], Decay("polynomial", 1.0, change, 1.0), None).verdict == verdict
    assert gradient([1.0, 5.0, change], Decay("irregular", 1.0, change, 0.1), None).verdict == "keeps"


def test_fisher_memory_is_measured_in_inputs() -> None:
    """J_tot over |v|^2 / eps; a delay line of N units without gain holds 1 + 1/2 + ... + 1/N."""
    line = np.diag(np.ones(3), -1)
    found = fisher_memory(line, 2 * np.eye(4)[0], noise=0.5)
    assert found.inputs == pytest.approx(25 / 12)
    assert found.total == pytest.approx(8 * 25 / 12)
    assert found.to_dict()["inputs"] == found.inputs
    assert isinstance(found, FisherMemory)
    assert "total memory is 2.083 inputs" in found.words()
