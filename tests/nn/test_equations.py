"""Every cell against its equation: the paper's, written out again as a loop over numbers, once per cell.

Each loop reads the weights by the names that the class documents, and nothing else of the layer. No step of engram is
called, so that gates in the wrong order, a sign or a missing term are seen. tests/nn/test_cells.py and the others
compare a layer with itself (packed, in pieces, compiled); this file says what the numbers are.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from engram.nn import (
    CPBIRNN,
    CPRNN,
    EURNN,
    GORU,
    GRU,
    IRNN,
    LEM,
    LSTM,
    MIRNN,
    RAC,
    RNN,
    S4,
    S4D,
    SAB,
    URNN,
    AntisymmetricRNN,
    BareCell,
    BilinearRNN,
    CoRNN,
    DepthRNN,
    ExpRNN,
    HDetachLSTM,
    HenaffRNN,
    LinearRNN,
    MinGRU,
    MinLSTM,
    NonNormalRNN,
    Recurrent,
    ScoRNN,
    SecondOrderRNN,
)

T, B, D, H = 7, 3, 2, 4
TOLERANCE = 1e-12  # float64: sums of some ten numbers near 1, in another order, over 7 steps
Weights = dict[str, Any]
Array = Any


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def modrelu(x: Array, bias: Array) -> Array:
    """sigma(z) = z/|z| ReLU(|z| + b), Arjovsky et al. 2016; 0 at 0."""
    size = np.abs(x)
    return np.where(size > 0, x / np.where(size > 0, size, 1), 0) * relu(size + bias)


def blocks(array: Array, count: int) -> list[Array]:
    return np.split(array, count, axis=0)


# One function per recurrence: weights by name, inputs (T, B, D), the initial state -> outputs of all steps (T, B, ...).


def elman(w: Weights, x: Array, h: Array, act: Callable[[Array], Array]) -> list[Array]:
    """h_t = act(W h_{t-1} + U x_t + b), Elman 1990."""
    found = []
    for u in x:
        h = act(h @ w["weight_hh"].T + u @ w["weight_ih"].T + w.get("bias", 0))
        found.append(h)
    return found


def modrelu_rnn(w: Weights, x: Array, h: Array) -> list[Array]:
    return elman(w, x, h, lambda z: modrelu(z, w["mod_bias"]))


def complex_rnn(w: Weights, x: Array, h: Array) -> list[Array]:
    """h_t = modReLU(W h_{t-1} + U x_t) over the complex numbers; shown is [Re h; Im h], Arjovsky et al. 2016."""
    return [np.concatenate([h.real, h.imag], -1) for h in modrelu_rnn(w, x, h)]


def depth(w: Weights, x: Array, h: Array) -> list[Array]:
    """h_t = V h_{t-1} + U x_t + b, y_t = tanh(h_t): Lizaire et al. (2026), Eq. 2."""
    return [np.tanh(h) for h in elman(w, x, h, lambda z: z)]


def henaff(w: Weights, x: Array, h: Array) -> list[Array]:
    """h_t = ReLU(U x_t + b) + V h_{t-1}, Henaff et al. 2016."""
    found = []
    for u in x:
        h = relu(u @ w["weight_ih"].T + w["bias"]) + h @ w["weight_hh"].T
        found.append(h)
    return found


def goru(w: Weights, x: Array, h: Array) -> list[Array]:
    """Jing et al. 2019: r and z see the state; the reset acts on Q h; z keeps the old state, 1 - z takes the new."""
    (u_r, u_z, u_h), (w_r, w_z) = blocks(w["weight_ih"], 3), blocks(w["weight_hh"], 2)
    b_r, b_z, b_h = blocks(w["bias"], 3)
    found = []
    for u in x:
        r = sigmoid(h @ w_r.T + u @ u_r.T + b_r)
        z = sigmoid(h @ w_z.T + u @ u_z.T + b_z)
        candidate = modrelu(u @ u_h.T + b_h + r * (h @ w["rotation"].T), w["mod_bias"])
        h = z * h + (1 - z) * candidate
        found.append(h)
    return found


def lstm(w: Weights, x: Array, h: Array, c: Array) -> list[Array]:
    """Hochreiter and Schmidhuber 1997 with the forget gate; blocks i, f, g, o as in torch.nn.LSTM."""
    found = []
    for u in x:
        total = u @ w["weight_ih"].T + w["bias_ih"] + h @ w["weight_hh"].T + w["bias_hh"]
        i, f, g, o = np.split(total, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return found


def sab(w: Weights, x: Array, h: Array, c: Array, *memory: Array) -> list[Array]:
    """Ke et al. 2018 and their program, k = 3, every second state stored; one row at a time, lists of states."""
    _, past, stored, time = memory
    rows = []
    for b in range(x.shape[1]):
        own_h, own_c, t, found = h[b], c[b], int(time[b]), []
        kept = [np.zeros_like(own_h), *(past[b, j] for j in range(past.shape[1]) if stored[b, j])]
        for u in x[:, b]:
            t += 1
            total = w["weight_ih"] @ u + w["bias_ih"] + w["weight_hh"] @ own_h + w["bias_hh"]
            i, f, g, o = np.split(total, 4)
            own_c = sigmoid(f) * own_c + sigmoid(i) * np.tanh(g)
            own_h = sigmoid(o) * np.tanh(own_c)
            scores = np.array([w["weight_score"] @ np.tanh(np.concatenate([own_h, m])) for m in kept])
            if len(kept) > 3:
                scores = relu(scores - np.sort(scores)[-3] - 1e-7)
                scores = scores / (scores.sum() + 1e-7)
            context = sum(weight * m for weight, m in zip(scores, kept, strict=True))
            own_h = own_h + context
            if t % 2 == 0:
                kept.append(own_h)
            found.append(np.concatenate([own_h, context]))
        rows.append(found)
    return [np.stack([rows[b][t] for b in range(x.shape[1])]) for t in range(len(x))]


def gru(w: Weights, x: Array, h: Array) -> list[Array]:
    """Cho et al. 2014, in torch.nn.GRU's form: blocks r, z, n; the reset acts on W h + b; z keeps the old state."""
    found = []
    for u in x:
        r_x, z_x, n_x = np.split(u @ w["weight_ih"].T + w["bias_ih"], 3, -1)
        r_h, z_h, n_h = np.split(h @ w["weight_hh"].T + w["bias_hh"], 3, -1)
        z = sigmoid(z_x + z_h)
        h = (1 - z) * np.tanh(n_x + sigmoid(r_x + r_h) * n_h) + z * h
        found.append(h)
    return found


