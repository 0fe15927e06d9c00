"""The loop of several models that are trained as one: the first axis of every tensor is the member.

Under ``torch.func.vmap`` (within :func:`engram.maps.together`) the loop is given the stacked tensors of all members and
makes one call of C for each pass, in which a thread takes one member after the other through the loop that it would run
alone, with the same bits. Chunks of steps are those of a single member. Plans that C cannot run, or that keep changes
of buffers, are run member by member.
"""

from typing import Any

import torch
from torch import Tensor

from engram.loops import _torch
from engram.loops._compile import Compiled, Variant
from engram.loops._compiled import Loops
from engram.loops._function import LoopFunction, check_given, materialised, split_tensors, variant_of
from engram.loops._graph import RowSum
from engram.loops._layout import Arrays, Span
from engram.loops._memory import empty
from engram.loops._run import CHUNK_BYTES, hoist, loop_outputs, weights_of, width_of
from engram.loops._several_products import Work, in_one_piece
from engram.loops._several_values import StackedValues, of_member
from engram.maps import on_stacks


def several_loops(found: Compiled, reverse: bool, all_steps: bool, tensors: list[Tensor]) -> tuple[Tensor, ...]:
    """What a layer calls under vmap: the outputs (with ``all_steps``) and last states of all members."""

    def run(*stacked: Tensor) -> tuple[Tensor, ...]:
        variant = variant_of(found, [stacked[0][0]], None)
        if in_one_call(variant, stacked[0]):
            made: tuple[Tensor, ...] = StackedFunction.apply(variant, reverse, all_steps, *stacked)
            return made
        each = [LoopFunction.apply(found, None, reverse, all_steps, *own) for own in zip(*stacked, strict=True)]
        return tuple(map(torch.stack, zip(*each, strict=True)))

    made: tuple[Tensor, ...] = on_stacks(run, *tensors)
    return made


def in_one_call(variant: Variant, reference: Tensor) -> bool:
    """Whether one call of C runs all members."""
    simple = not variant.plan.forward.changes and variant.plan.backward is not None
    return simple and isinstance(variant.executor(reference), Loops)


class StackedFunction(torch.autograd.Function):
    """The loops of all members, forwards and backwards."""

    @staticmethod
    def forward(ctx: Any, variant: Variant, reverse: bool, all_steps: bool, *tensors: Tensor) -> Any:
        keep = any(ctx.needs_input_grad)
        stack = Stack(variant, list(tensors), reverse)
        arrays, final = stack.forward(keep)
        ctx.stack, ctx.all_steps, ctx.names = stack, all_steps, list(arrays)
        ctx.save_for_backward(*tensors, *arrays.values())
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(field for field in final if not field.is_floating_point()))
        output = arrays["output"].view(len(tensors[0]), *tensors[0].shape[1:3], *arrays["output"].shape[2:])
        return (output, *final) if all_steps else tuple(final)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        count = len(ctx.saved_tensors) - len(ctx.names)
        kept = ctx.saved_tensors[count:]
        if all(grad is None for grad in grads):
            return (None,) * (3 + count)
        arrays = dict(zip(ctx.names, kept, strict=True))
        grad_output, grad_final = (grads[0], grads[1:]) if ctx.all_steps else (None, grads)
        found = ctx.stack.backward(grad_output, list(grad_final), arrays, list(ctx.needs_input_grad[3:]))
        return (None, None, None, *found)


