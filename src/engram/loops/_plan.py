"""How a step is run over time: what leaves the loop, what the backward pass keeps, and what it computes again.

The forward pass of a chunk of steps is: products of the drive for all its rows at once (``hoisted``), then the loop
(:attr:`Plan.forward`). The backward pass of a chunk is: those products again, the loop backwards
(:attr:`Plan.backward`), then for all its rows at once the products that only lead out of the loop (``outgoing``: the
gradient of the drive) and the sums that make the gradients of the weights (``meets``). What concerns weights alone runs
once, before the loop (``before``) or after it (``after``).
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from engram.loops._cut import smallest_cut
from engram.loops._graph import Graph, Meet, Node
from engram.loops._lower import Lowered
from engram.loops._trace import CannotCompile


@dataclass(frozen=True)
class Source:
    """Where a program finds a value: in the rows of an array at its own step, or at the step before it.

    ``before`` is then the number of the field: at a row's first step it is the state that the loop started from.
    """

    array: str
    before: int | None = None


@dataclass
class Program:
    """A loop: for each step, read rows of arrays, run nodes, write rows of arrays, and carry values to the next."""

    nodes: list[Node]
    reads: dict[int, Source]
    carried: list[tuple[int, int]]
    """Values that come from the step before, and what they become."""
    writes: dict[str, int] = field(default_factory=dict)
    """The arrays that are filled, and with which value."""
    shared: list[int] = field(default_factory=list)
    changes: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Buffers whose changes the forward loop notes, by number of the field: the value before and after the step."""
    rebuilt: dict[int, int] = field(default_factory=dict)
    """Buffers that the backward loop takes back step by step: the value before the step, by number of the field."""
    function: Any = None
    """What :mod:`._torch` made of it."""


@dataclass
class Plan:
    """All parts, in the order in which they run. Arrays have a row per row and step, and go by name:

    ``drive0``, ... what the loop is given; ``hoisted0``, ...; ``output``; ``state0``, ... the fields of the new state;
    ``kept0``, ...; ``grad`` of the output; ``out0``, ... what the backward loop leaves behind.
    """

    graph: Graph
    drives: list[int]
    states: list[int]
    weights: list[int]
    constants: list[tuple[int, Tensor]]
    outputs: list[int]
    before: list[Node]
    hoisted: list[Node]
    hoisted_arrays: dict[str, int]
    forward: Program
    kept: dict[str, int]
    """Arrays that the forward pass keeps for the backward pass: beside ``output``, which there is anyway."""
    backward: Program | None
    outgoing: list[Node]
    meets: list[Meet]
    after: list[Node]
    gradients: list[int | None]
    """dL/d of each drive, state and weight."""
    arriving: list[int | None]
    """dL/d of each field of the new state, as the backward loop is given it."""
    seen: dict[int, Source]
    """Where each row value that outgoing nodes and meets read lies."""
    functions: dict[bool, Any] = field(default_factory=dict)
    """What :mod:`._run` made of ``before``, for the forward pass alone and for both."""
    early: int = 0
    """So many of ``before`` are for the forward pass."""
    hoist_again: bool = False
    """Whether the backward pass reads products of the drive."""

    @property
    def gradient_loop(self) -> Program:
        """The backward loop, where there must be one."""
        if self.backward is None:
            raise CannotCompile("the step has no gradient")
        return self.backward

    def used_weights(self) -> set[int]:
        """The weights that some part reads, or that have a gradient."""
        nodes = [*self.before, *self.hoisted, *self.forward.nodes, *self.outgoing, *self.after]
        nodes += self.backward.nodes if self.backward else []
        read = {a for node in nodes for a in node.args}
        return {
            w for w, gradient in zip(self.weights, self._of_weights(), strict=True) if w in read or gradient is not None
        }

    def keep_weights(self, used: AbstractSet[int]) -> None:
        """Take those that are not used out of the lists."""
        pairs = [(w, g) for w, g in zip(self.weights, self._of_weights(), strict=True) if w in used]
        rows = self.gradients[: len(self.drives) + len(self.states)]
        self.weights, self.gradients = [w for w, _ in pairs], [*rows, *(g for _, g in pairs)]

    def _of_weights(self) -> list[int | None]:
        return self.gradients[len(self.drives) + len(self.states) :]


