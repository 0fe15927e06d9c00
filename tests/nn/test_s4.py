"""S4 and S4D as layers: both modes, the state, counts of the paper, options, wrong calls, gradients."""

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from engram import loops
from engram.checks import check_contract
from engram.errors import DTypeError, OptionError, ShapeError
from engram.nn import S4, S4D, S4Cell, S4State
from engram.nn._convolved import convolved, convolved_operator
from engram.nn._rows import TimeLine

LAYERS: dict[str, Callable[..., S4D]] = {
    "S4": S4,
    "S4D": S4D,
    "S4D bilinear, one copy": partial(S4D, discretization="bilinear", n_ssm=1, init="inv"),
    "S4D real, no norm": partial(S4D, init="real", norm="none", bias=False),
    "S4 post-norm, softplus": partial(S4, prenorm=False, dt_transform="softplus", n_ssm=3),
}


@pytest.fixture(params=LAYERS.values(), ids=LAYERS.keys())
def make(request: pytest.FixtureRequest) -> Callable[..., S4D]:
    return partial(request.param, state_size=6, dtype=torch.float64)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("kind", [pytest.param(S4, marks=pytest.mark.slow), S4D])
def test_contract(kind: type[S4D]) -> None:
    assert len(check_contract(partial(kind, state_size=4))) == 11


def test_shapes(make: Callable[..., S4D]) -> None:
    layer = make(3, 6, 2, bidirectional=True, batch_first=True)
    output, state = layer(randn(4, 5, 3))
    assert output.shape == (4, 5, 12)
    assert state.output.shape == (4, 4, 6)
    assert state.memory.shape == (4, 4, 6, 3, 2)
    assert state.output[2].equal(output[:, -1, :6])  # the last output of the way ahead
    assert state.output[3].equal(output[:, 0, 6:])


@pytest.mark.parametrize("steps", [1, 2, 9, 70, 130])
def test_convolution_is_recurrence(make: Callable[..., S4D], steps: int, measure: Any, agree: Any) -> None:
    """Values and gradients, from a state given."""
    layer = make(3, 6, 2)
    x, state = randn(steps, 2, 3), S4State(randn(2, 2, 6), randn(2, 2, 6, 3, 2))
    found = measure(layer, x, state)
    for cell in layer.cells:
        cell.mode = "recurrence"
    agree(found, measure(layer, x, state), 1e-10)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_convolution_is_packed_recurrence(
    make: Callable[..., S4D], bidirectional: bool, measure: Any, agree: Any
) -> None:
    layer = make(3, 6, bidirectional=bidirectional)
    packed = pack_padded_sequence(randn(9, 4, 3), torch.tensor([4, 9, 1, 7]), enforce_sorted=False)
    state = S4State(randn(len(layer.cells), 4, 6), randn(len(layer.cells), 4, 6, 3, 2))
    found = measure(layer, packed, state)
    with loops.use("plain"):
        agree(found, measure(layer, packed, state), 1e-10)


def test_one_step_at_a_time(make: Callable[..., S4D]) -> None:
    layer, x = make(3, 6, 2).eval(), randn(20, 2, 3)
    whole, final = layer(x)
    state, outputs = None, []
    for step in x.split(1):
        output, state = layer(step, state)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs), whole, atol=1e-10, rtol=0)
    torch.testing.assert_close(state, final, atol=1e-10, rtol=0)


def test_the_last_step_only_and_segments(make: Callable[..., S4D], measure: Any, agree: Any) -> None:
    layer, x = make(3, 6, 2), randn(11, 2, 3)
    layer.return_sequence = False
    found = measure(layer, x)
    layer.checkpoint_every = 4
    agree(measure(layer, x), found, 1e-10)
    layer.checkpoint_every, layer.return_sequence = None, True
    torch.testing.assert_close(layer(x)[0][-1], found["value 0"], atol=1e-12, rtol=0)


# The paper's Table 2: L, H, N, n_ssm (None: a copy per feature), the exact count (Lizaire et al. 2026)
TABLE = [
    *((layers, hidden, 4, 1, count) for _ in ("Retrieval", "ListOps")
      for layers, hidden, count in ((6, 256, 808_008), (2, 446, 808_176), (3, 364, 810_300), (8, 221, 806_304))),
    (6, 512, 64, 1, 3_558_528), (2, 922, 64, 1, 3_647_816), (3, 745, 64, 1, 3_630_216), (8, 440, 64, 1, 3_570_816),
    (6, 256, 64, None, 1_287_168), (2, 484, 64, None, 1_252_592), (3, 385, 64, None, 1_265_880),
    (8, 220, 64, None, 1_348_160),
]  # fmt: skip


