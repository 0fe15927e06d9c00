"""The matrix that is kept between calls in evaluation: never stale, never in the way, and really kept."""

import copy
import gc
import io
import weakref
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from engram.maps import Exponential, Schur
from engram.nn import GORU, RAC, RNN, URNN, ExpRNN, NonNormalRNN, Recurrent
from engram.nn import _kept as kept
from tiers import slow_but

LAYERS: dict[str, Callable[[], Recurrent]] = {
    "exprnn": lambda: ExpRNN(3, 4, 2, rebase_every=2),
    "nnrnn": lambda: NonNormalRNN(3, 4, gamma=0.9),
    "householder": lambda: RNN(3, 4, map="householder"),
    "scornn": lambda: RNN(3, 4, map="scaled-cayley"),
    "spectral-margin": lambda: RNN(3, 4, map="spectral-margin"),
    "goru": lambda: GORU(3, 4),
    "urnn": lambda: URNN(3, 4),
    "projected": lambda: RNN(3, 4, map="projected"),
    "rac": lambda: RAC(3, 4, map="cayley"),
}


def entries(layer: nn.Module) -> list[nn.Module]:
    return [entry for cell in layer.cells for entry in getattr(cell, "parametrizations", {}).values()]  # type: ignore[union-attr]


def is_fresh(layer: Recurrent) -> None:
    """The layer says what it says when every matrix is built now."""
    x = torch.linspace(-1, 1, 5 * 2 * 3, dtype=layer.cells[0].reference_weight.real.dtype).view(5, 2, 3)
    with torch.no_grad():
        found = layer(x)[0]
        for entry in entries(layer):
            kept._kept.pop(entry, None)
        for _ in range(2):  # and what was kept by the call before; a circuit may have diverged to NaN by then
            torch.testing.assert_close(layer(x)[0], found, rtol=0, atol=0, equal_nan=True)


def optimiser_step(layer: Recurrent) -> None:
    x = torch.randn(5, 2, 3, dtype=layer.cells[0].reference_weight.real.dtype)
    layer(x)[0].abs().square().sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    layer.zero_grad()


def fused_step(layer: Recurrent) -> None:
    for p in layer.parameters():
        p.grad = torch.ones_like(p)
    torch.optim.Adam(layer.parameters(), lr=0.1).step()
    layer.zero_grad()


def load(layer: Recurrent) -> None:
    with torch.no_grad():
        layer.load_state_dict({k: v + 0.1 if v.is_floating_point() else v for k, v in layer.state_dict().items()})


def load_by_assignment(layer: Recurrent) -> None:
    layer.load_state_dict(copy.deepcopy(layer.state_dict()), assign=True)
    load(layer)


def assign_weight(layer: Recurrent) -> None:
    layer.reset_parameters()  # draws a matrix and assigns it


def under_data(layer: Recurrent) -> None:
    """No version counter moves: how exponential moving averages and target networks are often written."""
    for entry in entries(layer):
        for p in entry.parameters():
            p.data.mul_(0.7).add_(0.01)


def data_replaced(layer: Recurrent) -> None:
    for entry in entries(layer):
        for p in entry.parameters():
            p.data = p.data * 0.5


def through_bfloat16(layer: Recurrent) -> None:
    """The rounded numbers may come to lie where the old ones were."""
    for entry in entries(layer):
        for p in entry.parameters():
            p.data = p.data.bfloat16()
            p.data = p.data.float()


def by_numpy(layer: Recurrent) -> None:
    for entry in entries(layer):
        for p in entry.parameters():
            p.detach().numpy()[...] *= 0.9


def buffer_edited(layer: Recurrent) -> None:
    for entry in entries(layer):
        for name, buffer in entry.named_buffers():
            if name.endswith("base"):
                buffer.copy_(buffer.flip(0))


def option_changed(layer: Recurrent) -> None:
    for entry in entries(layer):
        for map in entry.children():
            if isinstance(map, Schur):
                map.gamma = 0.5


EDITS = [
    optimiser_step, fused_step, load, load_by_assignment, assign_weight, under_data, data_replaced, through_bfloat16,
    by_numpy, buffer_edited, option_changed,
    lambda layer: layer.train(), lambda layer: layer.eval(), lambda layer: layer.double().float(),
    lambda layer: layer.share_memory(), lambda layer: layer.requires_grad_(False),
    lambda layer: layer.requires_grad_(True),
]  # fmt: skip


