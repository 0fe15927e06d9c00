"""How far a gradient reaches back in a tanh network without attention, and with two kinds of it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engram.errors import OptionError, check_choice, check_size

ATTENTIONS = ("none", "uniform", "additive")
LENGTHS = (25, 50, 100, 200, 400, 800)


def gradient_norms(
    attention: str, lengths: Sequence[int] = LENGTHS, *, hidden: int = 32, step: int = 5, seed: int = 0
) -> list[float]:
    """||dL_T/dh_t|| of L_T = r s_T for every length T, in float64.

    h_t = tanh(V s_{t-1} + x_t) and s_t = h_t + c_t, or s_t = h_t for ``none``. V is symmetric, its eigenvalues spread
    evenly from -0.9 to 0.9; x_t is normal with deviation 0.3, r and v with 1, W and U with 1/sqrt n.

    Args:
        attention: ``none``; ``uniform``, c_t the mean of h_1 ... h_t; ``additive``, with weights the softmax of
            v tanh(W s_{t-1} + U h_i) over i = 1 ... t, differentiated.
        lengths: T, rising.
        hidden: n.
        step: t, below the first length.
        seed: random seed of weights and inputs.

    The setting is that of Theorem 4.4.2 (Kerg, 2022) with an activation: no attention decays exponentially in T - t,
    attention does not.
    """
    check_choice("attention", attention, ATTENTIONS)
    if not lengths or [*lengths] != sorted(set(lengths)) or check_size("step", step) >= lengths[0]:
        raise OptionError(f"lengths must rise, the first above step = {step}; got {[*lengths]}")
    n, most = check_size("hidden", hidden), check_size("lengths", lengths[-1])
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    Q = torch.linalg.qr(normal(n, n))[0]
    V = Q @ torch.diag(torch.linspace(-0.9, 0.9, n, dtype=torch.float64)) @ Q.T
    W, U, v, r = normal(n, n) / n**0.5, normal(n, n) / n**0.5, normal(n), normal(n)
    inputs = 0.3 * normal(most, n)
    s, states, keys, losses = torch.zeros(n, dtype=torch.float64), [], [], {}
    changed = torch.zeros(n, dtype=torch.float64, requires_grad=True)
    total = torch.zeros(n, dtype=torch.float64)
    for t in range(1, most + 1):
        h = torch.tanh(V @ s + inputs[t - 1])
        if t == step:
            h = h + changed
        if attention == "uniform":
            total = total + h
            s = h + total / t
        elif attention == "additive":
            states.append(h)
            keys.append(U @ h)
            weights = torch.softmax(torch.tanh(W @ s + torch.stack(keys)) @ v, 0)
            s = h + weights @ torch.stack(states)
        else:
            s = h
        if t in lengths:
            losses[t] = r @ s
    gradients = [torch.autograd.grad(loss, changed, retain_graph=True)[0] for loss in losses.values()]
    return [float(gradient.norm()) for gradient in gradients]
