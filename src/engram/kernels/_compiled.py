"""The additive loop in C (additive.c), called through ctypes: real float32 and float64 on the CPU.

The same two signatures as :mod:`engram.kernels._eager`, which says what they compute. ctypes lets go of the
interpreter lock for the length of a call, so several Python threads can be inside at once.
"""

from ctypes import c_int, c_int64, c_void_p

import torch
from torch import Tensor

from engram.errors import ShapeError
from engram.kernels._activations import ACTIVATIONS
from engram.kernels._build import library
from engram.kernels._steps import offsets

# The C enum numbers the activations in the order of ACTIVATIONS.


def forward_loop(
    states: Tensor,
    weight: Tensor,
    start: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
    gate: Tensor | None = None,
    given: int | None = None,
) -> Tensor:
    """Turn the drive in ``states`` into the states, and ``gate`` into W h_{t-1}; returns the last state."""
    batch, hidden = states.shape[1] if sizes is None else int(sizes[0]), states.shape[-1]
    _check("weight_hh", weight, (hidden, hidden), states)
    _check("start", start, (batch, hidden), states)
    _check("mod_bias", mod_bias, (hidden,), states)
    _check("gate", gate, tuple(states.shape), states)
    final = torch.empty_like(start, memory_format=torch.contiguous_format)
    arrays = (weight, start, mod_bias, gate, states, final)
    _call("additive_forward", states, sizes, activation, reverse, given, len(start), *arrays)
    return final


def backward_loop(
    grad_states: Tensor | None,
    grad_final: Tensor | None,
    states: Tensor,
    weight: Tensor,
    mod_bias: Tensor | None,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
    dz: Tensor,
    gate: Tensor | None = None,
    given: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Write dL/dz of all steps to ``dz``; returns the gradients of start, bias and mod_bias."""
    hidden = states.shape[-1]
    batch = states.shape[1] if sizes is None else int(sizes[0])
    grad_start, grad_bias, grad_mod = dz.new_zeros(batch, hidden), dz.new_zeros(hidden), dz.new_zeros(hidden)
    inputs = (weight, states, grad_states, grad_final, gate)
    results = (dz, grad_start, grad_bias, grad_mod)
    _call("additive_backward", states, sizes, activation, reverse, given, batch, *inputs, *results)
    return grad_start, grad_bias, grad_mod


def _check(name: str, array: Tensor | None, shape: tuple[int, ...], states: Tensor) -> None:
    """C would read whatever lies there."""
    if array is not None and (array.shape != shape or array.dtype != states.dtype):
        raise ShapeError(
            f"{name} must be {shape} of {states.dtype}, like the input, got {tuple(array.shape)} of {array.dtype}"
        )


def _call(
    name: str,
    states: Tensor,
    sizes: Tensor | None,
    activation: str,
    reverse: bool,
    given: int | None,
    batch: int,
    *arrays: Tensor | None,
) -> None:
    """Call the C function. Strided inputs are copied; what it writes to is contiguous by construction."""
    loops = library(states.dtype)
    if loops is None:
        raise RuntimeError(f"no compiled loop for {states.dtype}")
    first = None if sizes is None else torch.tensor(offsets(sizes))
    steps = states.shape[0] if sizes is None else len(sizes)
    layout = [None if array is None else array.contiguous() for array in (sizes, first)]
    kept = [None if array is None else array.contiguous() for array in arrays]  # alive until the call is over
    failed = loops[name](
        c_int64(steps),
        c_int64(batch),
        c_int64(states.shape[-1]),
        *map(_pointer, layout),
        c_int64(batch if given is None else given),
        c_int(ACTIVATIONS.index(activation)),
        c_int(reverse),
        c_int(torch.get_num_threads()),
        *map(_pointer, kept),
    )
    if failed:
        raise MemoryError(f"{name}: out of memory for hidden_size={states.shape[-1]}, batch={batch}")


def _pointer(array: Tensor | None) -> c_void_p:
    return c_void_p(None if array is None else array.data_ptr())
