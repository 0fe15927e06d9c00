"""Which values of a step to keep for its gradient: as few numbers as possible.

No product is computed twice, except one of few inputs, which costs less than keeping its result; nor are the sums of
the slots of a buffer. So every path from one of these, or from the state before, to a value that the gradient reads
must pass through a value that is kept: a smallest vertex cut, found by maximum flow (Ford and Fulkerson 1956) on a
graph of a few dozen nodes. Of several smallest cuts the one nearest to the gradient is taken, which leaves the least to
compute again.
"""

from collections import defaultdict, deque

from engram.loops._graph import Graph, Node

INFINITE = 1 << 60
FEW_INPUTS = 16
"""A product of at most this many inputs takes less time than to write its result to memory and to read it again."""


def smallest_cut(
    graph: Graph, nodes: list[Node], needed: set[int], free: set[int], states: set[int], hoisted: set[int]
) -> set[int]:
    """The values to keep.

    Args:
        nodes: of the step, rows only.
        needed: the values that the gradient reads.
        free: values that are in memory anyway.
        states: what comes from the step before.
        hoisted: products of the drive, which are computed again for all rows at once.
    """
    rows = graph.values
    capacity: dict[tuple[object, object], int] = defaultdict(int)
    source, sink = "source", "sink"

    def limit(value: int) -> int:
        return 0 if value in free or value in hoisted else max(1, rows[value].size) * rows[value].dtype.itemsize

    def cheap(product: Node) -> bool:
        return product.args[0] not in inside and rows[product.args[0]].shape[-1] <= FEW_INPUTS

    def is_sum_of_slots(node: Node) -> bool:
        """One number for each line of a buffer: a pass over all of it."""
        last = len(rows[node.args[0]].shape) - 1 if node.args else 0
        return node.kind == "reduce" and node.info[0] == "sum" and last > 0 and last in node.info[1]

    inside = {node.result for node in nodes} | states
    for value in inside:
        capacity[(value, "in"), (value, "out")] = limit(value)
    for node in nodes:
        if (node.kind == "product" and node.result not in hoisted and not cheap(node)) or is_sum_of_slots(node):
            capacity[source, (node.result, "in")] = INFINITE
            continue
        for a in node.args:
            if a in inside:
                capacity[(a, "out"), (node.result, "in")] = INFINITE
    for value in states:
        capacity[source, (value, "in")] = INFINITE
    for value in needed & inside:
        capacity[(value, "out"), sink] = INFINITE
    residual = _saturate(capacity, source, sink)
    reaching = _reaching(residual, sink)
    return {v for v in inside if (v, "out") in reaching and (v, "in") not in reaching and limit(v) > 0}


def _saturate(
    capacity: dict[tuple[object, object], int], source: object, sink: object
) -> dict[object, dict[object, int]]:
    """What is left of the capacities when as much as possible flows from source to sink."""
    residual: dict[object, dict[object, int]] = defaultdict(lambda: defaultdict(int))
    for (a, b), c in capacity.items():
        residual[a][b] += c
    while path := _path(residual, source, sink):
        flow = min(residual[a][b] for a, b in path)
        for a, b in path:
            residual[a][b] -= flow
            residual[b][a] += flow
    return residual


def _path(residual: dict[object, dict[object, int]], source: object, sink: object) -> list[tuple[object, object]]:
    parent: dict[object, object] = {source: source}
    queue = deque([source])
    while queue:
        a = queue.popleft()
        for b, capacity in list(residual[a].items()):
            if capacity > 0 and b not in parent:
                parent[b] = a
                if b == sink:
                    path = []
                    while b != source:
                        path.append((parent[b], b))
                        b = parent[b]
                    return path
                queue.append(b)
    return []


def _reaching(residual: dict[object, dict[object, int]], sink: object) -> set[object]:
    """All nodes from which the sink can still be reached."""
    incoming: dict[object, list[object]] = defaultdict(list)
    for a, edges in residual.items():
        for b, capacity in edges.items():
            if capacity > 0:
                incoming[b].append(a)
    found, queue = {sink}, deque([sink])
    while queue:
        for a in incoming[queue.popleft()]:
            if a not in found:
                found.add(a)
                queue.append(a)
    return found
