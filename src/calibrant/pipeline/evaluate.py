"""`evaluate` and its relatives: predictions in, an `Evaluation` out, from one pass over the rows of each input.

`evaluate_shift`, `sample_size_curves` and `error_hierarchy` take the same inputs and add one analysis each; all of them
call `run_evaluation`, which can do everything in the same pass, as the command line does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.errors import MAX_SEED, UsageError, check_choice, check_range, show
from calibrant.pipeline.calibration_tests import family_of
from calibrant.pipeline.compilation import COMPILING
from calibrant.pipeline.runner import InputRunner, Preview
from calibrant.pipeline.sample_size import SampleSizeSettings, sample_size_results
from calibrant.pipeline.select_metrics import Input
from calibrant.pipeline.worst_rows import MAX_WORST_ROWS
from calibrant.predictions import Classification, Detection, Judged, Regression
from calibrant.predictions.base import Note, check_block_rows, repeated_unit, unit_text
from calibrant.predictions.files.stream import Stream
from calibrant.registry import lookup
from calibrant.registry.estimate import Settings
from calibrant.registry.lookup import ALL, DEFAULT, SETS, by_default
from calibrant.render.verdicts.calibration import Subject, judge, suspicion
from calibrant.results.error_hierarchy import SPECS, ErrorHierarchy
from calibrant.results.evaluation import Evaluation
from calibrant.results.sample_size import SampleSizeCurves
from calibrant.results.shift import ACROSS, COLUMNS, OVER, ShiftCell, ShiftSummary, severities_of
from calibrant.results.verdict import NO_CONFIDENCE, NOT_REQUESTED, UNLABELLED, Evidence, Verdict
from calibrant.version import __version__

Inputs = Input | Mapping[str, Input] | Iterable[Input]
Metrics = str | Iterable[str] | None
Progress = Callable[[str, float, float], None]
KINDS = (Classification, Judged, Regression, Detection, Stream)
MAX_RESAMPLES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Every option of an evaluation; the public functions expose those that users need."""

    by: str | Iterable[str] = ()
    """Columns to group rows by: "column", or "column:BINS" for ranges of numbers."""
    units: str | None = None
    """A column of dependent rows (patient, prompt): intervals are then by unit."""
    level: float = 0.95
    resamples: int = 1000
    seed: int = 0
    threads: int | None = None
    progress: Progress | None = None
    intervals: bool = True
    """Whether estimates have intervals and null bands."""
    curves: bool = True
    along: str | None = None
    """The column that the functions of Gaussian members are plotted along; by default `x`, or the only suitable one."""
    worst_rows: int = 100
    """How many of the rows with the largest losses are listed."""
    block_rows: int | None = None
    """Rows that are read at a time."""
    shift: bool | tuple[str, str] = False
    """Summaries over types and severities of shift: True, or the names of both columns."""
    relevant_error: float | None = None
    """The calibration error that matters; None: 0.02 of one probability, 0.05 of classes and coverage."""
    always_judge: bool = False
    """Whether calibration is judged even if no calibration error is requested."""
    stored: bool = True
    """Whether the evaluation is stored or drawn, and not only printed as a table."""
    preview: Preview | None = None
    """Called with an input and its values while the kernels behind their intervals are still compiled."""
    over: str = "mean"
    hierarchy: bool = False
    """The hierarchy of calibration errors."""
    sizes: bool | Iterable[int] = False
    """Metrics on random subsets: True for about eight sizes, or the sizes."""
    repeats: int | None = None
    pairs: bool = False


