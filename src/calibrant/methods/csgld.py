"""Cyclical SGLD: cosine cycles of the learning rate; in the last epochs of each, Langevin noise, and members.

In the noise phase a step is θ ← θ − η∇(L + ½decay|θ|²) + √(2ηT/n) z, whose stationary law at small η is the posterior
exp(−n(L + ½decay|θ|²)/T) for L the mean negative log-likelihood of n rows; ½n·decay|θ|² is a normal prior. T = 1 is the
posterior itself; a cold one, T < 1, is what works for deep networks with batch normalisation and augmentation.

References: Zhang et al. (2020), ICLR; Welling & Teh (2011), ICML: 681-688.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from calibrant.errors import UsageError
from calibrant.methods.base import Method, Trained
from calibrant.methods.points import Points
from calibrant.training.loop import Noise
from calibrant.training.schedules import Cosine
from calibrant.training.settings import counted
from calibrant.training.watching import Snapshots, Watcher


@dataclass(frozen=True)
class CyclicalSGLD(Method):
    """`cycles` cosine cycles; a member after each of the last `samples` epochs of a cycle, which have noise."""

    cycles: int = 4
    samples: int = 3
    temperature: float = 1.0
    skip: int = 0
    name: ClassVar[str] = "csgld"
    needs_all_epochs: ClassVar[bool] = True
    reference: ClassVar[str] = "Zhang et al. (2020), ICLR"

    def __post_init__(self) -> None:
        for name, least in (("cycles", 1), ("samples", 1), ("skip", 0)):
            object.__setattr__(self, name, counted(f"csgld: {name}", getattr(self, name), least))
        length = self.training.epochs // max(self.cycles, 1)
        good = self.cycles >= 1 and 1 <= self.samples <= length and 0 <= self.skip < self.cycles
        good &= length * self.cycles == self.training.epochs
        if not (good and self.temperature >= 0.0 and self.training.optimiser == "sgd"):
            raise UsageError(
                "csgld",
                expected="sgd, T from 0, cycles of whole epochs, more than are skipped, and a sample an epoch at most",
                came=f"{self.training.optimiser}, T = {self.temperature}, {self.cycles} cycles of {length} epochs, "
                f"{self.samples} samples, skip {self.skip}",
                do="let cycles divide epochs, and samples fit into a cycle",
            )
        object.__setattr__(self, "training", replace(self.training, schedule=Cosine(self.cycles)))

    def _left(self, epoch: int) -> tuple[int, int]:
        """The cycle of an epoch, and how many epochs of it come after."""
        length = self.training.epochs // self.cycles
        return epoch // length, length - 1 - epoch % length

    def noise(self, n: int) -> Noise:
        """√(2T/n) in the last epochs of a cycle."""
        size = math.sqrt(2.0 * self.temperature / n)
        return lambda epoch: size if self._left(epoch)[1] < self.samples else 0.0

    def watchers(self) -> list[Watcher]:
        """A copy after every epoch with noise, of the cycles that count."""
        places = ((epoch, *self._left(epoch)) for epoch in range(self.training.epochs))
        return [Snapshots([epoch for epoch, cycle, left in places if left < self.samples and cycle >= self.skip])]

    def posterior(self, trained: Trained) -> Points:
        """The copies."""
        return Points(trained.watched[0][0], **trained.known)
