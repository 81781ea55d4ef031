"""`check`: posterior predictive checks of one or more inputs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.checks.member_temperatures import Temperatures
from calibrant.checks.plan import Plan
from calibrant.checks.runner import (
    PREDICTED,
    Cells,
    CheckedRows,
    InputCheck,
    groups_by_prediction,
    has_exact_law,
    refuse_uncheckable,
)
from calibrant.checks.statistics import Statistic, statistics_of
from calibrant.errors import UsageError, check_choice, check_range, show
from calibrant.kernels.philox import key_of
from calibrant.pipeline.compilation import compile_ahead
from calibrant.pipeline.evaluate import Progress, describe_input, inputs_of, progress_reporter, shift_columns
from calibrant.pipeline.groups import Grouping, group_by_column, group_by_shift
from calibrant.pipeline.select_metrics import Input, second_class
from calibrant.predictions.base import Note, check_block_rows, repeated_unit, unit_text
from calibrant.predictions.files.stream import Stream
from calibrant.render.formatting import count
from calibrant.render.verdicts.check_sentences import BETTER_CALIBRATED, interpret, is_too_low
from calibrant.render.verdicts.checks import CheckSubject, judge_checks
from calibrant.render.verdicts.direction import holm
from calibrant.results.check import BAYESIAN, BOTH, CLASS_FREQUENCY, EXACT, INDEPENDENT, LEVEL, RULES, Check
from calibrant.results.evaluation import CHECK, Evaluation, Group, Result
from calibrant.results.pass_rates import PassTable, ShiftedCheck
from calibrant.results.shift import ACROSS, COLUMNS, severities_of
from calibrant.version import __version__

READINGS = (BOTH, BAYESIAN, INDEPENDENT)
MOST_DRAWS = 1_000_000
ROUGH = 0.03
"""Error of a probability from which an approximation by moments is reported."""
WIDE_WEIGHTS = 4096.0
TOO_LOW = 0.005
"""The p-value from which a calibration error is suspiciously low."""


def check(
    predictions: Input | Mapping[str, Input] | Iterable[Input],
    statistics: Any = None,
    *,
    draws: int | str = 1000,
    members: str = BOTH,
    by: str | Iterable[str] = (),
    shift: bool | tuple[str, str] = False,
    rule: str = "interval",
    of: str | int | None = None,
    relevant_error: float | None = None,
    temperatures: float | None = None,
    fit: Input | None = None,
    seed: int = 0,
    threads: int | None = None,
    block_rows: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Compare observed statistics with their distribution on labels drawn from the model.

    A posterior predictive check (Gopal 2021): labels are replicated from the predictions, each statistic is computed
    on every set of replicated labels, and the observed value should lie within this distribution. Results are the same
    bits for any number of threads and blocks.

    Parameters
    ----------
    predictions
        Predictions with labels, several of them, or a mapping of names to predictions.
    statistics : str, callable, Statistic or several of them, optional
        Specs of metrics that use labels ("ece(bins=10)"), statistics of the labels themselves ("class_frequency",
        "confusion", "entropy"; for regression "mean", "min", "max", "quantile(level=0.9)"), functions
        ``T(labels, predictions) -> float``, or `Statistic` objects. Defaults depend on the task.
    draws : int or "exact"
        Number of replicates, or "exact" to compute the distributions without sampling.
    members : {"both", "bayesian", "independent"}
        "bayesian": one member draws all rows of a replicate. "independent": every row draws its own member. "both":
        the first, with the second for comparison.
    by : str or several
        Columns whose groups are checked one by one: "column", "column:BINS", or "predicted" for the predicted class.
        p-values are corrected for the number of groups.
    shift : bool or (str, str)
        Check every type of shift at every severity and count the checks that pass, as in `evaluate`.
    rule : {"interval", "range"}
        "interval": a check fails if the observed value is significantly unexpected after correction for the number of
        statistics (Holm), all of them together with probability 2% where the model is right. "range": it fails outside
        the range of the replicates.
    of : str or int, optional
        The class whose frequency and calibration error are among the default statistics: class 1 of two by default, no
        single one of more.
    relevant_error : float, optional
        The deviation that matters to you, in place of 0.02 of a probability and 0.05 of a coverage or class-wise error.
    temperatures : float, optional
        Fraction of rows on which a temperature for each member is fitted first. These rows are not checked.
    fit : predictions, optional
        Predictions whose first rows fit the temperatures; by default those that are checked.
    seed : int
        Seed of the replicates.
    threads : int, optional
        Number of threads; all cores by default.
    block_rows : int, optional
        Number of rows read at a time.
    progress : callable, optional
        Called with a description, the work done and the total.

    Returns
    -------
    Evaluation
        ``evaluation["ece"]`` is the `Check` of a statistic; printing shows the table and its interpretation.

    Examples
    --------
    >>> import calibrant as cal
    >>> predictions = cal.Classification.from_probs([0.1, 0.4, 0.8, 0.9], [0, 0, 1, 1])
    >>> result = cal.check(predictions, "accuracy", draws="exact")
    >>> result["accuracy"].observed, result["accuracy"].passed()
    (1.0, True)
    """
    inputs = inputs_of(predictions, "check")
    if draws != EXACT:
        hint = "use draws=1000, or draws='exact'"
        draws = check_range("draws", draws, 1, MOST_DRAWS, integer=True, hint=hint)
    check_choice("members", members, READINGS)
    check_choice("rule", rule, RULES)
    if relevant_error is not None:
        check_range("relevant_error", relevant_error, 0, 1, inclusive="neither", hint="use relevant_error=0.02")
    if threads is not None:
        check_range("threads", threads, 1, integer=True, hint="omit it to use all cores")
    key_of(seed)
    check_block_rows(block_rows)
    if not (statistics is None or isinstance(statistics, str | Statistic) or callable(statistics)):
        statistics = list(statistics)
    columns = [by] if isinstance(by, str) else list(dict.fromkeys(by or ()))
    cells = shift_columns(shift, "mean", inputs)
    scaling = Temperatures.of(temperatures, fit, threads)
    results, notes, facts, tables = [], [], [], []
    for position, item in enumerate(inputs):
        refuse_uncheckable(item)
        rows = scaling.apply(item) if scaling else CheckedRows(item)
        example = rows.example
        compile_ahead(example, CHECK, threads, progress)
        readings = [BAYESIAN, INDEPENDENT] if members == BOTH else [members]
        if members == BOTH and not _readings_differ(example):
            readings = [BAYESIAN]
        in_one_block = not isinstance(item, Stream) and (block_rows is None or block_rows >= item.n)
        replicates = 0 if draws == EXACT else int(draws)
        plans = [Plan(reading, replicates, seed, example.members, threads, in_one_block) for reading in readings]
        groupings = [_grouping(rows, column) for column in columns]
        groupings += [group_by_shift(rows, cells, [])] if cells else []
        of_class = _class_of(item, example, of)
        chosen, usual = (statistics_of(names, example, of_class) for names in (statistics, None))
        if draws == EXACT:
            usual = [one for one in usual if has_exact_law(one, example)] or usual
            chosen = usual if statistics is None else chosen
        report = progress_reporter(progress, item.name, position, len(inputs), "drawing", 1.0)
        run = InputCheck(rows, chosen, plans, Cells.of(groupings, getattr(example, "classes", 1)), block_rows, report)
        checks = [
            [corrected_for_family(of_plan[0], plan.reading == BAYESIAN and example.members > 1), *of_plan[1:]]
            for plan, of_plan in zip(plans, run.run(), strict=True)
        ]
        groups = run.groups(checks)
        shift_name = ",".join(cells or ())
        shifted, named = ([g for g in groups if (g.by == shift_name) is is_cell] for is_cell in (True, False))
        first, second = checks[0][0], checks[1][0] if len(checks) > 1 else {}
        interpretation = interpret(first, second, plans[0].reading, rule)
        kind, positive = _kind_and_class(example, of_class)
        complete = {one.key for one in usual} <= set(first)
        shares = _shares(rows, first, of_class) if kind == "binary" and of_class is not None else None
        subject = CheckSubject(kind, rows.n, example.members, positive, complete, replicates, relevant_error, shares)
        by_reading = {plan.reading: of_plan[0] for plan, of_plan in zip(plans, checks, strict=True)}
        results.append(
            Result(
                item.name, {}, tuple(named), checks=first, independent=second,
                reading=interpretation.lines, supported=interpretation.supported,
                verdict=judge_checks(by_reading, subject, rule),
            )
        )  # fmt: skip
        for k, plan in enumerate(plans if cells else ()):
            parts = [(*g.value, g.n, g.independent if k else g.checks) for g in shifted]
            tables.append(PassTable(item.name, plan.reading, tuple(ShiftedCheck(*part) for part in parts)))
        low = [key for key, found in (second or first).items() if is_too_low(key, found) and found.test_p <= TOO_LOW]
        if low:
            verb = "is" if len(low) == 1 else "are"
            notes.append(Note("too-low", f"{item.name}: {' and '.join(low)} {verb} {BETTER_CALIBRATED}"))
        notes += [*item.notes(), *_notes(run, draws, named, first), *(scaling.notes(rows) if scaling else ())]
        if found := repeated_unit(item):
            hint = "expected ranges are too narrow; `calibrant evaluate --units {column}` has intervals by unit"
            notes.append(Note("dependent-rows", f"{item.name}: {unit_text(item.n, *found, hint)}"))
        facts.append(describe_input(item))
        if rows.scaling is not None:
            facts[-1] |= {"checked": rows.n, "left_out": item.n - rows.n, "member_temperatures": rows.scaling.summary()}
    if shift and not cells:
        tables = _shift_across_inputs(inputs, results, members)
    settings = {
        "command": "check", "statistics": _names(statistics), "draws": draws, "members": members, "rule": rule,
        "seed": int(seed), "by": columns,
    }  # fmt: skip
    settings |= {"of": str(of)} if of is not None else {}
    settings |= {"relevant_error": relevant_error} if relevant_error is not None else {}
    settings |= {"shift": list(cells or COLUMNS)} if shift else {}
    return Evaluation(
        version=__version__,
        settings=settings | (scaling.settings() if scaling else {}),
        inputs=tuple(facts),
        results=tuple(results),
        warnings=tuple(dict.fromkeys(notes)),
        passed=tuple(tables),
        kind=CHECK,
    )


