"""`check`: is what was observed what the model expects? Posterior predictive checks of one or more inputs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from calibrant.checks.check import RULES, Check
from calibrant.checks.plan import BAYESIAN, BOTH, EXACT, INDEPENDENT, Plan
from calibrant.checks.reading import reading_of
from calibrant.checks.statistics import Statistic, statistics_of
from calibrant.errors import UsageError, show
from calibrant.evaluation.checking import (
    PREDICTED,
    Cells,
    Checked,
    OneCheck,
    grouped_by,
    has_law,
    is_whole,
    refuse_unfit,
)
from calibrant.evaluation.choosing import Input
from calibrant.evaluation.evaluate import Progress, described, inputs_of, shift_columns, teller, version
from calibrant.evaluation.grouping import Grouping, grouping_of, shifted_cells
from calibrant.evaluation.held_out import Temperatures
from calibrant.evaluation.passing import PassTable, ShiftedCheck
from calibrant.evaluation.result import Evaluation, Group, Result
from calibrant.evaluation.shift import ACROSS, COLUMNS, severities_of
from calibrant.kernels.philox import key_of
from calibrant.predictions.base import Note, check_rows

READINGS = (BOTH, BAYESIAN, INDEPENDENT)
MOST_DRAWS = 1_000_000
ROUGH = 0.03
"""By how much a law by moments may be off before it is said."""
WIDE_WEIGHTS = 4096.0


def check(
    predictions: Input | Mapping[str, Input] | Iterable[Input],
    statistics: Any = None,
    *,
    draws: int | str = 1000,
    members: str = BOTH,
    by: str | Iterable[str] = (),
    shift: bool | tuple[str, str] = False,
    rule: str = "interval",
    temperatures: float | None = None,
    fit: Input | None = None,
    seed: int = 0,
    threads: int | None = None,
    block_rows: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Replicate the labels from the model, and see where the observed statistics lie among the replicated ones.

    statistics: spec strings of metrics that look at labels ("ece(bins=10)"), statistics of the labels themselves
    ("class_frequency", "confusion", "entropy"; "mean", "min", "max", "quantile(level=0.9)" of a regression), functions
    T(labels, predictions) -> float, or `Statistic`s; by default those of the task. draws: replicates, or "exact" for
    computed laws. members: "bayesian", one member draws all rows of a replicate; "independent", each row has a member
    of its own; "both", the first with the second beside it. by: columns to check in groups, "column" or "column:BINS",
    or "predicted" for the predicted class; p-values are corrected for the number of groups. shift: check every type of
    shift at every severity and count what passes, by columns or by the meta of inputs, as in `evaluate`. rule: what
    passes, T within the 95 % "interval" of replicates or within their "range". temperatures: a share of rows on which a
    temperature for each member is fitted first, of `fit` where it is given; these rows are then left out. The same bits
    for any number of threads and blocks.
    """
    inputs = inputs_of(predictions, "check")
    _check_options(draws, members, rule, seed, threads)
    check_rows(block_rows)
    statistics = _materialised(statistics)
    columns = [by] if isinstance(by, str) else list(dict.fromkeys(by or ()))
    cells = shift_columns(shift, "mean", inputs)
    scaling = Temperatures.of(temperatures, fit, threads)
    results, notes, facts, tables = [], [], [], []
    for place, item in enumerate(inputs):
        refuse_unfit(item)
        checked = scaling.applied(item) if scaling else Checked(item)
        tell = teller(progress, item.name, place, len(inputs), "drawing", 1.0)
        one = _one(checked, statistics, draws, members, columns, cells, seed, threads, block_rows, tell)
        found = one.run()
        groups = one.groups(found)
        named = [group for group in groups if not _is_cell(group, cells)]
        results.append(_result(one, found, named, rule))
        tables += _tables(item.name, one.plans, groups, cells) if cells else []
        notes += [*item.notes(), *_notes(one, draws, named, found[0][0]), *(scaling.notes(checked) if scaling else ())]
        facts.append(described(item) | _left_out(checked))
    if shift and not cells:
        tables = _across(inputs, results, members)
    settings = _recorded(draws, members, rule, seed, columns, statistics)
    settings |= {"shift": list(cells or COLUMNS)} if shift else {}
    return Evaluation(
        version=version(),
        settings=settings | (scaling.recorded() if scaling else {}),
        inputs=tuple(facts),
        results=tuple(results),
        warnings=tuple(dict.fromkeys(notes)),
        passed=tuple(tables),
    )


def _one(
    checked: Checked, statistics: Any, draws: int | str, members: str, columns: list[str],
    cells: tuple[str, str] | None, seed: int, threads: int | None, block_rows: int | None, tell: Any,
) -> OneCheck:  # fmt: skip
    example = checked.example
    readings = [BAYESIAN, INDEPENDENT] if members == BOTH else [members]
    if members == BOTH and not _has_members(example):
        readings = [BAYESIAN]
    count = 0 if draws == EXACT else int(draws)
    whole = is_whole(checked.source, block_rows)
    plans = [Plan(reading, count, seed, example.members, threads, whole) for reading in readings]
    groupings = [_grouping(checked, column) for column in columns]
    groupings += [shifted_cells(checked, cells, [])] if cells else []
    found = statistics_of(statistics, example)
    if statistics is None and draws == EXACT:
        found = [one for one in found if has_law(one, example)] or found
    made = Cells.of(groupings, getattr(example, "classes", 1))
    return OneCheck(checked, found, plans, made, block_rows, tell)


def _has_members(example: Any) -> bool:
    """Whether the two readings differ: several members, or joint draws."""
    return example.members > 1 or getattr(example, "kind", "") == "samples"


