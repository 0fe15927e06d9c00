"""What the parts of a profile say and plot, from numbers by hand: every word, number, line and limit."""

import math
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from engram.figures import SERIES
from engram.probe import (
    Decay,
    FisherMemory,
    GradientReach,
    Lyapunov,
    MemoryCapacity,
    SeparationRank,
    Structure,
    spectrum,
)
from engram.probe._structure import MatrixStructure


@pytest.fixture
def axes() -> Axes:
    return Figure().subplots()


def lines(axes: Axes) -> list[list[tuple[float, float]]]:
    return [[(float(x), float(y)) for x, y in zip(*line.get_data(), strict=True)] for line in axes.lines]


def capacity(lags: list[float], products: float = 0.5) -> MemoryCapacity:
    return MemoryCapacity(lags, sum(lags), products, 2, 5, "state", 2000, 0.1)


def test_memory_capacity_in_words() -> None:
    assert capacity([1.0, 0.25]).words() == (
        "Memory capacity: 1.25 past inputs can be read back from the state by a linear map; 5 numbers can hold at most "
        "5. Lag 0 is the furthest that is read at least half as well as the best one. Products of two inputs within 2 "
        "steps add 0.5."
    )
    assert capacity([0.0, 0.0]).words() == (
        "Memory capacity: no past input can be read back from the state by a linear map. Products of two inputs within "
        "2 steps add 0.5."
    )
    assert capacity([1.0, 0.25, 0.5]).to_dict()["reach"] == 2


@pytest.mark.parametrize(("last", "shown"), [(1, 10), (4, 10), (12, 24), (30, 40)])
def test_memory_capacity_as_a_figure(last: int, shown: int, axes: Axes) -> None:
    """As far again as the last lag that is read, and ten at least."""
    lags = [0.02] * (last + 1) + [0.0] * (39 - last)
    capacity(lags).plot(axes)
    assert lines(axes) == [list(enumerate(lags[:shown]))]
    assert axes.get_ylim() == pytest.approx((0, 1.05 * 0.1))  # the floor, which is higher
    assert axes.get_title() == f"Memory capacity: {0.02 * (last + 1):.3g} of at most 5"


FALLS, GROWS = Decay("exponential", -0.5, 0.01, 1.0), Decay("polynomial", 2.0, 50.0, 1.0)
GRADIENTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "falls": (
        ([1.0, 0.5, 0.4], "none", True, FALLS, None, 9.21),
        "the gradient reaches back over all 2 steps measured. It decays exponentially, by a factor of 0.6065 per step, "
        "which would reach 1 % at 9 steps.",
    ),
    "vanishes": (
        ([1.0, 0.001, 0.0], "none", True, Decay("polynomial", -2.0, 0.1, 1.0), 1, None),
        "the gradient vanishes, from 1 step back on less than 1 % of it is left. It decays as a power of the lag k, "
        "(1 + k)^-2.00.",
    ),
    "two steps": (
        ([1.0, 0.5, 0.001], "none", True, Decay("irregular", -2.0, 0.1, 0.2), 2, None),
        "the gradient vanishes, from 2 steps back on less than 1 % of it is left. It has no clear decay pattern.",
    ),
    "explodes": (
        ([1.0, 5.0, 50.0], "none", True, GROWS, None, None),
        "the gradient explodes. It grows as a power of the lag k, (1 + k)^2.00, 50 times over 2 steps.",
    ),
    "overflows": (
        ([1.0, 5.0, math.inf], "none", True, GROWS, None, None),
        "the gradient explodes. It grows as a power of the lag k, (1 + k)^2.00; from lag 2 on it is too large for "
        "floating point numbers.",
    ),
    "sampled": (
        ([1.0, 1.0, 1.0], "none", False, Decay("flat", 0.0, 1.0, 1.0), None, None),
        "the gradient reaches back over all 2 steps measured. It hardly changes with the lag. Sampled with 32 random "
        "vectors.",
    ),
    "nothing": (([0.0, 0.0], "none", True, Decay("none", 0.0, 1.0, 0.0), 0, None), "no gradient reaches any input, it "
                "is zero everywhere."),
}  # fmt: skip


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradient_reach_in_words(case: str) -> None:
    values, words = GRADIENTS[case]
    assert GradientReach(*values).words() == f"Gradient reach: {words}"


