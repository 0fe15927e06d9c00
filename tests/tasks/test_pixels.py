"""Pixel MNIST: the published permutations and splits, the facts of the files, both reference predictors."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import DTypeError, OptionError
from engram.tasks import Batch, MNISTPatches, PermutedMNIST, PixelMNIST, make_task
from engram.tasks._images import ImageTask, labelled
from engram.tasks._pixels import orders

pytestmark = pytest.mark.usefixtures("data_sets")

TASKS = [PixelMNIST(), PermutedMNIST(), PixelMNIST("fashion"), PermutedMNIST(valid=5000, permutation=92916)]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def memoryless(batch: Batch, task: ImageTask) -> Tensor:
    """The logarithms of the classes' shares in training, whatever the image."""
    classes = labelled(task.images, "train")[1][task.rows("train")]
    share = torch.bincount(classes, minlength=10).double() / len(classes)
    return share.log().expand(*batch.targets.shape, 10)


@pytest.mark.usefixtures("real_data")
def test_the_published_images_are_what_their_readme_says() -> None:
    for part, counts in {
        "train": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        "t10k": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    }.items():
        images, classes = labelled("mnist", part)  # type: ignore[arg-type]
        assert images.shape == (len(classes), 28, 28)
        assert torch.bincount(classes).tolist() == counts
    images = labelled("mnist", "train")[0].numpy()
    assert (images.min(), images.max()) == (0, 255)
    assert round(images.mean() / 255, 4) == 0.1307
    assert round(float(np.std(images, dtype=np.float32)) / 255, 4) == 0.3081

    assert MNISTPatches().chance == 6742 / 60_000
    assert torch.bincount(labelled("fashion", "train")[1]).tolist() == [6000] * 10
    assert torch.bincount(labelled("fashion", "t10k")[1]).tolist() == [1000] * 10
    assert round(labelled("fashion", "train")[0].numpy().mean() / 255, 4) == 0.2860


def test_the_published_permutations() -> None:
    """numpy.random.RandomState(seed).permutation(784), then permutation(60000) from the same generator."""
    firsts = {1234: [529, 511, 328, 133, 532, 378], 92916: [319, 576, 323, 107, 355, 716], 100: [73, 529, 19, 222, 770]}
    for seed, first in firsts.items():
        pixels, images = orders(seed)
        assert pixels[: len(first)].tolist() == first
        assert pixels.sort().values.equal(torch.arange(784))
        assert images.sort().values.equal(torch.arange(60_000))
    assert orders(1234)[1][:6].tolist() == [8550, 21862, 695, 39481, 32467, 48691]


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_splits(task: ImageTask) -> None:
    """Every training image is in exactly one of train and valid; the test is the other file."""
    train, valid = task.rows("train"), task.rows("valid")
    assert (len(train), len(valid)) == (60_000 - task.valid, task.valid)
    assert torch.cat([train, valid]).sort().values.equal(torch.arange(60_000))
    assert len(task.rows("test")) == 10_000
    assert task.has_validation
    assert task.is_data_set
    by_index = isinstance(task, PermutedMNIST) and task.permutation != 1234
    assert train[:3].tolist() == ([0, 1, 2] if by_index else [8550, 21862, 695])
    assert task.batches("train", 100).per_epoch == len(train) // 100


def test_pixels_row_by_row() -> None:
    batch = PixelMNIST().batches("test", 7)[3]
    images, classes = labelled("mnist", "t10k")
    assert batch.inputs.shape == (784, 7, 1)
    assert batch.inputs.dtype == torch.float32
    expected = images[21:28].numpy().reshape(7, 784).astype(np.float32) / np.float32(255)
    assert np.array_equal(batch.inputs[..., 0].numpy().T, expected)
    assert batch.targets.equal(classes[None, 21:28])
    assert batch.mask.all()
    assert batch.mask.shape == (1, 7)


