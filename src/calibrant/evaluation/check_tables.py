"""Checks as tables: each statistic with what was expected of it, groups, readings side by side, passes by severity."""

from __future__ import annotations

import math
from collections.abc import Mapping

from calibrant.checks.check import AS_EXPECTED, Check
from calibrant.checks.plan import BAYESIAN, INDEPENDENT
from calibrant.evaluation.bars import Bar
from calibrant.evaluation.passing import PassTable
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.result import Evaluation, Group, Result
from calibrant.evaluation.wording import number, span, title

FIELDS = (
    "observed", "n", "p_value", "mid_p", "two_sided", "randomised", "se", "mean", "sd", "min", "q025", "q05", "q25",
    "q50", "q75", "q95", "q975", "max", "sharpness", "passed_range", "passed_interval", "draws", "method", "undefined",
    "nearest", "q_value",
)  # fmt: skip
CHECK_HEADS = ("input", "by", "group", "members", "statistic", *FIELDS)
MARK = " *"
"""Behind groups that surprise the model also when all groups are counted."""
FALSE_DISCOVERIES = 0.05
MOST_COLUMNS = 6


def check_tables(evaluation: Evaluation, result: Result) -> list[Table]:
    """The checks of one input, its groups, and both readings side by side."""
    columns = dict.fromkeys(group.by for group in result.groups)
    beside = [_side_by_side(evaluation, result)] if result.independent else []
    return [_main(evaluation, result), *(_groups(evaluation, result, by) for by in columns), *beside]


def _rule(evaluation: Evaluation) -> str:
    return str(evaluation.settings["rule"])


def _reading(evaluation: Evaluation) -> str:
    """The reading that the first checks are of."""
    return INDEPENDENT if evaluation.settings["members"] == INDEPENDENT else BAYESIAN


def _made(evaluation: Evaluation) -> str:
    draws = evaluation.settings["draws"]
    return "computed" if draws == "exact" else f"{draws} draws"


def _main(evaluation: Evaluation, result: Result) -> Table:
    """One row a statistic: observed, expected, p-value, sharpness, and whether the model is surprised."""
    rule = _rule(evaluation)
    heads = ("statistic", "observed", "expected", "p", "sharpness", "surprised")
    rows = tuple(
        (key, number(c.observed), _inner(c, rule), _share(c.p_value), number(c.sharpness), _said(c, rule))
        for key, c in result.checks.items()
    )
    ends = [(c, *((c.q025, c.q975) if rule == "interval" else (c.min, c.max))) for c in result.checks.values()]
    drawn = tuple(Bar(c.observed, band_low=low, band_high=high) for c, low, high in ends)
    name = f"{title(evaluation, result)} · {_reading(evaluation)}, {_made(evaluation)}"
    return Table(name, heads, rows, bars=drawn)


def _inner(check: Check, rule: str) -> str:
    return span(check.q025, check.q975) if rule == "interval" else span(check.min, check.max)


def _said(check: Check, rule: str) -> str:
    found = check.surprise(rule)
    return {AS_EXPECTED: "no", "lower": "yes, low", "higher": "yes, high"}.get(found, found)


def _share(p: float) -> str:
    """A p-value: three decimals, and what rounding would hide said."""
    if math.isnan(p):
        return "undefined"
    text = f"{p:.3f}"
    return "<0.001" if text == "0.000" and p > 0 else ">0.999" if text == "1.000" and p < 1 else text


def _groups(evaluation: Evaluation, result: Result, by: str) -> Table:
    """One row a group: the mid-p of each statistic, marked where the model is surprised; how many pass at the end.

    Small groups have many ties: strictly below a value that all replicates have lies none of them.
    """
    groups = [group for group in result.groups if group.by == by]
    keys = list(groups[0].checks)[:MOST_COLUMNS]
    more = len(groups[0].checks) - len(keys)
    rows = [(str(group.value), str(group.n), *(_marked(group, key) for key in keys)) for group in groups]
    rows.append(("passed", "", *(_count(groups, key, _rule(evaluation)) for key in keys)))
    legend = f"; {MARK.strip()} q < {FALSE_DISCOVERIES:g}" * any(c.endswith(MARK) for row in rows for c in row)
    name = f"by {by}: mid-p of each statistic{legend}" + (f" ({more} more in the JSON)" if more > 0 else "")
    return Table(name, (by, "n", *keys), tuple(rows), breaks=frozenset({len(rows) - 1}))


