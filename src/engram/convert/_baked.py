"""An exported program with everything computed beforehand that depends only on the weights.

Such as the matrix of a map or the discrete form of a state space system: a file would compute them at every call, often
with operations (a matrix exponential, complex numbers) that ONNX does not have.
"""

from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram


@torch.no_grad()
def baked(program: ExportedProgram) -> fx.GraphModule:
    """The program as a module in which these values are stored tensors."""
    module = program.run_decompositions({}).module(check_guards=False)  # without operations in place
    values: dict[fx.Node, Any] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value = _attribute(module, node.target)
            if isinstance(value, Tensor):
                values[node] = value
        elif node.op == "call_function" and _is_fixed(node.target) and all(n in values for n in node.all_input_nodes):
            args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
    for number, (node, value) in enumerate(list(values.items())):
        needed = any(user not in values for user in node.users)
        if node.op == "call_function" and isinstance(value, Tensor) and needed:
            name = f"baked_{number}"
            module.register_buffer(name, value.detach().clone())
            with module.graph.inserting_before(node):
                node.replace_all_uses_with(module.graph.get_attr(name), lambda user: user not in values)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def _is_fixed(operation: Any) -> bool:
    """Whether an operation always gives the same result."""
    return torch.Tag.nondeterministic_seeded not in getattr(operation, "tags", ())


def _attribute(module: nn.Module, path: str) -> Any:
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value
