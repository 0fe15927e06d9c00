"""The backward pass of a plan: what it keeps, what it computes again, and what leads out of the loop."""

from typing import Any

from engram.loops._cut import smallest_cut
from engram.loops._graph import Node, RowSum
from engram.loops._lower import Lowered
from engram.loops._program import Plan, Program, Source, reads_of, shared_of, used
from engram.loops._slots import written_slots


class GradientPlan:
    """Adds the backward pass to a plan, part by part.

    Args:
        plan: of the forward pass.
        step: the step, and its gradient.
        rows: the row nodes of the step.
        nodes, row_sums: those of the gradient that lead to something wanted.
        found: values of the step that lie in arrays: drives, and products of them.
        rebuild: whether buffers are taken back step by step.
    """

    def __init__(
        self,
        plan: Plan,
        step: Lowered,
        rows: list[Node],
        nodes: list[Node],
        row_sums: list[RowSum],
        found: dict[int, Source],
        rebuild: bool,
    ) -> None:
        self.plan, self.step, self.rows, self.found = plan, step, rows, found
        self.values, self.output, self.new = plan.graph.values, step.outputs[0], step.outputs[1:]
        self.nodes = [node for node in nodes if self.values[node.result].rows]
        self.fields = step.gradients[len(step.drives) :][: len(step.states)]
        """dL/d of each field of the state before."""
        plan.row_sums = row_sums
        self._place_shared([node for node in nodes if not self.values[node.result].rows])
        self._leave_the_loop()
        self.buffers = {
            k: s
            for k, s in enumerate(step.states)
            if rebuild and len(self.values[s].shape) > 1 and self.new[k] != self.output
        }
        needed = self._needed()
        self._read_buffers(needed)
        self._keep(needed)
        self._make_loop(needed)

    def _place_shared(self, nodes: list[Node]) -> None:
        """Weights alone: before the loop, or after it if a sum over rows is read."""
        late = {row_sum.result for row_sum in self.plan.row_sums}
        for node in nodes:
            if any(a in late for a in node.args):
                late.update(node.results)
                self.plan.after.append(node)
            else:
                self.plan.before.append(node)

    def _leave_the_loop(self) -> None:
        """The chain of gradients through time stays in the loop; products that lead out of it wait for its end."""
        chain = {node.result for node in used(self.nodes, [g for g in self.fields if g is not None])}
        self.leaving: set[int] = set()
        for node in self.nodes:
            if node.result not in chain and (node.kind == "product" or any(a in self.leaving for a in node.args)):
                self.leaving.add(node.result)
        self.plan.outgoing = [node for node in self.nodes if node.result in self.leaving]

    def _sides(self) -> list[int]:
        """The row values that sums over rows read."""
        return [a for row_sum in self.plan.row_sums for a in (row_sum.left, row_sum.right) if a is not None]

    def _needed(self) -> set[int]:
        """What of the step the gradient reads."""
        step = self.step
        made = {node.result for node in self.nodes} | {g for g in step.output_grads if g is not None}
        of_step = {node.result for node in self.rows} | set(step.states) | set(step.drives)
        wanted = [a for node in self.nodes for a in node.args] + self._sides()
        wanted += [gradient for gradient in step.gradients if gradient is not None]
        return {a for a in wanted if a in of_step and a not in made and self.values[a].rows}

    def _read_buffers(self, needed: set[int]) -> None:
        """Whether the backward loop reads a buffer as it is after a step, which it then takes back at its end, or as it
        was before, from which the rest is computed again: whatever keeps fewer bytes."""
        late = set(self.buffers)
        while late:
            cut = self._cut(needed, late)
            missing = {k for k in late if self.step.states[k] in cut}
            if not missing:
                break
            late -= missing
        if self._bytes(self._cut(needed, late)) > self._bytes(self._cut(needed, set())):
            late = set()
        self.late = late
        self.buffers = {k: self.new[k] if k in late else s for k, s in self.buffers.items()}

    def _cut(self, needed: set[int], late: set[int]) -> set[int]:
        """What is kept, besides what is in memory anyway, if these buffers are read as they are after a step."""
        states, new, output = self.step.states, self.new, self.output
        self.stored = {k for k, s in enumerate(states) if s in needed and new[k] != output and k not in self.buffers}
        self.free = set(self.found) | {output} | {new[k] for k in self.stored}
        self.free |= {new[k] if k in late else states[k] for k in self.buffers}
        self.free |= {s for k, s in enumerate(states) if new[k] == output or k in self.stored}
        hoisted = set(self.plan.hoisted_arrays.values())
        return smallest_cut(self.plan.graph, self.rows, needed, self.free, set(states), hoisted)

    def _bytes(self, cut: set[int]) -> int:
        return sum(max(1, self.values[v].size) * self.values[v].dtype.itemsize for v in cut - self.free)

    def _keep(self, needed: set[int]) -> None:
        """Choose what the forward pass keeps, so that no product is computed twice."""
        plan, states, new = self.plan, self.step.states, self.new
        cut = self._cut(needed, self.late)
        more = {k for k, s in enumerate(states) if s in cut and k not in self.buffers}
        self.stored |= more
        cut -= self.free | {states[k] for k in more} | {new[k] for k in more}
        plan.kept = {f"state{k}": new[k] for k in sorted(self.stored)}
        plan.kept |= {f"kept{k}": value for k, value in enumerate(sorted(cut))}
        plan.forward.writes |= plan.kept
        plan.forward.nodes = used(
            self.rows, [*self.step.outputs, *plan.kept.values()], stop=set(self.found) | set(states)
        )

    def _where(self) -> dict[int, Source]:
        """The values that the backward pass finds in arrays."""
        where = dict(self.found) | {value: Source(name) for name, value in self.plan.kept.items()}
        where[self.output] = Source("output")
        for k, s in enumerate(self.step.states):
            if self.new[k] == self.output:
                where[s] = Source("output", before=k)
            elif k in self.stored:
                where[s] = Source(f"state{k}", before=k)
        if self.step.output_grads[0] is not None:
            where[self.step.output_grads[0]] = Source("grad")
        return where

    def _make_loop(self, needed: set[int]) -> None:
        plan, where = self.plan, self._where()
        outside = [a for node in plan.outgoing for a in node.args if self.values[a].rows] + self._sides()
        outside += [g for g in self.step.gradients[: len(self.step.drives)] if g is not None]
        outside = [a for a in dict.fromkeys(outside) if a not in self.leaving]
        inside = [node for node in self.nodes if node.result not in self.leaving]
        inside = used(self.rows, needed, stop=set(where) | set(self.buffers.values())) + inside
        carried = self._carried(inside)
        loop = plan.backward = Program(inside, {}, carried)
        emitted = [a for a in outside if a not in where]
        loop.writes = {f"out{k}": value for k, value in enumerate(emitted)}
        given = set(where) | {a for a, _ in carried} | set(self.buffers.values())
        loop.nodes = used(inside, [*emitted, *(b for _, b in carried)], stop=given)
        read = {a for node in loop.nodes for a in node.args} | set(emitted)
        loop.rebuilt = {k: value for k, value in self.buffers.items() if value in read}
        loop.late = self.late & set(loop.rebuilt)
        for k in loop.rebuilt:
            before, after = self.step.states[k], self.new[k]
            plan.forward.changes[k] = before, after
            writes = written_slots(plan.graph, plan.forward.nodes, before, after)
            plan.forward.puts |= {value: (k, n) for n, value in enumerate(writes)}
        loop.puts = plan.forward.puts
        loop.reads, loop.shared = reads_of(loop, where), shared_of(plan.graph, loop)
        plan.sources = where | {value: Source(name) for name, value in loop.writes.items()}
        sources = [*loop.reads.values(), *(plan.sources[a] for a in outside)]
        plan.hoist_again = any(source.array in plan.hoisted_arrays for source in sources)

    def _carried(self, inside: list[Node]) -> list[tuple[int, int]]:
        """dL/d of each field after a step, and what it becomes; zero, for a field that the step does not read."""
        pairs = []
        for arriving, gradient in zip(self.step.output_grads[1:], self.fields, strict=True):
            if arriving is None:
                continue
            if gradient is None:
                kind: Any = self.values[arriving]
                gradient = self.plan.graph.value(kind.shape, kind.dtype, True)
                inside.append(Node("fill", (), (gradient,), 0))
            pairs.append((arriving, gradient))
        return pairs
