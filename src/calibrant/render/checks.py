"""Posterior predictive checks as tables and CSV rows."""

from __future__ import annotations

from collections.abc import Mapping

from calibrant.render.formatting import blank_if_nan, format_interval, format_number, format_p_value, input_title
from calibrant.render.table import Bar, Table
from calibrant.render.verdicts.check_sentences import expected_range
from calibrant.results.check import AS_EXPECTED, BAYESIAN, INDEPENDENT, LEVEL, RANGE, Check
from calibrant.results.evaluation import Evaluation, Result

FIELDS = (
    "observed", "n", "p_value", "mid_p", "two_sided", "randomised", "se", "mean", "sd", "min", "q025", "q05", "q25",
    "q50", "q75", "q95", "q975", "max", "sharpness", "passed_range", "passed_interval", "draws", "method", "undefined",
    "nearest", "p_adjusted", "q_value",
)  # fmt: skip
CSV_HEADS = ("input", "by", "group", "members", "statistic", *FIELDS)
MARK = " *"
"""Marks groups that fail after correction for multiple testing."""
FALSE_DISCOVERY_RATE = 0.05
MAX_COLUMNS = 6
OUTCOMES = {AS_EXPECTED: "yes", "lower": "no: too low", "higher": "no: too high"}
INSIGNIFICANT = "yes: not significant"
"""Outside its 95% interval, but not significantly after correction."""


def check_tables(evaluation: Evaluation, result: Result) -> list[Table]:
    """The checks of one input, its groups, and both member assumptions side by side."""
    rule = str(evaluation.settings["rule"])
    tables = [_main_table(evaluation, result, rule)]
    tables += [_group_table(result, by, rule) for by in dict.fromkeys(group.by for group in result.groups)]
    if result.independent:
        outcomes = {True: "passes", False: "fails", None: "undefined"}
        rows = []
        for key, check in result.checks.items():
            other = result.independent[key]
            bayesian = (_p(check), outcomes[check.passed(rule)])
            expected = format_interval(*expected_range(other, rule))
            rows.append((key, *bayesian, expected, _p(other), outcomes[other.passed(rule)]))
        heads = ("member assumption", "Bayesian p", "", "independent expects", "p", "")
        tables.append(Table("", heads, tuple(rows)))
    return tables


def _assumption(evaluation: Evaluation) -> str:
    """How the first set of checks treats the members."""
    return INDEPENDENT if evaluation.settings["members"] == INDEPENDENT else BAYESIAN


def _main_table(evaluation: Evaluation, result: Result, rule: str) -> Table:
    """One row per statistic: observed, expected, p-value, sharpness, and whether it passes."""
    rows, bars = [], []
    for key, check in result.checks.items():
        low, high = expected_range(check, rule)
        outcome = check.surprise(rule)
        outcome = INSIGNIFICANT if check.insignificant(rule) else OUTCOMES.get(outcome, outcome)
        row = (key, format_number(check.observed), format_interval(low, high), _p(check))
        rows.append((*row, format_number(check.sharpness), outcome))
        bars.append(Bar(check.observed, band_low=low, band_high=high))
    draws = evaluation.settings["draws"]
    how = "exact" if draws == "exact" else f"{draws} draws"
    title = f"{input_title(evaluation, result)} · {_assumption(evaluation)}, {how}"
    heads = ("statistic", "observed", "expected", "p", "sharpness", "passes")
    return Table(title, heads, tuple(rows), bars=tuple(bars))


def check_legend(rule: str) -> str:
    """What the table assumes."""
    share, passes = "95% of", f"unless significant at {100 * LEVEL:g}% after correction (Holm)"
    if rule == RANGE:
        share, passes = "all", "within this range"
    rows = "whose rows are independent given the predictions"
    return f"expected: {share} replicates, {rows}; p: two-sided; passes: {passes}"


def _p(check: Check) -> str:
    """The two-sided p-value: small values are surprising."""
    return format_p_value(check.test_p)


def _group_table(result: Result, by: str, rule: str) -> Table:
    """One row per group with the two-sided p-value of each statistic, and how many groups pass in the last row."""
    groups = [group for group in result.groups if group.by == by]
    keys = list(groups[0].checks)[:MAX_COLUMNS]
    hidden = len(groups[0].checks) - len(keys)
    rows = []
    for group in groups:
        checks = [group.checks[key] for key in keys]
        cells = [_p(c) + MARK * (c.q_value < FALSE_DISCOVERY_RATE) for c in checks]
        rows.append((str(group.value), str(group.n), *cells))
    legend = f"; {MARK.strip()} q < {FALSE_DISCOVERY_RATE:g}" * any(c.endswith(MARK) for row in rows for c in row)
    passed = []
    for key in keys:
        defined = [outcome for group in groups if (outcome := group.checks[key].passed(rule)) is not None]
        passed.append(f"{sum(defined)} of {len(defined)}")
    rows.append(("passed", "", *passed))
    title = f"by {by}: p-value of each statistic{legend}" + (f" ({hidden} more in the JSON)" if hidden else "")
    return Table(title, (by, "n", *keys), tuple(rows), breaks=frozenset({len(rows) - 1}))


def temperature_lines(evaluation: Evaluation, result: Result) -> list[str]:
    """The temperatures fitted to the members, if any."""
    facts = next(item for item in evaluation.inputs if item["name"] == result.input)
    if "member_temperatures" not in facts:
        return []
    temperatures, fit = facts["member_temperatures"]["temperatures"], evaluation.settings.get("fit")
    rows = f"the first {100 * float(evaluation.settings['temperatures']):g}% of rows{f' of {fit}' if fit else ''}"
    text = f"member temperatures of {min(temperatures):.3g} to {max(temperatures):.3g} were fitted on {rows}"
    return [f"{text}; these {facts['left_out']} rows are not checked"]


def pass_rate_tables(evaluation: Evaluation) -> list[Table]:
    """How many shift types pass at each severity, one table per input."""
    rule, out = str(evaluation.settings.get("rule", "")), []
    for name in dict.fromkeys(table.input for table in evaluation.passed):
        tables = [table for table in evaluation.passed if table.input == name]
        severities, rows = tables[0].severities, []
        for key in tables[0].keys:
            for table in tables:
                counts = [table.passed(key, severity, rule) for severity in severities]
                rows.append((f"{key}, {table.members}", *(f"{good} of {total}" for good, total in counts)))
        title = f"{name} · shift types that pass at each severity (rule: {rule})"
        out.append(Table(title, ("severity", *(f"{severity:g}" for severity in severities)), tuple(rows)))
    return out


# --------------------------------------------------------------------------------------------------- CSV
def check_rows(evaluation: Evaluation) -> list[tuple[object, ...]]:
    """One full-precision row per input, group, member assumption and statistic."""
    assumption = _assumption(evaluation)
    parts: list[tuple[tuple[object, ...], Mapping[str, Check]]] = []
    for result in evaluation.results:
        parts.append(((result.input, "", "", assumption), result.checks))
        parts.append(((result.input, "", "", INDEPENDENT), result.independent))
        for group in result.groups:
            where = (result.input, group.by, group.value)
            parts += [((*where, assumption), group.checks), ((*where, INDEPENDENT), group.independent)]
    for table in evaluation.passed:
        for cell in table.cells:
            where = (table.input, "shift,severity", f"{cell.shift} {cell.severity:g}")
            parts.append(((*where, table.members), cell.checks))
    return [
        (*where, key, *(blank_if_nan(getattr(check, name)) for name in FIELDS))
        for where, checks in parts
        for key, check in checks.items()
    ]
