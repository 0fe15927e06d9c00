"""A record of a step: the torch operations of one step and of its gradient, in their order.

A cell's ``output(step(drive(x), state))`` is run on two rows and on eleven, and autograd is asked for the gradient of
everything it read. Each time a dispatch mode records every operation. The two records may differ only in sizes that
come from the batch; these show which axis of each tensor is the batch. A step that does something else the second time
(a counter, a clock, a branch on the number of rows) is refused.

Nothing is symbolic, so a trace takes milliseconds; torch's own tracers import a second's worth of modules.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from engram.errors import DTypeError, EngramError, ShapeError, StepError
from engram.maps import without_autocast
from engram.state import State, each, parts

BATCHES = (2, 11)
"""Far apart, so that a step that treats small batches differently is noticed."""
_HERE, _TORCH = str(Path(__file__).parent), str(Path(torch.__file__).parent)


class CannotCompile(Exception):
    """Why a step stays a Python loop, in words; ``line`` is where, as ``file:number`` and the text of that line."""

    def __init__(self, reason: str, line: str = "") -> None:
        super().__init__(f"{reason}, at {line}" if line else reason)
        self.reason, self.line = reason, line


@dataclass(frozen=True)
class Ref:
    """A tensor of a record, by its number."""

    number: int


@dataclass(frozen=True)
class Call:
    """One operation: its results are numbered in the order of ``results``."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[int, ...]
    line: str


@dataclass
class Record:
    """What ran on one batch. The numbers of the tensors are the same in every record of a step."""

    tensors: list[Tensor] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    drives: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    """Of the step: what the layer shows, then the fields of the new state."""
    output_grads: list[int] = field(default_factory=list)
    """dL/d of each of ``outputs``; -1 for those without a gradient."""
    gradients: list[int] = field(default_factory=list)
    """dL/d of each of ``drives``, ``states`` and ``weights``; -1 where there is none."""
    step_calls: int = 0
    """The number of calls of the step; the calls after them are those of its gradient."""


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.record = Record()
        self.numbers: dict[int, int] = {}
        self.lines: dict[int, str] = {}
        """Of the step, by the number that autograd gives to an operation: that of its gradient too."""
        self.in_gradient = False
        self.given: set[int] = set()
        """The memory of the drive and the state that the step is given."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first call imports torch._dynamo, which takes longer than a hundred traces

    def number(self, tensor: Tensor) -> int:
        """Of a tensor seen before, or of one that comes from outside: a constant."""
        if id(tensor) not in self.numbers:
            if tensor.requires_grad:
                raise CannotCompile("the step reads a parameter that is not in the cell", _line())
            self.record.constants.append(self.enter(tensor))
        return self.numbers[id(tensor)]

    def enter(self, tensor: Tensor) -> int:
        self.numbers[id(tensor)] = len(self.record.tensors)
        self.record.tensors.append(tensor)
        return self.numbers[id(tensor)]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        line = self.line()
        if func._schema.is_mutable and isinstance(args[0], Tensor) and _memory(args[0]) in self.given:
            raise StepError(
                f"a step must not change its drive or its state in place: earlier outputs would change too. Got "
                f"{str(func).removeprefix('aten.')} at {line}. Make a new tensor: state = state + ..."
            )
        noted = self.in_new_memory(func, args) if self.in_gradient else None
        _refuse(noted or func, line)
        noted_args, noted_kwargs = _replace(args, self.number), _replace(kwargs, self.number)
        out = func(*args, **kwargs)
        results = out if isinstance(out, (tuple, list)) else (out,)
        numbers = tuple(self.enter(result) if isinstance(result, Tensor) else -1 for result in results)
        self.record.calls.append(Call(noted or func, noted_args, noted_kwargs, numbers, line))
        return out

    def line(self) -> str:
        """The line of an operation of the step; in the gradient, of the operation whose gradient it is."""
        if self.in_gradient:
            node = torch._C._current_autograd_node()
            return "" if node is None else self.lines.get(node._sequence_nr(), "")
        line = _line()
        self.lines.setdefault(torch._C._autograd._get_sequence_nr() - 1, line)
        return line

    def in_new_memory(self, func: Any, args: Any) -> Any:
        """An operation that does the same as one in place, which torch's own gradients use on tensors that nobody else
        sees; None if somebody does."""
        name = func._overloadname
        packet = getattr(torch.ops.aten, func.overloadpacket.__name__.removesuffix("_"), None)
        if not func._schema.is_mutable or not func.overloadpacket.__name__.endswith("_") or not hasattr(packet, name):
            return None
        seen = [tensor for tensor in self.record.tensors if _memory(tensor) == _memory(args[0])]
        return getattr(packet, name) if len(seen) == 1 and seen[0] is args[0] else None


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _replace(value: Any, number: Callable[[Tensor], int]) -> Any:
    if isinstance(value, Tensor):
        return Ref(number(value))
    if isinstance(value, (list, tuple)):
        return tuple(_replace(item, number) for item in value)
    if isinstance(value, dict):
        return {key: _replace(item, number) for key, item in value.items()}
    return value


def _refuse(func: Any, line: str) -> None:
    """Refuse operations that no loop can have: they read a number out of a tensor, change one in place, or sample."""
    name = str(func).removeprefix("aten.")
    if name in ("_local_scalar_dense.default", "is_nonzero.default", "nonzero.default", "masked_select.default"):
        raise CannotCompile("the step depends on the values of a tensor (a branch, .item(), a mask as an index)", line)
    if torch.Tag.nondeterministic_seeded in func.tags:
        raise CannotCompile("the step samples random numbers; sample them in drive()", line)
    if func._schema.is_mutable:
        raise CannotCompile(f"the step changes a tensor in place ({name})", line)


def _line() -> str:
    """Where somebody's code called torch: the innermost frame that is neither torch's nor of this folder."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_HERE, _TORCH)) and not name.startswith("<"):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _copy_with_grad(tensor: Tensor) -> Tensor:
    """A copy that is no leaf of autograd: on a leaf, torch itself refuses a change in place, with another error."""
    return tensor.clone()