def antisymmetric(w: Weights, x: Array, h: Array, gated: bool) -> list[Array]:
    """h_t = h_{t-1} + eps tanh((W - W^T - gamma I) h_{t-1} + V x_t + b), Chang et al. 2019; epsilon = 0.3."""
    matrix = w["weight_hh"]
    found = []
    for u in x:
        change = np.tanh(h @ matrix.T + u @ w["weight_ih"][:H].T + w["bias"][:H])
        if gated:
            change = sigmoid(h @ matrix.T + u @ w["weight_ih"][H:].T + w["bias"][H:]) * change
        h = h + 0.3 * change
        found.append(h)
    return found


def cornn(w: Weights, x: Array, y: Array, z: Array) -> list[Array]:
    """Rusch and Mishra 2021, with explicit damping: dt = 0.2, gamma = 1.3, epsilon = 0.7."""
    found = []
    for u in x:
        force = np.tanh(y @ w["weight_hh"].T + z @ w["weight_zh"].T + u @ w["weight_ih"].T + w["bias"])
        z = z + 0.2 * (force - 1.3 * y - 0.7 * z)
        y = y + 0.2 * z
        found.append(y)
    return found


def lem(w: Weights, x: Array, y: Array, z: Array) -> list[Array]:
    """Rusch et al. 2022: both time steps see the old y, the new z drives the new y; dt = 0.6."""
    (v1, v2, vz, vy), (b1, b2, bz, by) = blocks(w["weight_ih"], 4), blocks(w["bias"], 4)
    w1, w2, wz = blocks(w["weight_hh"], 3)
    found = []
    for u in x:
        fast, slow = 0.6 * sigmoid(y @ w1.T + u @ v1.T + b1), 0.6 * sigmoid(y @ w2.T + u @ v2.T + b2)
        z = (1 - fast) * z + fast * np.tanh(y @ wz.T + u @ vz.T + bz)
        y = (1 - slow) * y + slow * np.tanh(z @ w["weight_zh"].T + u @ vy.T + by)
        found.append(y)
    return found


def min_gru(w: Weights, x: Array, h: Array) -> list[Array]:
    """Feng et al. 2024, section 3.1: z_t = sigmoid(W_z x_t), h_t = (1 - z_t) h_{t-1} + z_t W_h x_t."""
    (w_z, w_h), (b_z, b_h) = blocks(w["weight_ih"], 2), blocks(w["bias"], 2)
    found = []
    for u in x:
        z = sigmoid(u @ w_z.T + b_z)
        h = (1 - z) * h + z * (u @ w_h.T + b_h)
        found.append(h)
    return found


