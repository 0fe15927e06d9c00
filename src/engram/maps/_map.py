"""The protocol of a map, on top of ``torch.nn.utils.parametrize``."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from engram.errors import DTypeError, ManifoldError, ShapeError, check_size
from engram.maps._transforms import members, per_member, without_autocast

HALF = (torch.bfloat16, torch.float16)

FreeParameters = Tensor | tuple[Tensor, ...]
"""The free parameters of a map: one real tensor, or several."""


class Map(nn.Module, ABC):
    """A square matrix that keeps a property (its promise), computed from free parameters.

    ``register_parametrization(module, "weight", SomeMap(n))`` makes ``module.weight`` keep the property however the
    free parameters are trained. Any module with a square weight will do; engram's layers take a map by name, and
    :func:`engram.maps.orthogonal` does it in one line.

    Who uses a map calls five methods: ``forward`` (free parameters to matrix), ``right_inverse`` (matrix to free
    parameters), ``contains``, ``sample`` and ``extra_repr``. Who writes one defines ``forward``, ``free``, ``distance``
    and ``sample_free``, from which the others follow. Maps with a structure add ``operate`` (W x without building W),
    those with a soft constraint ``penalty``, and those that do something between optimiser steps ``after_step``.

    Args:
        size (int): N, for matrices ``(N, N)``.
    """

    promise: ClassVar[str]
    """What holds for every matrix of this map, in one line."""
    equation: ClassVar[str]
    count: ClassVar[str]
    """The number of free parameters, as a formula."""
    apply_cost: ClassVar[str] = "N^2"
    """The order of one product with a vector."""
    build_cost: ClassVar[str] = "N^3"
    """The order of building the matrix, once per call."""
    source: ClassVar[str]
    takes_half: ClassVar[bool] = False
    """Whether forward and inverse work in bfloat16 and float16. Where not, such a matrix is built in float32 and
    rounded, and cannot be assigned."""
    angles: ClassVar[slice] = slice(None)
    """Which of the free parameters are the angles of an orthogonal factor: they want a smaller learning rate."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = check_size("size of a map", size)
        self._sampled: tuple[Map, tuple[Tensor, ...], Tensor] | None = None  # what `sample` last gave

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrices of this map: ``(N, N)``."""
        return self.size, self.size

    @abstractmethod
    def forward(self, *free: Tensor) -> Tensor:
        """The matrix ``(N, N)`` of the free parameters."""

    def __call__(self, *free: Tensor) -> Tensor:
        """:meth:`forward` in the precision that it needs, whatever autocast says; on the meta device, its shape."""
        kind = free[0].dtype
        if members():
            return self._per_member(free)
        with without_autocast(free[0]):
            if free[0].is_meta and any(not buffer.is_meta for buffer in self.buffers()):
                return self._changed(lambda tensor: tensor.to("meta"), free)
            if kind in HALF and not self.takes_half:
                return self._changed(lambda tensor: tensor.float() if tensor.dtype in HALF else tensor, free).to(kind)
            result: Tensor = super().__call__(*free)
            return result

    def _changed(self, change: Callable[[Tensor], Tensor], free: tuple[Tensor, ...]) -> Tensor:
        """The matrix with a change made to all buffers and free parameters, for this call."""
        buffers = {name: change(buffer) for name, buffer in self.named_buffers()}
        result: Tensor = torch.func.functional_call(self, buffers, tuple(map(change, free)))
        return result

    def _per_member(self, free: tuple[Tensor, ...]) -> Tensor:
        """The matrices of several models that are trained as one: one after the other, each as if it were alone."""
        buffers = dict(self.named_buffers())

        def of_one(*tensors: Tensor) -> Tensor:
            own = dict(zip(buffers, tensors[len(free) :], strict=True))
            found: Tensor = torch.func.functional_call(self, own, tensors[: len(free)])
            return found

        return per_member(of_one, *free, *buffers.values())

    @abstractmethod
    def free(self, matrix: Tensor) -> FreeParameters:
        """Free parameters that give this matrix, which is known to have the property."""

    @abstractmethod
    def distance(self, matrix: Tensor) -> float:
        """How far a matrix is from having the property; 0 if it has it."""

    @abstractmethod
    def sample_free(self, generator: torch.Generator | None, complex: bool = False) -> tuple[Tensor, ...]:
        """Random free parameters, in double precision. ``complex`` is for maps that take matrices of either kind."""

    def sample(
        self,
        generator: torch.Generator | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """A random matrix ``(N, N)`` with the property. A real ``dtype`` gives the precision of a complex map."""
        kind, place = dtype or torch.get_default_dtype(), device or torch.get_default_device()
        twin = copy.deepcopy(self)  # sampling may move a base point or a permutation: not this map's own
        with torch.device("cpu"):  # the same numbers for every device, and numbers at all for meta
            free = twin.sample_free(generator, kind.is_complex)
            matrix = twin.double_forward(*free).detach()
        matrix = matrix.to(device=place, dtype=kind.to_complex() if matrix.is_complex() else kind.to_real())
        self._sampled = twin, free, matrix.clone()
        return matrix

    def double_forward(self, *free: Tensor) -> Tensor:
        """The matrix in double precision, whatever that of the map's buffers."""

        def precise(tensor: Tensor) -> Tensor:
            if tensor.is_complex():
                return tensor.to(torch.complex128)
            return tensor.double() if tensor.is_floating_point() else tensor

        return self._changed(precise, free)

    def error(self, *free: Tensor) -> float:
        """How far rounding has carried the matrix of these free parameters from the property."""
        return self.distance(self.forward(*free).detach())

    @property
    def has_inverse(self) -> bool:
        """Whether every matrix that the map contains can be assigned.

        Where not, what the map itself sampled still can (it is remembered); another matrix is searched for or refused.
        """
        return True

    def contains(self, matrix: Tensor, eps: float | None = None) -> bool:
        """Whether a matrix has the property to within ``eps`` (default: :func:`rounding` of its dtype).

        If so it can be assigned, where the map ``has_inverse``.
        """
        eps = rounding(matrix.dtype) if eps is None else eps
        if matrix.shape != self.shape:
            return False
        try:
            return self.distance(matrix.float() if matrix.dtype in HALF else matrix) <= eps
        except DTypeError:  # a complex matrix for a real map, or the other way round
            return False

    def right_inverse(self, matrix: Tensor) -> FreeParameters:
        """Free parameters for a matrix that is assigned: ``layer.weight = matrix``.

        Refused if the map does not contain it, or cannot find its parameters (see ``has_inverse``).
        """
        if matrix.shape != self.shape:
            rows, columns = self.shape
            raise ShapeError(
                f"{type(self).__name__} is a map to {rows} x {columns} matrices, got {tuple(matrix.shape)}"
            )
        with without_autocast(matrix):
            return self._assigned(matrix.detach())

    def _assigned(self, matrix: Tensor) -> FreeParameters:
        sampled, self._sampled = self._sampled, None
        if sampled is not None and sampled[2].dtype == matrix.dtype and _equal(sampled[2], matrix):
            twin: Map = sampled[0]
            found: FreeParameters = sampled[1]
            for mine, theirs in zip(self.modules(), twin.modules(), strict=True):
                mine._buffers.update(theirs._buffers)
        else:
            if matrix.is_meta:
                raise DTypeError(f"{type(self).__name__} cannot take a matrix on the meta device: it has no numbers")
            if matrix.dtype in HALF and not self.takes_half:
                raise DTypeError(
                    f"{type(self).__name__} takes matrices in float32 or float64, got {matrix.dtype}. Assign it before "
                    "the layer is converted"
                )
            wide = matrix.float() if matrix.dtype in HALF else matrix
            distance = self.distance(wide)
            if not distance <= rounding(matrix.dtype):
                raise ManifoldError(
                    f"a matrix under {type(self).__name__} must be {self.promise}; the one assigned is "
                    f"{distance:.3g} away from that. Assign map.sample(), or project it first"
                )
            found = self.free(wide)

        def cast(tensor: Tensor) -> Tensor:
            """In the precision and on the device of the matrix."""
            kind = matrix.dtype.to_complex() if tensor.is_complex() else matrix.dtype.to_real()
            whole = not tensor.is_complex() and not tensor.is_floating_point()
            return tensor.to(matrix.device, tensor.dtype if whole else kind)

        self._apply(cast)
        free = tuple(cast(f) for f in ((found,) if isinstance(found, Tensor) else found))
        # One tensor where torch lets it be one: it may not change the dtype.
        return free[0] if len(free) == 1 and free[0].dtype == matrix.dtype else free

    def no_inverse(self, reason: str) -> ManifoldError:
        """The refusal of a matrix that has the property but whose parameters cannot be found."""
        return ManifoldError(
            f"{type(self).__name__}({self.extra_repr()}) has no formula for its inverse{reason}. Assign what the map "
            "itself sampled with sample(), or load a state_dict"
        )

    def operate(self, x: Tensor, *free: Tensor) -> Tensor:
        """W x for every row of x ``(..., N)``; a map with a structure does it without building W."""
        w = self.forward(*free)
        return x.to(w.dtype) @ w.mT

    def penalty(self, *free: Tensor) -> Tensor:
        """What the map adds to a training loss; 0 for most."""
        return free[0].new_zeros(()).real

    def after_step(self, *free: Tensor) -> None:
        """What the map does after an optimiser step (see :func:`engram.maps.attach`); changes ``free`` in place."""

    def install(self, module: nn.Module, name: str, **factory: Any) -> None:
        """Make ``module.name`` a random matrix under this map, of this ``device`` and ``dtype``."""
        with torch.no_grad():
            module.register_parameter(name, nn.Parameter(self.sample(**factory)))
        parametrize.register_parametrization(module, name, self)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Constants, the buffers that no state_dict holds, keep their numbers: ``to("meta")`` does not take them away,
        ``to_empty`` does not leave them empty."""
        constants = {name: self._buffers[name] for name in self._non_persistent_buffers_set}
        super()._apply(fn, recurse)
        for name, value in constants.items():
            moved = self._buffers[name]
            if value is not None and moved is not None:
                self._buffers[name] = value if moved.is_meta else value.to(moved)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sampled": None}

    def extra_repr(self) -> str:
        return str(self.size)


def _equal(sampled: Tensor, matrix: Tensor) -> bool:
    """Whether this is the matrix that was sampled; on the meta device there is nothing to compare."""
    return matrix.is_meta or torch.equal(sampled.to(matrix.device), matrix)


def rounding(dtype: torch.dtype) -> float:
    """The distance at which a matrix still has its property: 1e-10 in float64, 1e-4 in float32, 0.1 in 8 or 11 bits."""
    return {8: 1e-10, 4: 1e-4}.get(dtype.to_real().itemsize, 0.1)


def require_real(map: Map, matrix: Tensor) -> None:
    """Refuse a complex matrix where the map is a real one."""
    if matrix.is_complex():
        raise DTypeError(
            f"{type(map).__name__} is a map to real matrices, got {matrix.dtype}. Use a real dtype or map='free'"
        )