class _GivenGradients(torch.autograd.Function):
    """A number whose gradient with respect to some tensors is what is given.

    For torch.autograd.grad, whose ``grad_outputs`` would do the same after importing sympy.
    """

    @staticmethod
    def forward(ctx: Any, grads: list[Tensor], *tensors: Tensor) -> Tensor:
        ctx.grads = grads
        return torch.zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        return (None, *ctx.grads)


Step = Callable[[Any, State], tuple[Tensor, State]]
"""From the drive of a step and a state to what the layer shows and the new state."""


def record(step: Step, drives: list[Tensor], state: State, weights: list[Tensor]) -> Record:
    """Run ``step(drives, state)`` once and note what it does; all tensors given are leaves."""
    mode = _Recorder()
    found = mode.record
    found.drives = [mode.enter(tensor) for tensor in drives]
    found.states = [mode.enter(tensor) for tensor in parts(state)]
    found.weights = [mode.enter(tensor) for tensor in weights]
    with torch.inference_mode(False), torch.enable_grad(), without_autocast(drives[0]), mode:
        given, before = [_copy_with_grad(drive) for drive in drives], each(_copy_with_grad, state)
        mode.given = {_memory(tensor) for tensor in (*given, *parts(before))}
        try:
            output, new = step(given, before)
        except EngramError:
            raise
        except (RuntimeError, TypeError, ValueError) as error:  # the plain loop raises the same error, if it runs
            raise CannotCompile(f"the step fails when it is traced: {error}") from error
        outputs = [output, *parts(new)]
        found.outputs = [mode.number(tensor) for tensor in outputs]
        found.step_calls, mode.in_gradient, mode.given = len(found.calls), True, set()
        pairs = [(tensor, torch.ones_like(tensor)) for tensor in outputs if tensor.requires_grad]
        del found.calls[found.step_calls :]
        grads = iter([mode.enter(grad.detach()) for _, grad in pairs])
        found.output_grads = [next(grads) if tensor.requires_grad else -1 for tensor in outputs]
        del found.calls[found.step_calls :]
        inputs = [found.tensors[n] for n in (*found.drives, *found.states, *found.weights)]
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        arriving = [found.tensors[n] for n in found.output_grads if n >= 0]
        made: Any = ()
        if pairs and wanted:
            total = _GivenGradients.apply(arriving, *(tensor for tensor, _ in pairs))
            made = torch.autograd.grad(total, wanted, allow_unused=True)
        gradients = iter(made)
        for tensor in inputs:
            gradient = next(gradients, None) if tensor.requires_grad else None
            found.gradients.append(-1 if gradient is None else mode.number(gradient))
    return found


