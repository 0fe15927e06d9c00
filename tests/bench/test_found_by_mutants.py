"""The page of a bench: which ratios meet what was asked for. Faults put in by hand (tools/mutants.py) were not seen."""

import pytest

from engram.bench._markdown import markdown

MACHINE = {"processor": "one", "cores": 2, "load_average": [0.5, 0.4, 0.3], "torch": "2", "python": "3"}


def page(mean: float, worst: float, limits: tuple[float | None, float | None] | None) -> list[str]:
    result = {
        "machine": MACHINE,
        "summary": {"a/b": {"geomean": mean, "worst": worst}},
        "rows": [{"T": 5, "contestant": "a", "median_ms": 1.25}, {"T": 6, "contestant": "a", "median_ms": 2.5}],
    }
    targets = {} if limits is None else {"a/b": limits}
    return markdown("layers", "bench layers", result, ("T",), targets).splitlines()


CASES = {
    "both met": (0.5, 1.0, (0.6, 1.0), "mean ≤ 0.6, worst ≤ 1.0 | yes"),
    "the mean is too large": (0.7, 0.9, (0.6, 1.0), "mean ≤ 0.6, worst ≤ 1.0 | **no**"),
    "the worst is too large": (0.5, 1.1, (0.6, 1.0), "mean ≤ 0.6, worst ≤ 1.0 | **no**"),
    "only the mean is asked for": (0.5, 9.0, (0.6, None), "mean ≤ 0.6 | yes"),
    "nothing is asked for": (5.0, 9.0, None, " | "),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_asked_for_and_met(case: str) -> None:
    mean, worst, limits, said = CASES[case]
    assert f"| a/b | {mean:.2f} | {worst:.2f} | {said} |" in page(mean, worst, limits)


def test_times() -> None:
    """One line per contestant, one column per size."""
    lines = page(0.5, 1.0, None)
    assert "| T | 5 | 6 |" in lines
    assert "| a | 1.25 | 2.5 |" in lines
