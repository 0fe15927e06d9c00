"""``engram bench maps``: building a matrix and its gradient, and what a product with a structured matrix costs."""

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from math import log
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from engram.bench._measure import geomean, interleaved, machine, spread
from engram.maps import Cayley, Exponential, Fourier, Givens, Householder, Map, ScaledCayley, Schur, make_map

SIZES = (128, 256, 512)
OPERATOR_SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
OURS: dict[str, Callable[[int], Map]] = {
    "exponential": Exponential,
    "exponential, complex": partial(Exponential, complex=True),
    "cayley": Cayley,
    "scaled-cayley": ScaledCayley,
    "scaled-cayley, complex": partial(ScaledCayley, complex=True),
    "schur": Schur,
    "householder": Householder,
    "givens, L=8": partial(Givens, layers=8),
    "givens, L=8, complex": partial(Givens, layers=8, complex=True),
    "fourier": Fourier,
    "spectral-margin": partial(make_map, "spectral-margin"),
    "spectral-reflections": partial(make_map, "spectral-reflections"),
    "stored (free, soft, projected, stiefel)": partial(make_map, "free"),
}
TORCH = ("matrix_exp", "cayley", "householder")
TARGETS = {"exponential/torch.linalg.matrix_exp": (None, 0.35), "cayley/torch cayley": (1.0, 1.0)}
"""At most: the geometric mean, the worst size."""

OPERATORS: dict[str, Callable[[int], Map]] = {
    "householder, m=8: O(mN)": partial(Householder, reflections=8),
    "givens, L=8: O(LN)": partial(Givens, layers=8),
    "fourier: O(N log N)": Fourier,
    "dense: O(N^2)": partial(make_map, "free"),
}


class _Holder(nn.Module):
    weight: Tensor


def _build(module: nn.Module) -> Callable[[], None]:
    """Build ``module.weight`` and pull a fixed gradient back to its parameters."""
    gradient = torch.randn_like(module.weight.detach())  # type: ignore[operator]

    def call() -> None:
        module.zero_grad(set_to_none=True)
        module.weight.backward(gradient)  # type: ignore[operator]

    return call


def _perturb(module: nn.Module) -> nn.Module:
    """Move the free parameters as training would: away from the base point, where a map is at its cheapest."""
    with torch.no_grad():
        for parameter in module.parameters():
            scale = 0.3 / parameter.numel() ** 0.25 if parameter.dim() == 1 else 0.0
            parameter.add_(torch.randn_like(parameter), alpha=scale)
    return module


def contestants(size: int) -> dict[str, Callable[[], None]]:
    """Every way to build a matrix of this size."""
    found: dict[str, Callable[[], None]] = {}
    for name, make in OURS.items():
        holder = _Holder()
        make(size).install(holder, "weight")
        found[name] = _build(_perturb(holder))
    for name in TORCH:
        linear = nn.Linear(size, size, bias=False)
        found[f"torch {name.replace('matrix_exp', 'exponential')}"] = _build(orthogonal(linear, "weight", name))
    skew = torch.randn(size, size) * 0.3 / size**0.5
    free = nn.Parameter(skew - skew.mT)
    gradient = torch.randn(size, size)

    def matrix_exp() -> None:
        free.grad = None
        torch.linalg.matrix_exp(free).backward(gradient)

    found["torch.linalg.matrix_exp"] = matrix_exp
    if importlib.util.find_spec("geotorch"):
        linear = nn.Linear(size, size, bias=False)
        importlib.import_module("geotorch").orthogonal(linear, "weight")
        found["geotorch orthogonal"] = _build(linear)
    return found


def bench_maps(quick: bool = False, repeats: int = 7, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Race all maps with one thread; returns ``summary`` (ratios and exponents), ``rows`` and ``machine``."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    try:
        for size in SIZES[:1] if quick else SIZES:
            times = interleaved(contestants(size), repeats)
            rows += [{"N": size, "contestant": name, **spread(seconds)} for name, seconds in times.items()]
            tell(f"N={size}: " + ", ".join(f"{name} {1e3 * median(s):.1f} ms" for name, s in list(times.items())[:3]))
        summary: dict[str, Any] = {}
        for ours, theirs in (
            ("exponential", "torch.linalg.matrix_exp"),
            ("exponential", "torch exponential"),
            ("cayley", "torch cayley"),
            ("householder", "torch householder"),
            ("exponential", "geotorch orthogonal"),
        ):
            ratios = _ratios(rows, ours, theirs)
            if ratios:
                summary[f"{ours}/{theirs}"] = {"geomean": geomean(ratios), "worst": max(ratios)}
        summary["exponents"] = _exponents(repeats, OPERATOR_SIZES[:4] if quick else OPERATOR_SIZES)
    finally:
        torch.set_num_threads(before)
    return {"summary": summary, "rows": rows, "machine": machine()}


def _ratios(rows: list[dict[str, Any]], ours: str, theirs: str) -> list[float]:
    table = {(row["N"], row["contestant"]): row["median_ms"] for row in rows}
    return [t / table[n, theirs] for (n, name), t in table.items() if name == ours and (n, theirs) in table]


@torch.no_grad()
def _exponents(repeats: int, sizes: tuple[int, ...]) -> dict[str, float]:
    """The exponent p of the time N^p of one product with a batch of 128 vectors, fitted over the four largest sizes."""
    exponents = {}
    for name, make in OPERATORS.items():
        calls = {}
        for size in sizes:
            map = make(size)
            free = tuple(f.float() for f in map.sample_free(None))
            calls[str(size)] = partial(map.operate, torch.randn(128, size), *free)
        times = interleaved(calls, repeats)
        points = [(log(size), log(median(times[str(size)]))) for size in sizes[-4:]]
        mean_x, mean_y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
        slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
        exponents[name] = slope
    return exponents
