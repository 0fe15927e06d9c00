"""What of a core's output is read: every step, the last, the mean, or the core's own answer."""

import pytest
import torch
from torch import nn

from engram.models import EveryStep, LastStep, MeanOverTime, Model, OwnAnswer, make_head, make_network
from engram.tasks import Adding, Copy

OUTPUT = torch.arange(24.0).reshape(4, 2, 3)


def test_what_is_read() -> None:
    every, last, mean = EveryStep(3, 5), LastStep(3, 5), MeanOverTime(3, 5)
    assert every(OUTPUT).equal(nn.functional.linear(OUTPUT, every.weight, every.bias))
    assert last(OUTPUT).equal(nn.functional.linear(OUTPUT[-1:], last.weight, last.bias))
    assert last(OUTPUT[-1]).equal(last(OUTPUT))  # of a core that gives its last step only
    torch.testing.assert_close(mean.select(OUTPUT), (OUTPUT[0] + OUTPUT[1] + OUTPUT[2] + OUTPUT[3])[None] / 4)
    assert mean(OUTPUT).shape == (1, 2, 5)


def test_the_way_back_ends_at_the_first_step() -> None:
    both = torch.arange(32.0).reshape(4, 2, 4)
    picked = LastStep(4, 5, bidirectional=True).select(both)
    assert picked.equal(torch.cat([both[-1:, :, :2], both[:1, :, 2:]], -1))


def test_an_answer_of_its_own() -> None:
    assert OwnAnswer(every_step=True)(OUTPUT).equal(OUTPUT)
    assert OwnAnswer(every_step=False)(OUTPUT).equal(OUTPUT[-1:])
    assert OwnAnswer(every_step=False)(OUTPUT[0]).equal(OUTPUT[:1])
    assert not [*OwnAnswer(every_step=True).parameters()]


class Core(nn.Module):
    readout = "mean"


def test_which_head() -> None:
    assert type(make_head(Copy(5), nn.GRU(3, 4), 4)) is EveryStep
    assert type(make_head(Adding(5), nn.GRU(3, 4), 4)) is LastStep
    assert make_head(Adding(5), nn.GRU(3, 4, bidirectional=True), 8).bidirectional
    assert type(make_head(Adding(5), Core(), 4)) is MeanOverTime
    assert type(make_head(Copy(5), Core(), 4)) is EveryStep
    assert type(make_head(Copy(5), Core(), None)) is OwnAnswer


@pytest.mark.parametrize("bias", [True, False])
def test_a_read_out_without_bias(bias: bool) -> None:
    for task, core in ((Copy(5), Core()), (Adding(5), Core()), (Adding(5), nn.GRU(3, 4))):
        assert (make_head(task, core, 4, bias).bias is not None) is bias  # type: ignore[union-attr]
    for task in (Copy(3, 2), Adding(4)):
        head = make_network(task, Model("rnn", hidden=4, readout_bias=bias)).head
        assert (head.bias is not None) is bias
