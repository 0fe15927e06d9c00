"""MNIST in patches: three published cuttings written out, and no validation unless asked for."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from engram.errors import OptionError
from engram.tasks import MNISTPatches
from engram.tasks._images import labelled

pytestmark = pytest.mark.usefixtures("data_sets")

CUTS = {(7, 7): (16, 49), (8, 8): (16, 64), (8, 4): (36, 64), (28, 28): (1, 784), (14, 7): (9, 196), (1, 1): (784, 1)}


@pytest.mark.parametrize(("patch", "stride"), CUTS)
def test_patches_by_hand(patch: int, stride: int) -> None:
    """From left to right and from top to bottom, the pixels of each row by row; 8 and 8 on 32 by 32."""
    task = MNISTPatches(patch=patch, stride=stride)
    assert (task.steps, task.input_size) == CUTS[patch, stride]
    batch = task.batches("test", 6)[2]
    assert batch.inputs.shape == (task.steps, 6, task.input_size)
    assert batch.inputs.dtype == torch.float32
    images = labelled("mnist", "t10k")[0][12:18].numpy().astype(np.float32) / np.float32(255)
    if (patch, stride) == (8, 8):
        images = np.pad(images, ((0, 0), (2, 2), (2, 2)))
    side = images.shape[1]
    corners = range(0, side - patch + 1, stride)
    expected = [images[:, i : i + patch, j : j + patch].reshape(6, -1) for i in corners for j in corners]
    assert np.array_equal(batch.inputs.numpy(), np.stack(expected))
    assert corners[-1] + patch == side  # no pixel is left out


@pytest.mark.parametrize("patch", range(1, 29))
def test_any_cut_holds_the_whole_image(patch: int) -> None:
    for stride in range(1, patch + 1):
        task = MNISTPatches(patch=patch, stride=stride)
        side = 28 + task.frame
        assert 0 <= task.frame < stride
        assert (side - patch) % stride == 0
        assert task.steps == ((side - patch) // stride + 1) ** 2


def test_the_split_of_the_paper() -> None:
    task = MNISTPatches()
    assert task.batches("train", 64).per_epoch == 60_000 // 64
    assert task.batches("test", 64).per_epoch == -(-10_000 // 64)
    assert not task.has_validation
    with pytest.raises(OptionError, match="mnist-patches with valid=0 has no validation images"):
        task.batches("valid", 64)


def test_validation_is_the_last_images() -> None:
    task = MNISTPatches(valid=5000)
    assert task.has_validation
    assert task.rows("train").equal(torch.arange(55_000))
    assert task.rows("valid").equal(torch.arange(55_000, 60_000))


def test_perfect_and_memoryless_predictors() -> None:
    task = MNISTPatches()
    images, classes = labelled("mnist", "train")
    table = {image.numpy().tobytes(): c for image, c in zip(images[:500], classes[:500], strict=True)}
    batch = task.batches("train", 500, size=500)[0]
    whole = F.fold(batch.inputs.permute(1, 2, 0), 28, 7, stride=7)[:, 0]
    answer = torch.stack([table[image.tobytes()] for image in (whole * 255).round().byte().numpy()])
    logits = 100.0 * F.one_hot(answer[None], 10).double()
    assert task.metrics(logits, batch) == {"accuracy": 1.0}
    assert float(task.loss(logits, batch)) < 1e-6
    share = torch.bincount(classes).double() / 60_000
    assert task.memoryless_baseline == pytest.approx(float(-(share * share.log()).sum()), abs=1e-12)
    assert task.chance == float(share.max())
    small = MNISTPatches(subset=500)
    logits = (torch.bincount(classes[:500]).double() / 500).log().expand(1, 500, 10)
    assert float(small.loss(logits, batch)) == pytest.approx(small.memoryless_baseline, abs=1e-12)


def test_same_seed_same_batch() -> None:
    task = MNISTPatches()
    one, two = task.batches("train", 16, 5), task.batches("train", 16, 5)
    for k in (4000, 0, 3):
        assert all(a.equal(b) for a, b in zip(one[k], two[k], strict=True))
    assert not one[0].inputs.equal(task.batches("train", 16, 6)[0].inputs)


@pytest.mark.parametrize(("patch", "stride"), [(0, 1), (29, 7), (7, 0), (7, 8)])
def test_wrong_options(patch: int, stride: int) -> None:
    with pytest.raises(OptionError, match=r"must be at least 1|expected stride <= patch <= 28"):
        MNISTPatches(patch=patch, stride=stride)


def test_of_an_odd_frame_the_larger_half_comes_after() -> None:
    """Three zeros across and down, for patches of 7 every 6: one before the image and two after it."""
    task = MNISTPatches(patch=7, stride=6)
    assert (task.frame, task.steps) == (3, 25)
    batch = task.batches("test", 6)[2]
    images = labelled("mnist", "t10k")[0][12:18].numpy().astype(np.float32) / np.float32(255)
    images = np.pad(images, ((0, 0), (1, 2), (1, 2)))
    expected = [images[:, i : i + 7, j : j + 7].reshape(6, -1) for i in range(0, 25, 6) for j in range(0, 25, 6)]
    assert np.array_equal(batch.inputs.numpy(), np.stack(expected))
