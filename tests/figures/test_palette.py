"""The palette: contrast against both backgrounds, and colours apart for people who do not see all of them."""

import re
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from engram.figures import DARK, FAINT, HEAT, INK, MARKERS, MUTED, PAPER, SERIES
from engram.figures._palette import dark_rules

FORMS = {"light": {color: color for color in DARK}, "dark": DARK}
# Machado, Oliveira and Fernandes 2009, Table 1: severity 1.0, in linear RGB.
EYES = {
    "all cones": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "no blue": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear(color: str) -> np.ndarray:
    """sRGB to linear RGB."""
    c = np.array(to_rgb(color))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2.1: (L1 + 0.05) / (L2 + 0.05)."""
    low, high = sorted(float(linear(color) @ (0.2126, 0.7152, 0.0722)) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


CONES = np.array(
    [[0.4122215, 0.5363325, 0.0514460], [0.2119035, 0.6806995, 0.1073970], [0.0883025, 0.2817188, 0.6299787]]
)
LAB = np.array(
    [[0.2104543, 0.7936178, -0.0040720], [1.9779985, -2.4285922, 0.4505937], [0.0259040, 0.7827718, -0.8086758]]
)


def oklab(rgb: np.ndarray) -> np.ndarray:
    """Ottosson 2020: a space in which equal distances look equal."""
    return LAB @ np.cbrt(CONES @ np.clip(rgb, 0, 1))


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#ffffff", "#767676") == pytest.approx(4.54, abs=0.005)  # the standard's own example


@pytest.mark.parametrize("form", FORMS)
def test_contrast(form: str) -> None:
    """Lines at least 3, text at least 4.5, and grid lines less than lines."""
    colors = FORMS[form]
    for color in SERIES:
        assert contrast(colors[color], colors[PAPER]) >= 3, color
    for color in (INK, MUTED):
        assert contrast(colors[color], colors[PAPER]) >= 4.5, color
    assert 1.1 < contrast(colors[FAINT], colors[PAPER]) < 1.6


def test_heat_is_seen_on_both_backgrounds() -> None:
    for paper in (PAPER, DARK[PAPER]):
        assert contrast(HEAT, paper) >= 3


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("form", FORMS)
def test_series_are_told_apart(form: str, eye: str) -> None:
    """A distance of 0.02 in Oklab is just seen side by side; five times that is seen across a figure."""
    colors = [FORMS[form][color] for color in (*SERIES, MUTED)]
    seen = {color: oklab(EYES[eye] @ linear(color)) for color in colors}
    for one, other in combinations(colors, 2):
        assert np.linalg.norm(seen[one] - seen[other]) >= 0.0995, (one, other)


def test_shapes_differ_too() -> None:
    assert len(set(MARKERS)) == len(set(SERIES)) == len(SERIES)


def test_every_colour_has_one_dark_form() -> None:
    """The rules say for each colour what it becomes, in fills and in strokes, and do not touch the light form."""
    rules = dark_rules()
    assert rules.startswith("@media (prefers-color-scheme: dark){")
    for what in ("fill", "stroke"):
        said = dict(re.findall(rf'\[style\*="{what}: (#\w+)"\]{{{what}:(#\w+)!important}}', rules))
        assert said == DARK
    assert rules.count("{") == rules.count("}")
