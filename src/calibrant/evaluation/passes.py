"""One input on its way: its rows are read once, block by block, and every accumulator takes in what it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.errors import NotApplicable, UsageError, show, whole_number
from calibrant.evaluation.curves import PitHistogram, Reliability
from calibrant.evaluation.result import Group, Result
from calibrant.kernels.exact import ExactSum
from calibrant.kernels.rows import rows_of
from calibrant.predictions import Classification, Judged, Note, Regression
from calibrant.predictions.base import groups_of
from calibrant.predictions.files.stream import Stream, naming
from calibrant.predictions.regression import crossing_notes
from calibrant.registry.accumulators import Accumulator
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Spec

InMemory = Classification | Judged | Regression
Input = InMemory | Stream
Tell = Callable[[str, float], None]
RENORMALISED_ABOVE = 1e-5
MOST_GROUPS = 1000
MOST_KEPT = 1 << 21
"""Rows of an input read block by block up to which metrics that keep rows run without being named."""


@dataclass
class Accumulated:
    """The accumulators of all rows, or of one group of them."""

    each: dict[str, Accumulator]
    n: int = 0
    mass: ExactSum | None = None

    @classmethod
    def of(cls, specs: list[Spec], example: InMemory) -> Accumulated:
        """Fresh ones."""
        return cls({spec.text: spec.metric.accumulate(spec, example) for spec in specs})

    def add(self, rows: Any, spread: bool) -> None:
        """Take in more rows."""
        self.n += rows.n
        if rows.weights is not None:
            self.mass = (self.mass or ExactSum()).add(rows.weights)
        for accumulator in self.each.values():
            accumulator.add(rows, spread)

    def estimates(self, settings: Settings, tell: Tell) -> dict[str, Estimate]:
        """What was found; undefined where no row has weight."""
        if self.mass is not None and self.mass.value() == 0:
            return dict.fromkeys(self.each, Estimate.of(math.nan, self.n))
        found = {}
        for place, (text, accumulator) in enumerate(self.each.items()):
            tell(text, place / len(self.each))
            found[text] = accumulator.result(settings)
        return found


@dataclass
class Grouping:
    """The groups of one column: their names, the group of each row, and an accumulator for each."""

    by: str
    names: list[Any]
    place: np.ndarray
    found: dict[int, Accumulated] = field(default_factory=dict)


@dataclass
class OneInput:
    """One input, the metrics that are wanted of it, and what was met on the way."""

    source: Input
    wanted: str | Iterable[str] | None
    settings: Settings
    by: list[str] = field(default_factory=list)
    units: str | None = None
    block_rows: int | None = None
    tell: Tell = lambda what, share: None
    deviation: float = 0.0
    impossible: int = 0
    crossing: int = 0
    mass: tuple[ExactSum, ExactSum] = field(default_factory=lambda: (ExactSum(), ExactSum()))

    def result(self, curves: bool = True) -> Result:
        """Read every block once, then reduce."""
        specs, skipped = applicable(self.wanted, self.source)
        everything = Accumulated.of(specs, self.source.example)
        groupings = [self._grouping(column) for column in self.by]
        units = self._units()
        curve = PitHistogram() if isinstance(self.source.example, Regression) else Reliability()
        start = 0
        for block in self.source.blocks(self.block_rows):
            self.tell("reading", start / self.source.n)
            rows = self._rows(block, specs, units, start)
            everything.add(rows, self.settings.intervals)
            if curves:
                curve.add(rows)
            for grouping in groupings:
                self._add_groups(grouping, specs, block, rows, start)
            start += block.n
        return Result(
            self.source.name,
            everything.estimates(self.settings, self.tell),
            tuple(group for grouping in groupings for group in self._groups(grouping)),
            curve.columns() if curves else {},
            skipped,
        )

    # ---------------------------------------------------------------------------------------- rows
    def _rows(self, block: InMemory, specs: list[Spec], units: np.ndarray | None, start: int) -> Any:
        rows = self._record(block, specs)
        if units is not None:
            rows.units = units[start : start + block.n]
        self.deviation = max(self.deviation, rows.deviation)
        if self.settings.intervals and getattr(rows, "log_label", None) is not None:
            self.impossible += int(np.isneginf(rows.log_label).sum()) * any(spec.text == "nll" for spec in specs)
        if isinstance(self.source, Stream) and isinstance(block, Regression):
            self.crossing += block.crossing()
        if rows.weights is not None:
            self.mass[0].add(rows.weights)
            self.mass[1].add(rows.weights**2)
        return rows

    def _record(self, block: InMemory, specs: list[Spec]) -> Any:
        extras: frozenset[Hashable] = frozenset()
        for spec in specs:
            extras |= spec.metric.wanted(spec, self.source.example)
        with naming(block.info.origin):
            light = all(spec.metric.light for spec in specs)
            return rows_of(block, extras, threads=self.settings.threads, light=light)

    def _units(self) -> np.ndarray | None:
        if self.units is None:
            return None
        return np.unique(self.source.column(self.units), return_inverse=True)[1].ravel()

    def n_eff(self) -> float | None:
        """(Σw)²/Σw², or None where every row counts once."""
        total, squares = (sums.value() for sums in self.mass)
        return total**2 / squares if squares else None

    # -------------------------------------------------------------------------------------- groups
    def _grouping(self, column: str) -> Grouping:
        name, _, bins = column.partition(":")
        if bins and whole_number(bins) is None:
            raise UsageError(
                "by",
                expected="COLUMN or COLUMN:BINS",
                came=f"got {show(column)}",
                do="BINS is a number",
            )
        values = self.source.column(name)
        count = len(np.unique(values))
        if (min(int(bins), count) if bins else count) > MOST_GROUPS:
            raise UsageError(
                f"by {show(name)}",
                expected=f"at most {MOST_GROUPS} groups",
                came=f"the column has {count} values" + (f" in {bins} ranges" if bins else ""),
                do=f"cut it into ranges with {name}:10",
            )
        return Grouping(column, *groups_of(values, name, int(bins) if bins else None))

    def _add_groups(self, grouping: Grouping, specs: list[Spec], block: InMemory, rows: Any, start: int) -> None:
        place = grouping.place[start : start + block.n]
        tables = any(extra.ndim > 1 for extra in rows.extras.values())
        for group in np.unique(place).tolist():
            members = np.flatnonzero(place == group)
            part = self._record(block[members], specs) if tables else rows.take(members)
            part.units = None if rows.units is None else rows.units[members]
            found = grouping.found.setdefault(group, Accumulated.of(specs, self.source.example))
            found.add(part, self.settings.intervals)

    def _groups(self, grouping: Grouping) -> Iterator[Group]:
        for group in sorted(grouping.found):
            found = grouping.found[group]
            metrics: Mapping[str, Estimate] = found.estimates(self.settings, lambda what, share: None)
            if grouping.by.partition(":")[0] == "labels":
                metrics = {text: _given_the_label(estimate) for text, estimate in metrics.items()}
            yield Group(grouping.by, self._group_name(grouping.by, grouping.names[group]), found.n, metrics)

    def _group_name(self, column: str, value: Any) -> Any:
        """The class's name for a label; text for what JSON has no number for."""
        names = getattr(self.source.example, "class_names", None)
        if column == "labels" and names:
            return names[value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    # --------------------------------------------------------------------------------------- notes
    def notes(self) -> list[Note]:
        """What was met or done that the user should know of."""
        name, out = self.source.name, list(self.source.notes())
        if self.deviation > RENORMALISED_ABOVE:
            said = f"probabilities sum to one within {self.deviation:.2g}; each row was divided by its sum"
            out.append(Note("renormalised", f"{name}: {said}"))
        if self.impossible:
            said = f"{self.impossible} rows gave their label probability 0; nll(clip=1e-6) bounds what they cost"
            out.append(Note("infinite-nll", f"{name}: {said}"))
        if any(column.partition(":")[0] == "labels" for column in self.by):
            said = "within one label no model is calibrated: groups by labels have no interval or band of ECE"
            out.append(Note("by-labels", f"{name}: {said}"))
        return out + list(crossing_notes(name, self.crossing, self.source.n))


def _given_the_label(estimate: Estimate) -> Estimate:
    """A calibration error among rows of one label: its null and its interval do not apply."""
    if estimate.method != "test-inversion" and math.isnan(estimate.null_high):
        return estimate
    return Estimate.of(estimate.value, estimate.n)


# ----------------------------------------------------------------------------------------- metrics
def applicable(wanted: str | Iterable[str] | None, source: Input) -> tuple[list[Spec], dict[str, str]]:
    """The specs that these predictions can give, and the reason for each that they cannot."""
    example = source.example
    specs, named = _specs(wanted, example)
    skipped = {spec.text: reason for spec in specs if (reason := spec.metric.lacks(spec, example))}
    if isinstance(source, Stream) and source.n > MOST_KEPT and not named:
        said = "it keeps every row, and this input is read block by block: name it if it is meant"
        skipped |= {s.text: said for s in specs if s.metric.keeps_rows(s) and s.text not in skipped}
    chosen = [spec for spec in specs if spec.text not in skipped]
    if not chosen:
        reasons = "; ".join(f"{text}: {reason}" for text, reason in skipped.items())
        raise NotApplicable(
            source.name,
            expected="at least one metric that applies",
            came=f"none of those asked for does ({reasons})" if reasons else "none was asked for",
            do="see `calibrant metrics` for what each needs",
        )
    return chosen, skipped


def _specs(wanted: str | Iterable[str] | None, example: InMemory) -> tuple[list[Spec], bool]:
    """The specs asked for, and whether they were named one by one; those of other tasks are not meant by default."""
    if isinstance(wanted, str):
        wanted = registry.split(wanted)
    texts = None if wanted is None else list(wanted)
    if texts is not None and texts != ["all"]:
        return list({spec.text: spec for spec in map(registry.parse, texts)}.values()), True
    specs = registry.default_specs() if texts is None else [Spec.make(m) for m in registry.metrics().values()]
    family = frozenset({"regression"} if isinstance(example, Regression) else {"classification", "judged"})
    specs = [spec for spec in specs if family & spec.metric.tasks]
    return specs + _binary_extras(specs, example), texts is not None


def _binary_extras(specs: list[Spec], example: InMemory) -> list[Spec]:
    """Of a binary problem both readings are shown: the top label, and class 1."""
    if not isinstance(example, Classification) or example.classes != 2:
        return []
    names = (*(example.class_names or ())[1:], "1")
    written = [n for n in names if n != "top" and n == n.strip() and not set(n) & set("(),=")]
    name = next((n for n in written if example.class_index(n) == 1), None)
    if name is None:
        return []
    return [Spec.make(spec.metric, of=name) for spec in specs if "of" in spec.options]
