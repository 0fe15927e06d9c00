"""The contractive and the orthogonal network compared: on data, random inputs, corners, and searched inputs."""

import copy
import math
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor

from engram.nn import RNN

STEPS, ROWS = 2000, 8  # length and number of the random sequences; length of the corners
ASCENT_STEPS, ROUNDS = 100, 60  # length of the searched sequences; rounds of gradient ascent
CORNERS = 6  # features that the corners vary: more would give too many corners


def compare(
    before: RNN, after: RNN, selection: Tensor, bound: float, steps: int | None, data: Tensor | None
) -> dict[str, Any]:
    """The largest difference of the outputs on each kind of input, and how near the added units came to being positive.

    ``data`` is ``(T, B, D)``; the other inputs have norm ``bound`` at every step, and up to ``steps`` steps.

    ``bias_used`` is the largest input of an added unit divided by its bias: above 1 the unit would be positive. The
    "adversary" inputs increase it by projected gradient ascent within the bound. The difference of the outputs itself
    gives no gradient: it is 0 as long as the added units are.
    """
    n = before.hidden_size
    before, after = _observed(before), _observed(after)
    weight, size = before.cells[0].reference_weight, before.input_size
    generator = torch.Generator().manual_seed(0)
    length = min(steps or STEPS, STEPS)

    def sampled(time: int) -> Tensor:
        x = torch.randn(time, ROWS, size, generator=generator, dtype=torch.float64)
        return _on_sphere(x.to(weight), bound)

    kinds = {"random": sampled(length), "corners": corners(size, bound).to(weight).expand(length, -1, -1)}
    if data is not None:
        kinds = {"data": data.to(weight), **kinds}
    start = sampled(min(length, ASCENT_STEPS))
    kinds["adversary"] = climb(lambda x: bias_used(after, x, n), start, bound)

    found: dict[str, Any] = {"difference": {}, "largest_output": 0.0, "bias_used": {}}
    for name, inputs in kinds.items():
        rows = []
        for x in inputs.split(ROWS, 1):  # few sequences at a time, to save memory
            ours, theirs = before(x)[0][-1], after(x)[0][-1][..., selection]
            rows.append(torch.stack([(ours - theirs).abs().max(), ours.abs().max(), bias_used(after, x, n).max()]))
        worst, largest, used = torch.stack(rows).amax(0).tolist()  # NaN stays NaN
        found["difference"][name], found["bias_used"][name] = worst, used
        found["largest_output"] = max(found["largest_output"], largest)
    return found


def apart(one: RNN, other: RNN, x: Tensor) -> float:
    """The largest difference of the outputs of two networks of equal size under inputs ``(T, B, D)``."""
    ours, theirs = (_observed(layer)(x.to(layer.cells[0].reference_weight))[0][-1] for layer in (one, other))
    return float((ours - theirs).abs().max())


def bias_used(layer: RNN, x: Tensor, n: int) -> Tensor:
    """For each sequence of x ``(T, B, D)``: the largest input of a unit after the n-th, divided by its bias."""
    outputs = layer(x)[0]
    shares = [x.new_zeros(x.shape[:-1])]
    for place, cell in enumerate(layer.cells):
        depth, direction = divmod(place, layer.directions)
        h = outputs[depth][..., direction * layer.hidden_size :][..., :n]
        acting = cell.bias[n:] < 0  # with bias 0 it gets no input: it is not needed, or its row has no positive entry
        rows, bias = cell.weight_hh[n:, :n][acting], cell.bias[n:][acting]
        shares += (h @ (rows / -bias[:, None]).mT).unbind(-1)
    return torch.stack(shares, -1).amax((0, -1))


@torch.enable_grad()
def climb(height: Callable[[Tensor], Tensor], x: Tensor, bound: float) -> Tensor:
    """Projected gradient ascent on ``height``: each input moves by half the bound, then back into the ball."""
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
    """Inputs ``(B, D)`` of norm ``bound``: multiples of unit vectors of both signs, corners of a cube; and zero."""
    some = min(size, CORNERS)
    axes = torch.eye(size, dtype=torch.float64)[:some]
    signs = torch.ones(2**some, size, dtype=torch.float64)
    signs[:, :some] = torch.tensor(list(product((1.0, -1.0), repeat=some)))
    return torch.cat([bound * axes, -bound * axes, bound / math.sqrt(size) * signs, 0 * axes[:1]])


def _on_sphere(x: Tensor, radius: float) -> Tensor:
    return radius * torch.nn.functional.normalize(x, dim=-1)


def _observed(layer: RNN) -> RNN:
    """A copy that takes ``(T, B, D)`` and returns the states of all layers; gradients for its input only."""
    layer = copy.deepcopy(layer).eval().requires_grad_(False)
    layer.batch_first, layer.return_sequence, layer.output_all_layers = False, True, True
    return layer