def test_gradient_reach_as_a_figure(axes: Axes) -> None:
    """What is zero has no place on a logarithmic axis; 1 % of the largest norm, and the horizon."""
    GradientReach([2.0, 0.0, 0.01, 0.004], [None, 3.0, 0.0, 1.0], True, FALLS, 2, None).plot(axes)
    norms, states, share, end = lines(axes)
    assert norms == [(0, 2), (2, 0.01), (3, 0.004)]
    assert states == [(1, 3), (3, 1)]
    assert {y for _, y in share} == {0.02}
    assert {x for x, _ in end} == {2}
    assert axes.get_yscale() == "log"
    assert axes.get_title() == "Gradient reach: vanishes (exponential)"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["input", "state"]  # type: ignore[union-attr]


def fisher(curve: list[float], total: float, error: float = 0.0, whole: bool = True) -> FisherMemory:
    """Of four units with |v|^2 = 2 and noise 0.5: 4 is one input, 16 the most."""
    growth = np.array([2.0, 1.0, 0.5])
    return FisherMemory(np.diag(curve), None, total, growth, 4, 0.5, 3, "float64", error, whole)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            fisher([3.0, 1.0, 0.1], 4.2, 0.04),
            "total memory is 1.050 inputs against noise in every unit, more than any normal matrix holds (1). All 3 "
            "lags measured still hold at least 1 % of the best one. The most that 4 units can hold is 4 inputs.",
        ),
        (
            fisher([3.0, 0.01, 0.001], 4.02, 0.05),
            "total memory is 1.005 inputs against noise in every unit, what every normal matrix holds, an orthogonal "
            "one for instance. From 1 step back on, less than 1 % of the best lag is left. The most that 4 units can "
            "hold is 4 inputs. The number is not certain: its error (float64) may be 0.05.",
        ),
        (
            fisher([3.0, 0.03, 0.001], 3.6),
            "total memory is 0.900 inputs against noise in every unit, less than a normal matrix holds (1). From 2 "
            "steps back on, less than 1 % of the best lag is left. The most that 4 units can hold is 4 inputs.",
        ),
        (
            fisher([3.0, 1.0, 0.1], 3.6, whole=False),
            "total memory is at least 0.900 inputs against noise in every unit, read in float64. All 3 lags measured "
            "still hold at least 1 % of the best one. The most that 4 units can hold is 4 inputs.",
        ),
        (
            fisher([3.0, 1.0, 0.1], 8.0, whole=False),
            "total memory is at least 2.000 inputs against noise in every unit, more than any normal matrix holds (1). "
            "All 3 lags measured still hold at least 1 % of the best one. The most that 4 units can hold is 4 inputs.",
        ),
    ],
)
def test_fisher_memory_in_words(found: FisherMemory, words: str) -> None:
    assert found.words() == f"Fisher memory: {words}"


def test_fisher_memory_as_a_figure(axes: Axes) -> None:
    """The bound of the delay line is 1 / (eps sum 1 / |W^m v|^2): 2 / (1/2), 2 / (3/2), 2 / (7/2)."""
    fisher([3.0, 1.0, 0.1], 4.2).plot(axes)
    bound, curve, total, normal, most = lines(axes)
    assert [y for _, y in bound] == pytest.approx([4, 4 / 3, 4 / 7])
    assert curve == [(0, 3), (1, 1), (2, 0.1)]
    assert [y for _, y in total] == pytest.approx([3, 4, 4.1])
    assert ({y for _, y in normal}, {y for _, y in most}) == ({4}, {16})
    assert axes.get_ylim() == pytest.approx((0.05, 32))


def followed(exponents: list[float], size: int, steps: int = 1000) -> Lyapunov:
    values = np.array(exponents)
    return Lyapunov(values, 0.01 + 0 * np.arange(len(values)), values[None], steps, 0, 1, size)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            followed([0.1, 0.05, 0.01], 3),
            "unstable, a small difference of the state doubles every 6.93 steps (largest exponent 0.1 ± 0.01 per "
            "step). 2 of 3 directions grow, and drown what the state remembers.",
        ),
        (
            followed([0.2, 0.1], 5),
            "unstable, a small difference of the state doubles every 3.47 steps (largest exponent 0.2 ± 0.01 per "
            "step). At least 2 of 5 directions grow, and drown what the state remembers.",
        ),
        (
            followed([0.2, 0.1], 2),
            "unstable, a small difference of the state doubles every 3.47 steps (largest exponent 0.2 ± 0.01 per "
            "step). 2 of 2 directions grow, and drown what the state remembers.",
        ),
        (
            followed([-0.1, -math.inf], 2),
            "stable, a small difference of the state is halved every 6.93 steps (largest exponent -0.1 ± 0.01 per "
            "step). 1 of 2 directions die at once.",
        ),
        (followed([-math.inf] * 2, 2), "every small difference of the state dies after some steps."),
        (
            followed([0.01], 1),
            "neutral, small differences of the state neither grow nor die (largest exponent 0.01 ± 0.01 per step).",
        ),
    ],
)
def test_lyapunov_exponents_in_words(found: Lyapunov, words: str) -> None:
    assert found.words() == f"Lyapunov: {words}"


