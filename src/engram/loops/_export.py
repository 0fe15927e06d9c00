"""The loop as torch's ``scan`` operator: for export, and for torch.compile where a step has no plan.

``torch.export`` must record a layer for any number of steps, so the loop is one operation whose body is the step;
``torch.onnx.export`` makes an ONNX ``Scan`` of it. The body is made of torch's own operations.
"""

from typing import Any

import torch
from torch import Tensor

from engram.errors import OptionError
from engram.loops._module_views import tensors_of, with_tensors
from engram.maps import without_autocast
from engram.state import State, each, parts


def exporting() -> bool:
    """Whether torch.export or torch.onnx.export is running."""
    return bool(torch.compiler.is_exporting())


def fits_scan(cell: Any) -> bool:
    """Whether torch's scan takes a cell, with its gradients: torch 2.13 has none for complex numbers and integers."""
    kinds = [field.dtype or cell.reference_weight.dtype for field in parts(cell.fields())]
    return all(kind.is_floating_point for kind in kinds) and not any(field.grows for field in parts(cell.fields()))


def as_scan(
    cell: Any, input: Tensor, state: State, reverse: bool, read: tuple[str, ...] | None = None
) -> tuple[Tensor, State]:
    """``state = cell.step(drive_t, state)`` over ``(T, B, D)`` as one ``scan``; outputs ``(T, B, H)``, last state.

    Args:
        read: the tensors of the cell that its step reads; default: all. The gradient of one that is handed to the scan
            and not read there is wrong in the code that inductor of torch 2.13 generates.
    """
    if any(field.grows for field in parts(cell.fields())):
        raise OptionError(
            f"{type(cell).__name__} has a field that grows with time, and torch's scan takes states of one shape only. "
            "Export the network around it, or declare a field of fixed size"
        )
    own = tensors_of(cell)

    def inside() -> Any:
        """The cell with views of its weights made inside the step: scan refuses two tensors from outside that share
        memory, such as a weight and its transpose."""
        views = {name: own[name].view_as(own[name]) for name in (own if read is None else read)}
        return with_tensors(cell, own | views)

    with without_autocast(input):
        drive = cell.drive(input)
        return scan_steps(lambda d, s: inside().step(d, s), drive, state, reverse, lambda s: inside().output(s))


def scan_steps(step: Any, drive: Any, state: State, reverse: bool, output: Any) -> tuple[Tensor, State]:
    """As :func:`engram.loops.scan`, of sequences that are not packed."""
    from torch._higher_order_ops import scan  # takes a second to import

    form, several = each(lambda _: None, state), isinstance(drive, tuple)
    drives = [d.flip(0) if reverse else d for d in (drive if several else (drive,))]
    start = parts(state)
    complex_fields, complex_drives = ([tensor.is_complex() for tensor in tensors] for tensors in (start, drives))
    complex_output = [output(state).is_complex()]

    def body(fields: list[Tensor], drives: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        given = _numbers(drives, complex_drives)
        before = in_form(_numbers(fields, complex_fields), form)
        new = in_form(parts(step(tuple(given) if several else given[0], before)), form)
        # scan refuses results that share memory, with each other or with what came in
        return [pair.clone() for pair in _pairs(parts(new))], _pairs([output(new)])[0].clone()

    # torch 2.13 cannot differentiate a scan of complex numbers or integers: such a program is for inference
    real = all(tensor.is_floating_point() for tensor in (*start, *drives))
    with torch.set_grad_enabled(real and torch.is_grad_enabled()):
        final, outputs = scan(body, [pair.clone() for pair in _pairs(start)], _pairs(drives))
    (result,) = _numbers([outputs], complex_output)
    return result.flip(0) if reverse else result, in_form(_numbers(list(final), complex_fields), form)


def _pairs(tensors: list[Tensor]) -> list[Tensor]:
    """Complex numbers as pairs of real ones: the steps that scan cuts out of its inputs have no complex gradient
    (``select_copy``), and ONNX has no complex numbers."""
    return [torch.stack([t.real, t.imag], -1) if t.is_complex() else t for t in tensors]


def _numbers(tensors: list[Tensor], are_complex: list[bool]) -> list[Tensor]:
    """Back from :func:`_pairs`."""
    pairs = zip(tensors, are_complex, strict=True)
    return [torch.complex(t[..., 0], t[..., 1]) if is_complex else t for t, is_complex in pairs]


def in_form(tensors: list[Tensor], state: State) -> State:
    """Fields in the form of a state."""
    found = iter(tensors)
    return each(lambda _: next(found), state)
