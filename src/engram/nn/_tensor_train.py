"""Networks that are one tensor: scores of classes from a fixed number of inputs, h_y = <W_y, f(x_1) o ... o f(x_d)>."""

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from engram.errors import DTypeError, OptionError, ShapeError, check_choice, check_flag, check_size, unknown
from engram.kernels import ACTIVATIONS, activate, bilinear
from engram.nn._multiplicative import RAC
from engram.nn._unit import unit_rms


class TensorNet(nn.Module, ABC):
    r"""The base: a feature map shared by all inputs, and a coefficient tensor for each class.

    .. math:: h_y(x_1, \dots, x_d) = \sum_{i_1 \dots i_d} \mathcal W_y^{i_1 \dots i_d} \prod_k f(x_k)_{i_k},
        \qquad f(x) = \sigma(A x + b)

    Args:
        input_size: n, the numbers of an input (a patch).
        rank: r, the rank of the tensor: the width of the network.
        output_size: Y, the classes.
        steps: d, the inputs; at least 2.
        features: m, the numbers f(x); 0 takes the inputs as they are.
        activation: sigma.
        rescale: divide the scores of each example by a positive number, so that long products neither overflow nor
            vanish: same arg max. :meth:`scores` gives the logarithm of that number too.
        batch_first: input is ``(B, d, n)`` in place of ``(d, B, n)``.

    Input ``(d, B, n)``; output ``(B, Y)``. A starts as torch.nn.Linear's and b = 1, so that f is about 1: the slices of
    a core add up. Source: Khrulkov et al. 2018, Alkin 2024; spec/tensor-train.md 2.
    """

    source: ClassVar[str] = ""
    tensor: ClassVar[str] = ""
    """What W_y is; then the number of its parameters and the cost of a step, in N = r."""
    count: ClassVar[str] = ""
    step_cost: ClassVar[str] = ""

    def __init__(
        self,
        input_size: int,
        rank: int,
        output_size: int,
        steps: int,
        *,
        features: int = 4,
        activation: str = "relu",
        rescale: bool = False,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        own = [name for name in inspect.signature(self._make).parameters if name != "empty"]
        for name, value in {"rescale": rescale, "batch_first": batch_first, **options}.items():
            if name in options and name not in own:
                common = ("features", "activation", "rescale", "batch_first", "device", "dtype")
                raise unknown(f"option of {type(self).__name__}", name, [*own, *common])
            check_flag(name, value)
        self.input_size, self.rank = check_size("input_size", input_size), check_size("rank", rank)
        self.output_size, self.steps = check_size("output_size", output_size), check_size("steps", steps, least=2)
        self.features = check_size("features", features, least=0) or input_size
        self.activation = check_choice("activation", activation, [name for name in ACTIVATIONS if name != "modrelu"])
        self.rescale, self.batch_first = rescale, batch_first
        self.map = nn.Linear(input_size, features, device=device, dtype=dtype) if features else None

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))

        self._make(empty, **options)
        self.reset_parameters()

    @abstractmethod
    def _make(self, empty: Any) -> None:
        """The parameters, not yet drawn."""

    @abstractmethod
    def _draw(self) -> None:
        """Their start."""

    @abstractmethod
    def _scores(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """``(d, B, m)`` to scores ``(B, Y)`` and the logarithms ``(B)`` of what they were divided by."""

    @abstractmethod
    def coefficients(self) -> Tensor:
        """The tensors W_y whole, ``(Y, m, ..., m)``: for small sizes."""

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        if self.map is not None:
            self.map.reset_parameters()
            self.map.bias.fill_(1.0)
        self._draw()

    def encode(self, input: Tensor) -> Tensor:
        """f(x) of every input, ``(d, B, m)``."""
        shape = "(batch, steps, features)" if self.batch_first else "(steps, batch, features)"
        steps = input.shape[1 if self.batch_first else 0] if input.dim() == 3 else None
        if steps != self.steps or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"input must be {shape} with {self.steps} steps of {self.input_size} numbers: the network has one core "
                f"a step, made for so many; got {tuple(input.shape)}"
            )
        if not input.numel():
            raise ShapeError(f"input must hold at least one example, got {tuple(input.shape)}. Leave empty batches out")
        like = next(self.parameters())
        if input.dtype != like.dtype:
            raise DTypeError(f"input is {input.dtype} and the network {like.dtype}: use input.to({like.dtype})")
        input = input.transpose(0, 1) if self.batch_first else input
        return input if self.map is None else activate(self.activation, self.map(input))

    def scores(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Scores ``(B, Y)`` and the logarithm ``(B)`` of the scale they were divided by (zero without ``rescale``)."""
        return self._scores(self.encode(input))

    def forward(self, input: Tensor) -> Tensor:
        return self.scores(input)[0]

    def contract(self, input: Tensor) -> Tensor:
        """The scores by the definition, one product with the whole tensor: the slow truth."""
        weights = self.coefficients()
        result = weights.expand(input.shape[0 if self.batch_first else 1], *weights.shape)
        for f in self.encode(input):
            result = torch.einsum("byi...,bi->by...", result, f)
        return result

    def extra_repr(self) -> str:
        return f"{self.input_size}, rank={self.rank}, {self.output_size}, steps={self.steps}, features={self.features}"


class TensorTrainNet(TensorNet):
    r"""A tensor-train network: the coefficient tensor is a train of cores, run like a recurrence without activation.

    .. math:: s_1 = f(x_1) G_1, \quad s_k^\beta = \sum_{\alpha i} s_{k-1}^\alpha G_k^{\alpha i \beta} f_i(x_k), \quad
        h_y = \sum_{\alpha i} s_{d-1}^\alpha G_d^{\alpha i y} f_i(x_d)

    With ``equal_cores`` the inner cores are one, a bilinear recurrent network; an arithmetic circuit of one layer is
    such a train (:meth:`from_circuit`).

    Args:
        equal_cores: G_2 = ... = G_{d-1}.
        own_cores: each class has cores of its own; else they share all but the last.
        others: as :class:`TensorNet`.

    Parameters: ``first`` ``(g, m, r)``, ``inner`` ``(g, d-2 or 1, r, m, r)``, ``last`` ``(g, r, m, Y/g)``; g = Y with
    ``own_cores``, else 1. Cost: O(d m r^2) an example.
    """

    source = "Khrulkov et al. 2018"
    tensor = "W_y = G_1 G_2 ... G_d"
    count = "m N + (d-2) m N^2 + m N Y"
    step_cost = "O(m N^2)"

    def _make(self, empty: Any, equal_cores: bool = False, own_cores: bool = False) -> None:
        self.equal_cores, self.own_cores = equal_cores, own_cores
        groups, r, m = self.output_size if own_cores else 1, self.rank, self.features
        self.first = empty(groups, m, r)
        self.inner = empty(groups, min(1, self.steps - 2) if equal_cores else self.steps - 2, r, m, r)
        self.last = empty(groups, r, m, self.output_size // groups)

    def _draw(self) -> None:
        """G^{:i:} = I/m + N(0, 1/(4 r m)), so that a product of many is near one; the ends N(0, 1/m) (2.7)."""
        nn.init.normal_(self.first, std=self.features**-0.5)
        nn.init.normal_(self.last, std=(self.features * self.rank) ** -0.5)
        nn.init.normal_(self.inner, std=0.5 * (self.features * self.rank) ** -0.5)
        self.inner.data += torch.eye(self.rank, device=self.inner.device)[:, None] / self.features

    def core(self, k: int) -> Tensor:
        """G_k ``(g, r, m, r)`` of the input number k, from 2 to d - 1."""
        return self.inner[:, 0 if self.equal_cores else k - 2]

    def _scores(self, features: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.einsum("bi,gia->gba", features[0], self.first)
        scale = features.new_zeros(features.shape[1])
        if self.equal_cores and not self.rescale and self.steps > 2 and len(state) == 1:
            state = bilinear(features[1:-1], None, None, self.core(2)[0], state[0])[1][None]
        else:
            for k, f in enumerate(features[1:-1], start=2):
                state = self._step(state, f, self.core(k))
                if self.rescale:
                    state, size = unit_rms(state, (0, 2))
                    scale = scale + size.flatten()
        scores = self._step(state, features[-1], self.last)
        return scores.permute(1, 0, 2).flatten(1), scale

    def _step(self, state: Tensor, f: Tensor, core: Tensor) -> Tensor:
        """sum_{a i} s_a f_i G_aic: ``(g, B, r)`` and ``(B, m)`` to ``(g, B, c)``."""
        pairs = (state[..., None] * f[:, None]).flatten(2)
        return pairs @ core.flatten(1, 2)

    def coefficients(self) -> Tensor:
        train = self.first
        for k in range(2, self.steps):
            train = torch.einsum("g...a,gaib->g...ib", train, self.core(k))
        whole = torch.einsum("g...a,gaic->gc...i", train, self.last)
        return whole.flatten(0, 1)

    @classmethod
    @torch.no_grad()
    def from_circuit(cls, circuit: RAC, readout: Tensor, steps: int) -> Self:
        """The network y = readout h_T of a shallow arithmetic circuit, ``readout`` ``(Y, R)``, after ``steps`` inputs.

        G_1 = W_I^T diag(a), G = the circuit's core, G_d^{a i y} = sum_k G^{a i k} readout_yk; the inputs themselves are
        the features (spec/arithmetic-circuits.md 1.4).
        """
        core, cell = circuit.core(), circuit.cells[0]
        if cell.bias is not None:
            raise OptionError(
                "a circuit with a bias is no tensor train of its inputs: give it an input that is always 1"
            )
        rank, modes, _ = core.shape
        if readout.dim() != 2 or readout.shape[1] != rank:
            raise ShapeError(f"readout must be (classes, {rank}), one column a channel; got {tuple(readout.shape)}")
        net = cls(modes, rank, len(readout), steps, features=0, equal_cores=True, device=core.device, dtype=core.dtype)
        net.first[0] = cell.weight_ih.mT * cell.initial_state(1).product
        net.inner[0] = core
        net.last[0] = core @ readout.mT
        return net


class CPNet(TensorNet):
    r"""The shallow network: the coefficient tensor is a sum of R products.

    .. math:: h_y = \sum_{\alpha=1}^R \prod_{k=1}^d \langle v_{k,\alpha,y}, f(x_k) \rangle

    To imitate almost any tensor-train network of rank r it needs a width of at least min(m, r)^(d/2)
    (``engram certify tt``). Parameters: ``vectors`` ``(d, m, Y, R)``. Source: spec/tensor-train.md 2.4.
    """

    source = "Khrulkov et al. 2018 (CP)"
    tensor = "W_y = sum_a v_1a o ... o v_da"
    count = "Y d m N"
    step_cost = "O(Y m N)"

    def _make(self, empty: Any) -> None:
        self.vectors = empty(self.steps, self.features, self.output_size, self.rank)

    def _draw(self) -> None:
        """v = 1/m + N(0, 1/(4 m)), and N(0, 1/(m R)) for the first input: products near one, scores about one."""
        nn.init.normal_(self.vectors, mean=1 / self.features, std=0.5 / self.features)
        nn.init.normal_(self.vectors[0], std=(self.features * self.rank) ** -0.5)

    def _scores(self, features: Tensor) -> tuple[Tensor, Tensor]:
        factors = torch.einsum("dbi,diyr->dbyr", features, self.vectors)
        if not self.rescale:
            return factors.prod(0).sum(-1), features.new_zeros(features.shape[1])
        logs = factors.abs().clamp_min(torch.finfo(factors.dtype).tiny).log().sum(0)  # (B, Y, R)
        scale = logs.detach().flatten(1).amax(1)
        return (factors.sign().prod(0) * (logs - scale[:, None, None]).exp()).sum(-1), scale

    def coefficients(self) -> Tensor:
        whole = self.vectors[0].permute(1, 2, 0)
        for vectors in self.vectors[1:]:
            whole = torch.einsum("yr...,iyr->yr...i", whole, vectors)
        return whole.sum(1)


NETWORKS: dict[str, type[TensorNet]] = {"tensor-train": TensorTrainNet, "cp-net": CPNet}
"""Whole networks, read-out and all, by the names of the command line: from a fixed number of inputs to scores."""