def make_plan(step: Lowered, hoist: bool = True, rebuild: bool = True) -> Plan:
    """Divide a step and its gradient into the parts of a plan.

    With ``rebuild`` a buffer (a field of two axes or more) is not kept at every step: the forward loop notes which of
    its slots change and what was in them, and the backward loop puts that back. Else it is kept whole.

    Without ``hoist`` the products of the drive stay in the loop: with a batch of several rows they are as fast there,
    and nothing of them is written to memory.
    """
    graph, n = Graph(list(step.graph.values), step.graph.nodes, step.graph.meets), step.forward
    values = graph.values
    first, second = graph.nodes[:n], graph.nodes[n:]
    output, new = step.outputs[0], step.outputs[1:]

    # The step: shared nodes before the loop, products of the drive for all rows at once, the rest in the loop.
    # Some of the step only its gradient reads: the place of a largest number, say.
    gradients = [gradient for gradient in step.gradients if gradient is not None]
    later, sums = _used_with_meets(second, gradients, {meet.result: meet for meet in graph.meets})
    read = [a for node in later for a in node.args]
    read += [a for meet in sums for a in (meet.left, meet.right) if a is not None]
    first = _used(first, [*step.outputs, *read])
    before = [node for node in first if node.kind == "shared" or not values[node.result].rows]
    rows = [node for node in first if node not in before]
    early = set(step.drives)  # values that depend on the drive and on weights alone
    for node in rows:
        if all(a in early or not values[a].rows for a in node.args):
            early.add(node.result)
    targets = [node.result for node in rows if hoist and node.kind == "product" and node.result in early]
    hoisted = _used(rows, targets, stop=set(step.drives))
    hoisted_arrays = {f"hoisted{k}": value for k, value in enumerate(targets)}
    found = {value: Source(name) for name, value in hoisted_arrays.items()}
    found |= {value: Source(f"drive{k}") for k, value in enumerate(step.drives)}
    body = _used(rows, step.outputs, stop=set(found) | set(step.states))
    forward = Program(body, {}, list(zip(step.states, new, strict=True)))
    forward.writes["output"] = output

    plan = Plan(
        graph, step.drives, step.states, step.weights, list(step.constants), step.outputs, before, hoisted,
        hoisted_arrays, forward, {}, None, [], [], [], step.gradients, step.grads[1:], {},
    )  # fmt: skip
    if any(gradient is not None for gradient in step.gradients):
        _plan_backward(plan, step, rows, second, found, rebuild)
    forward.reads = _reads(forward, found)
    forward.shared = _shared(graph, forward)
    plan.early = len(before)
    plan.before = before + [node for node in plan.before if node not in before]
    return plan