@pytest.mark.parametrize(("layers", "hidden", "state", "n_ssm", "expected"), TABLE)
def test_counts_of_table_2(layers: int, hidden: int, state: int, n_ssm: int | None, expected: int) -> None:
    """Backbone only; the encoder is a linear map beside it."""
    layer = S4(hidden, hidden, layers, state_size=state, n_ssm=n_ssm, two_sided=True, device="meta")
    assert sum(p.numel() for p in layer.parameters()) == expected
    encoded = S4(1, hidden, layers, state_size=state, n_ssm=n_ssm, two_sided=True, device="meta")
    assert sum(p.numel() for p in encoded.parameters()) == expected + 2 * hidden


def test_the_table_has_16_entries() -> None:
    assert len(TABLE) == 16


@pytest.mark.parametrize(("layers", "count"), [(4, 859_172), (8, 1_651_748)])
def test_counts_of_the_text_network(layers: int, count: int) -> None:
    """Embedding of 107, encoder, blocks of N = 64, decoder."""
    blocks = S4(107, 256, layers, n_ssm=None, device="meta")
    found = sum(p.numel() for part in (blocks, nn.Linear(256, 107, device="meta")) for p in part.parameters())
    assert found + 107 * 107 == count


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8])
def test_two_sided_convolution_of_any_length(steps: int) -> None:
    """Also of two and three steps, where a circle one shorter would still be a size that the FFT likes (3 and 5)."""
    u, ahead, back = randn(steps, 2, 3), randn(3, steps), randn(3, steps)
    expected = torch.zeros_like(u)
    for t in range(steps):
        for s in range(steps):
            expected[t] += (ahead[:, t - s] if s <= t else back[:, s - t - 1]) * u[s]
    torch.testing.assert_close(loops.convolve(u, ahead, back), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", [S4, S4D])
def test_two_sided_kernel_reads_ahead(kind: type[S4D]) -> None:
    """y_t = sum_{s <= t} K_{t-s} u_s + sum_{s > t} K'_{s-t-1} u_s, written out; packed rows too."""
    cell = kind(3, 3, state_size=4, two_sided=True, dtype=torch.float64).cells[0]
    u = randn(8, 2, 3)
    ahead, back = cell.space.discretize().kernel(8)
    expected = torch.zeros_like(u)
    for t in range(8):
        for s in range(8):
            expected[t] += (ahead[:, t - s] if s <= t else back[:, s - t - 1]) * u[s]
    torch.testing.assert_close(loops.convolve(u, ahead, back), expected, atol=1e-12, rtol=0)
    layer = kind(3, 4, 2, state_size=4, two_sided=True, dtype=torch.float64)
    packed = pack_padded_sequence(u, torch.tensor([5, 8]), enforce_sorted=False)
    padded, _ = pad_packed_sequence(layer(packed)[0])
    torch.testing.assert_close(padded[:5, 0], layer(u[:5, 0])[0], atol=1e-10, rtol=0)


def test_norms() -> None:
    x = randn(5, 4, 3)
    batch = S4D(3, 4, norm="batch", state_size=4, dtype=torch.float64)
    assert isinstance(batch.cells[0].norm, nn.BatchNorm1d)
    assert not batch(x)[0].equal(batch.eval()(x)[0])
    after = S4D(3, 4, prenorm=False, state_size=4, dtype=torch.float64)
    output, _ = after(x)
    torch.testing.assert_close(output.mean(-1), torch.zeros(5, 4, dtype=torch.float64), atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", [S4, S4D])
def test_dropout_inside_a_block(kind: type[S4D]) -> None:
    """y = x + drop(GLU(W drop(GELU(drop(s))) + b)): three masks, sampled in this order, each scaled by 1/(1 - p)."""
    layer = kind(4, 4, state_size=4, block_dropout=0.5, dtype=torch.float64)
    cell, x = layer.cells[0], randn(6, 2, 4)
    u = cell.norm(x)
    s = loops.convolve(u, *cell.space.discretize().kernel(6)) + cell.space.skip * u
    torch.manual_seed(5)
    found = layer(x)[0]
    torch.manual_seed(5)
    masks = [F.dropout(torch.ones(6, 2, 4, dtype=torch.float64), 0.5) for _ in range(3)]
    assert {float(v) for mask in masks for v in mask.unique()} == {0.0, 2.0}
    expected = x + masks[2] * F.glu(cell.mix(masks[1] * F.gelu(masks[0] * s)), -1)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    expected = x + F.glu(cell.mix(F.gelu(s)), -1)
    torch.testing.assert_close(layer.eval()(x)[0], expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", [S4, S4D])
def test_variances_of_the_first_weights(kind: type[S4D]) -> None:
    """C is complex standard normal, each part of variance 1/2, and D standard normal; log Delta is uniform.

    Of n normal numbers the variance is known to sqrt(2/n): 0.88 % of 25,600 and 7 % of 400, times four.
    """
    space = kind(400, 400, state_size=64, device="cpu").cells[0].space
    for part in space.weight_c.detach().unbind(-1):
        assert float(part.var()) == pytest.approx(0.5, rel=0.05)
        assert abs(float(part.mean())) < 4 * (0.5 / part.numel()) ** 0.5
    assert float(space.skip.detach().var()) == pytest.approx(1.0, rel=0.28)
    steps = space.log_step.detach()
    low, high = torch.tensor(0.001).log(), torch.tensor(0.1).log()
    assert float(steps.min()) >= low - 1e-6
    assert float(steps.max()) <= high + 1e-6
    assert float(steps.var()) == pytest.approx(float(high - low) ** 2 / 12, rel=0.2)  # sqrt(0.8/n) = 4.5 %, times four


def test_copies(make: Callable[..., S4D]) -> None:
    layer, x = make(3, 6, 2), randn(7, 2, 3)
    expected = layer(x)[0]
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other(x)[0].equal(expected)
    plain = layer.fold()
    torch.testing.assert_close(plain(x)[0], expected, atol=1e-13, rtol=0)
    assert not any(p.requires_grad for p in plain.parameters())
    layer.reset_parameters()
    assert not layer(x)[0].allclose(expected)


@pytest.mark.parametrize("kind", [S4, S4D])
def test_gradients(kind: type[S4D]) -> None:
    """First and second, of the input, the state and every weight."""
    layer = kind(2, 2, state_size=2, dtype=torch.float64)
    names = [name for name, _ in layer.named_parameters()]
    weights = [p.detach().clone().requires_grad_() for p in layer.parameters()]

    def run(x: torch.Tensor, memory: torch.Tensor, *values: torch.Tensor) -> Any:
        state = S4State(torch.zeros(1, 1, 2, dtype=x.dtype), memory)
        output, final = torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x, state))
        return output, *final

    inputs = (randn(3, 1, 2).requires_grad_(), randn(1, 1, 2, 1, 2).requires_grad_(), *weights)
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)