def test_lyapunov_exponents_as_a_figure(axes: Axes) -> None:
    followed([0.2, -0.1], 2).plot(axes)
    assert {y for _, y in lines(axes)[0]} == {0}
    assert lines(axes)[1] == [(1, 0.2), (2, -0.1)]
    assert axes.get_title() == "Lyapunov exponents, 1000 steps"
    again = Figure().subplots()
    followed([0.2, -math.inf, -math.inf], 7).plot(again)
    assert again.get_title() == "Lyapunov exponents, 1000 steps, 2 of 3 dead"


def test_separation_rank_in_words() -> None:
    values = (3, (9, 27), [1.0], {1: 3}, 1.234, 6, 4)
    assert SeparationRank(*values, True, 0.0).words() == (
        "Separation rank: 3 of at most 9 between start and end, effective rank 1.23. Measured on all sequences of 6 "
        "steps made of 4 template inputs."
    )
    assert SeparationRank(*values, False, 0.0).details() == (
        "Sampled at 9 starts and 27 ends of sequences of 6 steps made of 4 template inputs: a lower bound."
    )


def matrix(name: str, drift: float, error: float | None) -> MatrixStructure:
    return MatrixStructure(
        name, "Cayley", drift, [0.0, math.pi / 2], [0.8, 1.0], 0.71, [0.5, 0.25], 0.3, "orthogonal", error
    )


def test_structure_in_words() -> None:
    found = Structure([matrix("first", 0.123, None), matrix("second", 0.5, 1e-8)])
    told = (
        "30.0% of the norm of its Schur form is below the diagonal, its delay line has strength 0.5, its angles are "
        "aligned to 0.71, the mean modulus of its eigenvalues is 0.900."
    )
    assert found.words() == (
        "Structure: first is 0.12, second is 0.5 from orthogonal. "
        f"first [Cayley]: {told} second [Cayley] (orthogonal: kept to 1.0e-08): {told}"
    )


def test_structure_as_a_figure(axes: Axes) -> None:
    """|Theta| by distance for every matrix, and the eigenvalues of the first beside it."""
    Structure([matrix("first", 0.123, None), matrix("second", 0.5, 1e-8)]).plot(axes)
    assert lines(axes) == [[(1, 0.5), (2, 0.25)]] * 2
    assert [to_hex(str(line.get_color())) for line in axes.lines] == [*SERIES[:2]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["first", "second"]  # type: ignore[union-attr]
    (inner,) = axes.child_axes
    np.testing.assert_allclose(inner.collections[0].get_offsets(), [(0.8, 0), (0, 1)], atol=1e-12)  # type: ignore[arg-type]
    assert axes.get_ylim() == pytest.approx((0, 1.1))
    assert axes.get_title() == "Structure: drift 0.12, triangle 30%"


def test_a_spectrum_in_words_and_as_a_figure() -> None:
    """[[1/2, 3], [0, 1/4]]: d = 3 of |W|_F^2 = 9 + 5/16; the radius 1/2 halves in a step."""
    found = spectrum(np.array([[0.5, 3.0], [0.0, 0.25]]), grid=0)
    assert found.words() == (
        "Spectrum: in the end a state is halved every 1 steps or faster (the largest eigenvalue has modulus 0.5). It "
        "is not normal: 96.6% of it (squared) feeds one mode into another (Henrici's departure 3); some state grows "
        f"{found.growth.peak:.3g} times, by step 1, before it decays."
    )
    plane, growth = Figure().subplots(1, 2)
    found.plot(plane)
    found.plot_growth(growth)
    assert sorted(lines(plane)[1]) == [(0.25, 0), (0.5, 0)]
    alone, norms = lines(growth)
    assert alone[:4] == [(0, 1), (1, 0.5), (2, 0.25), (3, 0.125)]
    assert norms[1] == (1, pytest.approx(np.linalg.norm([[0.5, 3.0], [0.0, 0.25]], 2)))
    assert growth.get_ylim()[1] == pytest.approx(2 * norms[1][1])
    assert plane.get_xlabel() == "real part"
