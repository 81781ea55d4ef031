"""One input on its way: its rows are read once, block by block, and every accumulator takes in what it needs."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError
from calibrant.evaluation.beside import beside
from calibrant.evaluation.choosing import Input, applicable, by_default, main_metrics
from calibrant.evaluation.drawing import with_curves
from calibrant.evaluation.grouping import Grouping, group_name, grouping_of, shifted_cells
from calibrant.evaluation.multiplicity import corrected
from calibrant.evaluation.parts import Part, Wanted
from calibrant.evaluation.result import Group, Result
from calibrant.evaluation.shift import Cell, Summary
from calibrant.evaluation.worst import loss_of
from calibrant.kernels.jit import available_threads
from calibrant.predictions import Classification, Evaluated, Note
from calibrant.predictions.classification import doubts
from calibrant.predictions.files.stream import Stream
from calibrant.predictions.regression import crossing_notes
from calibrant.registry.accumulated import Tell
from calibrant.registry.canonical import blind_kernel
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.sampled import taken_of

RENORMALISED_ABOVE = 1e-5


@dataclass
class OneInput:
    """One input, the metrics that are wanted of it, and, once it has gone by, what was met on the way."""

    source: Input
    wanted: str | Iterable[str] | None
    settings: Settings
    by: list[str] = field(default_factory=list)
    units: str | None = None
    shift: tuple[str, str] | None = None
    """Columns of the type of shift and of its severity."""
    block_rows: int | None = None
    tell: Tell = lambda what, share: None
    curves: bool = True
    rows: int = 0
    """How many of the worst rows are kept."""
    along: str | None = None
    """The column that functions are drawn along."""
    seen: Part | None = None

    def result(self, noted: bool = True) -> Result:
        """Read every block once, then reduce; what is not noted has values alone."""
        specs, skipped = applicable(self.wanted, self.source, self.units is not None)
        unnamed = by_default(self.wanted)
        of_groups = main_metrics(specs, self.wanted) if unnamed else specs
        groupings = [grouping_of(self.source, column, of_groups) for column in self.by]
        cells = [shifted_cells(self.source, self.shift, of_groups)] if self.shift else []
        wanted = Wanted(specs, self.source.example, self.settings, groupings + cells, self._units(), noted=noted)
        without: dict[str, str] = {}
        if noted and self.curves:
            wanted, without = with_curves(wanted, self.source, self.along, not unnamed)
        if noted and self.rows:
            loss = loss_of(self.source.example, specs, wanted.extras(specs))
            wanted = replace(wanted, rows=self.rows, loss=loss)
        self.seen = self._taken_in(wanted)
        found = [corrected(list(self._groups(g, k))) for k, g in enumerate(wanted.groupings[: len(groupings)])]
        worst = self.seen.worst
        return Result(
            self.source.name,
            self.seen.all.estimates(self.settings, self.tell),
            tuple(group for groups in found for group in groups),
            self.seen.drawn(),
            skipped,
            without,
            worst_rows=() if worst is None else worst.rows(partial(beside, self.source, first=self._named_columns())),
            worst_by=None if worst is None else worst.by.text,
        )

    # ---------------------------------------------------------------------------------------- rows
    def _taken_in(self, wanted: Wanted) -> Part:
        """All blocks. Of a stream each thread takes whole blocks; in memory the threads share the rows of one."""
        blocks = _Numbered(self.source.blocks(self.block_rows), self.source.n, self.tell)
        threads = self.settings.threads or available_threads()
        if threads == 1 or not isinstance(self.source, Stream):
            part = _filled(Part(wanted), blocks, self.settings.threads)
            for _, error in blocks.failed:
                raise error
            return part
        parts = [Part(wanted) for _ in range(threads)]
        with ThreadPoolExecutor(threads, thread_name_prefix="calibrant-blocks") as pool:
            try:
                list(pool.map(lambda part: _filled(part, blocks, 1), parts))
            finally:
                blocks.stop()
        if blocks.failed:
            raise min(blocks.failed, key=lambda failed: failed[0])[1]
        for part in parts[1:]:
            parts[0].merge(part)
        return parts[0]

    def _named_columns(self) -> list[str]:
        """Columns that were asked for, in any way."""
        named = [*(column.partition(":")[0] for column in self.by), *(self.shift or ()), self.units, self.along]
        return [name for name in named if name is not None]

    def _units(self) -> np.ndarray | None:
        if self.units is None:
            return None
        return np.unique(self.source.column(self.units), return_inverse=True)[1].ravel()

    # -------------------------------------------------------------------------------------- groups
    def summary(self, over: str) -> Summary:
        """The metrics over types of shift and severities, once the rows have gone by."""
        grouping, found = self.seen.wanted.groupings[-1], self.seen.groups[-1]  # type: ignore[union-attr]
        values = replace(self.settings, intervals=False)
        cells = []
        for k in sorted(found):
            kind, severity = grouping.names[k]
            cells.append(Cell.of(kind, severity, found[k].all.n, found[k].all.estimates(values)))
        return Summary(self.source.name, over, tuple(cells))

    def _groups(self, grouping: Grouping, k: int) -> Iterator[Group]:
        held = self.seen.groups[k] if self.seen else {}
        for group in sorted(held):
            found = held.pop(group)  # with its rows and redrawn labels: a thousand groups would not fit
            metrics: Mapping[str, Estimate] = found.all.estimates(self.settings)
            if grouping.by.partition(":")[0] == "labels":
                metrics = {text: _given_the_label(estimate) for text, estimate in metrics.items()}
            bands = replace(self.settings, intervals=self.settings.intervals and not grouping.given_outcome)
            name = group_name(self.source.example, grouping.by, grouping.names[group])
            yield Group(grouping.by, name, found.all.n, metrics, curves=found.drawn(bands))

    def _redrawn(self) -> bool:
        """Whether a metric would have had a band of redrawn labels."""
        specs = self.seen.wanted.specs if self.seen else []
        return any(spec.metric.redraws for spec in specs)

    # --------------------------------------------------------------------------------------- notes
    def _too_few_resamples(self) -> list[Note]:
        """A p-value is at least 1/(resamples + 1): of many groups, a single bad one would never be marked."""
        groupings = [] if self.seen is None else [g for g in self.seen.wanted.groupings if g.intervals]
        most = max((len(g.names) for g in groupings), default=0)
        rate = 0.5 - self.settings.level / 2
        known = self.settings.intervals and self.units is None and self._redrawn()
        if not known or most < rate * (self.settings.resamples + 1):
            return []
        said = f"of {most} groups no single one can be marked with {self.settings.resamples} resamples"
        wanted = f"{math.ceil(most / rate)} would do"
        return [Note("too-few-resamples", f"{self.source.name}: {said}; {wanted}")]

    def _of_pairs(self) -> list[Note]:
        """Of metrics over pairs of rows: that they looked at some rows only, or see nothing in these units."""
        out = []
        for spec in self.seen.wanted.specs if self.seen else ():
            accumulator: Any = self.seen.all.each[spec.text]  # type: ignore[union-attr]
            taken = taken_of(accumulator)
            if taken is None:
                continue
            if taken < self.source.n:
                more = "rows= takes more" if taken == spec["rows"] else "no more of so many classes are held at once"
                said = f"{spec.text} is of {taken} rows, chosen at random; {more}"
                out.append(Note("subsampled", f"{self.source.name}: {said}"))
            doubt = blind_kernel(accumulator, spec)
            out += [Note("kernel-scale", f"{self.source.name}: {doubt}")] if doubt else []
        return out

    def notes(self) -> list[Note]:
        """What was met or done that the user should know of."""
        name, out = self.source.name, list(self.source.notes())
        if self.seen is None:
            return out
        met, deviation = self.seen.met, self.seen.deviation
        if isinstance(self.source, Stream):
            out += crossing_notes(name, met["crossing"], self.source.n)
        if deviation > RENORMALISED_ABOVE:
            said = f"probabilities sum to one within {deviation:.2g}; each row was divided by its sum"
            out.append(Note("renormalised", f"{name}: {said}"))
        if met["impossible"]:
            said = f"{met['impossible']} rows gave their label probability 0; nll(clip=1e-6) bounds what they cost"
            out.append(Note("infinite-nll", f"{name}: {said}"))
        if met["without_spread"]:
            count = f"{met['without_spread']} of {self.source.n} rows"
            said = f"in {count} the samples are all equal, and such a row has an infinite dss"
            out.append(Note("infinite-dss", f"{name}: {said}"))
        if self.units is not None and self.settings.intervals and self._redrawn():
            said = "rows of a unit depend on each other, so labels are not redrawn: no band, no p-value"
            out.append(Note("units-without-band", f"{name}: {said}"))
        out += self._of_pairs()
        if any(column.partition(":")[0] == "labels" for column in self.by):
            said = "within one label no model is calibrated: groups by labels have no interval or band of ECE"
            out.append(Note("by-labels", f"{name}: {said}"))
        out += self._too_few_resamples()
        if any(column.partition(":")[0] == "y" for column in self.by):
            said = "groups by y are groups by what came true: among high outcomes a good forecast looks too low"
            out.append(Note("by-outcome", f"{name}: {said}"))
        if isinstance(self.source, Stream):
            example, n = self.source.example, self.source.n
            if isinstance(example, Classification):
                out += doubts(name, self.seen.like_probs, self.seen.lowest_label, n, example.classes)
        return out


def _given_the_label(estimate: Estimate) -> Estimate:
    """A calibration error among rows of one label: its null and its interval do not apply."""
    if estimate.method != "test-inversion" and math.isnan(estimate.null_high):
        return estimate
    return Estimate.of(estimate.value, estimate.n)


class _Numbered:
    """Blocks with the number of their first row, handed out to whichever thread asks; one at a time."""

    def __init__(self, blocks: Iterator[Evaluated], n: int, tell: Tell) -> None:
        self.blocks, self.n, self.tell = blocks, n, tell
        self.start = 0
        self.lock = threading.Lock()
        self.stopped = False
        self.failed: list[tuple[int, CalibrantError]] = []

    def __iter__(self) -> Iterator[tuple[int, Evaluated]]:
        while True:
            with self.lock:
                block = None if self.stopped else next(self.blocks, None)
                if block is None:
                    return
                start = self.start
                self.start += block.n
                self.tell("reading", start / self.n)
            yield start, block

    def stop(self) -> None:
        """Hand out no more, and end the reading."""
        with self.lock:
            self.stopped = True
            getattr(self.blocks, "close", lambda: None)()


def _filled(part: Part, blocks: _Numbered, threads: int | None) -> Part:
    """The part with every block that came to it; what is refused ends the reading, and is told by its first row."""
    try:
        for start, block in blocks:
            try:
                part.add(block, start, threads)
            except CalibrantError as error:
                blocks.failed.append((start, error))
                blocks.stop()
    except BaseException:  # Ctrl-C, or a fault: the reading ends now, not when the traceback is let go
        blocks.stop()
        raise
    return part
