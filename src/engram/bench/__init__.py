"""Benchmarks as ratios taken in one run: ours against torch.nn, peers, and the arithmetic floor."""

from engram.bench._figure import draw_layers, draw_maps, draw_train
from engram.bench.layers import TARGETS as LAYER_TARGETS
from engram.bench.layers import bench_layers
from engram.bench.maps import TARGETS as MAP_TARGETS
from engram.bench.maps import bench_maps
from engram.bench.train import TARGETS as TRAIN_TARGETS
from engram.bench.train import bench_train

__all__ = [
    "LAYER_TARGETS",
    "MAP_TARGETS",
    "TRAIN_TARGETS",
    "bench_layers",
    "bench_maps",
    "bench_train",
    "draw_layers",
    "draw_maps",
    "draw_train",
]