def corrected_for_family(checks: Mapping[str, Check], may_be_low: bool = True) -> dict[str, Check]:
    """The checks of a reading with their p-values corrected for the number of statistics.

    may_be_low: whether a calibration error below what the model expects speaks against the reading. It does where one
    of several members draws all rows; else it only suggests that predictions were fitted to these rows.
    """
    p_values = [
        math.nan if check.passed_interval is None
        else 1.0 if not may_be_low and is_too_low(key, check)
        else check.test_p
        for key, check in checks.items()
    ]  # fmt: skip
    adjusted = holm(p_values)
    return {key: replace(check, p_adjusted=p) for (key, check), p in zip(checks.items(), adjusted, strict=True)}


def _class_of(source: Input, example: Any, of: str | int | None) -> str | None:
    """The class to check by name or number, as statistics name it."""
    if of is None:
        return second_class(example)
    if example.task != "classification":
        expected, hint = "a classification", "omit it"
        raise UsageError("of", expected=expected, got=f"{example.task} predictions in {show(source.name)}", hint=hint)
    example.class_index(str(of))  # refuses unknown classes
    return str(of)


def _kind_and_class(example: Any, of: str | None) -> tuple[str, str]:
    """The kind of predictions, and the name of the class that is checked, if it has one of its own."""
    if example.task != "classification":
        return str(example.task), ""
    named = of if of is not None and example.class_names else ""
    return "binary" if example.classes == 2 else "classes", str(named)


