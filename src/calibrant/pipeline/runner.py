"""One input: the plan of its one pass, the state that accumulates its blocks, and the runner that reads them.

A `PassState` adds blocks; the states that several threads fill from one input are merged in the end. Sums are exact, so
the result does not depend on which of them added a block, or when.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError, error_context
from calibrant.kernels.exact import ExactSum
from calibrant.kernels.jit import available_threads, is_compiled, key_of_work, note_compiled
from calibrant.kernels.records import PREDICTIONS, take
from calibrant.kernels.rows import rows_of
from calibrant.pipeline.calibration_tests import collect_evidence, family_of
from calibrant.pipeline.curves.base import Columns, Curve, CurveStates
from calibrant.pipeline.curves.member_functions import (
    NEEDS_GAUSSIAN_MEMBERS,
    MemberFunctions,
    RowsAlong,
    select_rows_along,
)
from calibrant.pipeline.curves.selection import FOR_VERDICT, select_curves, select_group_curves
from calibrant.pipeline.groups import Grouping, group_by_column, group_by_shift, group_name
from calibrant.pipeline.multiple_testing import with_q_values
from calibrant.pipeline.select_metrics import Input, applicable, main_metrics
from calibrant.pipeline.worst_rows import Loss, WorstRows, loss_of
from calibrant.predictions import Classification, Detection, Evaluable, Note, Regression
from calibrant.predictions.classification import plausibility_notes
from calibrant.predictions.files.stream import Stream
from calibrant.predictions.regression import crossing_notes
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.lookup import by_default
from calibrant.registry.metric import Skipped, Spec
from calibrant.registry.metrics.canonical import blind_kernel
from calibrant.registry.metrics.proper import NLL
from calibrant.registry.metrics.regression import DSS
from calibrant.registry.state.accumulators import Accumulated, ReportProgress
from calibrant.registry.state.row_sample import sampled_rows
from calibrant.results.evaluation import Group, Result
from calibrant.results.shift import ShiftCell, ShiftSummary
from calibrant.results.verdict import Evidence


@dataclass(frozen=True)
class PassPlan:
    """What the pass computes from each block."""

    specs: list[Spec]
    example: Evaluable
    settings: Settings
    groupings: list[Grouping]
    units: np.ndarray | None = None
    """The unit of each row, by number."""
    curves: list[Curve] = field(default_factory=list)
    notes: bool = True
    """Whether anomalies of the data are reported; not where only values are needed."""
    worst_rows: int = 0
    """How many of the rows with the largest losses are listed."""
    loss: Loss | None = None
    """The loss that ranks them."""
    along: RowsAlong | None = None
    """The rows at which functions of members are plotted."""

    def record(self, block: Evaluable, threads: int | None, specs: list[Spec]) -> Any:
        """The record of a block's rows, with the columns that these metrics require."""
        with error_context(block.info.origin, block.info.first_row):
            light = all(spec.metric.short_pass for spec in specs)
            return rows_of(block, self.required_columns(specs), threads=threads, light=light)

    def required_columns(self, specs: list[Spec]) -> frozenset[Hashable]:
        """The columns of the record that these metrics require beyond the standard ones."""
        columns = [spec.metric.required_columns(spec, self.example) for spec in specs]
        if self.settings.intervals:
            columns += [spec.metric.interval_columns(spec, self.example) for spec in specs]
        return frozenset().union(*columns)

    def kind_of_work(self) -> str:
        """What decides which kernels are called, as a key of the list of compiled work."""
        example, names = self.example, sorted({spec.metric.name for spec in self.specs})
        scores = getattr(example, "scores", None)
        kind = type(example).__name__, getattr(example, "kind", ""), example.members > 1
        shape = "" if scores is None else (scores.dtype.str, scores.shape[2])
        return key_of_work(*kind, shape, names, self.settings.intervals, bool(self.curves or self.worst_rows))

    def has_metric(self, text: str) -> bool:
        """Whether this spec is computed."""
        return any(spec.text == text for spec in self.specs)


class GroupState:
    """Accumulators and curves of all rows, or of the rows of one group."""

    def __init__(self, specs: list[Spec], curves: Iterable[Curve], example: Evaluable) -> None:
        self.metrics = Accumulated.of(specs, example)
        self.curves = CurveStates(curves, example, self.metrics.states)

    def add(self, rows: Any, spread: bool) -> None:
        """Add rows."""
        self.metrics.add(rows, spread)
        self.curves.add(rows, spread)

    def merge(self, other: GroupState) -> None:
        """Add the rows of another state."""
        self.metrics.merge(other.metrics)
        if other.metrics.n:
            self.curves.merge(other.curves)

    def curve_columns(self, settings: Settings) -> dict[str, Columns]:
        """The curves by name; none if no row has weight."""
        if self.metrics.mass is not None and self.metrics.mass.value() == 0:
            return {}
        return self.curves.columns(settings)


