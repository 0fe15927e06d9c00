"""Every network against its equation, written out with loops over samples and positions: answers and gradients."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from tests.relational import references
from torch import Tensor, nn

from engram import loops
from engram.relational import ESBN, MNM, NTM, CoRelNet, CoRelNetT, PrediNet, RelationNetwork, Transformer


@dataclass(frozen=True)
class Case:
    kind: Callable[..., nn.Module]
    reference: Callable[..., Tensor]
    sizes: tuple[int, int, int]
    """T, F, C."""
    options: dict[str, Any] = field(default_factory=dict)
    has_steps: bool = True


TINY = {"hidden_size": 5}
SMALL_T = TINY | {"heads": 2, "head_size": 3, "position_size": 2, "feedforward": 7}
SMALL_ESBN = TINY | {"key_size": 3}
CASES = {
    **{
        f"corelnet {similarity} {entries} softmax={softmax} sensory={sensory}": Case(
            CoRelNet,
            references.corelnet,
            (4, 3, 2),
            TINY | {"similarity": similarity, "entries": entries, "softmax": softmax, "sensory": sensory},
        )
        for similarity, entries, softmax, sensory in [
            ("symmetric", "auto", True, False),
            ("symmetric", "causal", True, False),
            ("symmetric", "full", True, True),
            ("symmetric", "tril", False, False),
            ("asymmetric", "auto", True, False),
            ("asymmetric", "causal", False, True),
            ("diff", "auto", True, False),
            ("diff", "tril", True, False),
        ]
    },
    "corelnet of one step": Case(CoRelNet, references.corelnet, (1, 2, 3), TINY),
    "corelnet-t": Case(CoRelNetT, references.corelnet_t, (3, 2, 2), SMALL_T),
    "corelnet-t causal": Case(CoRelNetT, references.corelnet_t, (3, 2, 2), SMALL_T | {"entries": "causal"}),
    "corelnet-t tril": Case(CoRelNetT, references.corelnet_t, (3, 2, 2), SMALL_T | {"entries": "tril"}),
    "corelnet-t sensory": Case(CoRelNetT, references.corelnet_t, (2, 3, 1), SMALL_T | {"sensory": True}),
    "corelnet-t asymmetric": Case(CoRelNetT, references.corelnet_t, (3, 2, 2), SMALL_T | {"similarity": "asymmetric"}),
    "transformer": Case(
        Transformer, references.transformer, (3, 6, 2), TINY | {"heads": 3, "feedforward": 4}, has_steps=False
    ),
    "transformer of a size that heads do not divide": Case(
        Transformer, references.transformer, (2, 3, 2), TINY | {"heads": 2, "feedforward": 3}, has_steps=False
    ),
    "transformer symmetric, two layers, odd size": Case(
        Transformer,
        references.transformer,
        (2, 5, 2),
        TINY | {"heads": 1, "feedforward": 3, "symmetric": True, "num_layers": 2},
        has_steps=False,
    ),
    "predinet": Case(PrediNet, references.predinet, (3, 2, 2), TINY | {"heads": 3, "key_size": 2, "relations": 4}),
    "rn": Case(RelationNetwork, references.rn, (3, 2, 2), TINY | {"pair_size": 4}, has_steps=False),
    "esbn": Case(ESBN, references.esbn, (4, 3, 2), SMALL_ESBN),
    "esbn asymmetric": Case(ESBN, references.esbn, (3, 2, 3), SMALL_ESBN | {"similarity": "asymmetric"}),
    "esbn sensory": Case(ESBN, references.esbn, (3, 2, 2), SMALL_ESBN | {"sensory": True}),
    "esbn of one step": Case(ESBN, references.esbn, (1, 2, 2), SMALL_ESBN),
    "ntm": Case(NTM, references.ntm, (4, 3, 2), TINY | {"slots": 4, "slot_size": 3}, has_steps=False),
    "ntm of one step": Case(NTM, references.ntm, (1, 2, 2), TINY | {"slots": 3, "slot_size": 2}, has_steps=False),
    "mnm": Case(MNM, lambda *a: references.mnm(*a)[0], (3, 2, 2), TINY | {"memory_size": 4}),
}


def fresh(name: str) -> nn.Module:
    """The network of a case as it starts, in float64."""
    case = CASES[name]
    (steps, features, classes) = case.sizes
    torch.manual_seed(1)
    more = {"steps": steps} if case.has_steps else {}
    return case.kind(features, output_size=classes, **more, **case.options).double()


def made(name: str) -> tuple[nn.Module, Tensor]:
    """The network of a case in float64, none of its biases 0, and codes of three sequences."""
    steps, features, _ = CASES[name].sizes
    network = fresh(name)
    with torch.no_grad():
        for p in network.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return network, torch.randn(steps, 3, features, dtype=torch.float64)


@pytest.mark.parametrize("name", CASES)
def test_equals_its_equation(name: str) -> None:
    network, codes = made(name)
    codes.requires_grad_()
    answers = network(codes)
    expected = torch.stack([CASES[name].reference(network, codes[:, b]) for b in range(3)])
    torch.testing.assert_close(answers, expected, rtol=1e-10, atol=1e-12)
    into = torch.randn_like(answers)
    names = ["codes", *(n for n, _ in network.named_parameters())]
    wanted = [codes, *network.parameters()]
    found = torch.autograd.grad((answers * into).sum(), wanted, allow_unused=True)
    correct = torch.autograd.grad((expected * into).sum(), wanted, allow_unused=True)
    for what, ours, theirs in zip(names, found, correct, strict=True):
        zero = torch.zeros(())
        torch.testing.assert_close(
            zero if ours is None else ours,
            zero.to(torch.float64 if ours is not None else zero.dtype).expand_as(ours if ours is not None else zero)
            if theirs is None
            else theirs,
            rtol=1e-9,
            atol=1e-11,
            msg=lambda text, what=what: f"{what}: {text}",
        )


@pytest.mark.parametrize("name", CASES)
def test_codes_of_zero_have_a_small_gradient(name: str) -> None:
    """Two equal objects are 0 after context normalisation, and biases 0 at the start: then so is the key of a memory,
    which has no angle."""
    steps, features, _ = CASES[name].sizes
    network, codes = fresh(name), torch.zeros(steps, 3, features, dtype=torch.float64)
    network(codes).square().sum().backward()
    found = [p.grad for p in network.parameters() if p.grad is not None]
    assert found
    assert all(g.isfinite().all() and g.abs().max() < 1e4 for g in found)


@pytest.mark.parametrize("name", CASES)
def test_a_row_does_not_depend_on_the_others(name: str) -> None:
    network, codes = made(name)
    others = codes.clone()
    others[:, 1:] = torch.randn_like(others[:, 1:])
    torch.testing.assert_close(network(codes)[0], network(others)[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["esbn", "esbn sensory", "ntm"])
@pytest.mark.parametrize("executor", ["plain", "torch", "compiled"])
def test_every_loop_gives_the_same(name: str, executor: str) -> None:
    if executor == "compiled" and not loops.status()["float64"].startswith("compiled"):
        pytest.skip("no compiler")
    network, codes = made(name)
    with loops.use("plain"):
        plain = network(codes)
        expected = torch.autograd.grad(plain.square().sum(), list(network.parameters()))
    with loops.use(executor):
        answers = network(codes)
        found = torch.autograd.grad(answers.square().sum(), list(network.parameters()))
    torch.testing.assert_close([answers, *found], [plain, *expected], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("executor", ["plain", "torch", "compiled"])
def test_a_head_that_is_sure_has_a_gradient(executor: str) -> None:
    """NTM: at a strength at which weights of slots underflow to 0, whose logarithm has no gradient."""
    if executor == "compiled" and not loops.status()["float32"].startswith("compiled"):
        pytest.skip("no compiler")
    torch.manual_seed(0)
    network, codes = NTM(8, 2, 16, slots=10, slot_size=6), torch.randn(5, 4, 8)
    with torch.no_grad():
        network.cell.bias_shape[[0, 6]] = 300.0
    with loops.use(executor):
        network(codes).sum().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in network.parameters() if weight.grad is not None)


def test_the_error_of_a_memory_is_a_penalty() -> None:
    """MNM: (1/T) sum over T + 1 steps of the mean squared error after each write, averaged over the batch."""
    network, codes = made("mnm")
    network(codes)
    errors = torch.stack([references.mnm(network, codes[:, b])[1] for b in range(3)])  # type: ignore[arg-type]
    torch.testing.assert_close(network.penalty(), errors.mean() / 3, rtol=1e-10, atol=0)  # type: ignore[operator]
    assert float(network.penalty()) == 0  # type: ignore[operator]
    network.eval()(codes)
    assert float(network.penalty()) == 0  # type: ignore[operator]


def test_an_encoder_layer_is_torch_s() -> None:
    network, codes = made("transformer")
    layer = network.layers[0]  # type: ignore[index, operator]
    theirs = nn.TransformerEncoderLayer(6, 3, 4, dropout=0.0, batch_first=True, dtype=torch.float64)
    ours = dict(layer.named_parameters())
    pairs = {"self_attn.in_proj_": "projections.", "self_attn.out_proj.": "merge.", "linear1.": "widen.",
             "linear2.": "narrow.", "norm1.": "first.", "norm2.": "second."}  # fmt: skip
    theirs.load_state_dict({a + end: ours[b + end] for a, b in pairs.items() for end in ("weight", "bias")})
    tokens = codes.transpose(0, 1)
    torch.testing.assert_close(layer(tokens), theirs(tokens), rtol=1e-10, atol=1e-12)