def _shares(rows: CheckedRows, checks: Mapping[str, Check], of: str) -> tuple[float, float]:
    """The predicted and the observed share of a class; twice the observed one where its share is not checked."""
    for key, check in checks.items():
        if key.partition("(")[0] == CLASS_FREQUENCY:
            return check.mean, check.observed
    rate = float((rows.column("labels") == rows.example.class_index(of)).mean())
    return rate, rate


def _readings_differ(example: Any) -> bool:
    """Whether the Bayesian and the independent reading differ: with several members, or joint draws."""
    return example.members > 1 or getattr(example, "kind", "") == "samples"


def _grouping(rows: CheckedRows, column: str) -> Grouping:
    """The groups of a column; grouping by the labels is refused, because it selects rows by what is checked."""
    name = column.partition(":")[0]
    if name in ("labels", "y"):
        expected = "groups that are known before the labels"
        got = "groups that would select rows by what is being checked"
        hint = f"use --by {PREDICTED}, or --by COLUMN" if name == "labels" else "use --by COLUMN"
        raise UsageError(f"by {show(name)}", expected=expected, got=got, hint=hint)
    if groups_by_prediction(rows, column):
        return Grouping(PREDICTED, list(range(rows.example.classes)), np.zeros(0, np.int64))
    return group_by_column(rows, column, [])


