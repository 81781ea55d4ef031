"""Ensembles from one training run: snapshots of a network where a cyclic learning rate is lowest.

Snapshot ensembles take one at the end of each cosine cycle; fast geometric ensembling first trains one network, then
moves between nearby low-loss points in short triangular cycles. Batch-norm statistics lag behind such fast-moving
weights and are recomputed.

References: Huang et al. (2017), ICLR; Garipov et al. (2018), NeurIPS 31: 8789-8798.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from calibrant.errors import UsageError
from calibrant.methods.base import Method, TrainingResult
from calibrant.methods.batch_norm_refresh import refresh
from calibrant.methods.posterior import WeightSamples
from calibrant.training.callbacks import Callback, WeightSnapshots
from calibrant.training.schedules import Cosine, LinearDecay, ThenTriangular
from calibrant.training.settings import Training, check_count


@dataclass(frozen=True)
class SnapshotEnsemble(Method):
    """One member at the end of each cosine cycle of the learning rate.

    Parameters
    ----------
    training : Training
        Epochs, optimiser and learning rate; its schedule is replaced by cosine cycles.
    cycles : int
        The number of cycles; it must divide the epochs.
    skip : int
        Initial cycles without a member.

    Examples
    --------
    >>> from calibrant.methods import SnapshotEnsemble, Task, Training
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> method = SnapshotEnsemble(Training(epochs=4, rate=0.01), cycles=2)
    >>> method.fit(task, MLP(1, 2, (4,)), device="cpu")
    WeightSamples('snapshot_ensemble', 2 members, 'task', seed=0)
    """

    cycles: int = 5
    skip: int = 0
    name: ClassVar[str] = "snapshot_ensemble"
    needs_all_epochs: ClassVar[bool] = True
    reference: ClassVar[str] = "Huang et al. (2017)"

    def __post_init__(self) -> None:
        for name, least in (("cycles", 1), ("skip", 0)):
            object.__setattr__(self, name, check_count(name, getattr(self, name), least))
        if not 0 <= self.skip < self.cycles or self.training.epochs % self.cycles:
            got = f"{self.cycles} cycles in {self.training.epochs} epochs, skip {self.skip}"
            hint = "use Training(epochs=100) and cycles=5"
            raise UsageError("cycles", expected="cycles that divide epochs, and skip < cycles", got=got, hint=hint)
        object.__setattr__(self, "training", replace(self.training, schedule=Cosine(self.cycles)))

    def callbacks(self) -> list[Callback]:
        """A snapshot at the end of each cycle that is not skipped."""
        length = self.training.epochs // self.cycles
        return [WeightSnapshots(range((self.skip + 1) * length - 1, self.training.epochs, length))]

    def posterior(self, trained: TrainingResult) -> WeightSamples:
        """The snapshots."""
        return WeightSamples(trained.callback_results[0][0], **trained.posterior_arguments)


@dataclass(frozen=True)
class FastGeometricEnsemble(Method):
    """Ordinary training, then one member from each short cycle of the learning rate.

    Parameters
    ----------
    training : Training
        Epochs, optimiser and learning rate; its schedule applies until `start`.
    start : int, optional
        The first epoch of the cycles; by default after 80% of the epochs.
    cycle : int
        Epochs per cycle; even.
    high, low : float
        The learning rates of a cycle, as factors of the initial one.
    refresh : bool
        Recompute batch-norm statistics of the members.

    Examples
    --------
    >>> from calibrant.methods import FastGeometricEnsemble, Task, Training
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> method = FastGeometricEnsemble(Training(epochs=8, rate=0.01), start=4, cycle=2)
    >>> method.fit(task, MLP(1, 2, (4,)), device="cpu")
    WeightSamples('fge', 2 members, 'task', seed=0)
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
            object.__setattr__(self, name, check_count(f"fge: {name}", value))
        if self.cycle < 2 or self.cycle % 2 or not 0 < self.first <= self.training.epochs - self.cycle // 2:
            raise UsageError(
                "cycle",
                expected="an even number of epochs, with at least half a cycle after `start`",
                got=f"cycle {self.cycle}, start {self.start}, epochs {self.training.epochs}",
                hint="use Training(epochs=100) and start=80",
            )
        schedule = ThenTriangular(self.training.schedule.base, self.first, self.high, self.low, self.cycle)
        object.__setattr__(self, "training", replace(self.training, schedule=schedule))

    @property
    def first(self) -> int:
        """The first epoch of the cycles."""
        return int(self.start or 0)

    def callbacks(self) -> list[Callback]:
        """A snapshot in the middle of each cycle, where the learning rate is lowest."""
        return [WeightSnapshots(range(self.first + self.cycle // 2 - 1, self.training.epochs, self.cycle))]

    def posterior(self, trained: TrainingResult) -> WeightSamples:
        """The snapshots, with recomputed batch-norm statistics."""
        states = trained.callback_results[0][0]
        if self.refresh:
            states = refresh(trained.template, states, trained.task, trained.device)
        return WeightSamples(states, **trained.posterior_arguments)
