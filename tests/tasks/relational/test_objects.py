"""The images: a hundred distinct shapes, always the same ones, with colours and in sizes."""

import colorsys
import hashlib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from engram.errors import DataError, OptionError
from engram.tasks import Comparison, IdentityRules, SameDifferent, Separated, make_task
from engram.tasks.relational._glyphs import glyphs
from engram.tasks.relational._shapes import colours, published, sized_table, which_shapes
from engram.train import Settings


def test_glyphs_are_distinct() -> None:
    images = glyphs()
    assert images.shape == (100, 32, 32)
    assert images.dtype == torch.float32
    ink = 1 - images.mean((1, 2))
    assert 0.03 <= ink.min() < ink.max() <= 0.45
    flat = images.flatten(1)
    assert min(float((flat[a] - flat[b]).square().mean()) for a, b in combinations(range(100), 2)) >= 0.13**2
    assert images[:, 0].eq(1).all()  # nothing is cut off at the edge
    assert images[:, :, 0].eq(1).all()
    assert images[:, -1].eq(1).all()
    assert images[:, :, -1].eq(1).all()


def test_glyphs_are_the_same_everywhere() -> None:
    """Grey values are sixteenths: the sum of the bits says that no pixel is another."""
    sixteenths = (glyphs() * 16).to(torch.uint8)
    assert (sixteenths.float() / 16).equal(glyphs())
    found = hashlib.sha256(sixteenths.numpy().tobytes()).hexdigest()
    assert found == "445329bea8822a737fbdaa2615be118fe2cce49ae6b7d190f6d6e3cc4a486d31"


def test_shapes_are_the_ones_of_the_folder(data_sets: str) -> None:
    """Stand-ins here: image k is 255 but for k dark pixels."""
    images = published()
    assert images.shape == (100, 32, 32)
    assert (images < 1).sum((1, 2)).tolist() == [k + 1 for k in range(100)]
    assert SameDifferent(shapes="esbn").objects()[7].equal(images[7].expand(3, -1, -1))


def test_published_shapes(real_data: None) -> None:
    """Facts of the public files: black strokes on white, no two alike."""
    grey = np.rint(published().numpy().astype(np.float64) * 255).reshape(100, -1)
    assert len(np.unique(grey, axis=0)) == 100
    assert round(grey.mean()) == 208
    assert (round(grey.mean(1).min()), round(grey.mean(1).max())) == (108, 243)
    nearest = min(np.sqrt(((grey[a] - grey[b]) ** 2).mean()) for a, b in combinations(range(100), 2))
    assert round(float(nearest)) == 34


def test_auto_is_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the folder the published shapes, without it our glyphs; and a run says which it was."""
    assert which_shapes("auto") == "esbn"
    assert SameDifferent().shapes == "esbn"
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ENGRAM_OFFLINE", "1")
    task = SameDifferent()
    assert task.shapes == "glyphs"
    assert task.objects()[3, 1].equal(glyphs()[3])
    one, two = Settings.of(task, "lstm"), Settings.of(SameDifferent(shapes="esbn"), "lstm")
    assert one.to_dict()["task"]["shapes"] == "glyphs"
    assert one.fingerprint() != two.fingerprint()
    published.cache_clear()
    with pytest.raises(DataError, match=r"esbn_shapes/0\.png is not on this machine"):
        published()


def test_colours() -> None:
    assert colours().shape == (100, 3)
    assert len(colours().unique(dim=0)) == 100
    assert colours().amax(1).eq(1).all()
    hue, saturation, value = colorsys.rgb_to_hsv(*colours()[37].tolist())
    assert (hue, saturation, value) == pytest.approx((0.37, 0.6, 1.0), abs=1e-6)


def test_a_coloured_shape_is_black_on_its_colour() -> None:
    task = IdentityRules(shapes="glyphs", spurious=True)
    table = task.objects()
    assert table.shape == (10_000, 3, 32, 32)
    for shape, colour in ((0, 0), (3, 99), (99, 41)):
        image = table[100 * shape + colour]
        assert image[:, 0, 0].equal(colours()[colour])
        assert image[:, glyphs()[shape] == 0].eq(0).all()
        assert image.equal(glyphs()[shape] * colours()[colour][:, None, None])


def test_colours_mean_nothing() -> None:
    """Each position has its colour independently: the choice that is right has another colour than its twin."""
    rows, answers = IdentityRules(50, spurious=True).trials("train", size=9000)
    chosen = rows[:, 5:].gather(1, answers[:, None])[:, 0]
    alike = (rows[:, :5] // 100 == chosen[:, None] // 100) & (rows[:, :5] == chosen[:, None])
    twins = rows[:, :5] // 100 == chosen[:, None] // 100
    share = float(alike.sum() / twins.sum())
    assert share == pytest.approx(0.01, abs=4.5 * (0.0099 / float(twins.sum())) ** 0.5)
    counts = torch.bincount((rows % 100).flatten(), minlength=100)
    assert (counts - 810).abs().max() < 4.5 * 810**0.5


def test_separated_colours_fill_their_images() -> None:
    task = Separated(shapes="glyphs")
    table, rows = task.objects(), task.trials("test").rows
    assert table.shape == (200, 3, 32, 32)
    assert table[:100, 0].equal(glyphs())
    assert table[137].equal(colours()[37][:, None, None].expand(-1, 32, 32))
    assert rows[:, ::2].max() < 100
    assert rows[:, 1::2].min() >= 100
    assert len(rows[:, 1::2].unique()) == 100


@pytest.mark.parametrize(("place", "side"), list(enumerate((10, 18, 28))))
def test_sized_shapes(place: int, side: int) -> None:
    """In the middle, on white; as much ink as before, in proportion to the area; means over areas, by hand."""
    table = sized_table("glyphs").view(100, 3, 3, 32, 32)[:, place, 0]
    start = (32 - side) // 2
    inner = table[:, start : start + side, start : start + side]
    outside = table.clone()
    outside[:, start : start + side, start : start + side] = 1
    assert outside.eq(1).all()
    assert (1 - inner).sum((1, 2)).allclose((1 - glyphs()).sum((1, 2)) * (side / 32) ** 2, rtol=1e-5)
    fine = glyphs()[5].repeat_interleave(side, 0).repeat_interleave(side, 1)  # 32 side points along a side
    means = fine.view(side, 32, side, 32).mean((1, 3))
    assert inner[5].allclose(means, atol=1e-5)


def test_the_same_table_each_time() -> None:
    """Networks share it, and tests compare it, by identity."""
    for task in (SameDifferent(), SameDifferent(spurious=True), Separated(), Comparison()):
        assert task.objects() is make_task(task.name, **task.options()).objects()


@pytest.mark.parametrize("name", ["pixels", "ESBN", ""])
def test_unknown_shapes(name: str) -> None:
    with pytest.raises(OptionError, match=r"unknown shapes .*: expected one of auto, esbn, glyphs"):
        SameDifferent(shapes=name)  # type: ignore[arg-type]