def evaluate(
    predictions: Inputs,
    metrics: Metrics = None,
    *,
    by: str | Iterable[str] = (),
    units: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    relevant_error: float | None = None,
    seed: int = 0,
    curves: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Compute metrics with intervals, groups and curves in one pass over the rows.

    The result depends on the seed alone: not on threads, on blocks, or on whether rows are in memory or in files.

    Parameters
    ----------
    predictions : Classification, Judged, Regression, Detection or Stream, or several of them
        One input, an iterable of inputs, or a mapping from names to inputs; in memory, or left in files by `scan`.
    metrics : str or iterable of str, optional
        Spec strings such as ``"nll,ece(bins=10)"``. ``"default"``, which is also what None means, stands for about ten
        main metrics with the tests behind the verdict, ``"report"`` for every metric of linear or sort cost that
        applies, ``"all"`` for every metric; other specs may be added to each.
    by : str or iterable of str
        Columns to group rows by: ``"column"``, or ``"column:BINS"`` for ranges of numbers. The p-values of groups are
        corrected for their number (Benjamini-Hochberg).
    units : str, optional
        A column of dependent rows (patient, prompt); intervals are then by unit.
    level : float
        Level of intervals and null bands.
    resamples : int
        Replicates of resampled intervals and null bands.
    relevant_error : float, optional
        The calibration error that matters: a model whose errors are shown to be smaller is called "negligible", not
        "miscalibrated". By default 0.02 (for a rare class at most a quarter of its rate), and 0.05 for class-wise
        errors and coverage.
    seed : int
        Seed of everything random.
    curves : bool
        Whether to compute curves (reliability, rejection, PIT histograms, …).
    threads : int, optional
        Threads; all cores by default.
    progress : callable, optional
        Called as ``progress(what, done, total)`` from the threads that read.

    Returns
    -------
    Evaluation
        Results of all inputs. ``print`` shows a table, ``evaluation["nll"]`` is an estimate.

    Examples
    --------
    >>> import calibrant as cal
    >>> predictions = cal.Classification.from_probs([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]], [0, 1, 1])
    >>> round(cal.evaluate(predictions, "nll")["nll"].value, 3)
    0.459
    """
    options = EvaluateOptions(
        by=by, units=units, level=level, resamples=resamples, relevant_error=relevant_error, seed=seed, curves=curves,
        threads=threads, progress=progress,
    )  # fmt: skip
    return run_evaluation(predictions, metrics, options)


def evaluate_shift(
    predictions: Inputs,
    metrics: Metrics = None,
    *,
    columns: tuple[str, str] | None = None,
    over: str = "mean",
    by: str | Iterable[str] = (),
    units: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    relevant_error: float | None = None,
    seed: int = 0,
    curves: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate, and summarise each metric over types and severities of shift.

    Parameters
    ----------
    predictions, metrics, by, units, level, resamples, relevant_error, seed, curves, threads, progress
        As in `evaluate`.
    columns : tuple of two str, optional
        The columns that hold the type of shift and its severity (0 for clean rows). By default ``"shift"`` and
        ``"severity"``; if every input has these two in its ``meta`` instead, each input is one cell.
    over : {"mean", "median"}
        What is taken over the types of one severity before Spearman's rank correlation with severity.

    Returns
    -------
    Evaluation
        As from `evaluate`; ``evaluation.shift`` holds the summaries.

    Examples
    --------
    >>> import calibrant as cal
    >>> columns = {"shift": ["none", "none", "blur", "blur"], "severity": [0, 0, 1, 1]}
    >>> probs = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.6, 0.4]]
    >>> predictions = cal.Classification.from_probs(probs, [0, 1, 0, 1], columns=columns)
    >>> summary = cal.evaluate_shift(predictions, "accuracy", curves=False).shift[0]
    >>> summary.at("accuracy", 0.0)["mean"], summary.at("accuracy", 1.0)["mean"]
    (1.0, 0.5)
    """
    options = EvaluateOptions(
        by=by, units=units, level=level, resamples=resamples, relevant_error=relevant_error, seed=seed, curves=curves,
        threads=threads, progress=progress, shift=True if columns is None else columns, over=over,
    )  # fmt: skip
    return run_evaluation(predictions, metrics, options)


