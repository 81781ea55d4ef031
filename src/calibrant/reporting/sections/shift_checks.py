"""Which share of the types of shift passes each posterior predictive check, severity by severity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.checks.check import INTERVAL, RANGE
from calibrant.evaluation.passing import PassTable
from calibrant.reporting.document import Columns, Control, Figure
from calibrant.reporting.gathering import Gathered
from calibrant.reporting.sections.line_charts import line_rows, lines_chart, lines_drawn
from calibrant.reporting.sections.naming import COLOURS, first_of, labels

CAPTION = (
    "The share of types of shift at which the observed value is what the model expects, by how its members are read "
    "(figure 7 of Gopal 2021). A model that notices the shift keeps passing."
)
RULES = {INTERVAL: "within 95 % of replicates", RANGE: "within all replicates"}
MOST_STATISTICS = 24


def passed_figure(gathered: Gathered) -> Figure | None:
    """Lines by severity: both readings of one input, or the inputs by the reading that a control names."""
    tables = _tables(gathered)
    keys = list(dict.fromkeys(key for table in tables.values() for key in table.keys))
    if not keys:
        return None
    data: dict[tuple[str, ...], Columns] = {}
    for key in keys[:MOST_STATISTICS]:
        for rule, said in _rules(gathered).items():
            columns = _columns(tables, key, rule)
            if lines_drawn(columns):
                data[key, said] = columns
    statistics, rules = (tuple(dict.fromkeys(option[k] for option in data)) for k in (0, 1))
    if not data:
        return None
    return Figure(
        key="passed",
        title="Checks that pass, by severity of shift",
        chart=lines_chart("severity", "share of types that pass", kind="ordered", share=True),
        data=data,
        heads={"name": "reading", "x": "severity", "y": "share that passes", "note": "types that pass"},
        said="The share of types of shift that pass a check, by severity",
        caption=CAPTION + first_of(MOST_STATISTICS, len(keys), "statistics"),
        controls=(Control("statistic", statistics), Control("passes", rules)),
    )


def _tables(gathered: Gathered) -> dict[str, PassTable]:
    """By the name of a line: the reading, and before it the input where there are several."""
    found = [table for evaluation in gathered.evaluations for table in evaluation.passed][:COLOURS]
    several = len({table.input for table in found}) > 1
    out: dict[str, PassTable] = {}
    for table in found:
        name = f"{table.input}, {table.members}" if several else table.members
        (label,) = labels([name], taken=out).values()
        out[label] = table
    return out


def _rules(gathered: Gathered) -> dict[str, str]:
    """The rules in words, first the one that was asked for."""
    asked = [e.settings.get("rule") for e in gathered.evaluations if e.passed]
    return dict(sorted(RULES.items(), key=lambda item: item[0] not in asked[:1]))


def _columns(tables: Mapping[str, PassTable], key: str, rule: str) -> dict[str, list[Any]]:
    return line_rows({name: list(_points(table, key, rule)) for name, table in tables.items()})


def _points(table: PassTable, key: str, rule: str) -> list[dict[str, Any]]:
    counts = {severity: table.passed(key, severity, rule) for severity in table.severities}
    return [
        {"x": severity, "y": passed / known if known else None, "note": f"{passed} of {known}"}
        for severity, (passed, known) in counts.items()
    ]