class PassState:
    """Everything that is accumulated from the blocks of one input."""

    def __init__(self, plan: PassPlan) -> None:
        self.plan = plan
        self.whole = GroupState(plan.specs, plan.curves, plan.example)
        self.groups: list[dict[int, GroupState]] = [{} for _ in plan.groupings]
        self.worst = WorstRows(plan.worst_rows, plan.loss) if plan.worst_rows and plan.loss else None
        self.functions = MemberFunctions(plan.along) if plan.along else None
        self.deviation = 0.0
        self.anomaly_counts = {"impossible": 0, "crossing": 0, "without_spread": 0}
        self.squared_weights = ExactSum()
        self.looks_like_probs = isinstance(plan.example, Classification)
        self.lowest_label = 1 << 62

    @property
    def metrics(self) -> Accumulated:
        """The accumulators of all rows."""
        return self.whole.metrics

    def add(self, block: Evaluable, start: int, threads: int | None) -> None:
        """Add a block whose first row is row `start` of the input."""
        plan = self.plan
        with np.errstate(over="ignore", invalid="ignore"):  # squares beyond 1e154 are infinite, and reported as such
            rows = plan.record(block, threads, plan.specs)
            if plan.units is not None:
                rows.units = plan.units[start : start + block.n]
            if PREDICTIONS in rows.extras:
                rows.extras[PREDICTIONS] = replace(rows.extras[PREDICTIONS], first=start)
            self._count_anomalies(block, rows)
            self.whole.add(rows, plan.settings.intervals)
            if self.worst is not None:
                self.worst.add(block, rows, start)
            if self.functions is not None and isinstance(block, Regression):
                self.functions.add(block, start)
            for grouping, states in zip(plan.groupings, self.groups, strict=True):
                self._add_groups(grouping, grouping.place[start : start + block.n], states, block, rows)

    def _count_anomalies(self, block: Evaluable, rows: Any) -> None:
        plan = self.plan
        self.deviation = max(self.deviation, rows.deviation)
        if rows.weights is not None:
            self.squared_weights.add(rows.weights**2)
        if isinstance(block, Classification):
            self.looks_like_probs = self.looks_like_probs and block.looks_like_probs()
            if plan.notes:
                self.lowest_label = min(self.lowest_label, 0 if block.labels is None else int(block.labels.min()))
        if isinstance(block, Regression):
            self.anomaly_counts["crossing"] += block.count_crossing()
            if block.samples is not None and plan.has_metric(DSS.name):
                self.anomaly_counts["without_spread"] += int((rows.variance == 0).sum())
        elif isinstance(block, Detection):
            return
        elif plan.settings.intervals and plan.has_metric(NLL.name) and rows.log_label is not None:
            self.anomaly_counts["impossible"] += int(np.isneginf(rows.log_label).sum())

    def _add_groups(
        self, grouping: Grouping, place: np.ndarray, states: dict[int, GroupState], block: Evaluable, rows: Any
    ) -> None:
        columns = self.plan.required_columns(grouping.specs)
        # tables of sums are over all rows of a block: for some of its rows they are computed again
        tables = any(rows.extras[key].ndim > 1 for key in columns if key in rows.extras)
        for group in np.unique(place).tolist():
            members = np.flatnonzero(place == group)
            part = self.plan.record(block[members], 1, grouping.specs) if tables else take(rows, members)
            part.units = None if rows.units is None else rows.units[members]
            if PREDICTIONS in part.extras:
                part.extras[PREDICTIONS] = rows.extras[PREDICTIONS][members]
            state = self._group_state(grouping, states, group)
            state.add(part, self.plan.settings.intervals and grouping.intervals)

    def _group_state(self, grouping: Grouping, states: dict[int, GroupState], group: int) -> GroupState:
        if group not in states:
            states[group] = GroupState(grouping.specs, grouping.curves, self.plan.example)
        return states[group]

    def merge(self, other: PassState) -> None:
        """Add the blocks of another state."""
        self.whole.merge(other.whole)
        if self.worst is not None and other.worst is not None:
            self.worst.merge(other.worst)
        if self.functions is not None and other.functions is not None:
            self.functions.merge(other.functions)
        self.deviation = max(self.deviation, other.deviation)
        self.anomaly_counts = {key: count + other.anomaly_counts[key] for key, count in self.anomaly_counts.items()}
        self.squared_weights.merge(other.squared_weights)
        self.looks_like_probs &= other.looks_like_probs
        self.lowest_label = min(self.lowest_label, other.lowest_label)
        for grouping, states, others in zip(self.plan.groupings, self.groups, other.groups, strict=True):
            for group, state in others.items():
                self._group_state(grouping, states, group).merge(state)

    def curves(self) -> dict[str, Columns]:
        """The curves of all rows by name."""
        curves = self.whole.curve_columns(self.plan.settings)
        return curves if self.functions is None else curves | self.functions.columns()

    def effective_n(self) -> float | None:
        """(Σw)²/Σw², or None if there are no weights."""
        squares = self.squared_weights.value()
        return self.metrics.mass.value() ** 2 / squares if self.metrics.mass is not None and squares else None


