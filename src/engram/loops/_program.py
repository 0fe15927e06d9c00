"""What a plan is made of: the programs of its two loops, and all that runs around them."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from engram.loops._graph import Graph, Node, RowSum
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
    puts: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The nodes that write slots of such a buffer, by their result: its field, and which of its writes it is."""
    rebuilt: dict[int, int] = field(default_factory=dict)
    """Buffers that the backward loop takes back step by step, by number of the field: the value that it reads."""
    late: set[int] = field(default_factory=set)
    """Those of ``rebuilt`` that are read as they are after a step, and taken back at its end; else at its start."""
    functions: dict[tuple[str, ...], Any] = field(default_factory=dict)
    """What :mod:`._torch_step` made of it, by the arrays that are filled."""


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
    """Arrays that the forward pass keeps for the backward pass, in addition to ``output``."""
    backward: Program | None
    outgoing: list[Node]
    row_sums: list[RowSum]
    after: list[Node]
    gradients: list[int | None]
    """dL/d of each drive, state and weight."""
    arriving: list[int | None]
    """dL/d of each field of the new state, as the backward loop is given it."""
    sources: dict[int, Source]
    """Where to find each row value that outgoing nodes and sums over rows read."""
    functions: dict[bool | str, Any] = field(default_factory=dict)
    """What :mod:`._run` made of ``before``, for the forward pass alone and for both; of ``after``, by that name."""
    forward_nodes: int = 0
    """How many nodes of ``before`` the forward pass needs; they come first."""
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
        """Remove the other weights from the lists."""
        pairs = [(w, g) for w, g in zip(self.weights, self._of_weights(), strict=True) if w in used]
        rows = self.gradients[: len(self.drives) + len(self.states)]
        self.weights, self.gradients = [w for w, _ in pairs], [*rows, *(g for _, g in pairs)]

    def _of_weights(self) -> list[int | None]:
        return self.gradients[len(self.drives) + len(self.states) :]


def used(nodes: list[Node], roots: Iterable[int], stop: set[int] | None = None) -> list[Node]:
    """The nodes that ``roots`` are made by; what is in ``stop`` is given."""
    wanted, kept = set(roots) - (stop or set()), []
    for node in reversed(nodes):
        if wanted.intersection(node.results):
            kept.append(node)
            wanted.update(a for a in node.args if not stop or a not in stop)
    return kept[::-1]


def used_with_sums(nodes: list[Node], roots: list[int], made_by: dict[int, RowSum]) -> tuple[list[Node], list[RowSum]]:
    """As :func:`used`, through the sums over rows, which are no nodes."""
    wanted, kept, sums, before = set(roots), [], [], -1
    while len(wanted) != before:
        before = len(wanted)
        kept = used(nodes, wanted)
        wanted.update(a for node in kept for a in node.args)
        sums = [row_sum for result, row_sum in made_by.items() if result in wanted]
        wanted.update(a for row_sum in sums for a in (row_sum.left, row_sum.right) if a is not None)
    return kept, sums


def reads_of(program: Program, found: dict[int, Source]) -> dict[int, Source]:
    """Which of the values that are found in arrays a program reads."""
    wanted = [a for node in program.nodes for a in node.args] + [*program.writes.values()]
    wanted += [after for _, after in program.carried]
    made = {r for node in program.nodes for r in node.results} | {before for before, _ in program.carried}
    return {a: found[a] for a in dict.fromkeys(wanted) if a in found and a not in made}


def shared_of(graph: Graph, program: Program) -> list[int]:
    """The shared values that a program reads."""
    wanted = [a for node in program.nodes for a in node.args if not graph.values[a].rows]
    return list(dict.fromkeys(wanted))
