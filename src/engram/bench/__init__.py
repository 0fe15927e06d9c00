"""Benchmarks as ratios taken in one run: ours against torch.nn, peers, and the arithmetic floor."""

from engram.bench._figure import (
    plot_cells,
    plot_certify,
    plot_ensemble,
    plot_layers,
    plot_linear,
    plot_maps,
    plot_products,
    plot_runs,
    plot_tasks,
    plot_token,
    plot_train,
)
from engram.bench._figure_attention import plot_attention
from engram.bench.attention import TARGETS as ATTENTION_TARGETS
from engram.bench.attention import bench_attention
from engram.bench.cells import TARGETS as CELL_TARGETS
from engram.bench.cells import bench_cells
from engram.bench.certify import TARGETS as CERTIFY_TARGETS
from engram.bench.certify import bench_certify
from engram.bench.ensemble import TARGETS as ENSEMBLE_TARGETS
from engram.bench.ensemble import bench_ensemble
from engram.bench.layers import TARGETS as LAYER_TARGETS
from engram.bench.layers import bench_layers
from engram.bench.linear import TARGETS as LINEAR_TARGETS
from engram.bench.linear import bench_linear
from engram.bench.maps import TARGETS as MAP_TARGETS
from engram.bench.maps import bench_maps
from engram.bench.products import TARGETS as PRODUCT_TARGETS
from engram.bench.products import bench_products
from engram.bench.runs import TARGETS as RUNS_TARGETS
from engram.bench.runs import bench_runs
from engram.bench.tasks import TARGETS as TASK_TARGETS
from engram.bench.tasks import bench_tasks
from engram.bench.token import TARGETS as TOKEN_TARGETS
from engram.bench.token import bench_token
from engram.bench.train import TARGETS as TRAIN_TARGETS
from engram.bench.train import bench_train

__all__ = [
    "ATTENTION_TARGETS",
    "CELL_TARGETS",
    "CERTIFY_TARGETS",
    "ENSEMBLE_TARGETS",
    "LAYER_TARGETS",
    "LINEAR_TARGETS",
    "MAP_TARGETS",
    "PRODUCT_TARGETS",
    "RUNS_TARGETS",
    "TASK_TARGETS",
    "TOKEN_TARGETS",
    "TRAIN_TARGETS",
    "bench_attention",
    "bench_cells",
    "bench_certify",
    "bench_ensemble",
    "bench_layers",
    "bench_linear",
    "bench_maps",
    "bench_products",
    "bench_runs",
    "bench_tasks",
    "bench_token",
    "bench_train",
    "plot_attention",
    "plot_cells",
    "plot_certify",
    "plot_ensemble",
    "plot_layers",
    "plot_linear",
    "plot_maps",
    "plot_products",
    "plot_runs",
    "plot_tasks",
    "plot_token",
    "plot_train",
]