Preview = Callable[[str, Mapping[str, float]], None]
PREVIEW_SECONDS = 0.8
"""Compilation left to do from which values are shown before their intervals."""
RENORMALISED_ABOVE = 1e-5
"""Largest deviation of row sums from one that is not worth a note."""


@dataclass
class InputRunner:
    """Evaluates one input: plans the pass, reads the blocks, and reduces the state to a result and notes."""

    source: Input
    metrics: str | Iterable[str] | None
    settings: Settings
    by: list[str] = field(default_factory=list)
    units: str | None = None
    shift: tuple[str, str] | None = None
    """Columns of the type of shift and of its severity."""
    block_rows: int | None = None
    report: ReportProgress = lambda step, share: None
    curves: bool = True
    worst_rows: int = 0
    """How many of the rows with the largest losses are listed."""
    along: str | None = None
    """The column that functions of members are plotted along."""
    always_judge: bool = False
    """Whether calibration is judged even if no calibration error was requested."""
    stored: bool = True
    """Whether the result is stored or drawn: if not, only the curves that its verdict quotes are computed."""
    preview: Preview | None = None
    """Called with the values of the metrics while the kernels behind their intervals are still compiled."""
    state: PassState = field(init=False)
    """The accumulators, once `result` has read the rows."""
    evidence: Evidence | None = field(init=False, default=None)
    """What the verdict rests on, once `result` has read the rows."""

    def result(self, values_only: bool = False) -> Result:
        """Read every block once, then reduce; with `values_only` without curves and worst rows."""
        source, example = self.source, self.source.example
        specs, skipped = applicable(self.metrics, source, self.units is not None)
        named = not by_default(self.metrics)
        group_specs = specs if named else main_metrics(specs, self.metrics)
        groupings = [group_by_column(source, column, group_specs) for column in self.by]
        if self.shift:
            groupings.append(group_by_shift(source, self.shift, group_specs))
        units = None
        if self.units is not None:
            units = np.unique(source.column(self.units), return_inverse=True)[1].ravel()
        family = None
        asked = self.always_judge or any(spec.metric.tests_calibration for spec in specs)
        if asked and self.settings.intervals and not values_only:
            family = family_of(source, units is not None)
        requested = {spec.text for spec in specs}
        extra = [spec for spec in (family.specs if family else ()) if spec.text not in requested]
        plan = PassPlan([*specs, *extra], example, self.settings, groupings, units, notes=not values_only)

        curves_skipped: dict[str, Skipped] = {}
        if self.curves and not values_only:
            columns = plan.required_columns(specs)
            curves, curves_skipped = select_curves(example, source.n, specs, columns, named)
            groupings = [
                replace(g, curves=select_group_curves(g, example, source.n, plan.required_columns(g.specs), named))
                for g in groupings
            ]
            if not self.stored:
                curves = [curve for curve in curves if curve.name in FOR_VERDICT]
                groupings = [replace(g, curves=()) for g in groupings]
            plan = replace(plan, curves=curves, groupings=groupings)
            if isinstance(example, Regression):
                along, skip_reason = select_rows_along(source, self.along)
                plan = replace(plan, along=along if self.stored else None)
                if skip_reason:
                    curves_skipped["functions"] = skip_reason
            elif self.along is not None:
                curves_skipped["functions"] = NEEDS_GAUSSIAN_MEMBERS
        if self.worst_rows and self.stored and not values_only:
            plan = replace(plan, worst_rows=self.worst_rows, loss=loss_of(example, specs, plan.required_columns(specs)))

        key = plan.kind_of_work()
        self.state = state = self._read_blocks(plan) if is_compiled(key) else self._compile_and_read(plan, specs)
        note_compiled(key)
        groups = [with_q_values(list(self._groups(g, k))) for k, g in enumerate(groupings[: len(self.by)])]
        estimates = state.metrics.estimates(self.settings, self.report)
        if family is not None:
            self.evidence = collect_evidence(family, state.metrics, estimates, self.settings, example)  # type: ignore[arg-type]
        option_columns = [column.partition(":")[0] for column in self.by]
        option_columns += [name for name in (*(self.shift or ()), self.units, self.along) if name is not None]
        return Result(
            source.name,
            {text: estimate for text, estimate in estimates.items() if text in requested},
            tuple(group for of_column in groups for group in of_column),
            state.curves(),
            skipped,
            curves_skipped,
            worst_rows=() if state.worst is None else state.worst.to_json(source, option_columns),
            worst_by=None if state.worst is None else state.worst.loss.text,
        )

    def _compile_and_read(self, plan: PassPlan, shown: list[Spec]) -> PassState:
        """Read the blocks while what their estimates take is still compiled; the values may be shown meanwhile."""
        from calibrant.kernels.compile import Compilation
        from calibrant.pipeline.compilation import compiling, kernels_of

        def report(done: int, total: int) -> None:
            self.report(compiling(done, total), done / total)

        intervals = self.settings.intervals
        first, every = kernels_of(plan.example, plan.specs, intervals, bool(plan.curves or plan.worst_rows))
        with Compilation(every, self.settings.threads, report) as compilation:
            compilation.until(first)
            state = self._read_blocks(plan)
            if self.preview is not None and intervals and compilation.seconds > PREVIEW_SECONDS:
                values = state.metrics.estimates(replace(self.settings, intervals=False))
                self.preview(self.source.name, {spec.text: values[spec.text].value for spec in shown})
            compilation.until(every)
        return state

    def _read_blocks(self, plan: PassPlan) -> PassState:
        """Read all blocks: of a stream each thread reads whole blocks, in memory all threads share one block's rows."""
        blocks = _BlockQueue(self.source.blocks(self.block_rows), self.source.n, self.report)
        threads = self.settings.threads or available_threads()
        if threads == 1 or not isinstance(self.source, Stream):
            state = PassState(plan)
            blocks.feed(state, self.settings.threads)
            for _, error in blocks.errors:
                raise error
            return state
        states = [PassState(plan) for _ in range(threads)]
        with ThreadPoolExecutor(threads, thread_name_prefix="calibrant-blocks") as pool:
            try:
                list(pool.map(lambda state: blocks.feed(state, 1), states))
            finally:
                blocks.stop()
        if blocks.errors:
            raise min(blocks.errors, key=lambda failed: failed[0])[1]
        for state in states[1:]:
            states[0].merge(state)
        return states[0]

    # -------------------------------------------------------------------------------------- groups
    def shift_summary(self, over: str) -> ShiftSummary:
        """The metrics by type and severity of shift; after `result`."""
        grouping, states = self.state.plan.groupings[-1], self.state.groups[-1]
        values_only = replace(self.settings, intervals=False)
        cells = []
        for k in sorted(states):
            kind, severity = grouping.names[k]
            cells.append(ShiftCell.of(kind, severity, states[k].metrics.n, states[k].metrics.estimates(values_only)))
        return ShiftSummary(self.source.name, over, tuple(cells))

    def _groups(self, grouping: Grouping, k: int) -> Iterator[Group]:
        states = self.state.groups[k]
        for group in sorted(states):
            state = states.pop(group)  # its rows and redrawn labels with it: those of a thousand groups would not fit
            metrics: Mapping[str, Estimate] = state.metrics.estimates(self.settings)
            if grouping.by_outcome:
                metrics = {text: _within_outcome(estimate) for text, estimate in metrics.items()}
            bands = replace(self.settings, intervals=self.settings.intervals and not grouping.by_outcome)
            name = group_name(self.source.example, grouping.by, grouping.names[group])
            yield Group(grouping.by, name, state.metrics.n, metrics, curves=state.curve_columns(bands))

    # --------------------------------------------------------------------------------------- notes
    def notes(self) -> list[Note]:
        """What the user should know: of the predictions, and of how they were evaluated; after `result`."""
        name, n, state = self.source.name, self.source.n, self.state
        out = list(self.source.notes())

        def note(code: str, text: str) -> None:
            out.append(Note(code, f"{name}: {text}"))

        counts = state.anomaly_counts
        if isinstance(self.source, Stream):
            out += crossing_notes(name, counts["crossing"], n)
        if state.deviation > RENORMALISED_ABOVE:
            deviation = f"{state.deviation:.2g}"
            note("renormalised", f"probabilities sum to one within {deviation}; each row was divided by its sum")
        if counts["impossible"]:
            rows = f"{counts['impossible']} rows"
            note("infinite-nll", f"{rows} gave their label probability 0; nll(clip=1e-6) limits their effect")
        if counts["without_spread"]:
            rows = f"{counts['without_spread']} of {n} rows"
            note("infinite-dss", f"in {rows} the samples are all equal, and such a row has an infinite dss")

        has_null_bands = any(spec.metric.has_null_band for spec in state.plan.specs)
        if self.units is not None and self.settings.intervals and has_null_bands:
            text = (
                "rows of a unit depend on each other: no range of a calibrated model, and tests use intervals by unit"
            )
            note("units-without-band", text)
        for spec in state.plan.specs:
            accumulator: Any = state.metrics.each[spec.text]
            sampled = sampled_rows(accumulator) if "rows" in spec.options else None
            if sampled is None:
                continue
            if sampled < n:
                more = "rows= takes more" if sampled == spec["rows"] else "more do not fit with so many classes"
                note("subsampled", f"{spec.text} uses {sampled} rows, chosen at random; {more}")
            doubt = blind_kernel(accumulator, spec)
            if doubt:
                note("kernel-scale", doubt)
        for grouping in state.plan.groupings:
            if grouping.by_outcome and grouping.column == "labels":
                text = "no model is calibrated on one label: groups by labels have no interval or band of errors"
                note("by-labels", text)
            elif grouping.by_outcome:
                text = "among high outcomes a good forecast looks too low: groups by y have no band and no p-value"
                note("by-outcome", text)
        largest = max((len(g.names) for g in state.plan.groupings if g.intervals), default=0)
        rate = (1.0 - self.settings.level) / 2.0  # half of the false discovery rate: p-values are two-sided
        resamples = self.settings.resamples
        tested = self.settings.intervals and self.units is None and has_null_bands
        if tested and largest >= rate * (resamples + 1):  # a p-value is at least 1/(resamples + 1)
            text = f"of {largest} groups no single one can be significant with {resamples} resamples"
            note("too-few-resamples", f"{text}; use --resamples {math.ceil(largest / rate)}")
        example = self.source.example
        if isinstance(self.source, Stream) and isinstance(example, Classification):
            out += plausibility_notes(name, state.looks_like_probs, state.lowest_label, n, example.classes)
        return out


