"""Ensembles from one training: networks that are kept where a cyclic learning rate is lowest.

Snapshot ensembles keep one at the end of each cosine cycle; fast geometric ensembling first trains one network, then
walks in short saw-toothed cycles between low-loss points close to it. The statistics of batch normalisation of a
network that moved that fast lag behind its weights: they are computed anew.

References: Huang et al. (2017), ICLR; Garipov et al. (2018), NeurIPS 31: 8789-8798.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from calibrant.errors import UsageError
from calibrant.methods.base import Method, Trained
from calibrant.methods.points import Points
from calibrant.methods.refreshing import refresh
from calibrant.training.schedules import Cosine, LinearDecay, ThenSaw
from calibrant.training.settings import Training, counted
from calibrant.training.watching import Snapshots, Watcher


@dataclass(frozen=True)
class SnapshotEnsemble(Method):
    """One member a cycle, but for the first `skip`. The schedule of `training` gives way to cosine cycles."""

    cycles: int = 5
    skip: int = 0
    name: ClassVar[str] = "snapshot_ensemble"
    needs_all_epochs: ClassVar[bool] = True
    reference: ClassVar[str] = "Huang et al. (2017)"

    def __post_init__(self) -> None:
        for name, least in (("cycles", 1), ("skip", 0)):
            object.__setattr__(self, name, counted(name, getattr(self, name), least))
        if not 0 <= self.skip < self.cycles or self.training.epochs % self.cycles:
            raise UsageError(
                "cycles",
                expected="more than are skipped, each a whole number of epochs",
                came=f"{self.cycles} cycles in {self.training.epochs} epochs, skip {self.skip}",
                do="let cycles divide epochs",
            )
        object.__setattr__(self, "training", replace(self.training, schedule=Cosine(self.cycles)))

    def watchers(self) -> list[Watcher]:
        """A copy at the end of each cycle that counts."""
        length = self.training.epochs // self.cycles
        return [Snapshots(range((self.skip + 1) * length - 1, self.training.epochs, length))]

    def posterior(self, trained: Trained) -> Points:
        """The copies."""
        return Points(trained.watched[0][0], **trained.known)


@dataclass(frozen=True)
class FastGeometricEnsemble(Method):
    """`start` epochs of ordinary training, then a member from each cycle of `cycle` epochs between `high` and `low`.

    high, low: factors of the initial rate. The schedule of `training` holds until `start`, 80 % of the epochs unless
    another is given.
    """

    training: Training = Training(epochs=100, schedule=LinearDecay())  # noqa: RUF009 — frozen
    start: int | None = None
    cycle: int = 4
    high: float = 0.5
    low: float = 0.005
    refresh: bool = True
    name: ClassVar[str] = "fge"
    needs_all_epochs: ClassVar[bool] = True
    reference: ClassVar[str] = "Garipov et al. (2018)"

    def __post_init__(self) -> None:
        start = self.training.epochs * 8 // 10 if self.start is None else self.start
        for name, value in (("start", start), ("cycle", self.cycle)):
            object.__setattr__(self, name, counted(f"fge: {name}", value))
        if self.cycle < 2 or self.cycle % 2 or not 0 < self.first <= self.training.epochs - self.cycle // 2:
            raise UsageError(
                "cycle",
                expected="an even number of epochs, with at least half a cycle after `start`",
                came=f"cycle {self.cycle}, start {self.start}, epochs {self.training.epochs}",
                do="train longer, or start earlier",
            )
        saw = ThenSaw(self.training.schedule.base, self.first, self.high, self.low, self.cycle)
        object.__setattr__(self, "training", replace(self.training, schedule=saw))

    @property
    def first(self) -> int:
        """The first epoch of the saw."""
        return int(self.start or 0)

    def watchers(self) -> list[Watcher]:
        """A copy in the middle of each cycle, where the rate is lowest."""
        return [Snapshots(range(self.first + self.cycle // 2 - 1, self.training.epochs, self.cycle))]

    def posterior(self, trained: Trained) -> Points:
        """The copies, with statistics of batches computed anew."""
        states = trained.watched[0][0]
        if self.refresh:
            states = refresh(trained.template, states, trained.task, trained.device)
        return Points(states, **trained.known)
