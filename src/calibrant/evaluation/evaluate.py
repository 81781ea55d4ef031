"""`evaluate`: predictions in, an `Evaluation` out; `measure`: the same values without intervals, as fast as can be."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.errors import NotApplicable, UsageError, show
from calibrant.evaluation.choosing import ALL, DEFAULT, Input, applicable, by_default
from calibrant.evaluation.ladder import SPECS, Ladder
from calibrant.evaluation.passes import OneInput
from calibrant.evaluation.result import Evaluation, Result
from calibrant.evaluation.shift import ACROSS, COLUMNS, OVER, Cell, Summary, severities_of
from calibrant.evaluation.sizes import Followed, followed
from calibrant.evaluation.worst import check_counts
from calibrant.kernels.rows import rows_of
from calibrant.predictions import Classification, Detection, Judged, Regression
from calibrant.predictions.files.stream import Stream
from calibrant.registry.accumulators import Mean
from calibrant.registry.estimate import Settings
from calibrant.version import __version__

Progress = Callable[[str, float, float], None]
KINDS = (Classification, Judged, Regression, Detection, Stream)
MOST_RESAMPLES = 1_000_000


def evaluate(
    predictions: Input | Mapping[str, Input] | Iterable[Input],
    metrics: str | Iterable[str] | None = None,
    *,
    by: str | Iterable[str] = (),
    units: str | None = None,
    shift: bool | tuple[str, str] = False,
    over: str = "mean",
    ladder: bool = False,
    sizes: bool | Iterable[int] = False,
    repeats: int | None = None,
    pairs: bool = False,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    intervals: bool = True,
    threads: int | None = None,
    curves: bool = True,
    along: str | None = None,
    rows: int = 100,
    block_rows: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Every metric that applies, with its interval; deterministic in the seed, whatever the threads and blocks.

    predictions: one input, several, or several by name, in memory or left in their files by `scan`. metrics: spec
    strings such as "ece(bins=10)", or None for all of linear or sort cost ("default", which may stand beside others, as
    in "default,ce"), or "all". by: columns to slice by, "column" or "column:BINS", p-values being corrected for the
    number of groups. units: a column of dependent rows (patient, prompt); intervals are then by unit. shift: summaries
    over types of shift and severities, by the columns `shift` and `severity` or those named; where inputs have these in
    their meta instead, each input is a cell. over: the mean or median over types that is ranked against severity.
    ladder: the errors from √BS down to ECE, and what holds between them. sizes: true, or rows: each metric on random
    subsets of many sizes too, `repeats` of them. pairs: inputs are before and after, two by two, and their differences
    are followed. curves: whether curves are made. along: the column along which Gaussian members are functions; `x`, or
    the only one of numbers, where none is named. rows: of how many rows with the largest losses is told, if a metric
    reads them. block_rows: rows that are read at a time. progress: called by whichever thread reads, with what is being
    done, and how much of all is done.
    """
    inputs, metrics = inputs_of(predictions), _asked_for(metrics, ladder)
    settings, most = _settings(level, resamples, seed, intervals, threads), check_counts(rows, block_rows)
    columns, cells = [by] if isinstance(by, str) else list(by), shift_columns(shift, over, inputs)
    follow = Followed.of(sizes, repeats, pairs, inputs)
    results, notes, facts, summaries = [], [], [], []
    for place, item in enumerate(inputs):
        tell = teller(progress, item.name, place, len(inputs))
        one = OneInput(item, metrics, settings, columns, units, cells, block_rows, tell, curves, most, along)
        results.append(_result(one, ladder))
        tell("done", 1.0)
        notes += one.notes()
        facts.append(_facts(one))
        summaries += [one.summary(over)] if cells else []
    return Evaluation(
        version=version(),
        settings=_recorded(settings, metrics, columns, units)
        | _also({"shift": list(cells or COLUMNS), "over": over} if shift else {}, ladder, along, follow),
        inputs=tuple(facts),
        results=tuple(results),
        warnings=tuple(dict.fromkeys(notes)),
        shift=(_across(inputs, results, over),) if shift and not cells else tuple(summaries),
        sizes=followed(follow, inputs, _named(metrics, results), settings, units, progress) if follow else (),
    )


def _also(shift: dict[str, object], ladder: bool, along: str | None, follow: Followed | None) -> dict[str, object]:
    """Settings that are recorded where they were asked for."""
    drawn: dict[str, object] = {"along": along} if along else {}
    return shift | ({"ladder": True} if ladder else {}) | drawn | (follow.recorded() if follow else {})


def _facts(one: OneInput) -> dict[str, object]:
    """What is said of the input, and which column its functions are drawn along."""
    chosen = one.seen.wanted.along if one.seen else None
    said = described(one.source, one.seen.n_eff() if one.seen else None)
    return said | ({"along": chosen.column} if chosen else {})


def _result(one: OneInput, ladder: bool) -> Result:
    found = one.result()
    return replace(found, ladder=Ladder.of(found.metrics)) if ladder else found


def _asked_for(metrics: str | Iterable[str] | None, ladder: bool) -> str | list[str] | None:
    """The metrics that were named; with the ladder, its own before them."""
    if not ladder:
        return metrics if metrics is None or isinstance(metrics, str) else list(metrics)
    named = registry.split(metrics) if isinstance(metrics, str) else list(metrics or ())
    return [
        *SPECS,
        *(text for text in named if text.strip() in (ALL, DEFAULT) or registry.parse(text).text not in SPECS),
    ]