class _BlockQueue:
    """Blocks with the number of their first row, for threads that take one at a time; and the errors of their rows."""

    def __init__(self, blocks: Iterator[Evaluable], n: int, report: ReportProgress) -> None:
        self.blocks, self.n, self.report = blocks, n, report
        self.start = 0
        self.lock = threading.Lock()
        self.stopped = False
        self.errors: list[tuple[int, CalibrantError]] = []

    def __iter__(self) -> Iterator[tuple[int, Evaluable]]:
        while True:
            with self.lock:
                block = None if self.stopped else next(self.blocks, None)
                if block is None:
                    return
                start = self.start
                self.start += block.n
                self.report("reading", start / self.n)
            yield start, block

    def stop(self) -> None:
        """Hand out no more blocks, and close their files."""
        with self.lock:
            self.stopped = True
            getattr(self.blocks, "close", lambda: None)()

    def feed(self, state: PassState, threads: int | None) -> None:
        """Add blocks to a state until there are none; an error in the data stops every thread, and is kept."""
        try:
            for start, block in self:
                try:
                    state.add(block, start, threads)
                except CalibrantError as error:
                    self.errors.append((start, error))
                    self.stop()
        except BaseException:  # Ctrl-C or a bug: stop reading now, not when the traceback is collected
            self.stop()
            raise


def _within_outcome(e: Estimate) -> Estimate:
    """Among rows of one outcome, where no model is calibrated: no band, and no interval of a calibration error."""
    if e.method.startswith("studentised"):
        return replace(e, null_low=math.nan, null_high=math.nan, p_value=math.nan, detectable=math.nan)
    return Estimate.of(e.value, e.n) if e.method == "test-inversion" or not math.isnan(e.null_high) else e
