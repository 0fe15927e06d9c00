"""``engram demo``: which one remembers?"""

import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from engram.errors import check_size
from engram.figures import check_figure
from engram.maps import orthogonality_error
from engram.nn import RNN
from engram.report import plot_recall
from engram.tasks import Batch, Copy
from engram.train import without_denormals

HIDDEN, BATCH = 128, 64


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train an orthogonal layer and torch.nn.LSTM side by side on the copying problem, and see which one remembers.

    Ten symbols are shown, then nothing for a long time, then they are asked for.

    Example: engram demo --delay 200
    """

    delay: int = 100
    """Steps between the last symbol and the question."""
    updates: int = 600
    """Training steps of each network."""
    seed: int = 0
    """Random seed for weights and sequences."""
    figure: Path | None = None
    """Plot the recall of both networks over training to this file (.svg or .png)."""

    def run(self) -> None:
        check_size("--updates", self.updates)
        if self.figure:
            check_figure(self.figure, "--figure")
        task, console = Copy(check_size("--delay", self.delay)), Console(highlight=False)
        torch.manual_seed(check_size("--seed", self.seed, least=0))
        orthogonal = RNN(task.input_size, HIDDEN, map="exponential", activation="modrelu", bias=False)
        runners = {
            "engram.nn.RNN": Runner(orthogonal, task, self.updates),
            "torch.nn.LSTM": Runner(nn.LSTM(task.input_size, HIDDEN), task, self.updates),
        }
        console.print(
            f"Copying problem: 10 symbols, {self.delay} blank steps, recall. Without memory the loss stays at "
            f"{task.memoryless_baseline:.3f} and the recall at {task.chance:.1%}."
        )
        # On a busy machine two threads of torch.nn.LSTM wait for each other: ten minutes in place of half a one. And
        # denormals, of its vanishing gradient, would make it several times slower.
        with without_denormals(1):
            self._train(task, runners, console)
        exam = task.sample(1000, torch.Generator().manual_seed(self.seed + 1))
        for name, runner in runners.items():
            console.print(f"{name} {_verdict(runner.examine(exam))}: {runner.summary()}")
        error = orthogonality_error(orthogonal.cells[0].weight_hh.detach())
        console.print(f"After {self.updates} updates the recurrent matrix is still orthogonal to {error:.0e}.")
        if self.figure:
            histories = {name: runner.history for name, runner in runners.items()}
            plot_recall(histories, task.chance, f"Copying problem, {task.delay} blank steps", self.figure)
            console.print(f"figure: {self.figure}")

    def _train(self, task: Copy, runners: "dict[str, Runner]", console: Console) -> None:
        """Both networks see the same sequences, in turn. A bar each on a terminal, else ten lines."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}  recall {task.fields[recall]:6.1%}"),
            TimeRemainingColumn(),
        )
        generator = torch.Generator().manual_seed(self.seed)
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            bars = {
                name: progress.add_task(name, total=self.updates, loss=float("nan"), recall=0.0) for name in runners
            }
            for step in range(1, self.updates + 1):
                batch = task.sample(BATCH, generator)
                scores = {name: runner.update(batch) for name, runner in runners.items()}
                for name, (loss, recall) in scores.items():
                    progress.update(bars[name], advance=1, loss=loss, recall=recall)
                if not console.is_terminal and 10 * step // self.updates > 10 * (step - 1) // self.updates:
                    told = "; ".join(
                        f"{name} loss {loss:.3f}, recall {recall:.1%}" for name, (loss, recall) in scores.items()
                    )
                    print(f"update {step} of {self.updates}: {told}", flush=True)


@dataclass
class Runner:
    """One network with its optimiser and its record."""

    layer: nn.Module
    task: Copy
    updates: int
    history: list[float] = field(default_factory=list)
    seconds: float = 0.0
    recall: float = 0.0

    def __post_init__(self) -> None:
        self.head = nn.Linear(HIDDEN, self.task.output_size)
        mapped = [p for name, p in self.layer.named_parameters() if "parametrizations" in name]
        plain = [p for name, p in self.layer.named_parameters() if "parametrizations" not in name]
        self.plain = [*plain, *self.head.parameters()]
        # Orthogonal parameters want a tenth of the learning rate (Kerg 2022, Appendix A.1.4).
        self.optimiser = torch.optim.Adam([{"params": self.plain, "lr": 2e-3}, {"params": mapped, "lr": 2e-4}])
        # Falling rates: at constant ones a network that has learned the task may lose it again for a while.
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, self.updates)

    def logits(self, inputs: Tensor) -> Tensor:
        result: Tensor = self.head(self.layer(inputs)[0])
        return result

    def update(self, batch: Batch) -> tuple[float, float]:
        """One training step: its loss and its recall."""
        started = time.perf_counter()
        logits = self.logits(batch.inputs)
        loss = self.task.loss(logits, batch)
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.plain, 1.0)
        self.optimiser.step()
        self.schedule.step()
        self.seconds += time.perf_counter() - started
        self.history.append(self.task.metrics(logits.detach(), batch)["accuracy"])
        return float(loss.detach()), self.history[-1]

    @torch.no_grad()
    def examine(self, batch: Batch) -> float:
        """The recall on sequences never seen."""
        self.recall = self.task.metrics(self.logits(batch.inputs), batch)["accuracy"]
        return self.recall

    def summary(self) -> str:
        parameters = sum(p.numel() for module in (self.layer, self.head) for p in module.parameters())
        return (
            f"{self.recall:.1%} of the symbols of 1000 new sequences recalled "
            f"({parameters:,} parameters, {self.seconds:.1f} s of training)"
        )


def _verdict(recall: float) -> str:
    if recall > 0.9:
        return "remembers"
    return "remembers in part" if recall > 0.5 else "does not remember"
