"""Networks that are one tensor: scores of classes from a fixed number of inputs, h_y = <W_y, f(x_1) o ... o f(x_d)>."""

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from engram.errors import DTypeError, ShapeError, check_choice, check_flag, check_size, unknown
from engram.loops import WITHOUT_BIAS, activate


class TensorNet(nn.Module, ABC):
    r"""The base: a feature map shared by all inputs, and a coefficient tensor for each class.

    .. math:: h_y(x_1, \dots, x_d) = \sum_{i_1 \dots i_d} \mathcal W_y^{i_1 \dots i_d} \prod_k f(x_k)_{i_k},
        \qquad f(x) = \sigma(A x + b)

    Args:
        input_size (int): n, how many numbers an input (a patch) has.
        rank (int): r, the rank of the tensor: the width of the network.
        output_size (int): Y, the classes.
        steps (int): d, the number of inputs, at least 2.
        features (int): m, how many numbers f(x) has; 0 takes the inputs as they are. Default: 4.
        activation (str): sigma of f: ``identity``, ``tanh``, ``relu`` or ``sigmoid``. Default: ``relu``.
        rescale (bool): divide the scores of each example by a positive number, so that long products neither overflow
            nor vanish; the arg max is the same, and :meth:`scores` gives the number's logarithm. Default: False.
        batch_first (bool): input is ``(B, d, n)`` in place of ``(d, B, n)``. Default: False.
        device (torch.device, str or None): of the weights. Default: None, torch's default.
        dtype (torch.dtype or None): of the weights. Default: None, torch's default.
        options: further arguments of a subclass.

    Input ``(d, B, n)``; output ``(B, Y)``. A starts as torch.nn.Linear's and b = 1, so that f is about 1: the slices of
    a core add up. Source: Khrulkov et al. (2018); Alkin (2024), Eq. 4.1.
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
        self.activation = check_choice("activation", activation, WITHOUT_BIAS)
        self.rescale, self.batch_first = rescale, batch_first
        self.map = nn.Linear(input_size, features, device=device, dtype=dtype) if features else None

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))

        self._make(empty, **options)
        self.reset_parameters()

    @abstractmethod
    def _make(self, empty: Any) -> None:
        """The parameters, not yet initialised."""

    @abstractmethod
    def _initialise(self) -> None:
        """Sample the initial values of the parameters."""

    @abstractmethod
    def _scores(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """``(d, B, m)`` to scores ``(B, Y)`` and the logarithms ``(B)`` of what they were divided by."""

    @abstractmethod
    def coefficients(self) -> Tensor:
        """The tensors W_y whole, ``(Y, m, ..., m)``: for small sizes."""

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Sample all weights again."""
        if self.map is not None:
            self.map.reset_parameters()
            self.map.bias.fill_(1.0)
        self._initialise()

    def encode(self, input: Tensor) -> Tensor:
        """f(x) of every input, ``(d, B, m)``."""
        shape = "(batch, steps, features)" if self.batch_first else "(steps, batch, features)"
        steps = input.shape[1 if self.batch_first else 0] if input.dim() == 3 else None
        if steps != self.steps or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"input must be {shape} with {self.steps} steps of {self.input_size} numbers: the network has one core "
                f"per step; got {tuple(input.shape)}"
            )
        if not input.numel():
            raise ShapeError(f"input must hold at least one example, got {tuple(input.shape)}. Leave empty batches out")
        dtype = next(self.parameters()).dtype
        if input.dtype != dtype:
            raise DTypeError(f"input is {input.dtype} and the network {dtype}: use input.to({dtype})")
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
