"""How a step is run over time: what runs outside the loop, what is kept for the backward pass, what is computed again.

The forward pass of a chunk of steps is: products of the drive for all its rows at once (``hoisted``), then the loop
(:attr:`Plan.forward`). The backward pass of a chunk is: those products again, the loop backwards
(:attr:`Plan.backward`), then for all its rows at once the products that only lead out of the loop (``outgoing``: the
gradient of the drive) and the sums over rows that are the gradients of weights (``row_sums``). What concerns weights
alone runs once, before the loop (``before``) or after it (``after``).
"""

from collections import Counter

import torch

from engram.loops._graph import Graph, Node, Value
from engram.loops._lower import Lowered
from engram.loops._plan_gradient import GradientPlan
from engram.loops._program import Plan, Program, Source, reads_of, shared_of, used, used_with_sums


def make_plan(step: Lowered, hoist: bool = True, rebuild: bool = True) -> Plan:
    """Divide a step and its gradient into the parts of a plan.

    With ``rebuild`` a buffer (a field of two axes or more) is not kept at every step: the forward loop notes which of
    its slots change and what was in them, and the backward loop puts that back. Else it is kept whole.

    Without ``hoist`` the products of the drive stay in the loop: with a batch of several rows they are as fast there,
    and nothing of them is written to memory.
    """
    graph, n = Graph(list(step.graph.values), step.graph.nodes, step.graph.row_sums), step.step_nodes
    values = graph.values
    first, second = graph.nodes[:n], graph.nodes[n:]
    output, new = step.outputs[0], step.outputs[1:]

    # The step: shared nodes before the loop, products of the drive for all rows at once, the rest in the loop.
    # Some values of the step are read by its gradient alone, such as the place of a largest number.
    gradients = [gradient for gradient in step.gradients if gradient is not None]
    later, sums = used_with_sums(second, gradients, {row_sum.result: row_sum for row_sum in graph.row_sums})
    read = [a for node in later for a in node.args]
    read += [a for row_sum in sums for a in (row_sum.left, row_sum.right) if a is not None]
    first = used(first, [*step.outputs, *read])
    before = [node for node in first if node.kind == "shared" or not values[node.result].rows]
    rows = [node for node in first if node not in before]
    early = set(step.drives)  # values that depend on the drive and on weights alone
    for node in rows:
        if all(a in early or not values[a].rows for a in node.args):
            early.add(node.result)
    targets = _targets(rows, early, values, {*step.outputs, *read}) if hoist else []
    hoisted = _with_bias(used(rows, targets, stop=set(step.drives)), set(targets), values)
    hoisted_arrays = {f"hoisted{k}": value for k, value in enumerate(targets)}
    found = {value: Source(name) for name, value in hoisted_arrays.items()}
    found |= {value: Source(f"drive{k}") for k, value in enumerate(step.drives)}
    body = used(rows, step.outputs, stop=set(found) | set(step.states))
    forward = Program(body, {}, list(zip(step.states, new, strict=True)))
    forward.writes["output"] = output

    plan = Plan(
        graph, step.drives, step.states, step.weights, list(step.constants), step.outputs, list(before), hoisted,
        hoisted_arrays, forward, {}, None, [], [], [], step.gradients, step.output_grads[1:], {},
    )  # fmt: skip
    if gradients:
        GradientPlan(plan, step, rows, later, sums, found, rebuild)
    forward.reads = reads_of(forward, found)
    forward.shared = shared_of(graph, forward)
    plan.forward_nodes = len(before)
    plan.before = before + [node for node in plan.before if node not in before]
    return plan


def _targets(rows: list[Node], early: set[int], values: list[Value], read: set[int]) -> list[int]:
    """What is computed for all rows at once: products of the drive, and what is made of them number by number."""
    inside: set[int] = set()
    for node in rows:
        made = [a for a in node.args if a in inside]
        grows = made and values[node.result].size > max(values[a].size for a in made)
        if node.result in early and (node.kind == "product" or (node.kind == "pointwise" and made and not grows)):
            inside.add(node.result)
    for node in rows:
        if node.result not in inside:
            read |= set(node.args)
    return [node.result for node in rows if node.result in inside & read]


def _with_bias(nodes: list[Node], wanted: set[int], values: list[Value]) -> list[Node]:
    """A vector that is added to a product becomes the product's third operand: one pass less over the rows."""
    uses = Counter(a for node in nodes for a in node.args) + Counter(wanted)
    makers = {node.result: node for node in nodes}
    taken, found = set(), []
    for node in nodes:
        if node.kind == "pointwise" and node.info[0] is torch.ops.aten.add.Tensor and not node.info[2]:
            first, *second = node.args
            product, same = makers.get(first), values[first].dtype == values[node.result].dtype
            if product and second and same and product.kind == "product" and uses[first] == 1:
                bias, shape = values[second[0]], values[first].shape
                if not bias.rows and bias.shape == shape[-1:] and bias.dtype == values[first].dtype:
                    node = Node("product", (*product.args, second[0]), node.results, None, node.line)
                    taken.add(first)
        found.append(node)
    return [node for node in found if node.result not in taken]
