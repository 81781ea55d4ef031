"""How the learning rate goes: a factor of the initial rate at each moment of training.

t is the share of training that is done, from 0 to 1; epochs enter where a paper tells its schedule by them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from calibrant.errors import UsageError, show

ROUNDING = 1e-11
"""Of an epoch, or of a cycle: what is that close to its beginning has begun."""


class Schedule(ABC):
    """A factor of the initial learning rate."""

    name: ClassVar[str]

    @abstractmethod
    def factor(self, t: float, epochs: int) -> float:
        """The factor when the share t of so many epochs is done."""

    @property
    def base(self) -> Schedule:
        """The schedule itself; of one that goes on from another, that other."""
        return self

    def settings(self) -> dict[str, Any]:
        """What a file says of it."""
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
    """`factors[i]` from epoch `epochs[i]` on, told for a training of `of` epochs (0: as many as there are).

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
                expected="as many factors as epochs, which rise",
                came=f"epochs {self.epochs} and factors {self.factors}",
                do="give a factor for each epoch",
            )

    def factor(self, t: float, epochs: int) -> float:
        """The factor of the last step that was reached."""
        now = t * (self.of or epochs) + ROUNDING
        reached = [factor for at, factor in zip(self.epochs, self.factors, strict=True) if now >= at]
        return reached[-1] if reached else 1.0


@dataclass(frozen=True)
class Halving(Schedule):
    """Half of the rate after every so many epochs (Gopal 2021, appendix F: 100)."""

    every: int = 100
    name: ClassVar[str] = "halving"

    def __post_init__(self) -> None:
        if not (isinstance(self.every, int) and self.every >= 1):
            raise UsageError(
                "schedule halving", expected="epochs from 1", came=f"got {show(self.every)}", do="100 is Gopal's"
            )

    def factor(self, t: float, epochs: int) -> float:
        """2 to the −(epochs done / every), rounded down."""
        return 0.5 ** int((t * epochs + ROUNDING) // self.every)


@dataclass(frozen=True)
class LinearDecay(Schedule):
    """The full rate until `hold`, then straight down to `least` at `end` (Ashukha et al. 2020, eq. 6)."""

    hold: float = 0.5
    end: float = 0.9
    least: float = 0.01
    name: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        if not (0.0 <= self.hold < self.end <= 1.0 and 0.0 <= self.least <= 1.0):
            raise UsageError(
                "schedule linear",
                expected="0 ≤ hold < end ≤ 1, and a least factor from 0 to 1",
                came=f"hold {show(self.hold)}, end {show(self.end)}, least {show(self.least)}",
                do="LinearDecay(0.5, 0.9, 0.01), for example",
            )

    def factor(self, t: float, epochs: int) -> float:
        """1, then 1 − (1 − least)(t − hold)/(end − hold), then least."""
        share = (t - self.hold) / (self.end - self.hold)
        return 1.0 - (1.0 - self.least) * min(max(share, 0.0), 1.0)


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine down to zero in each of `cycles`, after a straight rise over the share `warm_up` of the first.

    With several cycles it is that of snapshot ensembles (Huang et al. 2017) and of cyclical SGLD:
    ½(cos(π·mod(t, 1/cycles)·cycles) + 1).
    """

    cycles: int = 1
    warm_up: float = 0.0
    name: ClassVar[str] = "cosine"

    def __post_init__(self) -> None:
        if not (isinstance(self.cycles, int) and self.cycles >= 1 and 0.0 <= self.warm_up < 1.0):
            raise UsageError(
                "schedule cosine",
                expected="a cycle or more, and a warm_up from 0 to below 1",
                came=f"cycles {show(self.cycles)}, warm_up {show(self.warm_up)}",
                do="Cosine(cycles=1, warm_up=0.1), for example",
            )

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
    """A straight rise over `rise` epochs, then a tenth at each of `falls` (Ovadia et al. 2019, appendix A.3)."""

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
class ThenSaw(Schedule):
    """Another schedule until epoch `start`, then a saw of `cycle` epochs from `high` to `low` (Garipov et al. 2018).

    The rate falls in the first half of a cycle and rises in the second; networks are kept where it is lowest. With
    cycle = 0 the rate stays at `high`, as SWAG has it (Maddox et al. 2019).
    """

    before: Schedule
    start: int
    high: float
    low: float
    cycle: int
    name: ClassVar[str] = "then_saw"

    def factor(self, t: float, epochs: int) -> float:
        """As `before` had it for so many epochs; then 1 − 2|s − ½| of the way from high to low."""
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
        """What came before the saw."""
        return self.before

    def settings(self) -> dict[str, Any]:
        """With those of the schedule before it."""
        return {**super().settings(), "before": self.before.settings()}
