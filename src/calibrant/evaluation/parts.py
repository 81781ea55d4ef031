"""What is taken in of the rows of one input: accumulators of all rows and of groups, curves, and what was met.

A `Part` takes in blocks; parts of the same input, filled by several threads, are merged in the end. Sums are exact, so
that which of them saw a block, and when, shows nowhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.evaluation.curves import Columns, Curve, TakenIn
from calibrant.evaluation.curves.functions import Chosen, Functions
from calibrant.evaluation.grouping import Grouping
from calibrant.evaluation.worst import Loss, WorstRows
from calibrant.kernels.exact import ExactSum
from calibrant.kernels.held import PREDICTIONS
from calibrant.kernels.records import take
from calibrant.kernels.rows import rows_of
from calibrant.predictions import Classification, Detection, Evaluated, Regression
from calibrant.predictions.files.naming import naming
from calibrant.registry.accumulated import Accumulated
from calibrant.registry.estimate import Settings
from calibrant.registry.metric import Spec


@dataclass(frozen=True)
class Wanted:
    """What is wanted of each block."""

    specs: list[Spec]
    example: Evaluated
    settings: Settings
    groupings: list[Grouping]
    units: np.ndarray | None = None
    curves: list[Curve] = field(default_factory=list)
    noted: bool = True
    """Whether the user is told what was met; not where values alone are asked for."""
    rows: int = 0
    """How many of the worst rows are kept."""
    loss: Loss | None = None
    """What they are ranked by."""
    along: Chosen | None = None
    """The rows that functions are drawn at."""

    def record(self, block: Evaluated, threads: int | None, specs: list[Spec]) -> Any:
        """The record of a block's rows, with what these metrics want beyond it."""
        with naming(block.info.origin, block.info.first_row):
            light = all(spec.metric.light for spec in specs)
            return rows_of(block, self.extras(specs), threads=threads, light=light)

    def extras(self, specs: list[Spec]) -> frozenset[Hashable]:
        """What these metrics want beyond the record."""
        return frozenset().union(*(spec.metric.wanted(spec, self.example) for spec in specs))

    def wants(self, text: str) -> bool:
        """Whether this spec is among those wanted."""
        return any(spec.text == text for spec in self.specs)


class Taken:
    """What was taken in of all rows of some blocks, or of those of one group: metrics, and curves."""

    def __init__(self, specs: list[Spec], curves: Iterable[Curve], example: Evaluated) -> None:
        """No rows yet."""
        self.all = Accumulated.of(specs, example)
        self.curves = TakenIn(curves, example, self.all.takers)

    def add(self, rows: Any, spread: bool) -> None:
        """Take in more rows."""
        self.all.add(rows, spread)
        self.curves.add(rows, spread)

    def merge(self, other: Taken) -> None:
        """Take in what another has seen."""
        self.all.merge(other.all)
        if other.all.n:
            self.curves.merge(other.curves)

    def drawn(self, settings: Settings) -> dict[str, Columns]:
        """The curves by name; none where no row has weight."""
        if self.all.mass is not None and self.all.mass.value() == 0:
            return {}
        return self.curves.columns(settings)


