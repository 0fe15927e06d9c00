"""How a step changes a buffer: by writing a known number of slots, or in any way at all."""

from engram.loops._graph import Graph, Node
from engram.loops._program import Plan


def written_slots(graph: Graph, nodes: list[Node], before: int, after: int) -> list[int]:
    """The results of the ``put`` nodes, in their order, that make ``after`` of ``before``; none if others take part."""
    makers = {node.result: node for node in nodes}
    found: list[int] = []
    while after != before:
        node = makers.get(after)
        if node is None or node.kind != "put" or node.info != 0 or not _is_one_slot(graph, makers, node):
            return []
        found.append(after)
        after = node.args[0]
    return found[::-1]


def _is_one_slot(graph: Graph, makers: dict[int, Node], put: Node) -> bool:
    """Whether one number says where all entries of a slot are written."""
    base, index, _ = put.args
    maker = makers.get(index)
    source = maker.args[0] if maker is not None and maker.kind == "expand" else index
    return graph.values[source].size == 1 and graph.values[index].shape[1:] == graph.values[base].shape[1:]


def records(plan: Plan, field: int) -> int:
    """How many slots of a buffer a step may change: as many as it writes, or all."""
    writes = sum(1 for k, _ in plan.forward.puts.values() if k == field)
    before, _ = plan.forward.changes[field]
    return writes or plan.graph.values[before].shape[0]


def record_bytes(plan: Plan) -> int:
    """Bytes per row and step of what changed slots held."""
    total = 0
    for k, (before, _) in plan.forward.changes.items():
        kind = plan.graph.values[before]
        total += records(plan, k) * (kind.size // max(1, kind.shape[0])) * kind.dtype.itemsize
    return total