def _plan_backward(
    plan: Plan, step: Lowered, rows: list[Node], nodes: list[Node], found: dict[int, Source], rebuild: bool
) -> None:
    graph, values = plan.graph, plan.graph.values
    output, new = step.outputs[0], step.outputs[1:]
    met = {meet.result: meet for meet in graph.meets}
    roots = [gradient for gradient in step.gradients if gradient is not None]
    nodes, meets = _used_with_meets(nodes, roots, met)
    row_nodes = [node for node in nodes if values[node.result].rows]
    late = {meet.result for meet in meets}
    for node in nodes:
        if not values[node.result].rows:
            if any(a in late for a in node.args):
                late.update(node.results)
                plan.after.append(node)
            else:
                plan.before.append(node)
    plan.meets = meets

    # The chain of gradients through time stays in the loop; products that lead out of it wait for its end.
    to_states = [g for g in step.gradients[len(step.drives) :][: len(step.states)] if g is not None]
    chain = {node.result for node in _used(row_nodes, to_states)}
    leaving: set[int] = set()
    for node in row_nodes:
        if node.result not in chain and (node.kind == "product" or any(a in leaving for a in node.args)):
            leaving.add(node.result)
    inside = [node for node in row_nodes if node.result not in leaving]
    plan.outgoing = [node for node in row_nodes if node.result in leaving]

    # What of the step the gradient reads: kept, or computed again from what is kept.
    made = {node.result for node in row_nodes}
    given = {g for g in step.grads if g is not None}
    of_step = {node.result for node in rows} | set(step.states) | set(step.drives)
    wanted = [a for node in row_nodes for a in node.args]
    wanted += [a for meet in meets for a in (meet.left, meet.right) if a is not None] + roots
    needed = {a for a in wanted if a in of_step and values[a].rows and a not in made and a not in given}
    buffers = {k: s for k, s in enumerate(step.states) if rebuild and len(values[s].shape) > 1 and new[k] != output}
    free = set(found) | {output} | set(buffers.values())
    stored = {k for k, s in enumerate(step.states) if s in needed and new[k] != output and k not in buffers}
    free |= {new[k] for k in stored} | {s for k, s in enumerate(step.states) if new[k] == output or k in stored}
    cut = smallest_cut(graph, rows, needed, free, set(step.states), set(plan.hoisted_arrays.values()))
    for k, s in enumerate(step.states):
        if s in cut and k not in buffers:
            stored.add(k)
            cut.discard(s)
            free |= {s, new[k]}
    cut -= free
    kept: dict[str, int] = {f"state{k}": new[k] for k in sorted(stored)}
    kept |= {f"kept{k}": value for k, value in enumerate(sorted(cut))}
    plan.kept = kept
    plan.forward.writes |= kept
    plan.forward.nodes = _used(rows, [*step.outputs, *kept.values()], stop=set(found) | set(step.states))

    # Where the backward pass finds what it needs.
    where = dict(found) | {value: Source(name) for name, value in kept.items()}
    where[output] = Source("output")
    for k, s in enumerate(step.states):
        if new[k] == output:
            where[s] = Source("output", before=k)
        elif k in stored:
            where[s] = Source(f"state{k}", before=k)
    if step.grads[0] is not None:
        where[step.grads[0]] = Source("grad")

    outside = [a for node in plan.outgoing for a in node.args if values[a].rows and a not in leaving]
    outside += [a for meet in meets for a in (meet.left, meet.right) if a is not None and a not in leaving]
    drives = [g for g in step.gradients[: len(step.drives)] if g is not None]
    outside += [g for g in drives if g not in leaving]
    again = _used(rows, needed, stop=set(where) | set(buffers.values()))
    pairs = []
    for k, gradient in enumerate(step.gradients[len(step.drives) :][: len(step.states)]):
        arriving = step.grads[1 + k]
        if arriving is None:
            continue
        if gradient is None:
            value = values[arriving]
            gradient = graph.value(value.shape, value.dtype, True)
            inside.append(Node("fill", (), (gradient,), 0))
        pairs.append((arriving, gradient))
    loop = Program(again + inside, {}, pairs)
    carried = {a for a, _ in pairs} | set(buffers.values())
    emitted = [a for a in dict.fromkeys(outside) if a not in where]
    loop.writes = {f"out{k}": value for k, value in enumerate(emitted)}
    targets = [*emitted, *(b for _, b in pairs)]
    loop.nodes = _used(loop.nodes, targets, stop=set(where) | carried)
    read = {a for node in loop.nodes for a in node.args} | set(loop.writes.values())
    loop.rebuilt = {k: s for k, s in buffers.items() if s in read}
    plan.forward.changes = {k: (s, new[k]) for k, s in loop.rebuilt.items()}
    loop.reads = _reads(loop, where)
    loop.shared = _shared(graph, loop)
    plan.backward = loop
    plan.seen = where | {value: Source(name) for name, value in loop.writes.items()}
    sources = [*loop.reads.values(), *(plan.seen[a] for a in outside)]
    plan.hoist_again = any(source.array in plan.hoisted_arrays for source in sources)


def _used(nodes: list[Node], roots: Iterable[int], stop: set[int] | None = None) -> list[Node]:
    """The nodes that ``roots`` are made by; what is in ``stop`` is given."""
    wanted, kept = set(roots) - (stop or set()), []
    for node in reversed(nodes):
        if wanted.intersection(node.results):
            kept.append(node)
            wanted.update(a for a in node.args if not stop or a not in stop)
    return kept[::-1]


def _used_with_meets(nodes: list[Node], roots: list[int], met: dict[int, Meet]) -> tuple[list[Node], list[Meet]]:
    """As :func:`_used`, through the sums over rows, which are no nodes."""
    wanted, kept, sums, before = set(roots), [], [], -1
    while len(wanted) != before:
        before = len(wanted)
        kept = _used(nodes, wanted)
        wanted.update(a for node in kept for a in node.args)
        sums = [meet for result, meet in met.items() if result in wanted]
        wanted.update(a for meet in sums for a in (meet.left, meet.right) if a is not None)
    return kept, sums


def _reads(program: Program, found: dict[int, Source]) -> dict[int, Source]:
    wanted = [a for node in program.nodes for a in node.args] + [*program.writes.values()]
    wanted += [after for _, after in program.carried]
    made = {r for node in program.nodes for r in node.results} | {before for before, _ in program.carried}
    return {a: found[a] for a in dict.fromkeys(wanted) if a in found and a not in made}


def _shared(graph: Graph, program: Program) -> list[int]:
    wanted = [a for node in program.nodes for a in node.args if not graph.values[a].rows]
    return list(dict.fromkeys(wanted))
