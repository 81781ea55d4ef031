"""Posterior predictive checks as box plots with the observed value as a cross (figures 5 and 6 of Gopal 2021)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from calibrant.checks.check import Check
from calibrant.checks.plan import INDEPENDENT
from calibrant.checks.reading import NEITHER, sentence
from calibrant.evaluation.check_tables import check_tables, temperature_lines
from calibrant.reporting.boxes import HEADS, HOW, MOST_DRAWN, box_chart, box_columns, can_be_drawn, drawn_rows
from calibrant.reporting.document import (
    Block,
    Columns,
    Control,
    Figure,
    Fold,
    Heading,
    Panel,
    Points,
    Section,
    Shown,
    Text,
)
from calibrant.reporting.gathering import Found, Gathered, Subject
from calibrant.reporting.naming import distinct

LEAD = "Is what was observed what the model expects of itself?"
MOST_FIGURES = 6
"""Statistics that have a figure each; more share one, with a list to choose from."""
LONG = 12
"""Rows from which a table is there for those who open it."""
Readings = Mapping[str, Mapping[str, Check]]


def section(gathered: Gathered) -> Section | None:
    """A panel for each input that was checked, and those inputs side by side where there are several."""
    checked = [(k, subject) for k, subject in enumerate(gathered.subjects) if subject.checked is not None]
    if not checked:
        return None
    beside = _inputs([subject for _, subject in checked])
    panels = []
    for k, subject in checked:
        head = (Heading(subject.name),) if beside else ()
        panels.append(Panel(k, (*head, *(block for found in subject.checks() for block in _blocks(found)))))
    return Section("checks", "Posterior predictive checks", (*beside, *panels), LEAD)


def _blocks(found: Found) -> tuple[Block, ...]:
    checks, rule = found.result.checks, _rule(found)
    few = [key for key in checks if len(checks) <= MOST_FIGURES and can_be_drawn(checks[key])]
    figures: list[Block] = [_of_statistic(found, key, place) for place, key in enumerate(few)]
    if len(checks) > MOST_FIGURES:
        figures = [_of_many(found)]
    told = [(_tone(checks[key], rule), key, _after(key, checks[key], rule)) for key in checks if key not in few]
    how: list[Block] = [Text((HOW,), note=True)] if few else []
    points: list[Block] = [Points((*told, *_overall(found)))] if told or _overall(found) else []
    return (*points, *how, *figures, *_groups(found), *_tables(found))


def _rule(found: Found) -> str:
    return str(found.evaluation.settings["rule"])


def _readings(found: Found) -> Readings:
    """The checks by how the members are read."""
    first = "independent" if found.evaluation.settings["members"] == INDEPENDENT else "Bayesian"
    return {first: found.result.checks} | (
        {"independent": found.result.independent} if found.result.independent else {}
    )


# -------------------------------------------------------------------------------------------------------- words
def _tone(check: Check, rule: str) -> str:
    passed = check.passed(rule)
    if passed is None:
        return "neutral"
    return "bad" if not passed else "warn" if check.between else "good"


def _after(key: str, check: Check, rule: str) -> str:
    """What is said of a statistic, without its name in front."""
    return sentence(key, check, rule).removeprefix(f"{key}: ")


def _overall(found: Found) -> list[tuple[str, str, str]]:
    """What the checks say together: the lines behind those of each statistic."""
    result = found.result
    tone = {None: "neutral", NEITHER: "bad"}.get(result.supported, "good")
    out = []
    for line in result.reading[len(result.checks) :]:
        last = line == result.reading[-1] and result.supported is not None
        topic = "How the members are read" if last else "Calibration error alone"
        out.append((tone if last else "neutral", topic, line))
    return out + [("neutral", "Temperatures", line) for line in temperature_lines(found.evaluation, result)]


def _tables(found: Found) -> list[Block]:
    out: list[Block] = []
    for table in check_tables(found.evaluation, found.result):
        short = len(table.rows) <= LONG
        out.append(Shown(table) if short else Fold(f"Table {table.title}", (Shown(table),)))
    return out


# ------------------------------------------------------------------------------------------------------ figures
def _rows(found: Found, key: str) -> list[tuple[str, Check]]:
    """The checks of a statistic by how members are read; one member is read in one way only."""
    readings = {reading: checks[key] for reading, checks in _readings(found).items() if key in checks}
    facts = next((item for item in found.evaluation.inputs if item["name"] == found.result.input), {})
    alone = len(readings) == 1 and facts.get("members") == 1
    return [("the model" if alone else reading, check) for reading, check in readings.items()]


def _of_statistic(found: Found, key: str, place: int) -> Figure:
    """One statistic, its readings under each other."""
    rule = _rule(found)
    rows = _rows(found, key)
    data = box_columns(rows, rule)
    return Figure(
        key=f"statistic-{place + 1}",
        title=key,
        chart=box_chart(drawn_rows([data])),
        data={(): data},
        heads=HEADS | {"name": "reading of the members"},
        said="; ".join(f"{reading}: {sentence(key, check, rule)}" for reading, check in rows),
        caption=_after(key, found.result.checks[key], rule) + ".",
    )


def _of_many(found: Found) -> Figure:
    data: dict[tuple[str, ...], Columns] = {}
    rule = _rule(found)
    names = dict(zip(found.result.checks, distinct(found.result.checks), strict=True))
    for key, name in names.items():
        data[(name,)] = box_columns(_rows(found, key), rule)
    return Figure(
        key="statistics",
        title="What is expected, and what was observed",
        chart=box_chart(drawn_rows(data.values())),
        data=data,
        heads=HEADS | {"name": "reading of the members"},
        said="Box plots of what the model expects of a statistic, with a cross at what was observed",
        caption=HOW,
        controls=(Control("statistic", tuple(names.values())),),
    )


def _groups(found: Found) -> list[Block]:
    """A figure for each column that rows were grouped by."""
    columns = dict.fromkeys(group.by for group in found.result.groups if group.checks)
    return [figure for place, by in enumerate(columns) if (figure := _by(found, by, place)) is not None]


def _by(found: Found, by: str, place: int) -> Figure | None:
    groups = [group for group in found.result.groups if group.by == by]
    names = distinct((group.value for group in groups), 24)
    first, *more = _readings(found)
    listed = [(first, [group.checks for group in groups])]
    listed += [(reading, [group.independent for group in groups]) for reading in more]
    data = _by_statistic(listed, names, _rule(found))
    return _side_by_side(data, f"groups-{place + 1}", f"By {by}", "group", len(names)) if data else None


def _inputs(subjects: list[Subject]) -> list[Block]:
    """Inputs under each other, where there are several."""
    if len(subjects) < 2:
        return []
    founds = [subject.checked for subject in subjects if subject.checked is not None]
    names = distinct((subject.name for subject in subjects), 32)
    readings = dict.fromkeys(reading for found in founds for reading in _readings(found))
    listed = [(reading, [_readings(found).get(reading, {}) for found in founds]) for reading in readings]
    data = _by_statistic(listed, names, _rule(founds[0]))
    if not data:
        return []
    return [_side_by_side(data, "inputs", "Every input that was checked", "input", len(names))]


def _by_statistic(
    listed: Iterable[tuple[str, list[Mapping[str, Check]]]], names: list[str], rule: str
) -> dict[tuple[str, ...], Columns]:
    """Columns by statistic and reading, for checks of several things by name; those that cannot be drawn left out."""
    made: dict[tuple[str, ...], Columns] = {}
    for reading, several in listed:
        keys = list(dict.fromkeys(key for checks in several for key in checks))
        for key, shown in zip(keys, distinct(keys), strict=True):
            rows = [(name, checks[key]) for name, checks in zip(names, several, strict=True) if key in checks]
            if len(rows) > 1 and any(can_be_drawn(check) for _, check in rows):
                made[shown, reading] = box_columns(rows, rule)
    return made


def _side_by_side(data: Mapping[tuple[str, ...], Columns], key: str, title: str, what: str, count: int) -> Figure:
    statistics, readings = (tuple(dict.fromkeys(chosen[k] for chosen in data)) for k in (0, 1))
    cut = f" The first {MOST_DRAWN} of {count} are drawn; the numbers have all." if count > MOST_DRAWN else ""
    return Figure(
        key=key,
        title=title,
        chart=box_chart(drawn_rows(data.values())),
        data=data,
        heads=HEADS | {"name": what},
        said=f"Box plots of what is expected of a statistic for each {what}, with a cross at what was observed",
        caption=HOW + cut,
        controls=(Control("statistic", statistics), Control("members read as", readings)),
    )
