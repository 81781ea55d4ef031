"""Metrics that are functions of a state: those of one key share it, so that rows are taken in once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, Self

from calibrant.registry.estimate import Estimate, Settings


class State(Protocol):
    """What is kept of the rows."""

    def add(self, rows: Any, spread: bool = True) -> None:
        """Take in more rows; without `spread`, only what the value needs."""
        ...

    def merge(self, other: Self) -> None:
        """Take in what another has seen."""
        ...


@dataclass
class Reduced:
    """An accumulator whose state others may share: equal keys mean equal states."""

    key: Hashable
    state: Any
    reduce: Callable[[Any, Settings], Estimate]

    def add(self, rows: Any, spread: bool = True) -> None:
        """Take in more rows."""
        self.state.add(rows, spread)

    def merge(self, other: Reduced) -> None:
        """Take in what another has seen."""
        self.state.merge(other.state)

    def result(self, settings: Settings) -> Estimate:
        """The estimate from all rows seen."""
        return self.reduce(self.state, settings)
