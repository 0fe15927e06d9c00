"""From the operations that torch ran on a batch to what happens to one row (:mod:`._graph`)."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from engram.loops import _composites, _rules_choices, _rules_parts, _rules_products, _rules_sums  # noqa: F401  (rules)
from engram.loops._graph import Graph
from engram.loops._lowering import Lowering, Place
from engram.loops._rules import RULES, is_pointwise, pointwise, shared
from engram.loops._trace import Call, CannotCompile, Record, Ref


def _lower_call(w: Lowering, call: Call) -> None:
    """One operation: by its rule, as a pointwise one, or as one on shared values."""
    w.line = call.line
    inputs = [ref.number for ref in _refs((call.args, call.kwargs))]
    for n in inputs:
        w.enter(n)
    results = [n for n in call.results if n >= 0]
    if not any(map(w.is_rows, inputs)) and all(w.place(n) is None for n in results):
        shared(w, call)
        return
    if (found := RULES.get(call.function)) is not None:
        found(w, call)
    elif is_pointwise(call.function):
        pointwise(w, call)
    else:
        raise w.error(f"{call.function} is not known to work on each row alone")
    for n in results:
        if n in w.known:
            w.check(n)


def _refs(value: Any) -> list[Ref]:
    if isinstance(value, Ref):
        return [value]
    if isinstance(value, (tuple, list)):
        return [ref for item in value for ref in _refs(item)]
    if isinstance(value, dict):
        return _refs(list(value.values()))
    return []


@dataclass
class Lowered:
    """A step and its gradient, row by row. Lists of values are in the order of the record."""

    graph: Graph
    step_nodes: int
    """The number of nodes of the step; the nodes after them are those of its gradient."""
    drives: list[int]
    states: list[int]
    weights: list[int]
    constants: list[tuple[int, Tensor]]
    outputs: list[int]
    output_grads: list[int | None]
    gradients: list[int | None]


def lower(small: Record, large: Record) -> Lowered:
    """The rows of two records of the same step."""
    lowering = Lowering(small, large)
    given = [*small.drives, *small.states]
    for n in [*given, *small.weights, *small.constants, *(n for n in small.output_grads if n >= 0)]:
        lowering.enter(n)
    for n in given:
        if lowering.place(n) != Place(0, 1):
            raise CannotCompile("the drive and the state must have the batch as their first axis")
    for n in (*small.weights, *small.constants):
        if lowering.place(n) is not None:
            raise CannotCompile("the step makes a tensor out of the number of rows")
    for k, call in enumerate(small.calls):
        if k == small.step_calls:
            lowering.step_nodes, lowering.gradient = len(lowering.graph.nodes), True
        _lower_call(lowering, call)
    if not lowering.gradient:
        lowering.step_nodes = len(lowering.graph.nodes)
    for n in small.outputs:
        if lowering.place(n) != Place(0, 1):
            raise CannotCompile("a step must give a state and an output with the batch as their first axis")

    def found(n: int) -> int | None:
        return lowering.known[n] if n >= 0 else None

    def rows_of(n: int) -> int | None:
        """Gradients of rows must lie as their inputs do."""
        if n >= 0 and lowering.place(n) not in (None, Place(0, 1)):
            raise CannotCompile("a gradient has the batch on another axis than its input")
        return found(n)

    return Lowered(
        lowering.graph,
        lowering.step_nodes,
        [lowering.known[n] for n in small.drives],
        [lowering.known[n] for n in small.states],
        [lowering.known[n] for n in small.weights],
        [(lowering.known[n], small.tensors[n]) for n in small.constants],
        [lowering.known[n] for n in small.outputs],
        [found(n) for n in small.output_grads],
        [rows_of(n) for n in small.gradients],
    )