@pytest.mark.parametrize("seed", [1234, 92916, 100, 7])
def test_permuted_is_the_same_images_in_another_order(seed: int) -> None:
    plain, permuted = PixelMNIST().batches("test", 9)[0], PermutedMNIST(permutation=seed).batches("test", 9)[0]
    order = np.random.RandomState(seed).permutation(784)
    assert permuted.inputs.equal(plain.inputs[order])
    assert permuted.targets.equal(plain.targets)


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_memoryless_predictor_scores_the_baseline(task: ImageTask) -> None:
    """Over the whole training split exactly: the entropy of the classes, and the share of the most frequent one."""
    targets = labelled(task.images, "train")[1][task.rows("train")][None]
    batch = Batch(torch.empty(0), targets, torch.ones_like(targets, dtype=torch.bool))
    logits = memoryless(batch, task)
    assert float(task.loss(logits, batch)) == pytest.approx(task.memoryless_baseline, abs=1e-12)
    assert task.metrics(logits, batch)["accuracy"] == pytest.approx(task.chance, abs=1e-6)
    assert task.memoryless_baseline <= math.log(10) + 1e-12
    assert task.chance >= 0.1  # the most frequent of ten


@pytest.mark.parametrize("task", TASKS, ids=repr)
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_perfect_predictor(task: ImageTask, split: str) -> None:
    """A table from the bytes of an image to its class, made from the files."""
    images, classes = labelled(task.images, "t10k" if split == "test" else "train")
    batches = task.batches(split, 50, size=200)
    order = orders(task.permutation)[0] if isinstance(task, PermutedMNIST) else torch.arange(784)
    table = {images[row].flatten()[order].numpy().tobytes(): classes[row] for row in task.rows(split)[:200]}
    for k in range(batches.per_epoch):
        batch = batches[k]
        shown = (batch.inputs[..., 0].T * 255).round().byte().numpy()
        answer = torch.stack([table[image.tobytes()] for image in shown])
        logits = 100.0 * F.one_hot(answer[None], 10).double()
        assert task.metrics(logits, batch)["accuracy"] == 1.0
        assert float(task.loss(logits, batch)) < 1e-6


def test_same_seed_same_batch() -> None:
    task = PermutedMNIST()
    one, two, other = (task.batches("train", 8, seed) for seed in (3, 3, 4))
    late = two[700]  # of the second epoch, before any other
    for k in (700, 0, 5, 625):
        assert all(a.equal(b) for a, b in zip(one[k], two[k], strict=True))
        assert not one[k].inputs.equal(other[k].inputs)
    assert late.inputs.equal(one[700].inputs)
    assert task.sample(8, generator(1)).inputs.equal(task.sample(8, generator(1)).inputs)
    assert not task.sample(8, generator(1)).inputs.equal(task.sample(8, generator(2)).inputs)
    assert task.batches("valid", 8, 3)[2].inputs.equal(task.batches("valid", 8, 4)[2].inputs)


def test_an_epoch_shows_every_image_once() -> None:
    task = PixelMNIST(subset=300)
    batches = task.batches("train", 50)
    for epoch in range(2):
        seen = torch.cat([batches[6 * epoch + k].inputs[..., 0] for k in range(6)], 1).T
        assert len(seen.unique(dim=0)) == 300
    assert not batches[0].inputs.equal(batches[6].inputs)


def test_small_runs() -> None:
    """`subset` is of the training images alone, `size` of any split."""
    task = PixelMNIST(subset=100)
    assert task.rows("train").equal(PixelMNIST().rows("train")[:100])
    assert len(task.rows("valid")) == 10_000
    assert task.batches("valid", 64, size=100).per_epoch == 2
    assert task.batches("test", 64, size=10**9).per_epoch == 157


def test_without_validation() -> None:
    task = PixelMNIST(valid=0)
    assert len(task.rows("train")) == 60_000
    assert not task.has_validation
    with pytest.raises(OptionError, match="smnist with valid=0 has no validation images"):
        task.batches("valid", 10)


WRONG = {
    "images": ({"images": "minst"}, OptionError, "unknown images 'minst'.*Did you mean 'mnist'"),
    "valid": ({"valid": 60_000}, OptionError, "valid must be less than the 60000 training images"),
    "valid negative": ({"valid": -1}, OptionError, "valid must be at least 0"),
    "subset": ({"subset": 50_001}, OptionError, "subset must be at most 50000"),
    "subset a float": ({"subset": 1e3}, DTypeError, "subset must be a whole number"),
    "permutation": ({"permutation": -1}, OptionError, "permutation must be at least 0"),
    "permutation too large": ({"permutation": 2**32}, OptionError, "permutation must be less than 4294967296"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options(case: str) -> None:
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        make_task("psmnist", **options)


def test_wrong_split() -> None:
    with pytest.raises(OptionError, match="unknown split 'vaild'"):
        PixelMNIST().batches("vaild", 10)
