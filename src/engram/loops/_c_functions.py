"""Pointwise torch operations as C expressions.

``{0}, {1}, ...`` are the operands, ``{f}`` is ``v`` in a loop over vectors and ``s`` in one over single numbers
(``loop_math.h``). Operands that are Python numbers come as names of numbers that the loop is given.
"""

from collections.abc import Callable
from typing import Any

import torch

from engram.loops._trace import Ref

aten = torch.ops.aten

UNARY = {
    aten.neg: "-{0}",
    aten.tanh: "tanh_{f}({0})",
    aten.sigmoid: "sigmoid_{f}({0})",
    aten.exp: "exp_{f}({0})",
    aten.expm1: "expm1_{f}({0})",
    aten.log: "log_{f}({0})",
    aten.log1p: "log1p_{f}({0})",
    aten.log2: "log2_{f}({0})",
    aten.sqrt: "sqrt_{f}({0})",
    aten.rsqrt: "(REAL)1 / sqrt_{f}({0})",
    aten.reciprocal: "(REAL)1 / {0}",
    aten.square: "{0} * {0}",
    aten.sin: "sin_{f}({0})",
    aten.cos: "cos_{f}({0})",
    aten.tan: "tan_{f}({0})",
    aten.asin: "asin_{f}({0})",
    aten.acos: "acos_{f}({0})",
    aten.atan: "atan_{f}({0})",
    aten.sinh: "sinh_{f}({0})",
    aten.cosh: "cosh_{f}({0})",
    aten.erf: "erf_{f}({0})",
    aten.floor: "floor_{f}({0})",
    aten.ceil: "ceil_{f}({0})",
    aten.trunc: "trunc_{f}({0})",
    aten.abs: "abs_{f}({0})",
    aten.sgn: "sign_{f}({0})",
    aten.sign: "sign_{f}({0})",
    aten.relu: "relu_{f}({0})",
    aten.logical_not: "!{0}",
    aten.bitwise_not: "~{0}",
    aten.isnan: "{0} != {0}",
    aten.silu: "{0} * sigmoid_{f}({0})",
}
BINARY = {
    aten.mul: "{0} * {1}",
    aten.div: "{0} / {1}",
    aten.maximum: "max_{f}({0}, {1})",
    aten.minimum: "min_{f}({0}, {1})",
    aten.clamp_min: "max_{f}({0}, {1})",
    aten.clamp_max: "min_{f}({0}, {1})",
    aten.atan2: "atan2_{f}({0}, {1})",
    aten.fmod: "fmod_{f}({0}, {1})",
    aten.hypot: "hypot_{f}({0}, {1})",
    aten.eq: "{0} == {1}",
    aten.ne: "{0} != {1}",
    aten.lt: "{0} < {1}",
    aten.le: "{0} <= {1}",
    aten.gt: "{0} > {1}",
    aten.ge: "{0} >= {1}",
    aten.logical_and: "{0} & {1}",
    aten.logical_or: "{0} | {1}",
    aten.logical_xor: "{0} ^ {1}",
    aten.bitwise_and: "{0} & {1}",
    aten.bitwise_or: "{0} | {1}",
    aten.bitwise_xor: "{0} ^ {1}",
    aten.tanh_backward: "{0} * ((REAL)1 - {1} * {1})",
    aten.sigmoid_backward: "{0} * (((REAL)1 - {1}) * {1})",
    aten.leaky_relu: "leaky_{f}({0}, {1})",
}
TERNARY = {
    aten.where: "where_{f}({0}, {1}, {2})",
    aten.threshold_backward: "threshold_{f}({0}, {1}, {2})",
    aten.addcmul: "{0} + {1} * {2}",
    aten.addcdiv: "{0} + {1} / {2}",
    aten.lerp: "{0} + {2} * ({1} - {0})",
}
SIMPLE = {**UNARY, **BINARY, **TERNARY}
ONLY_REAL = {  # of integers C and torch would not agree
    *(f for f in UNARY if f not in (aten.neg, aten.logical_not, aten.bitwise_not, aten.isnan)),
    aten.pow, aten.clamp, aten.div, aten.maximum, aten.minimum, aten.clamp_min, aten.clamp_max, aten.fmod, aten.atan2,
    aten.hypot,
}  # fmt: skip