@pytest.mark.parametrize("kind", [S4, S4D])
def test_one_gradient_a_sample(kind: type[S4D]) -> None:
    """torch.func: vmap of grad is each sample's own gradient."""
    layer, x = kind(2, 2, state_size=2, dtype=torch.float64), randn(3, 4, 2)
    weights = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = torch.func.functional_call(layer, weights, (x,))[0].square().sum()
        return total

    together = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, x)
    for k, sample in enumerate(x):
        for name, gradient in torch.func.grad(loss)(weights, sample).items():
            torch.testing.assert_close(together[name][k], gradient, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", [pytest.param(S4, marks=pytest.mark.slow), S4D])
def test_compiled(kind: type[S4D], measure: Any, agree: Any) -> None:
    torch.compiler.reset()
    layer = kind(3, 3, state_size=2, dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = randn(5, 2, 3)
    agree(measure(layer, x, call=compiled), measure(layer, x), 1e-12)
    torch.compiler.reset()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("entering", [False, True])
@pytest.mark.parametrize("kind", [S4, S4D])
def test_the_operator_of_a_compiled_layer(kind: type[S4D], entering: bool, reverse: bool) -> None:
    """Values and every gradient, that of the state too, are those of the layer as it is run."""
    space, x = kind(3, 3, state_size=4, dtype=torch.float64).cells[0].space, randn(5, 2, 3).requires_grad_()
    before = torch.randn(2, 3, 2, dtype=torch.complex128, requires_grad=True) if entering else None
    leaves = [x, *(() if before is None else (before,)), *space.parameters()]
    results = []
    for values in (
        convolved_operator(space.discretize(), x, before, reverse),
        convolved(space.discretize(), x, before, TimeLine(x, None, reverse)),
    ):
        loss = sum((torch.view_as_real(v) if v.is_complex() else v).square().sum() for v in values)
        results.append([*values, *torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("kind", [S4, S4D])
def test_the_scan_of_an_exported_layer(
    kind: type[S4D], two_sided: bool, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step after step in real numbers, and from the other end too, is the convolution; the scan is a loop here."""

    def looped(step: Any, inputs: torch.Tensor, state: torch.Tensor, reverse: bool, read: Any) -> Any:
        said = {}
        for t in sorted(range(len(inputs)), reverse=reverse):
            state = step(inputs[t], state)
            said[t] = read(state)
        return torch.stack([said[t] for t in range(len(inputs))]), state

    monkeypatch.setattr("engram.nn._s4_cell.scan_steps", looped)
    cell: Any = kind(3, 3, state_size=4, two_sided=two_sided, dtype=torch.float64).cells[0]
    system, x = cell.space.discretize(), randn(5, 2, 3)
    said, pairs = cell._scanned(system, x, None, reverse)
    expected, memory = convolved(system, x, None, TimeLine(x, None, reverse))
    torch.testing.assert_close(said, expected, atol=1e-11, rtol=0)
    torch.testing.assert_close(torch.view_as_complex(pairs.contiguous()), memory, atol=1e-11, rtol=0)


@pytest.mark.parametrize("kind", [S4, S4D])
def test_float32_and_autocast(kind: type[S4D]) -> None:
    layer, x = kind(3, 8, dtype=torch.float32), torch.randn(300, 2, 3)
    exact = copy.deepcopy(layer).double()(x.double())[0]
    torch.testing.assert_close(layer(x)[0].double(), exact, atol=1e-3, rtol=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x)[0].dtype == torch.float32


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "odd": (lambda: S4(3, 4, state_size=5), OptionError, r"state_size must be even: .*pairs.*got 5\. Use 6"),
    "odd, diagonal": (lambda: S4D(3, 4, state_size=7), OptionError, "state_size must be even"),
    "no state": (lambda: S4D(3, 4, state_size=0), OptionError, "state_size must be at least 1, got 0"),
    "copies": (lambda: S4(3, 4, n_ssm=3), OptionError, "n_ssm must divide hidden_size.*got 3 for 4"),
    "init": (lambda: S4D(3, 4, init="leg"), OptionError, "Did you mean 'legs'"),
    "init of S4": (lambda: S4(3, 4, init="lin"), OptionError, "unknown init 'lin' of S4: expected one of legs"),
    "rule": (lambda: S4D(3, 4, discretization="euler"), OptionError, "expected one of bilinear, zoh"),
    "rule of S4": (lambda: S4(3, 4, discretization="zoh"), OptionError, "expected one of bilinear"),
    "range": (lambda: S4D(3, 4, dt_min=0.1, dt_max=0.01), OptionError, "dt_max must lie between 0.1"),
    "mode": (lambda: S4D(3, 4, mode="scan"), OptionError, "expected one of convolution, recurrence"),
    "norm": (lambda: S4D(3, 4, norm="group"), OptionError, "expected one of batch, layer, none"),
    "dropout": (lambda: S4D(3, 4, block_dropout=1.0), OptionError, "dropout must be a number in"),
    "option": (lambda: S4D(3, 4, stat_size=4), OptionError, "Did you mean 'state_size'"),
    "map": (lambda: S4D(3, 4, map="cayley"), OptionError, "unknown option 'map' of S4D"),
    "complex": (lambda: S4D(3, 4, dtype=torch.complex64), DTypeError, "real weights"),
    "state": (
        lambda: S4D(3, 4, state_size=2)(torch.ones(5, 2, 3), (torch.ones(1, 2, 4), torch.ones(1, 2, 4))),
        ShapeError, r"the field memory of the state \(hx\) must have the shape \(1, 2, 4, 1, 2\)",
    ),
    "state of a two-sided one": (
        lambda: S4D(3, 4, two_sided=True)(torch.ones(5, 3), torch.ones(1, 4)), OptionError, "whole sequence at once",
    ),
    "segments of a two-sided one": (
        lambda: S4D(3, 4, two_sided=True, checkpoint_every=2)(torch.ones(5, 2, 3)), OptionError, "no checkpoint_every",
    ),
    "step of a two-sided one": (
        lambda: S4Cell(3, 3, two_sided=True).step(torch.ones(2, 3), torch.ones(2, 195)), OptionError, "cannot step",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("prenorm", [True, False])
@pytest.mark.parametrize("batch", [1, 3])
def test_batch_norm_has_one_statistic_in_both_modes(batch: int, prenorm: bool) -> None:
    """In training: over all steps and rows, so that one sequence is enough."""
    options: dict[str, Any] = {"state_size": 4, "norm": "batch", "prenorm": prenorm, "dtype": torch.float64}
    whole, steps = S4D(3, 4, **options), S4D(3, 4, mode="recurrence", **options)
    steps.load_state_dict(whole.state_dict())
    x = torch.randn(9, batch, 3, dtype=torch.float64)
    torch.testing.assert_close(steps(x)[0], whole(x)[0], atol=1e-10, rtol=0)
    torch.testing.assert_close(steps.state_dict(), whole.state_dict(), atol=1e-10, rtol=0)
