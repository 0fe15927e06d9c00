"""How the rates of a run change: a share of the rate at the start, for each step."""

from math import cos, pi

from engram.errors import check_size
from engram.train._settings_optimiser import Optimiser


class Schedule:
    r"""The factor of all rates at step k = 0, 1, ..., a product of a warm-up and one schedule:

    - warm-up over w steps: min(1, (k + 1) / w)
    - constant: 1
    - step, every s steps by f: f^(k // s)
    - cosine over n steps to the share e: e + (1 - e) (1 + cos(pi min(k, n) / n)) / 2 (Loshchilov and Hutter 2017)
    - plateau: f for each time that this many validations in a row were not better

    Only a plateau depends on more than k; it is all there is to keep.
    """

    def __init__(self, optimiser: Optimiser) -> None:
        self.optimiser, self.name = optimiser, optimiser.schedule_name
        self.stale = self.falls = 0  # validations without a better score since the rate fell last; how often it fell

    def factor(self, step: int) -> float:
        """The share of the rates at the start that this step is taken with."""
        settings, factor = self.optimiser, 1.0
        if self.name == "plateau":
            factor = settings.plateau_factor**self.falls
        elif self.name == "step":
            factor = settings.step_factor ** (step // settings.step_size)
        elif self.name == "cosine" and settings.cosine_steps:
            share = min(step, settings.cosine_steps) / settings.cosine_steps
            factor = settings.cosine_end + (1 - settings.cosine_end) * (1 + cos(pi * share)) / 2
        return factor * min(1.0, (step + 1) / settings.warmup) if settings.warmup else factor

    def validated(self, better: bool) -> None:
        """A validation is done."""
        self.stale = 0 if better else self.stale + 1
        if self.name == "plateau" and self.stale >= self.optimiser.plateau:
            self.falls, self.stale = self.falls + 1, 0

    def state(self) -> dict[str, int]:
        return {"stale_rate": self.stale, "falls": self.falls}

    def restore(self, values: dict[str, object]) -> None:
        self.stale = check_size("stale_rate", values["stale_rate"], least=0)
        self.falls = check_size("falls", values["falls"], least=0)
