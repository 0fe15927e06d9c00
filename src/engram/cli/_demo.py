"""``engram demo``: which one remembers?"""

import time
from dataclasses import dataclass, field

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from engram.errors import check_size
from engram.maps import orthogonality_error
from engram.nn import RNN
from engram.tasks import Batch, Copy

HIDDEN, BATCH = 128, 64


@dataclass(frozen=True)
class Demo:
    """Train an orthogonal layer and torch.nn.LSTM side by side on the copying problem, and see which one remembers.

    Ten symbols are shown, then nothing for a long time, then they are asked for. Example: engram demo --delay 200
    """

    delay: int = 100
    """Steps between the last symbol and the question."""
    updates: int = 600
    """Training steps of each network."""
    seed: int = 0

    def run(self) -> None:
        check_size("--updates", self.updates)
        task, console = Copy(check_size("--delay", self.delay)), Console()
        torch.manual_seed(self.seed)
        orthogonal = RNN(task.input_size, HIDDEN, map="exponential", activation="modrelu", bias=False)
        runners = {
            "engram RNN": Runner(orthogonal, task),
            "torch.nn.LSTM": Runner(nn.LSTM(task.input_size, HIDDEN), task),
        }
        console.print(
            f"Copying problem: 10 symbols, {self.delay} blank steps, recall. Without memory the loss stays at "
            f"{task.memoryless_baseline:.3f} and the accuracy at {task.chance:.1%}.",
            highlight=False,
        )
        with Progress(
            TextColumn("{task.description:14}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}  recall {task.fields[recall]:6.1%}"),
            TimeRemainingColumn(),
            console=console,
        ) as progress:
            bars = {
                name: progress.add_task(name, total=self.updates, loss=float("nan"), recall=0.0) for name in runners
            }
            generator = torch.Generator().manual_seed(self.seed)
            for _ in range(self.updates):
                batch = task.sample(BATCH, generator)  # both see the same sequences
                for name, runner in runners.items():
                    runner.update(batch)
                    progress.update(bars[name], advance=1, loss=runner.loss, recall=runner.recall)
        exam = task.sample(1000, torch.Generator().manual_seed(self.seed + 1))
        for name, runner in runners.items():
            runner.examine(exam)
            verdict = (
                "remembers"
                if runner.recall > 0.9
                else "recalls in part"
                if runner.recall > 0.5
                else "does not remember"
            )
            console.print(
                f"{name:14} {verdict}: {runner.recall:.1%} of the symbols of 1000 new sequences recalled "
                f"({runner.parameters:,} parameters, {runner.seconds:.1f} s of training)",
                highlight=False,
            )
        error = orthogonality_error(orthogonal.cells[0].weight_hh.detach())
        console.print(
            f"The recurrent matrix is still orthogonal to {error:.0e}, after {self.updates} updates.", highlight=False
        )


@dataclass
class Runner:
    """One network, its optimiser, and its newest numbers."""

    layer: nn.Module
    task: Copy
    loss: float = float("nan")
    recall: float = 0.0
    seconds: float = 0.0
    head: nn.Linear = field(init=False)

    def __post_init__(self) -> None:
        self.head = nn.Linear(HIDDEN, self.task.output_size)
        mapped = [p for name, p in self.layer.named_parameters() if "parametrizations" in name]
        others = [p for name, p in self.layer.named_parameters() if "parametrizations" not in name]
        self.others = [*others, *self.head.parameters()]
        # Orthogonal parameters want a tenth of the learning rate (spec/spectral.md 4.12).
        self.optimiser = torch.optim.RMSprop([{"params": self.others, "lr": 1e-3}, {"params": mapped, "lr": 1e-4}])

    @property
    def parameters(self) -> int:
        return sum(p.numel() for module in (self.layer, self.head) for p in module.parameters())

    def logits(self, inputs: Tensor) -> Tensor:
        result: Tensor = self.head(self.layer(inputs)[0])
        return result

    def update(self, batch: Batch) -> None:
        begin = time.perf_counter()
        logits = self.logits(batch.inputs)
        loss = self.task.loss(logits, batch)
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.others, 1.0)
        self.optimiser.step()
        self.loss, self.recall = float(loss.detach()), self.task.accuracy(logits.detach(), batch)
        self.seconds += time.perf_counter() - begin

    @torch.no_grad()
    def examine(self, batch: Batch) -> None:
        self.recall = self.task.accuracy(self.logits(batch.inputs), batch)