def _shift_across_inputs(inputs: list[Input], results: list[Result], members: str) -> list[PassTable]:
    """Pass rates where each input is a type and severity of shift, given by its meta."""
    first: list[ShiftedCheck] = []
    second: list[ShiftedCheck] = []
    for item, result in zip(inputs, results, strict=True):
        meta = item.example.info.meta
        severity = float(severities_of(np.array([meta["severity"]]), "severity")[0])
        kind = "clean" if severity == 0 else str(meta["shift"])
        n = next(iter(result.checks.values())).n
        first.append(ShiftedCheck(kind, severity, n, result.checks))
        second += [ShiftedCheck(kind, severity, n, result.independent)] if result.independent else []
    reading = INDEPENDENT if members == INDEPENDENT else BAYESIAN
    tables = [PassTable(ACROSS, reading, tuple(first))]
    return tables + ([PassTable(ACROSS, INDEPENDENT, tuple(second))] if second else [])


def _notes(run: InputCheck, draws: int | str, groups: list[Group], checks: Mapping[str, Check]) -> list[Note]:
    """Warnings about the checks of one input."""
    example, name, out = run.rows.example, run.rows.name, []
    bayesian = run.plans[0].reading == BAYESIAN
    if bayesian and not _readings_differ(example):
        out.append(Note("one-member", f"{name}: with one member, the Bayesian and independent readings are the same"))
    samples = getattr(example, "samples", None)
    if samples is not None and draws != EXACT and len(samples) < int(draws) and bayesian:
        text = f"the Bayesian reading has {len(samples)} replicates, the joint draws in the file, instead of {draws}"
        out.append(Note("few-samples", f"{name}: {text}"))
    most = max(Counter(group.by for group in groups).values(), default=0)
    if draws != EXACT and most > 0.025 * (int(draws) + 1):
        text = f"with {draws} draws no single one of {most} groups can be significant after correction"
        out.append(Note("too-few-draws", f"{name}: {text}; use --draws {math.ceil(most / 0.025)}"))
    known = sum(check.passed_interval is not None for check in checks.values())
    none_fails = all(check.passed() is not False for check in checks.values())
    if draws != EXACT and none_fails and 2.0 * known > LEVEL * (int(draws) + 1):
        text = f"with {draws} draws no single one of {count(known, 'statistic')} can be significant after correction"
        out.append(Note("too-few-draws", f"{name}: {text}; use --draws {math.ceil(2.0 * known / LEVEL)}"))
    rough = [key for key, check in checks.items() if check.method == "moments" and check.se > ROUGH]
    if rough:
        text = f"the exact distribution of {', '.join(rough)} is approximated by its moments, too roughly here"
        out.append(Note("rough-moments", f"{name}: {text}; use --draws 1000"))
    weights = example.weights
    if weights is not None and weights.max() > WIDE_WEIGHTS * weights[weights > 0].min(initial=np.inf):
        text = f"the largest weight is over {WIDE_WEIGHTS:g} times the smallest: small weights are rounded"
        out.append(Note("wide-weights", f"{name}: {text}"))
    return out


def _names(statistics: Any) -> object:
    """The requested statistics, as they are recorded in the settings."""
    if statistics is None or isinstance(statistics, str):
        return statistics or "default"
    items = [statistics] if callable(statistics) or isinstance(statistics, Statistic) else statistics
    return [item if isinstance(item, str) else getattr(item, "name", None) or Statistic(item).name for item in items]