def check_state(new: State, state: State) -> None:
    """A step gives back what it was given: as many fields, each of the same shape and dtype."""
    given, back = parts(state), [new] if new is None else parts(new)
    if isinstance(state, tuple) != isinstance(new, tuple) or len(given) != len(back):
        raise ShapeError(
            f"the step returns {len(back)} field(s), its state has {len(given)}. Return a state of the form of fields()"
        )
    for k, (old, now) in enumerate(zip(given, back, strict=True)):
        if not isinstance(now, Tensor) or (old.shape, old.dtype) != (now.shape, now.dtype):
            got = f"{tuple(now.shape)} of {now.dtype}" if isinstance(now, Tensor) else type(now).__name__
            kind = ShapeError if isinstance(now, Tensor) and old.dtype == now.dtype else DTypeError
            raise kind(
                f"the step returns field {k} as {got}; the state has {tuple(old.shape)} of {old.dtype}. "
                "A new state has the shapes and dtypes of fields()"
            )


def compare(first: Record, second: Record, exactly: bool = False) -> None:
    """Refuse a step whose operations or constants differ the second time; ``exactly``: the batch was the same."""
    alike = _equal if exactly else _alike
    same = len(first.calls) == len(second.calls) and first.step_calls == second.step_calls
    for k, (a, b) in enumerate(zip(first.calls, second.calls, strict=False)):
        if a.function is not b.function or a.results != b.results:
            raise CannotCompile("the step does something else the second time, or for another batch size", b.line)
        number = k < first.step_calls and _takes_no_size(a.function)  # in a gradient it shows a sum over rows
        if not (_equal if number else alike)((a.args, a.kwargs), (b.args, b.kwargs)):
            raise CannotCompile("the step uses a number that changes from call to call or with the batch size", b.line)
    if not same or first.outputs != second.outputs or first.gradients != second.gradients:
        raise CannotCompile("the step does something else the second time, or for another batch size")
    for a, b in zip(first.calls, second.calls, strict=True):
        if a.function.overloadpacket in NEW and not _equal(a.args[-1], b.args[-1]):
            raise CannotCompile("the step uses the number of rows as a number", b.line)
    for k in first.constants:
        old, new = first.tensors[k], second.tensors[k]
        if old.shape == new.shape and not torch.equal(old, new) and not bool(old.isnan().any()):
            raise CannotCompile("the step uses a tensor that changes from call to call")


def _takes_no_size(function: Any) -> bool:
    """Whether an integer argument is a number, not a size: it must not depend on the number of rows."""
    return torch.Tag.pointwise in function.tags or function.overloadpacket in FILLS


NEW = (torch.ops.aten.full, torch.ops.aten.new_full)
FILLS = (torch.ops.aten.full_like, torch.ops.aten.scalar_tensor)


def _equal(a: Any, b: Any) -> bool:
    return repr(a) == repr(b)  # a NaN equals itself, and lists are looked into


def _alike(a: Any, b: Any) -> bool:
    """Equal, except for integers that grow with the batch as sizes do."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    if type(a) is int and type(b) is int:
        return a == b or a * BATCHES[1] == b * BATCHES[0]
    return bool(a == b) or (a != a and b != b)


def fresh(tensor: Tensor) -> Tensor:
    """A leaf with the numbers of a tensor, differentiable if it can be."""
    leaf = torch.rand(tensor.shape).to(tensor.dtype) if tensor.is_meta else tensor.detach().clone()
    return leaf.requires_grad_() if leaf.is_floating_point() or leaf.is_complex() else leaf
