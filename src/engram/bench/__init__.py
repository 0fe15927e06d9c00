"""Benchmarks as ratios taken in one run: ours against torch.nn, peers, and the arithmetic floor."""

from engram.bench._figure import draw_layers
from engram.bench.layers import TARGETS, bench_layers

__all__ = ["TARGETS", "bench_layers", "draw_layers"]
