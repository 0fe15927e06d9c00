"""Calling any model in one way, whatever its order of dimensions, its form of output and its kind of input."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from engram.errors import DTypeError, EngramError, OptionError, ShapeError, check_size
from engram.files import one_line
from engram.models import Network


class Caller:
    """Calls a module with inputs ``(T, B, D)``, time first.

    Attributes:
        module: the model.
        input_size: D.
        batch_first: whether the module reads ``(B, T, D)``; set by the subclass.
        symbols: whether it reads integers; it is then given vectors over the symbols, one-hot ones among them.
        dtype: of its numbers.
        device: of its numbers.
    """

    batch_first: bool

    def __init__(self, module: nn.Module, input_size: int | None) -> None:
        if not isinstance(module, nn.Module):
            raise DTypeError(f"a model is a torch.nn.Module, got {type(module).__name__}")
        _check_numbers(module)
        self.module = module
        weight = next((p for p in module.parameters() if p.is_floating_point() or p.is_complex()), torch.zeros(()))
        self.dtype, self.device = weight.dtype.to_real(), weight.device
        self._embedding = next((m for m in module.modules() if isinstance(m, nn.Embedding)), None)
        vocabulary = module.vocabulary if isinstance(module, Network) else 0
        self.symbols = bool(vocabulary)
        size = (vocabulary or _found_size(module)) if input_size is None else input_size
        if size is None:
            raise OptionError(f"{type(module).__name__} does not say how many inputs it reads: give input_size")
        self.input_size = check_size("input_size", size)

    def sample(self, steps: int, batch: int, generator: torch.Generator) -> Tensor:
        """Random inputs ``(T, B, D)``: standard normal numbers, or one-hot symbols."""
        if self.symbols:
            symbols = torch.randint(self.input_size, (steps, batch), generator=generator)
            inputs = nn.functional.one_hot(symbols, self.input_size)
        else:
            inputs = torch.randn(steps, batch, self.input_size, generator=generator, dtype=torch.float64)
        return inputs.to(self.device, self.dtype)

    def _output(self, inputs: Tensor) -> Tensor:
        """The output as the module returns it, in its own order of dimensions."""
        return _parted(self._returned(inputs))[0]

    def _call(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Outputs ``(S, B, C)``, real and time first, and the state as the module returns it."""
        output, after = _parted(self._returned(inputs, state))
        if output.is_complex():
            output = torch.view_as_real(output).flatten(-2)
        if output.dim() == 2:
            output = output[None]
        elif self.batch_first:
            output = output.transpose(0, 1)
        steps, batch = inputs.shape[:2]
        if output.shape[1] != batch or output.shape[0] not in (1, steps):
            raise ShapeError(
                f"the model must give one output per sequence, or one per step; for {steps} steps and {batch} "
                f"sequences it returned the shape {tuple(output.shape)} (time first)"
            )
        return output, after

    def _returned(self, inputs: Tensor, state: Any = None) -> Any:
        """What the module returns; its errors are ours, in one line."""
        x = inputs.transpose(0, 1) if self.batch_first else inputs
        try:
            with self._vectors_for_symbols(x) if self.symbols else nullcontext():
                given = x.argmax(-1) if self.symbols else x
                return self.module(given) if state is None else self.module(given, state)
        except EngramError:
            raise
        except Exception as error:  # a model of someone else may raise anything
            raise ShapeError(f"the model refused inputs of shape {tuple(x.shape)}: {first_line(error)}") from error

    @contextmanager
    def _vectors_for_symbols(self, inputs: Tensor) -> Iterator[None]:
        """Within, the layer that reads symbols is given these vectors over the symbols in their place."""
        if self._embedding is not None:
            vectors = inputs @ self._embedding.weight
            hook: Any = self._embedding.register_forward_hook(lambda *_: vectors)
        else:
            hook = self.module.core.register_forward_pre_hook(lambda _, given: (inputs, *given[1:]))  # type: ignore[union-attr]
        try:
            yield
        finally:
            hook.remove()


def first_line(error: Exception) -> str:
    """The class of an error and the first line of its message, at most 300 characters."""
    return f"{type(error).__name__}: {one_line(next(iter(str(error).strip().splitlines()), ''), 300)}"


def _check_numbers(module: nn.Module) -> None:
    """Refuse a model whose weights hold no numbers."""
    for tensor in (*module.parameters(), *module.buffers()):
        if is_lazy(tensor):
            raise OptionError(
                f"{type(module).__name__} has parameters without a shape (a lazy module): call it once, then measure it"
            )
        if tensor.is_meta:
            raise DTypeError(
                f"{type(module).__name__} is on the meta device and holds no numbers: make it on another device, or "
                'call model.to_empty(device="cpu") and load a state_dict'
            )


def _found_size(module: nn.Module) -> int | None:
    """The input size of the first submodule that states one."""
    for part in module.modules():
        for name in ("input_size", "in_features", "in_channels", "num_embeddings"):
            size = getattr(part, name, None)
            if isinstance(size, int):
                return size
    return None


def _parted(result: Any) -> tuple[Tensor, Any]:
    """Output and state out of what a module returned."""
    output, state = result, None
    if isinstance(result, tuple | list) and result:
        output, state = result[0], result[1] if len(result) == 2 else None
    for name in ("logits", "last_hidden_state"):
        named = result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)
        if isinstance(named, Tensor):
            output = named
    if not isinstance(output, Tensor):
        raise ShapeError(
            "the model must return a tensor, a tuple that begins with one, or something with logits or "
            f"last_hidden_state; got {type(result).__name__}"
        )
    if output.dim() not in (2, 3):
        raise ShapeError(
            "the output of the model must have rank 3, (time, batch, features) or (batch, time, features), or rank 2, "
            f"(batch, features); got rank {output.dim()}, shape {tuple(output.shape)}"
        )
    return output, state
