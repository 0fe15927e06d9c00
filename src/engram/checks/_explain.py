"""Which loop a layer runs, and why: the answer to "is my cell compiled?"."""

import linecache
from collections import Counter
from dataclasses import dataclass

from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from engram.errors import DTypeError
from engram.loops import chosen, compiled_cell
from engram.nn._bare_cell import BareCell
from engram.nn._parametrized import written_class


@dataclass(frozen=True)
class CellLoop:
    """How one cell runs.

    Attributes:
        name: of the cell in the layer.
        kind: its class.
        executor: ``compiled`` (generated C), ``torch`` (torch operations), ``plain`` (the Python loop) or ``own`` (what
            the cell's own ``run`` does).
        reason: where the compiled loop comes from, or why there is none.
        line: the line of somebody's step that stands in the way, as ``file:number``; empty if none does.
        products: per step, in the forward and in the backward loop.
        kept: numbers that the backward pass keeps per row and step, the output included.
    """

    name: str
    kind: str
    executor: str
    reason: str
    line: str = ""
    products: tuple[int, int] = (0, 0)
    kept: int = 0

    def __str__(self) -> str:
        head = f"{self.name} ({self.kind}): "
        if self.executor == "plain":
            where = f"\n    {self.line}: {_text(self.line)}" if self.line else ""
            return f"{head}plain Python loop, because {self.reason}{where}"
        if self.executor == "own":
            return f"{head}{self.reason}"
        how = "generated C" if self.executor == "compiled" else "torch operations"
        forward, backward = self.products
        return (
            f"{head}{how} ({self.reason})\n    products per step: {forward} forward, {backward} backward; "
            f"kept for the backward pass: {self.kept} numbers per row and step"
        )


@dataclass(frozen=True)
class Explanation:
    """What :func:`explain` found. ``print`` it."""

    cells: tuple[CellLoop, ...]
    """One entry per cell, from the first layer up."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.cells))


def explain(layer: nn.Module) -> Explanation:
    """Say which loop each cell of a layer runs, and why: generated C, torch operations, or a Python loop.

    Args:
        layer: a layer, a cell, or any module that holds some.

    Returns:
        an :class:`Explanation`, to be printed.

    >>> from engram.nn import RNN
    >>> print(explain(RNN(2, 3)))  # doctest: +ELLIPSIS
    cells.0 (RNNCell): ...
    """
    if not isinstance(layer, nn.Module):
        raise DTypeError(f"explain takes a layer, made already: explain(LSTM(3, 5)); got {layer!r:.60}")
    found = [_cell(name, module) for name, module in layer.named_modules() if isinstance(module, BareCell)]
    if not found:
        raise DTypeError(f"explain takes a layer with cells of engram.nn.BareCell, got {type(layer).__name__}")
    return Explanation(tuple(found))


def _cell(name: str, cell: BareCell) -> CellLoop:
    loop = compiled_cell(cell)
    name, kind = name or "cell", (written_class(cell) if is_parametrized(cell) else type(cell)).__name__
    if chosen() == "plain":
        return CellLoop(name, kind, "plain", "it was asked for (engram.loops.use, ENGRAM_LOOP)")
    if cell.own_run and type(cell).run is not BareCell.run:
        return CellLoop(name, kind, "own", cell.own_run)
    if loop.traced is None:
        return CellLoop(name, kind, "plain", loop.reason, loop.line)
    weight = cell.reference_weight
    variant = loop.choose(weight, batch=64)
    plan, compiled = variant.plan, variant.loops is not None and variant.executor(weight) is variant.loops
    if variant.loops is None:
        reason = f"C has no loop for {weight.dtype} on {weight.device}"
    else:
        reason = variant.loops.reason() if chosen() != "torch" else "asked for"
    if type(cell).run is not BareCell.run:
        reason += "; by its run() it may take another way"
    values = plan.graph.values
    programs = [plan.forward, *([plan.backward] if plan.backward else [])]
    products = [Counter(node.kind for node in program.nodes)["product"] for program in programs]
    kept = values[plan.outputs[0]].size + sum(values[value].size for value in plan.kept.values())
    executor = "compiled" if compiled else "torch"
    return CellLoop(name, kind, executor, reason, "", (products[0], products[-1] if plan.backward else 0), kept)


def _text(line: str) -> str:
    """The source of ``file:number``."""
    file, _, number = line.rpartition(":")
    return linecache.getline(file, int(number)).strip() if number.isdigit() else ""