def sample_size_curves(
    predictions: Inputs,
    metrics: Metrics = None,
    *,
    sizes: Iterable[int] | None = None,
    repeats: int | None = None,
    pairs: bool = False,
    by: str | Iterable[str] = (),
    units: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    curves: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate, and recompute each metric on random subsets of many sizes, to show its bias in small samples.

    Parameters
    ----------
    predictions, metrics, by, units, level, resamples, seed, curves, threads, progress
        As in `evaluate`.
    sizes : iterable of int, optional
        Numbers of rows; by default about eight from 100 to all rows, evenly spaced on a logarithmic scale.
    repeats : int, optional
        Subsets of each size; by default 100, and fewer for large inputs.
    pairs : bool
        Whether inputs are before, after, before, after, …: improvements are then computed on the same subsets.

    Returns
    -------
    Evaluation
        As from `evaluate`; ``evaluation.sizes`` holds the values by size.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cal
    >>> predictions = cal.Classification.from_probs(np.full((200, 2), 0.5), np.arange(200) % 2)
    >>> cal.sample_size_curves(predictions, "brier", sizes=[50], repeats=5).sizes[0].sizes
    (50, 200)
    """
    options = EvaluateOptions(
        by=by, units=units, level=level, resamples=resamples, seed=seed, curves=curves, threads=threads,
        progress=progress, sizes=True if sizes is None else sizes, repeats=repeats, pairs=pairs,
    )  # fmt: skip
    return run_evaluation(predictions, metrics, options)


def error_hierarchy(
    predictions: Inputs,
    metrics: Metrics = (),
    *,
    by: str | Iterable[str] = (),
    units: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    curves: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate the hierarchy of calibration errors, from √BS down to ECE, and check which inequalities hold.

    Parameters
    ----------
    predictions, by, units, level, resamples, seed, curves, threads, progress
        As in `evaluate`.
    metrics : str or iterable of str
        Metrics to compute in addition to those of the hierarchy.

    Returns
    -------
    Evaluation
        As from `evaluate`; ``evaluation.results[0].ladder`` holds the errors and the inequalities between them.

    Examples
    --------
    >>> import calibrant as cal
    >>> predictions = cal.Classification.from_probs([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]], [0, 1, 1])
    >>> list(cal.error_hierarchy(predictions, curves=False).results[0].ladder.estimates)
    ['rbs', 'ce(p=2)', 'cwce', 'tce', 'ks', 'ece']
    """
    options = EvaluateOptions(
        by=by, units=units, level=level, resamples=resamples, seed=seed, curves=curves, threads=threads,
        progress=progress, hierarchy=True,
    )  # fmt: skip
    return run_evaluation(predictions, metrics, options)


def run_evaluation(predictions: Inputs, metrics: Metrics, options: EvaluateOptions) -> Evaluation:
    """Run every analysis that `options` name, each input being read once."""
    inputs = inputs_of(predictions)
    specs = metrics if metrics is None or isinstance(metrics, str) else list(metrics)
    if options.hierarchy:  # its own metrics first
        texts = lookup.split(specs) if isinstance(specs, str) else specs or []
        specs = [*SPECS, *(t for t in texts if t.strip() in SETS or lookup.parse(t).text not in SPECS)]
    settings = Settings(
        check_range("level", options.level, 0, 1, inclusive="neither", hint="use level=0.95"),
        check_range("resamples", options.resamples, 20, MAX_RESAMPLES, integer=True, hint="use resamples=1000"),
        check_range("seed", options.seed, 0, MAX_SEED, integer=True, hint="use seed=0"),
        bool(options.intervals),
        options.threads,
    )
    if options.threads is not None:
        check_range("threads", options.threads, 1, integer=True, hint="leave it out to use all cores")
    check_block_rows(options.block_rows)
    by, units = [options.by] if isinstance(options.by, str) else list(options.by), options.units
    cells = shift_columns(options.shift, options.over, inputs)
    follow = None
    if options.sizes is not False:
        follow = SampleSizeSettings.of(options.sizes, options.repeats, options.pairs, inputs)
    elif options.pairs or options.repeats is not None:
        name = "pairs" if options.pairs else "repeats"
        raise UsageError(f"--{name}", expected="--sizes too", got=f"--{name} alone", hint="add --sizes")
    worst_rows = check_range(
        "rows", options.worst_rows, 0, MAX_WORST_ROWS, integer=True, hint="call score_rows for the losses of all rows"
    )

    relevant_error = options.relevant_error
    if relevant_error is not None:
        check_range("relevant_error", relevant_error, 0, 1, inclusive="neither", hint="use relevant_error=0.02")

    results, notes, facts, summaries = [], [], [], []
    dependent: set[str] = set()
    for place, source in enumerate(inputs):
        report = progress_reporter(options.progress, source.name, place, len(inputs))
        runner = InputRunner(
            source, specs, settings, by, units, cells, options.block_rows, report, options.curves, worst_rows,
            options.along, options.always_judge, options.stored, options.preview,
        )  # fmt: skip
        result = runner.result()
        if options.intervals:
            verdict = untested(source)
            if runner.evidence is not None:
                verdict = judge(runner.evidence, subject(source, settings, units), relevant_error)
                if text := suspicion(verdict):
                    notes.append(Note("too-low", f"{source.name}: {text}"))
            result = replace(result, verdict=verdict)
        results.append(replace(result, ladder=ErrorHierarchy.of(result.metrics)) if options.hierarchy else result)
        report("done", 1.0)
        notes += runner.notes()
        found = repeated_unit(source) if units is None and not isinstance(source.example, Detection) else None
        if found and (text := unit_text(source.n, *found)) not in dependent:
            dependent.add(text)  # once for rows before and after recalibration
            notes.append(Note("dependent-rows", f"{source.name}: {text}"))
        facts.append(describe_input(source, runner.state.effective_n(), runner.state.plan.along))
        if cells:
            summaries.append(runner.shift_summary(options.over))
    if options.shift and not cells:
        summaries = [_shift_across_inputs(inputs, [result.metrics for result in results], options.over)]

    recorded: dict[str, object] = {
        "level": settings.level,
        "resamples": settings.resamples,
        "seed": settings.seed,
        "intervals": settings.intervals,
        "metrics": DEFAULT if specs is None else specs,
        "by": by,
        "units": units,
    }
    if options.shift:
        recorded |= {"shift": list(cells or COLUMNS), "over": options.over}
    if options.hierarchy:
        recorded["ladder"] = True
    if options.along:
        recorded["along"] = options.along
    if relevant_error is not None:
        recorded["relevant_error"] = relevant_error
    sizes: tuple[SampleSizeCurves, ...] = ()
    if follow is not None:
        recorded |= follow.to_json()
        by_size: list[list[str]] | str | None = [list(result.metrics) for result in results]
        if by_default(specs) or specs in (ALL, [ALL]):
            by_size = None if by_default(specs) else ALL
        sizes = sample_size_results(follow, inputs, by_size, settings, units, options.progress)
    return Evaluation(
        version=__version__,
        settings=recorded,
        inputs=tuple(facts),
        results=tuple(results),
        warnings=tuple(dict.fromkeys(notes)),
        shift=tuple(summaries),
        sizes=sizes,
    )


def subject(source: Input, settings: Settings, units: str | None) -> Subject:
    """What a verdict has to know of its input."""
    example = source.example
    names = getattr(example, "class_names", None)
    positive = str(names[1]) if names is not None and len(names) == 2 else ""
    return Subject(source.n, example.members, positive, units is not None, settings.level, settings.resamples)


def untested(source: Input) -> Verdict:
    """The verdict where no calibration error is computed: why not."""
    if not getattr(source.example, "has_confidence", True):
        return NO_CONFIDENCE
    return NOT_REQUESTED if source.example.has_labels else UNLABELLED


def calibration_verdict(
    source: Input, settings: Settings, units: str | None = None, relevant_error: float | None = None
) -> Verdict:
    """The verdict on calibration that `evaluate` stores for these predictions, without their other metrics."""
    family = family_of(source, units is not None)
    if family is None:
        return untested(source)
    evidence = Evidence(family.kind, missing=family.missing)
    if family.specs:
        specs = [spec.text for spec in (*family.tests, *family.direction)]
        runner = InputRunner(source, specs, settings, units=units, curves=False, always_judge=True)
        runner.result()
        evidence = runner.evidence or evidence
    return judge(evidence, subject(source, settings, units), relevant_error)


def shift_columns(shift: bool | tuple[str, str], over: str, inputs: list[Input]) -> tuple[str, str] | None:
    """The columns of type and severity, or None where there are none: no shift, or each input has both in its meta."""
    check_choice("over", over, OVER, hint="use over='mean'")
    if not shift:
        if over != "mean":
            raise UsageError("--over", expected="--shift too", got="--over alone", hint="add --shift")
        return None
    if isinstance(shift, str) or (not isinstance(shift, bool) and len(shift) != 2):
        expected, hint = "True, or the names of two columns: type and severity", 'write ("shift", "severity")'
        raise UsageError("shift", expected=expected, got=show(str(shift)), hint=hint)
    if shift is True and all(set(COLUMNS) <= set(item.example.info.meta) for item in inputs):
        return None
    return COLUMNS if isinstance(shift, bool) else (str(shift[0]), str(shift[1]))


def _shift_across_inputs(inputs: list[Input], metrics: list[Mapping[str, Any]], over: str) -> ShiftSummary:
    """Inputs as cells, whose type and severity are in their meta."""
    cells = []
    for item, estimates in zip(inputs, metrics, strict=True):
        meta = item.example.info.meta
        severity = float(severities_of(np.array([meta["severity"]]), "severity")[0])
        cells.append(ShiftCell.of("clean" if severity == 0 else meta["shift"], severity, item.n, estimates))
    return ShiftSummary(ACROSS, over, tuple(cells))


def progress_reporter(
    progress: Progress | None, name: str, place: int, total: int, main: str = "reading", main_share: float = 0.5
) -> Callable[[str, float], None]:
    """A function `report(step, share)` that maps the progress of one of `total` inputs to the progress of all.

    main, main_share: the main step, and the share of the work that it is assumed to be.
    """

    def report(step: str, share: float) -> None:
        if progress is not None and step.startswith(COMPILING):
            progress(step, 0.0, 0.0)
        elif progress is not None:
            done = main_share * share if step == main else main_share + (1.0 - main_share) * share
            progress(f"{name}: {step}", place + done, total)

    return report


def inputs_of(predictions: Inputs, subject: str = "evaluate") -> list[Input]:
    """One input, several, or several by name, as a list of inputs with distinct names."""
    named: list[tuple[str | None, Any]] = []
    if isinstance(predictions, KINDS):
        named = [(None, predictions)]
    elif isinstance(predictions, Mapping):
        named = [(str(name), item) for name, item in predictions.items()]
    elif isinstance(predictions, Iterable):
        named = [(None, item) for item in predictions]
    for _, item in named or [(None, predictions)]:
        if not isinstance(item, KINDS):
            expected = "predictions: Classification, Judged or Regression, a stream, or several of them"
            hint = "make them with Classification.from_logits, from_probs, or read them with cal.read(path)"
            raise UsageError(subject, expected=expected, got=type(item).__name__, hint=hint)
    inputs = [item if name is None else item.named(name) for name, item in named]
    names = [item.name for item in inputs]
    used = {name for name in names if names.count(name) == 1}
    for place, name in enumerate(names):
        if names.count(name) > 1:
            unique = next(text for k in itertools.count(1) if (text := f"{name}#{k}") not in used)
            inputs[place] = inputs[place].named(unique)
            used.add(unique)
    return inputs


def describe_input(item: Input, effective_n: float | None = None, along: Any = None) -> dict[str, object]:
    """The facts of an input that an evaluation file stores."""
    example = item.example
    facts: dict[str, object] = {
        "name": item.name, "task": example.task, "sha256": item.sha256, "n": item.n, "members": example.members,
    }  # fmt: skip
    if isinstance(example, Classification):
        facts["classes"] = example.classes
    if isinstance(example, Detection):
        facts["outside"] = int(example.outside.sum())
    if "log" in example.info.meta:
        facts["log"] = example.info.meta["log"]
    if isinstance(example, Regression):
        facts["kind"] = example.kind
        if example.samples is not None:
            facts["samples"] = len(example.samples)
    if effective_n is not None:
        facts["n_eff"] = effective_n
    if example.info.meta:
        facts["meta"] = dict(example.info.meta)
    return facts | ({"along": along.column} if along else {})
