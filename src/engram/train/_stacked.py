"""The numbers of several runs side by side, in one piece of memory: a row per member.

Each member stays an ordinary :class:`Loop` with a network and an optimiser of its own, whose parameters, moments
and buffers are views into the rows. So whatever is done to a single run (validation, checkpoints, best weights,
maps after a step) is done to a member in the same way, and what is computed for all of them at once is seen by each.

A row has first the parameters whose gradient is clipped, then the others. Every parameter begins at a multiple of 64
numbers, and a row is a multiple of 64 numbers long. So a number's place in a vector of the processor is the same for
all members, however many there are: torch computes the numbers at the end of an array in another way.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engram.train._loop import Loop
from engram.train._optimizer import MOMENTS

ALIGNED = 64


@dataclass(frozen=True)
class Column:
    """Where a parameter lies in a row."""

    name: str
    start: int
    shape: tuple[int, ...]
    complex: bool

    def of(self, rows: Tensor) -> Tensor:
        """The numbers of this parameter, ``(E, *shape)``, of rows ``(E, P)`` or one row ``(P)``."""
        count = torch.Size(self.shape).numel() * (1 + self.complex)
        cut = rows[..., self.start : self.start + count]
        if self.complex:
            return torch.view_as_complex(cut.view(*rows.shape[:-1], *self.shape, 2))
        return cut.view(*rows.shape[:-1], *self.shape)


class Columns:
    """The order of a network's parameters in a row; ``clipped`` is how far those reach whose gradient is clipped."""

    def __init__(self, loop: Loop) -> None:
        names = {id(p): name for name, p in loop.network.named_parameters()}
        self.all: list[Column] = []
        self.width = 0
        for parameters in (loop.optimizers.clipped, loop.optimizers.orthogonal):
            for p in parameters:
                numbers = p.numel() * (1 + p.is_complex())
                self.all.append(Column(names[id(p)], self.width, tuple(p.shape), p.is_complex()))
                self.width += -(-numbers // ALIGNED) * ALIGNED
            if parameters is loop.optimizers.clipped:
                self.clipped = self.width

    def new_rows(self, members: int, reference: Tensor) -> Tensor:
        return _aligned_rows(members, self.width, reference.dtype.to_real())


class Stacked:
    """The parameters, moments and buffers of some loops as rows, which the loops' own tensors now see.

    Args:
        loops: in the order of the rows; None for a place without a run, whose row is a copy of the first run's.
    """

    def __init__(self, loops: list[Loop | None]) -> None:
        self.loops, first = loops, next(loop for loop in loops if loop is not None)
        self.columns = columns = Columns(first)
        reference = next(first.network.parameters())
        self.weights, self.grads = (columns.new_rows(len(loops), reference) for _ in range(2))
        kind = type(first.optimizers.all[0])
        has_momentum = any(group.get("momentum") for group in first.optimizers.all[0].param_groups)
        names = [name for name in MOMENTS[kind] if name != "momentum_buffer"]
        names += ["momentum_buffer"] if has_momentum else []
        self.moments = {name: columns.new_rows(len(loops), reference) for name in names}
        self.counts = torch.zeros(len(loops))  # steps that the optimiser has taken
        for e, loop in enumerate(loops):
            if loop is not None:
                self._take_over(e, loop)
        own = next(e for e, loop in enumerate(loops) if loop is not None)
        for rows in (self.weights, self.counts, *self.moments.values()):
            rows[[e for e, loop in enumerate(loops) if loop is None]] = rows[own].clone()
        self.parameters = {c.name: c.of(self.weights).detach().requires_grad_() for c in columns.all}
        self.frozen = self._stack_frozen()
        self.buffers = self._stack_buffers()

    def _take_over(self, e: int, loop: Loop) -> None:
        """Copy the numbers of a loop into a row, and let its tensors be views of that row."""
        parameters, (optimizer, *_) = dict(loop.network.named_parameters()), loop.optimizers.all
        for column in self.columns.all:
            p = parameters[column.name]
            place = column.of(self.weights[e])
            place.copy_(p.detach())
            p.data = place
            state = optimizer.state.get(p, {})
            if "step" in state:
                self.counts[e] = float(state["step"])
            for name, rows in self.moments.items():
                if state.get(name) is not None:
                    column.of(rows[e]).copy_(state[name])

    def differentiate(self, total: Tensor) -> None:
        """The gradients of a sum over all members, in their rows."""
        found = torch.autograd.grad(total, list(self.parameters.values()))
        for column, gradient in zip(self.columns.all, found, strict=True):
            column.of(self.grads).copy_(gradient)

    def add_gradients(self, e: int, penalty: Tensor) -> None:
        """Add those of something that a member's own network gave."""
        own = dict(self.loops[e].network.named_parameters())  # type: ignore[union-attr]
        found = torch.autograd.grad(penalty, [own[c.name] for c in self.columns.all], allow_unused=True)
        for column, gradient in zip(self.columns.all, found, strict=True):
            if gradient is not None:
                column.of(self.grads[e]).add_(gradient)

    def show_moments(self, e: int) -> None:
        """Let the optimiser of a member see its moments, as if it had made them: after its first step it has some."""
        loop = self.loops[e]
        if loop is None:
            return
        parameters, (optimizer, *_) = dict(loop.network.named_parameters()), loop.optimizers.all
        for column in self.columns.all:
            seen: dict[str, Any] = {name: column.of(rows[e]) for name, rows in self.moments.items()}
            if not isinstance(optimizer, torch.optim.SGD):
                seen["step"] = self.counts[e]
            if seen:
                optimizer.state[parameters[column.name]] = seen

    def _stack_frozen(self) -> dict[str, Tensor]:
        """Parameters that no optimiser moves, stacked: each member has its own, such as a random encoder."""
        first = next(loop for loop in self.loops if loop is not None)
        trained = {column.name for column in self.columns.all}
        held = [dict((loop or first).network.named_parameters()) for loop in self.loops]
        return {name: _aligned_stack([own[name].detach() for own in held]) for name in held[0] if name not in trained}

    def _stack_buffers(self) -> dict[str, Tensor]:
        """Buffers that are saved with a network, or that differ, stacked. Other constants stay those of the network."""
        found = {}
        first = next(loop for loop in self.loops if loop is not None)
        held = [dict(_buffers((loop or first).network)) for loop in self.loops]
        saved = first.network.state_dict().keys()
        for name in held[0]:
            tensors = [each[name][0].get_buffer(each[name][1]) for each in held]
            if name in saved or not all(torch.equal(tensors[0], tensor) for tensor in tensors):
                found[name] = _aligned_stack(tensors)
                for loop, each, own in zip(self.loops, held, found[name], strict=True):
                    owner, key = each[name]
                    if loop is not None:
                        owner._buffers[key] = own
        return found


def _aligned_rows(members: int, width: int, dtype: torch.dtype) -> Tensor:
    """Zeros ``(members, width)``, which begin at a multiple of 64 numbers."""
    rows = torch.zeros(members * width + ALIGNED, dtype=dtype)
    first = -(rows.data_ptr() // rows.element_size()) % ALIGNED
    return rows[first : first + members * width].view(members, width)


def _aligned_stack(tensors: list[Tensor]) -> Tensor:
    """``torch.stack`` with every member at a multiple of 64 numbers: MKL's bits depend on where a matrix lies."""
    first = tensors[0]
    rows = _aligned_rows(len(tensors), -(-max(1, first.numel()) // ALIGNED) * ALIGNED, first.dtype)
    stacked = rows[:, : first.numel()].view(len(tensors), *first.shape)
    return stacked.copy_(torch.stack(tensors))


def _buffers(network: nn.Module) -> list[tuple[str, tuple[nn.Module, str]]]:
    """Every buffer by its full name: the module that has it, and its own name."""
    return [
        (f"{prefix}.{name}" if prefix else name, (module, name))
        for prefix, module in network.named_modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