def _grouping(checked: Checked, column: str) -> Grouping:
    """The groups of a column; those of what is checked are refused, for a group may not be chosen by it."""
    name = column.partition(":")[0]
    if name in ("labels", "y"):
        raise UsageError(
            f"by {show(name)}",
            expected="groups that were known before the labels",
            came="rows would be chosen by what is being checked",
            do=f"use --by {PREDICTED}, or a column of the inputs" if name == "labels" else "use a column of the inputs",
        )
    if grouped_by(checked, column):
        return Grouping(PREDICTED, list(range(checked.example.classes)), np.zeros(0, np.int64))
    return grouping_of(checked, column, [])


# ------------------------------------------------------------------------------------------------ results
def _is_cell(group: Group, cells: tuple[str, str] | None) -> bool:
    return cells is not None and group.by == ",".join(cells)


def _result(one: OneCheck, found: list[list[dict[str, Check]]], groups: list[Group], rule: str) -> Result:
    first, second = found[0][0], found[1][0] if len(found) > 1 else {}
    said = reading_of(first, second, one.plans[0].reading, rule)
    return Result(
        one.checked.name,
        {},
        tuple(groups),
        checks=first,
        independent=second,
        reading=said.lines,
        supported=said.supported,
    )


def _tables(name: str, plans: list[Plan], groups: list[Group], cells: tuple[str, str]) -> list[PassTable]:
    """How many pass at each severity, by each reading."""
    of_cells = [group for group in groups if _is_cell(group, cells)]
    out = []
    for k, plan in enumerate(plans):
        parts = [(*group.value, group.n, group.independent if k else group.checks) for group in of_cells]
        out.append(PassTable(name, plan.reading, tuple(ShiftedCheck(*part) for part in parts)))
    return out


def _across(inputs: list[Input], results: list[Result], members: str) -> list[PassTable]:
    """Inputs as cells: the type and severity of each stand in its meta."""
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


def _left_out(checked: Checked) -> dict[str, object]:
    """Of temperatures: which they are, how they were fitted, and how many rows are checked."""
    if checked.scaling is None:
        return {}
    return {
        "checked": checked.n,
        "left_out": checked.source.n - checked.n,
        "member_temperatures": checked.scaling.summary(),
    }


# ------------------------------------------------------------------------------------------- notes, options
def _notes(one: OneCheck, draws: int | str, groups: list[Group], checks: Mapping[str, Check]) -> list[Note]:
    """What a reader of the checks should know."""
    example, name, out = one.checked.example, one.checked.name, []
    if example.members == 1 and not _has_members(example) and one.plans[0].reading == BAYESIAN:
        said = "there is one member, so Bayesian and independent are the same: what is checked is the model as it is"
        out.append(Note("one-member", f"{name}: {said}"))
    samples = getattr(example, "samples", None)
    if samples is not None and draws != EXACT and len(samples) < int(draws) and one.plans[0].reading == BAYESIAN:
        said = f"the {len(samples)} joint draws are the replicates of the Bayesian reading; there are no more"
        out.append(Note("few-samples", f"{name}: {said}"))
    most = max(Counter(group.by for group in groups).values(), default=0)
    if draws != EXACT and most > 0.025 * (int(draws) + 1):
        said = f"of {most} groups no single one can be marked with {draws} draws; {math.ceil(most / 0.025)} would do"
        out.append(Note("too-few-draws", f"{name}: {said}"))
    rough = [key for key, check in checks.items() if check.method == "moments" and check.se > ROUGH]
    if rough:
        said = f"the law of {', '.join(rough)} is known by its moments, and that is rough here: draw replicates instead"
        out.append(Note("rough-moments", f"{name}: {said}"))
    weights = example.weights
    if weights is not None and weights.max() > WIDE_WEIGHTS * weights[weights > 0].min(initial=np.inf):
        said = "the largest weight is thousands of times the smallest: rows of small weight are counted coarsely"
        out.append(Note("wide-weights", f"{name}: {said}"))
    return out


def _check_options(draws: int | str, members: str, rule: str, seed: int, threads: int | None) -> None:
    whole = isinstance(draws, int | np.integer) and not isinstance(draws, bool)
    if draws != EXACT and not (whole and 1 <= int(draws) <= MOST_DRAWS):
        said = f"a whole number from 1 to {MOST_DRAWS}, or '{EXACT}'"
        raise UsageError("draws", expected=said, came=f"got {show(draws)}", do="1000 is usual")
    for what, value, known in (("members", members, READINGS), ("rule", rule, RULES)):
        if value not in known:
            raise UsageError(what, expected=" or ".join(known), came=f"got {show(value)}", do=f"{known[0]} is usual")
    if threads is not None and threads < 1:
        raise UsageError("threads", expected="at least 1", came=f"got {threads}", do="leave it out for all")
    key_of(seed)


def _recorded(
    draws: int | str, members: str, rule: str, seed: int, by: list[str], statistics: Any
) -> dict[str, object]:
    return {
        "command": "check",
        "statistics": _names(statistics),
        "draws": draws if isinstance(draws, str) else int(draws),
        "members": members,
        "rule": rule,
        "seed": int(seed),
        "by": by,
    }


def _names(statistics: Any) -> object:
    """What was asked for, as it stands in the settings."""
    if statistics is None or isinstance(statistics, str):
        return statistics or "default"
    single = callable(statistics) or isinstance(statistics, Statistic)
    items = [statistics] if single else list(statistics)
    return [item if isinstance(item, str) else getattr(item, "name", None) or Statistic(item).name for item in items]


def _materialised(statistics: Any) -> Any:
    """The same, to be gone through more than once."""
    single = statistics is None or isinstance(statistics, str | Statistic) or callable(statistics)
    return statistics if single else list(statistics)
