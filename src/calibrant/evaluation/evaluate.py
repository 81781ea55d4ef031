"""`evaluate`: predictions in, an `Evaluation` out; `measure`: the same values without intervals, as fast as can be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.calibration.binned import BinSums
from calibrant.calibration.binning import assign
from calibrant.errors import NotApplicable, UsageError, show, whole_number
from calibrant.evaluation.result import Evaluation, Group, Result
from calibrant.kernels.rows import Rows, rows_of
from calibrant.predictions import Classification, Judged, Note
from calibrant.registry.accumulators import Accumulator
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Spec

Input = Classification | Judged
Progress = Callable[[str, int, int], None]
RENORMALISED_ABOVE = 1e-5
MOST_GROUPS = 1000
MOST_RESAMPLES = 1_000_000


def evaluate(
    predictions: Input | Mapping[str, Input] | Iterable[Input],
    metrics: str | Iterable[str] | None = None,
    *,
    by: str | Iterable[str] = (),
    units: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    intervals: bool = True,
    threads: int | None = None,
    block_rows: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Every metric that applies, with its interval; deterministic in the seed, whatever the threads and blocks.

    predictions: one input, several, or several by name. metrics: spec strings such as "ece(bins=10)", or None for all
    of linear or sort cost, or "all". by: columns to slice by, "column" or "column:BINS". units: a column of dependent
    rows (patient, prompt); intervals are then by unit. block_rows: rows that are read at a time.
    """
    inputs = _inputs(predictions)
    metrics = metrics if metrics is None or isinstance(metrics, str) else list(metrics)
    settings = _settings(level, resamples, seed, intervals, threads)
    columns = [by] if isinstance(by, str) else list(by)
    results, notes = [], []
    for place, item in enumerate(inputs):
        tell = _teller(progress, item.name, place, len(inputs))
        one = _OneInput(item, metrics, settings, units, block_rows, tell)
        result = one.result()
        groups = [group for column in columns for group in one.groups(column)]
        results.append(replace(result, groups=tuple(groups)))
        notes += [*item.notes(), *one.notes(columns)]
    return Evaluation(
        version=_version(),
        settings=_recorded(settings, metrics, columns, units),
        inputs=tuple(_described(item) for item in inputs),
        results=tuple(results),
        warnings=tuple(dict.fromkeys(notes)),
    )


def _teller(progress: Progress | None, name: str, place: int, total: int) -> Callable[[str], None]:
    """What one input tells of its progress: what is being done now."""

    def tell(what: str) -> None:
        if progress is not None:
            progress(f"{name}: {what}", place, total)

    return tell


def measure(
    predictions: Input, metrics: str | Iterable[str] | None = None, *, threads: int | None = None
) -> dict[str, float]:
    """The values alone: no intervals, no null bands; a metric that is named and does not apply is an error."""
    settings = Settings(intervals=False, threads=threads)
    (one,) = _inputs(predictions) if isinstance(predictions, Classification | Judged) else _inputs([predictions])
    result = _OneInput(one, metrics, settings, None, None, lambda what: None).result(curves=False)
    for text, reason in result.skipped.items() if metrics is not None else ():
        raise NotApplicable(text, expected="predictions that can give it", came=reason, do="leave it out")
    return {spec: estimate.value for spec, estimate in result.metrics.items()}


