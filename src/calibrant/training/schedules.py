"""Learning-rate schedules: a factor of the initial rate as a function of training progress.

t is the fraction of training that is done, from 0 to 1; schedules of papers in epochs use the number of epochs too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from calibrant.errors import UsageError, check_range, show

ROUNDING = 1e-11
"""Tolerance, in epochs or cycles, for the beginning of an epoch or cycle."""


class Schedule(ABC):
    """A factor of the initial learning rate."""

    name: ClassVar[str]

    @abstractmethod
    def factor(self, t: float, epochs: int) -> float:
        """The factor after the fraction t of `epochs` epochs."""

    @property
    def base(self) -> Schedule:
        """The schedule itself, or the one that it continues."""
        return self

    def settings(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class Constant(Schedule):
    """Always the initial rate."""

    name: ClassVar[str] = "constant"

    def factor(self, t: float, epochs: int) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True)
class Steps(Schedule):
    """`factors[i]` from epoch `epochs[i]` on, for a training of `of` epochs (0: the actual number).

    Ovadia et al. (2019, appendix A.2) for CIFAR-10: Steps((80, 120, 160, 180), (0.1, 0.01, 0.001, 0.0005), 200).
    """

    epochs: tuple[int, ...]
    factors: tuple[float, ...]
    of: int = 0
    name: ClassVar[str] = "steps"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epochs", tuple(self.epochs))
        object.__setattr__(self, "factors", tuple(self.factors))
        if len(self.epochs) != len(self.factors) or sorted(self.epochs) != list(self.epochs):
            raise UsageError(
                "schedule steps",
                expected="increasing epochs and one factor per epoch",
                got=f"epochs {self.epochs} and factors {self.factors}",
                hint="write Steps((80, 120), (0.1, 0.01))",
            )

    def factor(self, t: float, epochs: int) -> float:
        """The factor of the last step that was reached."""
        now = t * (self.of or epochs) + ROUNDING
        reached = [factor for at, factor in zip(self.epochs, self.factors, strict=True) if now >= at]
        return reached[-1] if reached else 1.0


@dataclass(frozen=True)
class Halving(Schedule):
    """Halve the rate every `every` epochs (Gopal 2021, appendix F: 100)."""

    every: int = 100
    name: ClassVar[str] = "halving"

    def __post_init__(self) -> None:
        check_range("schedule halving: every", self.every, 1, integer=True, hint="use Halving(100)")

    def factor(self, t: float, epochs: int) -> float:
        """2 to the −(epochs done / every), rounded down."""
        return 0.5 ** int((t * epochs + ROUNDING) // self.every)


@dataclass(frozen=True)
class LinearDecay(Schedule):
    """The full rate until `hold`, then linear decay to the factor `least` at `end` (Ashukha et al. 2020, eq. 6)."""

    hold: float = 0.5
    end: float = 0.9
    least: float = 0.01
    name: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        if not (0.0 <= self.hold < self.end <= 1.0 and 0.0 <= self.least <= 1.0):
            raise UsageError(
                "schedule linear",
                expected="0 ≤ hold < end ≤ 1, and a least factor from 0 to 1",
                got=f"hold {show(self.hold)}, end {show(self.end)}, least {show(self.least)}",
                hint="write LinearDecay(0.5, 0.9, 0.01)",
            )

    def factor(self, t: float, epochs: int) -> float:
        """1, then 1 − (1 − least)(t − hold)/(end − hold), then least."""
        share = (t - self.hold) / (self.end - self.hold)
        return 1.0 - (1.0 - self.least) * min(max(share, 0.0), 1.0)


@dataclass(frozen=True)
class Cosine(Schedule):
    """Cosine decay to zero in each of `cycles`, after a linear warm-up over the fraction `warm_up` of the first.

    With several cycles it is the schedule of snapshot ensembles (Huang et al. 2017) and of cyclical SGLD:
    ½(cos(π·mod(t, 1/cycles)·cycles) + 1).
    """

    cycles: int = 1
    warm_up: float = 0.0
    name: ClassVar[str] = "cosine"

    def __post_init__(self) -> None:
        if not (isinstance(self.cycles, int) and self.cycles >= 1 and 0.0 <= self.warm_up < 1.0):
            got = f"cycles {show(self.cycles)}, warm_up {show(self.warm_up)}"
            hint = "write Cosine(cycles=1, warm_up=0.1)"
            raise UsageError("schedule cosine", expected="cycles ≥ 1 and 0 ≤ warm_up < 1", got=got, hint=hint)

    def factor(self, t: float, epochs: int) -> float:
        """½(1 + cos π s), s the share of the cycle."""
        cycle = min(math.floor(t * self.cycles + ROUNDING), self.cycles - 1)
        share = min(max(t * self.cycles - cycle, 0.0), 1.0)
        if cycle == 0 and share < self.warm_up:
            return share / self.warm_up
        if cycle == 0:
            share = (share - self.warm_up) / (1.0 - self.warm_up)
        return 0.5 * (1.0 + math.cos(math.pi * share))


@dataclass(frozen=True)
class WarmSteps(Schedule):
    """Linear warm-up over `rise` epochs, then a factor of 0.1 at each of `falls` (Ovadia et al. 2019, appendix A.3)."""

    rise: int = 5
    falls: tuple[int, ...] = (30, 60, 80)
    name: ClassVar[str] = "warm_steps"

    def __post_init__(self) -> None:
        object.__setattr__(self, "falls", tuple(self.falls))

    def factor(self, t: float, epochs: int) -> float:
        """min(1, epoch/rise) · 0.1^(falls reached)."""
        now = t * epochs + ROUNDING
        return min(1.0, now / self.rise if self.rise else 1.0) * 0.1 ** sum(now >= at for at in self.falls)


@dataclass(frozen=True)
class ThenTriangular(Schedule):
    """Another schedule until epoch `start`, then triangular cycles between `high` and `low` (Garipov et al. 2018).

    The rate falls in the first half of a cycle of `cycle` epochs and rises in the second; snapshots are taken where it
    is lowest. With cycle = 0 the rate stays at `high`, as in SWAG (Maddox et al. 2019).
    """

    before: Schedule
    start: int
    high: float
    low: float
    cycle: int
    name: ClassVar[str] = "then_saw"

    def factor(self, t: float, epochs: int) -> float:
        """The factor of `before` until `start`; then 1 − 2|s − ½| of the way from high to low."""
        now = t * epochs
        if now < self.start - ROUNDING:
            return self.before.factor(now / self.start, self.start)
        if not self.cycle:
            return self.high
        share = ((now - self.start + ROUNDING) / self.cycle) % 1.0
        down = 1.0 - abs(2.0 * share - 1.0)
        return (1.0 - down) * self.high + down * self.low

    @property
    def base(self) -> Schedule:
        """The schedule before the cycles."""
        return self.before

    def settings(self) -> dict[str, Any]:
        """The settings, with those of `before`."""
        return {**super().settings(), "before": self.before.settings()}
