"""A run: one network's training. A stack trains many at once; what may differ from one to the next stands here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calibrant.training.task import Task


@dataclass(frozen=True)
class Run:
    """One network: its streams of random numbers (seed, member), its rows, and its own hyper-parameters."""

    seed: int
    member: int
    task: Task
    rate: float
    decay: float
    dropout: float = 0.0

    def facts(self) -> dict[str, Any]:
        """What tells it from other runs, as numbers and text."""
        return {
            "seed": self.seed,
            "member": self.member,
            "rate": self.rate,
            "decay": self.decay,
            "dropout": self.dropout,
        }