class Stack:
    """The tensors of all members for one call, each contiguous per member."""

    def __init__(self, variant: Variant, tensors: list[Tensor], reverse: bool) -> None:
        self.plan, self.loops = variant.plan, variant.executor(tensors[0])
        self.tensors = tensors
        plan, given = self.plan, [materialised(tensor) for tensor in tensors]
        drives, start, weights = split_tensors(plan, given)
        check_given(plan, *split_tensors(plan, [tensor[0] for tensor in given]), None)
        self.rows = [in_one_piece(drive).flatten(1, 2) for drive in drives]
        self.start = [in_one_piece(field) for field in start]
        self.weights = [list(own) for own in zip(*(weight.unbind(0) for weight in weights), strict=True)]
        self.members = len(tensors[0])
        steps, batch = drives[0].shape[1:3]
        self.span = Span.whole([batch] * steps, reverse)

    def new_array(self, value: int, rows: int) -> Tensor:
        kind = self.plan.graph.values[value]
        return empty((self.members, rows, *kind.shape), self.start[0], kind.dtype)

    def hoist(self, shared: list[dict[Any, Any]], arrays: Arrays, chunk: Span) -> None:
        """The products of the drive of all members."""
        if self.plan.hoisted:
            own = [of_member(arrays, e) for e in range(self.members)]
            for e in range(self.members):
                hoist(self.plan, shared[e], own[e], chunk)
            for name in self.plan.hoisted_arrays:
                arrays.tensors[name] = torch.stack([of_one.tensors[name] for of_one in own])
                arrays.base[name] = chunk.rows.start

    def forward(self, keep: bool) -> tuple[dict[str, Tensor], list[Tensor]]:
        """The arrays of the forward pass, and the last states."""
        plan, rows = self.plan, self.span.first[-1]
        shared = [weights_of(plan, own, forward=True) for own in self.weights]
        names = {"output": plan.outputs[0]} | (plan.kept if keep else {})
        tensors = {name: self.new_array(value, rows) for name, value in names.items()}
        arrays = Arrays(tensors | {f"drive{k}": drive for k, drive in enumerate(self.rows)}, self.start)
        carried = [field.clone(memory_format=torch.contiguous_format) for field in self.start]
        for chunk in self.span.chunks(width_of(plan, plan.hoisted_arrays.values()), CHUNK_BYTES, backwards=False):
            self.hoist(shared, arrays, chunk)
            self.loops.run_several(plan.forward, shared, arrays, carried, chunk)
        return tensors, carried

    def backward(
        self, grad_output: Tensor | None, grad_final: list[Tensor | None], kept: dict[str, Tensor], needs: list[bool]
    ) -> list[Tensor | None]:
        """One stacked gradient per tensor; None where none is needed."""
        plan, loop, count = self.plan, self.plan.gradient_loop, len(self.plan.drives)
        shared = [weights_of(plan, own) for own in self.weights]
        arrays = Arrays(kept | {f"drive{k}": drive for k, drive in enumerate(self.rows)}, self.start)
        if any(source.array == "grad" for source in loop.reads.values()):
            given = torch.zeros_like(kept["output"]) if grad_output is None else materialised(grad_output).flatten(1, 2)
            arrays.tensors["grad"] = in_one_piece(given)
        carried = self._arriving(grad_final)
        drives = [
            self.new_array(drive, self.span.first[-1]) if needs[k] and plan.gradients[k] is not None else None
            for k, drive in enumerate(plan.drives)
        ]
        weights_wanted = any(needs[count + len(plan.states) :])
        sums = {each.result: self._zeros(each) for each in plan.row_sums}
        outputs = loop_outputs(plan, [plan.gradients[k] for k in range(count) if needs[k]], weights_wanted)
        widths = [*(plan.hoisted_arrays.values() if plan.hoist_again else ()), *outputs.values()]
        for chunk in self.span.chunks(width_of(plan, widths), CHUNK_BYTES, backwards=True):
            if plan.hoist_again:
                self.hoist(shared, arrays, chunk)
            for name, value in outputs.items():
                arrays.tensors[name] = self.new_array(value, chunk.rows.stop - chunk.rows.start)
                arrays.base[name] = chunk.rows.start
            values = StackedValues(plan, shared, arrays, chunk)
            work = Work(self.members, self.loops.real)
            later = [each for each in plan.row_sums if weights_wanted and not values.plan_sum(work, sums, each)]
            self.loops.run_several(loop, shared, arrays, carried, chunk, work)
            for total, part in values.column_sums:
                total += part
            for gradient, made in zip(drives, plan.gradients, strict=False):
                if gradient is not None and made is not None:
                    gradient[:, chunk.rows] = values[made]
            for row_sum in later:
                values.add(sums[row_sum.result], row_sum)
        return self._results(drives, carried, shared, sums, needs)

    def _zeros(self, row_sum: RowSum) -> Tensor:
        dtype = self.plan.graph.values[row_sum.result].dtype
        return torch.zeros((self.members, *row_sum.shape), dtype=dtype)

    def _arriving(self, grad_final: list[Tensor | None]) -> list[Tensor]:
        order = {value: k for k, value in enumerate(self.plan.arriving)}
        found = []
        for value, _ in self.plan.gradient_loop.carried:
            given = grad_final[order[value]]
            zeros = torch.zeros_like(self.start[order[value]])
            found.append(zeros if given is None else zeros.copy_(given))
        return found

    def _results(
        self,
        drives: list[Tensor | None],
        carried: list[Tensor],
        shared: list[dict[Any, Any]],
        sums: dict[int, Tensor],
        needs: list[bool],
    ) -> list[Tensor | None]:
        plan, count, states = self.plan, len(self.plan.drives), len(self.plan.states)
        after: dict[int, list[Tensor]] = {}
        if plan.after and any(needs[count + states :]):
            made = {result for node in plan.after for result in node.results}
            given = list(dict.fromkeys(a for node in plan.after for a in node.args if a not in made))
            if "after" not in plan.functions:
                plan.functions["after"] = _torch.run_shared(plan.graph, plan.after, given)
            for e in range(self.members):
                found = plan.functions["after"](*(sums[v][e] if v in sums else shared[e][v] for v in given))
                for value in {*plan.gradients[count + states :]}:
                    if value is not None and value not in sums:
                        after.setdefault(value, []).append(found[value])
        fields, arriving = iter(carried), {a for a, _ in plan.gradient_loop.carried}
        results: list[Tensor | None] = []
        seen: set[int] = set()
        for k, value in enumerate(plan.gradients):
            if k < count:
                gradient = drives[k]
            elif k < count + states:
                gradient = next(fields) if plan.arriving[k - count] in arriving else None
            elif value is None or not needs[k]:
                gradient = None
            else:
                gradient = sums[value] if value in sums else torch.stack(after[value])
                gradient = gradient.clone() if value in seen else gradient  # torch adds to a gradient in place
                seen.add(value)
            wanted = gradient is not None and needs[k]
            results.append(gradient.view(self.tensors[k].shape) if gradient is not None and wanted else None)
        return results
