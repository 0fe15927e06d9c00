"""Two networks that should be equal, compared on data and on inputs chosen to part them."""

import copy
import math
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor

from engram.nn import RNN

STEPS, ROWS = 2000, 8  # of the random and the corner inputs
ASCENT_STEPS, ROUNDS = 100, 60  # of the adversary
CORNERS = 6  # inputs of more features have too many corners: only so many features take part


def compare(
    before: RNN, after: RNN, selection: Tensor, bound: float, steps: int | None, data: Tensor | None
) -> dict[str, Any]:
    """The largest difference of the outputs on each kind of input, and how near the added units came to life.

    ``data`` is ``(T, B, D)``; the other inputs are of norm ``bound`` at every step, and of up to ``steps`` steps.

    ``bias_used`` is the largest share of its bias that an added unit got as input: above 1 it would wake up. The
    adversary climbs this share by projected gradient ascent within the bound, and the outputs are compared on what it
    found: the difference itself is flat at 0 and gives no gradient.
    """
    n = before.hidden_size
    before, after = _plain(before), _plain(after)
    like, size = before.cells[0].reference_weight, before.input_size
    generator = torch.Generator().manual_seed(0)
    length = min(steps or STEPS, STEPS)

    def drawn(time: int) -> Tensor:
        x = torch.randn(time, ROWS, size, generator=generator, dtype=torch.float64)
        return _on_sphere(x.to(like), bound)

    kinds = {"random": drawn(length), "corners": corners(size, bound).to(like).expand(length, -1, -1)}
    if data is not None:
        kinds = {"data": data.to(like), **kinds}
    start = drawn(min(length, ASCENT_STEPS))
    kinds["adversary"] = climb(lambda x: bias_used(after, x, n), start, bound)

    found: dict[str, Any] = {"difference": {}, "largest_output": 0.0, "bias_used": {}}
    for name, inputs in kinds.items():
        rows = []
        for x in inputs.split(ROWS, 1):  # a few sequences at a time: little memory
            ours, theirs = before(x)[0][-1], after(x)[0][-1][..., selection]
            rows.append(torch.stack([(ours - theirs).abs().max(), ours.abs().max(), bias_used(after, x, n).max()]))
        worst, largest, used = torch.stack(rows).amax(0).tolist()  # NaN stays NaN
        found["difference"][name], found["bias_used"][name] = worst, used
        found["largest_output"] = max(found["largest_output"], largest)
    return found


def apart(one: RNN, other: RNN, x: Tensor) -> float:
    """The largest difference of the outputs of two networks of one size under inputs ``(T, B, D)``."""
    ours, theirs = (_plain(layer)(x.to(layer.cells[0].reference_weight))[0][-1] for layer in (one, other))
    return float((ours - theirs).abs().max())


def bias_used(layer: RNN, x: Tensor, n: int) -> Tensor:
    """For each sequence of x ``(T, B, D)``: the most that a unit after the n-th got from the states, over its bias."""
    outputs = layer(x)[0]
    shares = [x.new_zeros(x.shape[:-1])]
    for place, cell in enumerate(layer.cells):
        depth, direction = divmod(place, layer.directions)
        h = outputs[depth][..., direction * layer.hidden_size :][..., :n]
        acting = cell.bias[n:] < 0  # a unit with bias 0 gets nothing: it is idle, or its row has no positive entry
        rows, bias = cell.weight_hh[n:, :n][acting], cell.bias[n:][acting]
        shares += (h @ (rows / -bias[:, None]).mT).unbind(-1)
    return torch.stack(shares, -1).amax((0, -1))


@torch.enable_grad()
def climb(height: Callable[[Tensor], Tensor], x: Tensor, bound: float) -> Tensor:
    """Projected gradient ascent: steps of half the bound along the gradient, each step of time back into the ball."""
    best, record = x, torch.full_like(x[0, :, 0], -math.inf)
    for _ in range(ROUNDS):
        x = x.detach().requires_grad_()
        found = height(x)
        better = found.detach() > record
        best, record = torch.where(better[:, None], x.detach(), best), torch.maximum(record, found.detach())
        if not found.requires_grad:
            break
        (slope,) = torch.autograd.grad(found.sum(), x)
        x = x.detach() + bound / 2 * torch.nn.functional.normalize(slope, dim=-1, eps=torch.finfo(x.dtype).tiny)
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        x = x * (bound / norm.clamp(min=bound)) if bound else x * 0
    return best


def corners(size: int, bound: float) -> Tensor:
    """``(B, D)`` of norm ``bound``: unit vectors of both signs, and corners of a cube; and zero."""
    some = min(size, CORNERS)
    axes = torch.eye(size, dtype=torch.float64)[:some]
    signs = torch.ones(2**some, size, dtype=torch.float64)
    signs[:, :some] = torch.tensor(list(product((1.0, -1.0), repeat=some)))
    return torch.cat([bound * axes, -bound * axes, bound / math.sqrt(size) * signs, 0 * axes[:1]])


def _on_sphere(x: Tensor, radius: float) -> Tensor:
    return radius * torch.nn.functional.normalize(x, dim=-1)


def _plain(layer: RNN) -> RNN:
    """A copy that takes ``(T, B, D)`` and shows all states of all layers; gradients go to its input only."""
    layer = copy.deepcopy(layer).eval().requires_grad_(False)
    layer.batch_first, layer.return_sequence, layer.output_all_layers = False, True, True
    return layer