@pytest.mark.parametrize("name", slow_but(LAYERS, {"exprnn", "nnrnn", "urnn", "projected"}))
@given(edits=st.lists(st.sampled_from(EDITS), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_never_stale(name: str, edits: list[Callable[[Recurrent], object]], seed: int) -> None:
    torch.manual_seed(seed)
    layer = LAYERS[name]().eval()
    is_fresh(layer)
    for edit in edits:
        layer.requires_grad_(True) if edit in (optimiser_step, fused_step) else None
        edit(layer)
        is_fresh(layer)
    is_fresh(copy.deepcopy(layer))


@pytest.mark.parametrize("edit", [e for e in EDITS if e.__name__ != "<lambda>"], ids=lambda edit: edit.__name__)
def test_every_edit_is_seen(edit: Callable[[Recurrent], object]) -> None:
    """Each edit of the property test changes what a mapped layer says: a kept matrix would be caught."""
    layer, x = NonNormalRNN(3, 4, gamma=0.9).eval(), torch.randn(5, 2, 3)
    with torch.no_grad():
        before = layer(x)[0]
    edit(layer)
    with torch.no_grad():
        assert not torch.equal(layer(x)[0], before)


def test_a_transposed_parameter_is_seen() -> None:
    """The same numbers in the same place, read in another order."""
    layer = RNN(3, 4, map="projected").eval()
    (original,) = entries(layer)[0].parameters()
    with torch.no_grad():
        nn.init.orthogonal_(original)
        before = layer(torch.eye(3)[:, None])[0]
        original.data = original.data.mT
        assert not layer(torch.eye(3)[:, None])[0].allclose(before)
    is_fresh(layer)


class Counting(Exponential):
    """Counts how often it is built."""

    builds = 0

    def forward(self, entries: Tensor) -> Tensor:  # type: ignore[override]
        Counting.builds += 1
        return super().forward(entries)


def builds(call: Callable[[], object]) -> int:
    before = Counting.builds
    call()
    return Counting.builds - before


def test_it_is_kept_in_evaluation_without_gradients_only() -> None:
    layer, x = RNN(3, 4, map=Counting).eval(), torch.randn(1, 2, 3)
    assert builds(lambda: layer(x)) == builds(lambda: layer(x)) == 1
    with torch.no_grad():
        assert builds(lambda: layer(x)) == 1
        assert builds(lambda: [layer(x) for _ in range(5)]) == 0
        assert builds(lambda: layer.cells[0].weight_hh) == 1  # what a caller may write to is never the kept one
        layer.train()
        assert builds(lambda: [layer(x) for _ in range(5)]) == 5
        layer.eval()
    with torch.inference_mode():
        assert builds(lambda: [layer(x) for _ in range(5)]) == 1
    layer.requires_grad_(False)
    x.requires_grad_()
    layer(x)[0].sum().backward()  # made in inference mode, a kept matrix could not be used here
    assert x.grad is not None


def test_what_follows_operations_sees_the_map_built() -> None:
    layer, x = RNN(3, 4, map=Counting).eval(), torch.randn(1, 2, 3)
    with torch.no_grad():
        layer(x)
        with FlopCounterMode(display=False):
            assert builds(lambda: layer(x)) == 1
        weights = dict(layer.named_parameters())
        assert builds(lambda: torch.func.vmap(lambda w: torch.func.functional_call(layer, w, (x,))[0])(
            {name: torch.stack([p, 2 * p]) for name, p in weights.items()}
        )) == 1  # fmt: skip
        changed = {name: p * 2 for name, p in weights.items()}
        expected = copy.deepcopy(layer)
        expected.load_state_dict(changed, strict=False)
        assert torch.equal(torch.func.functional_call(layer, changed, (x,))[0], expected(x)[0])
        compiled = torch.compile(layer, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(x)[0], layer(x)[0])


class Drifting(Exponential):
    """Moves a buffer each time that it is built."""

    def forward(self, entries: Tensor) -> Tensor:  # type: ignore[override]
        self.steps += 1
        return super().forward(entries) * (1 + self.steps)


def test_a_map_that_changes_its_own_buffers_is_not_kept() -> None:
    layer, x = RNN(3, 4, map=Drifting).eval(), torch.randn(2, 2, 3)
    with torch.no_grad():
        assert not torch.equal(layer(x)[0], layer(x)[0])


def test_nothing_is_saved_copied_or_leaked() -> None:
    layer, x = ExpRNN(3, 64).eval(), torch.randn(1, 2, 3)

    def size(model: nn.Module) -> int:
        memory = io.BytesIO()
        torch.save(model, memory)
        return len(memory.getvalue())

    before = size(layer)
    with torch.no_grad():
        layer(x)
    assert size(layer) == before
    entry = weakref.ref(entries(layer)[0])
    assert entry() in kept._kept
    assert entries(copy.deepcopy(layer))[0] not in kept._kept
    del layer
    gc.collect()
    assert entry() is None


def test_a_second_parametrization_of_somebody_else_is_left_alone() -> None:
    layer, x = RNN(3, 4, map="exponential"), torch.randn(2, 2, 3)
    nn.utils.parametrize.register_parametrization(layer.cells[0], "weight_hh", nn.Dropout(0.5))
    with torch.no_grad():
        layer.eval()
        layer.cells[0].parametrizations.weight_hh[1].train()
        assert not torch.equal(layer(x)[0], layer(x)[0])


def test_torch_s_own_cache_is_obeyed() -> None:
    layer, x = RNN(3, 4, map=Counting), torch.randn(1, 2, 3)
    with nn.utils.parametrize.cached():
        assert builds(lambda: [layer(x) for _ in range(3)]) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.complex64], ids=str)
def test_every_dtype_is_kept_and_compared(dtype: torch.dtype) -> None:
    """One matrix for two calls; another as soon as one number is another."""
    layer = RNN(3, 4, map="cayley", dtype=dtype if dtype.is_complex else torch.float32)
    layer = layer.eval() if dtype.is_complex else layer.to(dtype).eval()
    (entry,) = entries(layer)
    (free,) = entry.parameters()
    with torch.no_grad():
        first, second = kept.matrix_of(entry), kept.matrix_of(entry)
        assert first is second
        free.view(-1)[0] += 0.5
        third = kept.matrix_of(entry)
    assert third is not first
    assert not torch.equal(third, first)
