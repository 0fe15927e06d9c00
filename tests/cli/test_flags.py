"""Messages of the library in the words of the command line."""

import pytest

from engram.cli._flags import in_flags, with_flags

NAMES = (
    "hidden",
    "steps",
    "epochs",
    "lr",
    "lr_orthogonal",
    "batch",
    "samples",
    "processes",
    "validate_every",
    "device",
)
SAID = {
    "hidden must be at least 1, got 0": "--hidden must be at least 1, got 0",
    "lr_orthogonal must be positive, got 0": "--lr-orthogonal must be positive, got 0",
    "give steps or epochs, not both": "give --steps or --epochs, not both",
    "batch (and samples) must be a multiple of processes": "--batch (and --samples) must be a multiple of --processes",
    "no epochs: give steps, or samples with epochs": "no epochs: give --steps, or --samples with --epochs",
    "this run has none: see validate_every": "this run has none: see --validate-every",
    "device 'cuda' cannot be used here: no": "--device 'cuda' cannot be used here: no",
    "with a smaller lr (now 3) or batch (now 1)": "with a smaller --lr (now 3) or --batch (now 1)",
    # words that are no arguments
    "the network has too many hidden units": "the network has too many hidden units",
    "runs/a is at step 3 of 10 steps": "runs/a is at step 3 of 10 steps",
    "the weights of a batch are lost": "the weights of a batch are lost",
    "unknown option 'steps' of x": "unknown option 'steps' of x",
    # flags already
    "--steps must be at least that": "--steps must be at least that",
    "a smaller --lr or --hidden": "a smaller --lr or --hidden",
    "got hidden=3 and lr_orthogonal=2": "got hidden=3 and lr_orthogonal=2",
    # of a file, which has no flags
    "--config a.toml: hidden must be at least 1": "--config a.toml: hidden must be at least 1",
}


@pytest.mark.parametrize("message", SAID)
def test_in_flags(message: str) -> None:
    assert in_flags(message, NAMES) == SAID[message]


def test_of_the_command_that_was_typed() -> None:
    """An argument is a flag only where the command has such a flag."""
    assert with_flags("delay must be at least 1", ["train", "copy"]) == "--delay must be at least 1"
    assert with_flags("delay must be at least 1", ["evaluate", "runs/a"]) == "delay must be at least 1"
    assert with_flags("rho must be at least 1", ["train", "copy", "--model", "scornn"]) == "--rho must be at least 1"
    assert with_flags("rho must be at least 1", ["train", "copy", "--model", "lstm"]) == "rho must be at least 1"
    assert with_flags("steps must be even", ["certify", "rac-deep"]) == "--steps must be even"
    assert with_flags("anything must be", []) == "anything must be"
