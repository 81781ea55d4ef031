"""The accumulators of many metrics over the same rows; those that are functions of one state share it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from calibrant.kernels.exact import ExactSum
from calibrant.predictions import Evaluated
from calibrant.registry.accumulators import Accumulator
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Spec
from calibrant.registry.sharing import Reduced

Tell = Callable[[str, float], None]


@dataclass
class Accumulated:
    """The accumulators of all rows, or of one group of them."""

    each: dict[str, Accumulator]
    takers: dict[Hashable, Any]
    """What takes in the rows: states by key, each once however many metrics share it, and the other accumulators."""
    n: int = 0
    mass: ExactSum | None = None

    @classmethod
    def of(cls, specs: list[Spec], example: Evaluated) -> Accumulated:
        """Fresh ones."""
        each = {spec.text: spec.metric.accumulate(spec, example) for spec in specs}
        takers: dict[Hashable, Any] = {}
        for text, accumulator in each.items():
            if isinstance(accumulator, Reduced):
                accumulator.state = takers.setdefault(("state", accumulator.key), accumulator.state)
            else:
                takers["own", text] = accumulator
        return cls(each, takers)

    def add(self, rows: Any, spread: bool) -> None:
        """Take in more rows."""
        self.n += rows.n
        if rows.weights is not None:
            self.mass = (self.mass or ExactSum()).add(rows.weights)
        for taker in self.takers.values():
            taker.add(rows, spread)

    def merge(self, other: Accumulated) -> None:
        """Take in what another has seen."""
        self.n += other.n
        if other.mass is not None:
            self.mass = (self.mass or ExactSum()).merge(other.mass)
        for key, taker in self.takers.items():
            if other.n:
                taker.merge(other.takers[key])

    def estimates(self, settings: Settings, tell: Tell = lambda what, share: None) -> dict[str, Estimate]:
        """What was found; undefined where no row has weight."""
        if self.mass is not None and self.mass.value() == 0:
            return dict.fromkeys(self.each, Estimate.of(math.nan, self.n))
        found = {}
        for place, (text, accumulator) in enumerate(self.each.items()):
            tell(text, place / len(self.each))
            found[text] = accumulator.result(settings)
        return found