def min_lstm(w: Weights, x: Array, h: Array) -> list[Array]:
    """Feng et al. 2024, section 3.2: forget and input gate over their sum."""
    (w_f, w_i, w_h), (b_f, b_i, b_h) = blocks(w["weight_ih"], 3), blocks(w["bias"], 3)
    found = []
    for u in x:
        f, i = sigmoid(u @ w_f.T + b_f), sigmoid(u @ w_i.T + b_i)
        h = f / (f + i) * h + i / (f + i) * (u @ w_h.T + b_h)
        found.append(h)
    return found


def mirnn(w: Weights, x: Array, h: Array) -> list[Array]:
    """Wu et al. 2016: tanh(alpha * Wx * Uz + beta_1 * Uz + beta_2 * Wx + b)."""
    found = []
    for u in x:
        a, b = h @ w["weight_hh"].T, u @ w["weight_ih"].T
        h = np.tanh(w["alpha"] * a * b + w["beta_input"] * b + w["beta_state"] * a + w["bias"])
        found.append(h)
    return found


def rac(w: Weights, x: Array, h: Array, product: Array) -> list[Array]:
    """h_t = (W_H h_{t-1}) * (W_I x_t), Levine et al. 2017; W_H h_0 is given, not h_0."""
    found = []
    for u in x:
        h = product * (u @ w["weight_ih"].T)
        product = h @ w["weight_hh"].T
        found.append(h)
    return found


def second_order(w: Weights, x: Array, h: Array, act: Callable[[Array], Array], linear: bool) -> list[Array]:
    """act(sum_ij A_ijk h_i x_j [+ V h + U x + b]), Giles et al. 1992; the factors of a CP form are multiplied out."""
    tensor = w["tensor"] if "tensor" in w else np.zeros((H, D, H))
    if "factor_h" in w:
        for r in range(w["factor_h"].shape[1]):
            tensor = tensor + np.multiply.outer(
                np.multiply.outer(w["factor_h"][:, r], w["factor_x"][:, r]), w["factor_out"][:, r]
            )
    found = []
    for u in x:
        total = np.zeros_like(h)
        for k in range(H):
            for i in range(H):
                for j in range(D):
                    total[:, k] += tensor[i, j, k] * h[:, i] * u[:, j]
        if linear:
            total += h @ w["weight_hh"].T + u @ w["weight_ih"].T + w["bias"]
        h = act(total)
        found.append(h)
    return found


N = 4  # states of a system, in two conjugate pairs


def state_space(w: Weights, x: Array, *_: Array, low_rank: bool) -> list[Array]:
    """Gu et al. 2022: y = x + GLU(W GELU(2 Re(C s) + D u) + b), u = LayerNorm(x), by dense matrices of both pairs.

    S4D by zero-order hold, A' = exp(dt A), B' = A^-1 (A' - I) B; S4 by the bilinear rule with A = diag - p p^*:
    A' = (I - dt/2 A)^-1 (I + dt/2 A), B' = (I - dt/2 A)^-1 dt B.
    """
    from scipy.linalg import expm
    from scipy.special import erf

    def pair(name: str) -> Array:
        half = w[f"space.{name}"][..., 0] + 1j * w[f"space.{name}"][..., 1]
        return np.concatenate([half, half.conj()], -1)  # the kept half of each conjugate pair, and the other

    rates = -np.exp(w["space.log_decay"]) - 1j * w["space.frequency"]
    rates, b, c = np.concatenate([rates, rates.conj()], -1), pair("weight_b"), pair("weight_c")[0]
    dt, eye, systems = np.exp(w["space.log_step"]), np.eye(N), []
    for k in range(H):
        a = np.diag(rates[k])
        if low_rank:
            p = pair("weight_p")[k]
            a = a - np.outer(p, p.conj())
            systems.append((np.linalg.solve(eye - dt[k] / 2 * a, eye + dt[k] / 2 * a),
                            np.linalg.solve(eye - dt[k] / 2 * a, dt[k] * b[k])))  # fmt: skip
        else:
            step = expm(dt[k] * a)
            systems.append((step, np.linalg.solve(a, (step - eye) @ b[k])))
    found, state = [], np.zeros((B, H, N), complex)
    for row in x:
        row = row @ w["encoder.weight"].T + w["encoder.bias"]
        mean, variance = row.mean(-1, keepdims=True), row.var(-1, keepdims=True)
        u = (row - mean) / np.sqrt(variance + 1e-5) * w["norm.weight"] + w["norm.bias"]
        y = np.zeros((B, H))
        for k, (step, enter) in enumerate(systems):
            state[:, k] = state[:, k] @ step.T + u[:, k : k + 1] * enter
            y[:, k] = (state[:, k] @ c[k]).real + w["space.skip"][k] * u[:, k]
        y = y * 0.5 * (1 + erf(y / np.sqrt(2)))
        left, right = np.split(y @ w["mix.weight"].T + w["mix.bias"], 2, -1)
        found.append(row + left * sigmoid(right))
    return found