class Part:
    """What was taken in of some of the blocks."""

    def __init__(self, wanted: Wanted) -> None:
        """Nothing yet."""
        self.wanted = wanted
        self.whole = Taken(wanted.specs, wanted.curves, wanted.example)
        self.groups: list[dict[int, Taken]] = [{} for _ in wanted.groupings]
        self.worst = WorstRows(wanted.rows, wanted.loss) if wanted.rows and wanted.loss else None
        self.functions = Functions(wanted.along) if wanted.along else None
        self.deviation = 0.0
        self.met = {"impossible": 0, "crossing": 0, "without_spread": 0}
        self.squares = ExactSum()
        self.like_probs = isinstance(wanted.example, Classification)
        self.lowest_label = 1 << 62

    @property
    def all(self) -> Accumulated:
        """The accumulators of all rows."""
        return self.whole.all

    def add(self, block: Evaluated, start: int, threads: int | None) -> None:
        """Take in a block whose first row is row `start` of all."""
        with np.errstate(over="ignore", invalid="ignore"):  # beyond 1e154 a square is infinite, and is said to be
            self._add(block, start, threads)

    def _add(self, block: Evaluated, start: int, threads: int | None) -> None:
        wanted = self.wanted
        rows = wanted.record(block, threads, wanted.specs)
        if wanted.units is not None:
            rows.units = wanted.units[start : start + block.n]
        if PREDICTIONS in rows.extras:
            rows.extras[PREDICTIONS] = replace(rows.extras[PREDICTIONS], first=start)
        self._notice(block, rows)
        self.whole.add(rows, wanted.settings.intervals)
        if self.worst is not None:
            self.worst.add(block, rows, start)
        if self.functions is not None and isinstance(block, Regression):
            self.functions.add(block, start)
        for grouping, found in zip(wanted.groupings, self.groups, strict=True):
            self._add_groups(grouping, grouping.place[start : start + block.n], found, block, rows)

    def _notice(self, block: Evaluated, rows: Any) -> None:
        """Count what the user should know of."""
        self.deviation = max(self.deviation, rows.deviation)
        if rows.weights is not None:
            self.squares.add(rows.weights**2)
        if isinstance(block, Classification):
            self.like_probs = self.like_probs and block.like_probs()
            if self.wanted.noted:
                self.lowest_label = min(self.lowest_label, 0 if block.labels is None else int(block.labels.min()))
        if isinstance(block, Regression):
            self.met["crossing"] += block.crossing()
            if block.samples is not None and self.wanted.wants("dss"):
                self.met["without_spread"] += int((rows.variance == 0).sum())
        elif isinstance(block, Detection):
            return
        elif self.wanted.settings.intervals and self.wanted.wants("nll") and rows.log_label is not None:
            self.met["impossible"] += int(np.isneginf(rows.log_label).sum())

    def _add_groups(
        self, grouping: Grouping, place: np.ndarray, found: dict[int, Taken], block: Evaluated, rows: Any
    ) -> None:
        wanted = self.wanted.extras(grouping.specs)
        # tables of sums are of all rows of a block: they are made anew for some of them
        tables = any(rows.extras[key].ndim > 1 for key in wanted if key in rows.extras)
        for group in np.unique(place).tolist():
            members = np.flatnonzero(place == group)
            part = self.wanted.record(block[members], 1, grouping.specs) if tables else take(rows, members)
            part.units = None if rows.units is None else rows.units[members]
            if PREDICTIONS in part.extras:
                part.extras[PREDICTIONS] = rows.extras[PREDICTIONS][members]
            self._group(grouping, found, group).add(part, self.wanted.settings.intervals and grouping.intervals)

    def _group(self, grouping: Grouping, found: dict[int, Taken], group: int) -> Taken:
        if group not in found:
            found[group] = Taken(grouping.specs, grouping.curves, self.wanted.example)
        return found[group]

    def merge(self, other: Part) -> None:
        """Take in what another has seen."""
        self.whole.merge(other.whole)
        if self.worst is not None and other.worst is not None:
            self.worst.merge(other.worst)
        if self.functions is not None and other.functions is not None:
            self.functions.merge(other.functions)
        self.deviation = max(self.deviation, other.deviation)
        self.met = {key: count + other.met[key] for key, count in self.met.items()}
        self.squares.merge(other.squares)
        self.like_probs &= other.like_probs
        self.lowest_label = min(self.lowest_label, other.lowest_label)
        for grouping, mine, theirs in zip(self.wanted.groupings, self.groups, other.groups, strict=True):
            for group, found in theirs.items():
                self._group(grouping, mine, group).merge(found)

    def drawn(self) -> dict[str, Columns]:
        """The curves of all rows by name."""
        made = self.whole.drawn(self.wanted.settings)
        return made if self.functions is None else made | self.functions.columns()

    def n_eff(self) -> float | None:
        """(Σw)²/Σw², or None where every row counts once."""
        squares = self.squares.value()
        return self.all.mass.value() ** 2 / squares if self.all.mass is not None and squares else None
