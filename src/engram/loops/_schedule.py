"""In which order C runs the nodes of a step with buffers: with few passes over a buffer, and few copies of it."""

from engram.loops._graph import Graph, Node

WRITES = ("put", "scatter_add")
"""They change a buffer in its place if nobody reads it afterwards."""
FUSED = ("pointwise", "fill")


def scheduled(graph: Graph, nodes: list[Node]) -> list[Node]:
    """The nodes in an order in which they can run.

    Pointwise nodes of one shape come together, since they run in one loop; what writes a slot waits till everybody has
    read the buffer. A step without buffers stays as it is.
    """
    if not any(node.kind in WRITES for node in nodes):
        return nodes
    made = {node.result for node in nodes}
    missing = {id(node): {a for a in node.args if a in made} for node in nodes}
    left, found = list(nodes), list[Node]()
    shape: tuple[int, ...] | None = None
    while left:
        ready = [node for node in left if not missing[id(node)]]
        chosen = _next(graph, ready, shape)
        if chosen.kind in FUSED:
            shape = graph.values[chosen.result].shape
        elif chosen.kind not in ("reshape", "permute", "expand", "slice"):
            shape = None
        found.append(chosen)
        left.remove(chosen)
        for node in left:
            missing[id(node)].discard(chosen.result)
    return found


def _next(graph: Graph, ready: list[Node], shape: tuple[int, ...] | None) -> Node:
    """Of those that can run: one for the loop that is open, else the first that does not write a slot."""
    views = [n for n in ready if n.kind in ("reshape", "permute", "expand", "slice")]
    same = [n for n in ready if n.kind in FUSED and graph.values[n.result].shape == shape]
    others = [n for n in ready if n.kind not in WRITES]
    return next(iter(same or views or others or ready))