def _marked(group: Group, key: str) -> str:
    check = group.checks[key]
    return _share(check.mid_p) + MARK * (check.q_value < FALSE_DISCOVERIES)


def _count(groups: list[Group], key: str, rule: str) -> str:
    known = [passed for group in groups if (passed := group.checks[key].passed(rule)) is not None]
    return f"{sum(known)} of {len(known)}"


def _side_by_side(evaluation: Evaluation, result: Result) -> Table:
    """What each reading of the members makes of the observed values; what the Bayesian one expects stands above."""
    rule = _rule(evaluation)
    heads = ("side by side", "Bayesian p", "", "independent expects", "p", "")
    rows = []
    for key, check in result.checks.items():
        other = result.independent[key]
        second = (_inner(other, rule), _share(other.p_value), _passes(other, rule))
        rows.append((key, _share(check.p_value), _passes(check, rule), *second))
    return Table("", heads, tuple(rows))


def _passes(check: Check, rule: str) -> str:
    return {True: "passes", False: "fails", None: "undefined"}[check.passed(rule)]


def temperature_lines(evaluation: Evaluation, result: Result) -> list[str]:
    """Which temperatures the members have, where they were fitted."""
    facts = next(item for item in evaluation.inputs if item["name"] == result.input)
    if "member_temperatures" not in facts:
        return []
    found, fit = facts["member_temperatures"]["temperatures"], evaluation.settings.get("fit")
    of = f" of {fit}" if fit else ""
    share = f"the first {100 * float(evaluation.settings['temperatures']):g} % of rows{of}"
    said = f"temperatures of {min(found):.3g} to {max(found):.3g} were fitted to the members on {share}"
    return [f"{said}; {facts['left_out']} rows are left out"]


# ---------------------------------------------------------------------------------------------- under shift
def pass_tables(evaluation: Evaluation) -> list[Table]:
    """How many types of shift pass at each severity, one table an input."""
    inputs = dict.fromkeys(table.input for table in evaluation.passed)
    return [_pass_table(evaluation, [t for t in evaluation.passed if t.input == name]) for name in inputs]


def _pass_table(evaluation: Evaluation, tables: list[PassTable]) -> Table:
    rule = _rule(evaluation)
    severities = tables[0].severities
    rows = [
        (f"{key}, {table.members}", *(_of(table.passed(key, severity, rule)) for severity in severities))
        for key in tables[0].keys
        for table in tables
    ]
    name = f"{tables[0].input} · types of shift that pass at each severity (by {rule})"
    return Table(name, ("severity", *(f"{severity:g}" for severity in severities)), tuple(rows))


def _of(counts: tuple[int, int]) -> str:
    return f"{counts[0]} of {counts[1]}"


# --------------------------------------------------------------------------------------------------- CSV
def check_rows(evaluation: Evaluation) -> list[tuple[object, ...]]:
    """One row per input, group, reading and statistic, with full precision."""
    rows: list[tuple[object, ...]] = []
    reading = _reading(evaluation)
    for result in evaluation.results:
        rows += _rows((result.input, "", ""), reading, result.checks)
        rows += _rows((result.input, "", ""), INDEPENDENT, result.independent)
        for group in result.groups:
            where = (result.input, group.by, group.value)
            rows += _rows(where, reading, group.checks) + _rows(where, INDEPENDENT, group.independent)
    for table in evaluation.passed:
        for cell in table.cells:
            where = (table.input, "shift,severity", f"{cell.shift} {cell.severity:g}")
            rows += _rows(where, table.members, cell.checks)
    return rows


def _rows(where: tuple[object, ...], reading: str, checks: Mapping[str, Check]) -> list[tuple[object, ...]]:
    return [
        (*where, reading, key, *(_written(getattr(check, name)) for name in FIELDS)) for key, check in checks.items()
    ]


def _written(value: object) -> object:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value