@dataclass
class _OneInput:
    """One input on its way through the pass and the accumulators."""

    predictions: Input
    wanted: str | Iterable[str] | None
    settings: Settings
    units: str | None
    block_rows: int | None
    tell: Callable[[str], None]
    deviation: float = 0.0
    impossible: int = 0

    def result(self, curves: bool = True) -> Result:
        p = self.predictions
        specs, skipped = applicable(self.wanted, p)
        accumulators = {spec.text: spec.metric.accumulate(spec, p) for spec in specs}
        self.tell("reading")
        rows = self._rows(specs)
        self.deviation = rows.deviation
        if self.settings.intervals and rows.log_label is not None and "nll" in accumulators:
            self.impossible = int(np.isneginf(rows.log_label).sum())
        for accumulator in accumulators.values():
            accumulator.add(rows, self.settings.intervals)
        estimates = self._estimates(accumulators)
        return Result(p.name, estimates, curves=_curves(rows) if curves else {}, skipped=skipped)

    def _rows(self, specs: list[Spec]) -> Rows:
        extras: frozenset[Hashable] = frozenset()
        for spec in specs:
            extras |= spec.metric.wanted(spec, self.predictions)
        rows = rows_of(
            self.predictions,
            extras,
            threads=self.settings.threads,
            block_rows=self.block_rows,
            light=all(spec.metric.light for spec in specs),
        )
        if self.units is not None:
            rows.units = np.unique(self.predictions.column(self.units), return_inverse=True)[1].ravel()
        return rows

    def _estimates(self, accumulators: dict[str, Accumulator]) -> dict[str, Estimate]:
        estimates = {}
        for text, accumulator in accumulators.items():
            self.tell(text)
            estimates[text] = accumulator.result(self.settings)
        return estimates

    def _texts(self) -> list[str]:
        return [spec.text for spec in applicable(self.wanted, self.predictions)[0]]

    def groups(self, column: str) -> list[Group]:
        name, _, bins = column.partition(":")
        if bins and whole_number(bins) is None:
            raise UsageError(
                "by",
                expected="COLUMN or COLUMN:BINS",
                came=f"got {show(column)}",
                do="BINS is a number",
            )
        self._refuse_many(name, bins)
        out = []
        for value, part in self.predictions.by(name, int(bins) if bins else None):
            if part.weights is not None and not part.weights.any():
                metrics: Mapping[str, Estimate] = dict.fromkeys(self._texts(), Estimate.of(float("nan"), part.n))
            else:
                metrics = replace(self, predictions=part).result(curves=False).metrics
            if name == "labels":
                metrics = {text: _given_the_label(estimate) for text, estimate in metrics.items()}
            out.append(Group(column, self._group_name(column, value), part.n, metrics))
        return out

    def _group_name(self, column: str, value: Any) -> Any:
        """The class's name for a label; text for what JSON has no number for."""
        names = getattr(self.predictions, "class_names", None)
        if column == "labels" and names:
            return names[value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    def _refuse_many(self, name: str, bins: str) -> None:
        count = len(np.unique(self.predictions.column(name)))
        if (min(int(bins), count) if bins else count) > MOST_GROUPS:
            raise UsageError(
                f"by {show(name)}",
                expected=f"at most {MOST_GROUPS} groups",
                came=f"the column has {count} values" + (f" in {bins} ranges" if bins else ""),
                do=f"cut it into ranges with {name}:10",
            )

    def notes(self, columns: list[str]) -> list[Note]:
        """What was done that the user should know of."""
        name, out = self.predictions.name, []
        if self.deviation > RENORMALISED_ABOVE:
            said = f"probabilities sum to one within {self.deviation:.2g}; each row was divided by its sum"
            out.append(Note("renormalised", f"{name}: {said}"))
        if self.impossible:
            said = f"{self.impossible} rows gave their label probability 0; nll(clip=1e-6) bounds what they cost"
            out.append(Note("infinite-nll", f"{name}: {said}"))
        if any(column.partition(":")[0] == "labels" for column in columns):
            said = "within one label no model is calibrated: groups by labels have no interval or band of ECE"
            out.append(Note("by-labels", f"{name}: {said}"))
        return out


def _given_the_label(estimate: Estimate) -> Estimate:
    """A calibration error among rows of one label: its null and its interval do not apply."""
    if estimate.method != "test-inversion" and math.isnan(estimate.null_high):
        return estimate
    return Estimate.of(estimate.value, estimate.n)


def applicable(wanted: str | Iterable[str] | None, predictions: Input) -> tuple[list[Spec], dict[str, str]]:
    """The specs that these predictions can give, and the reason for each that they cannot."""
    specs = _specs(wanted, predictions)
    skipped = {spec.text: reason for spec in specs if (reason := spec.metric.lacks(spec, predictions))}
    chosen = [spec for spec in specs if spec.text not in skipped]
    if not chosen:
        reasons = "; ".join(f"{text}: {reason}" for text, reason in skipped.items())
        raise NotApplicable(
            predictions.name,
            expected="at least one metric that applies",
            came=f"none of those asked for does ({reasons})" if reasons else "none was asked for",
            do="see `calibrant metrics` for what each needs",
        )
    return chosen, skipped


def _specs(wanted: str | Iterable[str] | None, predictions: Input) -> list[Spec]:
    if isinstance(wanted, str):
        wanted = registry.split(wanted)
    texts = None if wanted is None else list(wanted)
    if texts is None or texts == ["all"]:
        specs = registry.default_specs() if texts is None else [Spec.make(m) for m in registry.metrics().values()]
        return specs + _binary_extras(specs, predictions)
    return list({spec.text: spec for spec in map(registry.parse, texts)}.values())


def _binary_extras(specs: list[Spec], predictions: Input) -> list[Spec]:
    """Of a binary problem both readings are shown: the top label, and class 1."""
    if not isinstance(predictions, Classification) or predictions.classes != 2:
        return []
    names = (*(predictions.class_names or ())[1:], "1")
    written = [n for n in names if n != "top" and n == n.strip() and not set(n) & set("(),=")]
    name = next((n for n in written if predictions.class_index(n) == 1), None)
    if name is None:
        return []
    return [Spec.make(spec.metric, of=name) for spec in specs if "of" in spec.options]


def _curves(rows: Rows) -> dict[str, dict[str, list[float]]]:
    """The reliability curve of the top label, over 15 bins of equal width."""
    if rows.hit is None:
        return {}
    bins, edges = assign(rows.confidence, 15, "width")
    sums = BinSums(15, spread=False)
    sums.add(rows.confidence, rows.hit, rows.weights, bins)
    table = sums.table()
    filled = np.flatnonzero(table.w > 0)
    return {
        "reliability": {
            "lower": edges[filled].tolist(),
            "upper": edges[filled + 1].tolist(),
            "n": table.rows[filled].tolist(),
            "confidence": (table.wp / np.where(table.w > 0, table.w, 1))[filled].tolist(),
            "accuracy": (table.wy / np.where(table.w > 0, table.w, 1))[filled].tolist(),
        }
    }


def _inputs(predictions: Input | Mapping[str, Input] | Iterable[Input]) -> list[Input]:
    named: list[tuple[str | None, Any]] = []
    if isinstance(predictions, Classification | Judged):
        named = [(None, predictions)]
    elif isinstance(predictions, Mapping):
        named = [(str(name), item) for name, item in predictions.items()]
    elif isinstance(predictions, Iterable):
        named = [(None, item) for item in predictions]
    for _, item in named or [(None, predictions)]:
        if not isinstance(item, Classification | Judged):
            raise UsageError(
                "evaluate",
                expected="predictions: Classification or Judged, or several of them",
                came=f"got {type(item).__name__}",
                do="make them with Classification.from_logits, from_probs, or read them with cal.read(path)",
            )
    return _distinct([item if name is None else item.named(name) for name, item in named])


def _distinct(inputs: list[Input]) -> list[Input]:
    """Inputs of one name get a number, so that results can be told apart."""
    names = [item.name for item in inputs]
    taken = {name for name in names if names.count(name) == 1}
    out = []
    for item in inputs:
        if names.count(item.name) > 1:
            free = (f"{item.name}#{k}" for k in itertools.count(1))
            item = item.named(next(name for name in free if name not in taken))
            taken.add(item.name)
        out.append(item)
    return out


def _settings(level: float, resamples: int, seed: int, intervals: bool, threads: int | None) -> Settings:
    if not 0.0 < level < 1.0:
        raise UsageError("level", expected="a number between 0 and 1", came=f"got {level}", do="0.95 is usual")
    if not 20 <= resamples <= MOST_RESAMPLES or resamples != int(resamples):
        said = f"a whole number from 20 to {MOST_RESAMPLES}"
        raise UsageError("resamples", expected=said, came=f"got {resamples}", do="1000 is usual")
    if threads is not None and threads < 1:
        raise UsageError("threads", expected="at least 1", came=f"got {threads}", do="leave it out for all")
    if not 0 <= seed < 1 << 64:
        raise UsageError("seed", expected="a whole number from 0 to 2^64 - 1", came=f"got {seed}", do="0 is usual")
    return Settings(float(level), int(resamples), int(seed), bool(intervals), threads)


def _recorded(
    settings: Settings, metrics: str | Iterable[str] | None, by: list[str], units: str | None
) -> dict[str, object]:
    wanted = "default" if metrics is None else metrics if isinstance(metrics, str) else list(metrics)
    return {
        "level": settings.level,
        "resamples": settings.resamples,
        "seed": settings.seed,
        "intervals": settings.intervals,
        "metrics": wanted,
        "by": by,
        "units": units,
    }


def _described(item: Input) -> dict[str, object]:
    out: dict[str, object] = {
        "name": item.name,
        "sha256": item.info.sha256,
        "n": item.n,
        "members": item.members,
    }
    if isinstance(item, Classification):
        out["classes"] = item.classes
    if item.weights is not None:
        out["n_eff"] = float(item.weights.sum() ** 2 / (item.weights**2).sum())
    return out | ({"meta": dict(item.info.meta)} if item.info.meta else {})


def _version() -> str:
    from calibrant import __version__

    return __version__
