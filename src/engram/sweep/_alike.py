"""Settings that stand for all others of their kind: what is found for one is not computed again for the next."""

from dataclasses import dataclass, field

from engram.train import Settings


@dataclass(frozen=True)
class Alike:
    """Settings that are equal where their keys are, for caches."""

    key: str
    settings: Settings = field(compare=False)