ONLY_INTEGER = {aten.remainder}


def expression(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, list[Any]] | None:
    """A template and its operands (:class:`Ref` or numbers); None for an operation that C does not have."""
    kind, special = function.overloadpacket, SPECIAL.get(function.overloadpacket)
    if special is not None:
        return special(*args, **kwargs)
    template = SIMPLE.get(kind)
    if template is None or kwargs:
        return None
    wanted = 1 if kind in UNARY else 2 if kind in BINARY else 3
    operands = list(args)
    if kind is aten.leaky_relu and len(operands) == 1:
        operands.append(0.01)
    return (template, operands) if len(operands) == wanted else None


Special = Callable[..., tuple[str, list[Any]] | None]


def _add(a: Any, b: Any, *, alpha: Any = 1) -> tuple[str, list[Any]]:
    return ("{0} + {1}", [a, b]) if alpha == 1 else ("{0} + {2} * {1}", [a, b, alpha])


def _sub(a: Any, b: Any, *, alpha: Any = 1) -> tuple[str, list[Any]]:
    return ("{0} - {1}", [a, b]) if alpha == 1 else ("{0} - {2} * {1}", [a, b, alpha])


def _rsub(a: Any, b: Any, alpha: Any = 1) -> tuple[str, list[Any]]:
    return _sub(b, a, alpha=alpha)


def _pow(a: Any, b: Any) -> tuple[str, list[Any]]:
    if not isinstance(b, Ref):
        for power, template in ((2, "{0} * {0}"), (1, "{0}"), (3, "{0} * {0} * {0}"), (-1, "(REAL)1 / {0}")):
            if b == power:
                return template, [a]
        if b == 0.5:
            return "sqrt_{f}({0})", [a]
    return "pow_{f}({0}, {1})", [a, b]


def _clamp(x: Any, low: Any = None, high: Any = None) -> tuple[str, list[Any]] | None:
    if high is None:
        return "max_{f}({0}, {1})", [x, low]
    return ("min_{f}({0}, {1})", [x, high]) if low is None else ("min_{f}(max_{f}({0}, {1}), {2})", [x, low, high])


def _masked_fill(x: Any, mask: Any, value: Any) -> tuple[str, list[Any]]:
    return "where_{f}({0}, {2}, {1})", [mask, x, value]


def _softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> tuple[str, list[Any]]:
    return "where_{f}({0} * {1} > {2}, {0}, log1p_{f}(exp_{f}({0} * {1})) / {1})", [x, beta, threshold]


def _softplus_backward(g: Any, x: Any, beta: Any, threshold: Any) -> tuple[str, list[Any]]:
    return "where_{f}({1} * {2} > {3}, {0}, {0} * sigmoid_{f}({1} * {2}))", [g, x, beta, threshold]


def _leaky_backward(g: Any, x: Any, slope: Any, is_result: bool) -> tuple[str, list[Any]]:
    return "where_{f}({1} > {3}, {0}, {0} * {2})", [g, x, slope, 0.0]


def _silu_backward(g: Any, x: Any) -> tuple[str, list[Any]]:
    s = "sigmoid_{f}({1})"
    return f"{{0}} * ({s} * ((REAL)1 + {{1}} * ((REAL)1 - {s})))", [g, x]


def _remainder(a: Any, b: Any) -> tuple[str, list[Any]] | None:
    """Of whole numbers, with the sign of the divisor; a slot of a ring buffer is counted so."""
    return ("(({0} % {1}) + {1}) % {1}", [a, b]) if isinstance(b, int) and b > 0 else None


SPECIAL: dict[Any, Special] = {
    aten.add: _add,
    aten.sub: _sub,
    aten.rsub: _rsub,
    aten.pow: _pow,
    aten.clamp: _clamp,
    aten.masked_fill: _masked_fill,
    aten.softplus: _softplus,
    aten.softplus_backward: _softplus_backward,
    aten.leaky_relu_backward: _leaky_backward,
    aten.silu_backward: _silu_backward,
    aten.remainder: _remainder,
}