def _named(metrics: str | list[str] | None, results: list[Result]) -> list[list[str]] | str | None:
    """The metrics to follow over sizes: where they were named, those that each input could give."""
    if by_default(metrics) or metrics in ("all", ["all"]):
        return None if by_default(metrics) else "all"
    return [list(result.metrics) for result in results]


def shift_columns(shift: bool | tuple[str, str], over: str, inputs: list[Input]) -> tuple[str, str] | None:
    """The columns of type and severity, or None where each input says in its meta what it is."""
    if over not in OVER:
        raise UsageError("over", expected=" or ".join(OVER), came=f"got {show(over)}", do="mean is usual")
    if not shift:
        if over != "mean":
            raise UsageError("over", expected="shift beside it", came="got it alone", do="ask for shift too")
        return None
    if not isinstance(shift, bool) and (isinstance(shift, str) or len(shift) != 2):
        raise UsageError(
            "shift",
            expected="true, or the names of two columns: type and severity",
            came=f"got {show(str(shift))}",
            do='write shift=("shift", "severity")',
        )
    if shift is True and all(set(COLUMNS) <= set(item.example.info.meta) for item in inputs):
        return None
    return COLUMNS if isinstance(shift, bool) else (str(shift[0]), str(shift[1]))


def _across(inputs: list[Input], results: list[Result], over: str) -> Summary:
    """Inputs as cells: the type and severity of each stand in its meta."""
    cells = []
    for item, result in zip(inputs, results, strict=True):
        meta = item.example.info.meta
        severity = float(severities_of(np.array([meta["severity"]]), "severity")[0])
        cells.append(Cell.of("clean" if severity == 0 else meta["shift"], severity, item.n, result.metrics))
    return Summary(ACROSS, over, tuple(cells))


def teller(
    progress: Progress | None, name: str, place: int, total: int, main: str = "reading", part: float = 0.5
) -> Callable[[str, float], None]:
    """What one input tells of its progress: what is being done now, and how much of that is done.

    part: the share of all work that the main step is taken to be; what comes after it is the rest.
    """

    def tell(what: str, share: float) -> None:
        if progress is not None:
            progress(f"{name}: {what}", place + (part * share if what == main else part + (1.0 - part) * share), total)

    return tell


def measure(
    predictions: Input, metrics: str | Iterable[str] | None = None, *, threads: int | None = None
) -> dict[str, float]:
    """The values alone: no intervals, no null bands; a metric that is named and does not apply is an error."""
    settings = Settings(intervals=False, threads=threads)
    (one,) = inputs_of(predictions) if isinstance(predictions, KINDS) else inputs_of([predictions])
    result = OneInput(one, metrics, settings).result(noted=False)
    for text, reason in result.skipped.items() if metrics is not None else ():
        raise NotApplicable(text, expected="predictions that can give it", came=reason, do="leave it out")
    return {spec: estimate.value for spec, estimate in result.metrics.items()}


def score_rows(
    predictions: Classification | Judged | Regression,
    metrics: str | Iterable[str],
    *,
    threads: int | None = None,
) -> dict[str, np.ndarray]:
    """The values (N,) of each row whose mean is the metric: scores, row uncertainties, PIT; by spec string."""
    (one,) = inputs_of([predictions])
    if isinstance(one, Stream):
        raise UsageError(
            "score_rows", expected="predictions in memory", came="got a stream", do="take the blocks of it one by one"
        )
    specs, skipped = applicable(metrics, one)
    for text, reason in skipped.items():
        raise NotApplicable(text, expected="predictions that can give it", came=reason, do="leave it out")
    wanted = frozenset().union(*(spec.metric.wanted(spec, one) for spec in specs))
    rows = rows_of(one, wanted, threads=threads)
    out = {}
    for spec in specs:
        accumulator = spec.metric.accumulate(spec, one)
        if not isinstance(accumulator, Mean) or accumulator.transform is not float:
            raise NotApplicable(
                spec.text,
                expected="a metric that is the mean of a score of rows",
                came="it is not",
                do="see `calibrant metrics`",
            )
        out[spec.text] = np.array(accumulator.score(rows), np.float64)
    return out


def inputs_of(predictions: Input | Mapping[str, Input] | Iterable[Input], subject: str = "evaluate") -> list[Input]:
    """One input, several, or several by name, each under a name of its own."""
    named: list[tuple[str | None, Any]] = []
    if isinstance(predictions, KINDS):
        named = [(None, predictions)]
    elif isinstance(predictions, Mapping):
        named = [(str(name), item) for name, item in predictions.items()]
    elif isinstance(predictions, Iterable):
        named = [(None, item) for item in predictions]
    for _, item in named or [(None, predictions)]:
        if not isinstance(item, KINDS):
            raise UsageError(
                subject,
                expected="predictions: Classification, Judged or Regression, a stream, or several of them",
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


def described(item: Input, effective: float | None = None) -> dict[str, object]:
    """What is said of an input in an evaluation file."""
    example = item.example
    out: dict[str, object] = {"name": item.name, "sha256": item.sha256, "n": item.n, "members": example.members}
    if isinstance(example, Classification):
        out["classes"] = example.classes
    if isinstance(example, Detection):
        out["outside"] = int(example.outside.sum())
    if isinstance(example, Regression):
        out["kind"] = example.kind
        if example.samples is not None:
            out["samples"] = len(example.samples)
    if effective is not None:
        out["n_eff"] = effective
    return out | ({"meta": dict(example.info.meta)} if example.info.meta else {})


def version() -> str:
    """Of this package."""
    return __version__
