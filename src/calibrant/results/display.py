"""How records show themselves.

This is the one module of `results` that imports from the layers above: inside functions, when something is shown.
"""

from __future__ import annotations

import html
import math
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from calibrant.errors import MissingExtra, check_choice, plain

if TYPE_CHECKING:
    from calibrant.render.table import Table as Table
    from calibrant.results.evaluation import Evaluation

TEXT_COLUMNS = ("input", "by", "group", "metric", "statistic", "method", "kind", "other", "better")
"""Columns of text, also where every row leaves them empty."""
NO_WRAP = 4000
"""A line width that nothing reaches: the browser wraps."""


def terminal() -> ModuleType:
    """The renderer of evaluations as text."""
    from calibrant.render import terminal

    return terminal


def recalibration() -> ModuleType:
    """The renderer of improvements."""
    from calibrant.render import recalibration

    return recalibration


def comparison() -> ModuleType:
    """The renderer of rank flips."""
    from calibrant.render import comparison

    return comparison


def evaluation_html(evaluation: Evaluation) -> str:
    """The verdict, tables and remarks for a notebook, with charts if the extra `report` is installed."""
    from calibrant.render.evaluation import as_html
    from calibrant.render.terminal import verdict_lines
    from calibrant.render.verdicts.api import verdict
    from calibrant.reporting.report import notebook_charts

    try:
        pictures = notebook_charts(evaluation)
    except MissingExtra:
        pictures = ""
    lines = ["".join(part for part, _ in line).strip() for line in verdict_lines(verdict(evaluation), NO_WRAP)]
    head, *points = [html.escape(plain(line, NO_WRAP)) for line in lines if line] or [""]
    items = "".join(f'<li style="text-align:left">{point}</li>' for point in points)
    text = f'<p style="text-align:left"><strong>{head}</strong></p>' if head else ""
    text += f'<ul style="list-style:none;padding-left:1em">{items}</ul>' if items else ""
    return text + as_html(evaluation) + pictures


def evaluation_plot(evaluation: Evaluation, name: str, result: str | None, library: str, ax: Any) -> Any:
    """One chart of an evaluation, by Altair or matplotlib."""
    from calibrant.reporting.single_chart import altair_chart, matplotlib_chart

    library = check_choice("library", "matplotlib" if ax is not None else library, ("altair", "matplotlib"))
    if library == "matplotlib":
        return matplotlib_chart(evaluation, name, result, ax)
    return altair_chart(evaluation, name, result)


def evaluation_frame(evaluation: Evaluation, library: str | None) -> Any:
    """The numbers of an evaluation as a data frame of pandas or polars."""
    from calibrant.render.evaluation import tidy_rows

    heads, rows = tidy_rows(evaluation)
    columns: dict[str, list[Any]] = {}
    for place, head in enumerate(heads):
        values = [row[place] for row in rows]
        if head in TEXT_COLUMNS or any(isinstance(value, str) and value for value in values):
            columns[head] = ["" if value is None else str(value) for value in values]
        else:
            columns[head] = [math.nan if value in ("", None) else value for value in values]
    libraries = ("pandas", "polars") if library is None else (check_choice("library", library, ("pandas", "polars")),)
    for name in libraries:
        try:
            return import_module(name).DataFrame(columns)
        except ImportError:
            continue
    hint = f"run `pip install {libraries[0]}`, or use to_json()"
    raise MissingExtra("to_frame", expected=" or ".join(libraries), got="none installed", hint=hint)


def evaluation_bibtex(evaluation: Evaluation) -> str:
    """The works behind everything in an evaluation, as BibTeX."""
    from calibrant.bibliography import bibtex
    from calibrant.render.references import works_of

    return bibtex(works_of(evaluation))