CASES: dict[str, tuple[Callable[..., Recurrent], Callable[..., list[Array]]]] = {
    "rnn": (RNN, partial(elman, act=np.tanh)),
    "rnn, relu": (partial(RNN, activation="relu"), partial(elman, act=relu)),
    "rnn, sigmoid": (partial(RNN, activation="sigmoid"), partial(elman, act=sigmoid)),
    "rnn, in depth": (partial(RNN, activation_in="depth"), depth),
    "irnn": (IRNN, partial(elman, act=relu)),
    "exprnn": (ExpRNN, modrelu_rnn),
    "scornn": (ScoRNN, modrelu_rnn),
    "nnrnn": (NonNormalRNN, modrelu_rnn),
    "urnn": (URNN, complex_rnn),
    "eurnn": (EURNN, complex_rnn),
    "depth-rnn": (DepthRNN, depth),
    "linear-rnn": (LinearRNN, partial(elman, act=lambda z: z)),
    "henaff": (HenaffRNN, henaff),
    "goru": (GORU, goru),
    "lstm": (LSTM, lstm),
    "h-detach": (HDetachLSTM, lstm),  # in training too: it changes no number
    "sab": (partial(SAB, k=3), sab),
    "gru": (GRU, gru),
    "antisymmetric": (partial(AntisymmetricRNN, epsilon=0.3), partial(antisymmetric, gated=False)),
    "antisymmetric, gated": (partial(AntisymmetricRNN, epsilon=0.3, gated=True), partial(antisymmetric, gated=True)),
    "cornn": (partial(CoRNN, dt=0.2, gamma=1.3, epsilon=0.7), cornn),
    "lem": (partial(LEM, dt=0.6), lem),
    "min-gru": (MinGRU, min_gru),
    "min-lstm": (MinLSTM, min_lstm),
    "mirnn": (MIRNN, mirnn),
    "rac": (RAC, rac),
    "2rnn": (SecondOrderRNN, partial(second_order, act=np.tanh, linear=True)),
    "birnn": (BilinearRNN, partial(second_order, act=lambda z: z, linear=False)),
    "cprnn": (partial(CPRNN, rank=3), partial(second_order, act=np.tanh, linear=True)),
    "cpbirnn": (partial(CPBIRNN, rank=3), partial(second_order, act=lambda z: z, linear=False)),
    "s4": (partial(S4, state_size=N), partial(state_space, low_rank=True)),
    "s4d": (partial(S4D, state_size=N), partial(state_space, low_rank=False)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_equation(name: str) -> None:
    make, equation = CASES[name]
    layer = make(D, H, dtype=torch.float64)
    cell = layer.cells[0]
    with torch.no_grad():  # biases and gates that start at constants would hide a mistake
        for parameter in layer.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    weights = {key: value.detach().numpy() for key, value in cell.named_parameters() if "parametrizations" not in key}
    weights |= {key: getattr(cell, key).detach().numpy() for key in cell.declared}
    x = torch.randn(T, B, D, dtype=torch.float64)
    state = layer(x)[1]  # any state of the right form, away from zero
    parts = (state,) if isinstance(state, torch.Tensor) else tuple(state)
    starts = [part[0].detach().numpy() for part in parts]
    given = None if name in ("s4", "s4d") else state  # their loop starts at zero
    found = layer(x, given)[0].detach().numpy()
    expected = np.stack(equation(weights, x.numpy(), *starts))
    assert found.shape == expected.shape
    assert np.abs(expected).max() > 0.1
    assert np.abs(found - expected).max() <= TOLERANCE * max(1.0, np.abs(expected).max())


def test_every_cell_has_its_equation() -> None:
    """No cell of engram.nn is missing; presets, which are an RNN under a map, are there by example."""
    from engram import nn

    cells = {kind for kind in vars(nn).values() if isinstance(kind, type) and issubclass(kind, BareCell)}
    tried = {make(D, H).cell for make, _ in CASES.values()}
    bases = {"BareCell", "Cell", "AttentiveCell", "MemCell", "RelCell"}
    in_lists = {"MemRNNCell", "MemLSTMCell", "RelRNNCell", "RelLSTMCell"}  # tests/nn/test_attention.py
    assert {kind.__name__ for kind in cells - tried} == bases | in_lists
