"""How records show themselves.

This is the one module of `results` that imports from the layers above: inside functions, when something is shown.
"""

from __future__ import annotations

import html
from types import ModuleType
from typing import TYPE_CHECKING

from calibrant.errors import MissingExtra, plain

if TYPE_CHECKING:
    from calibrant.render.table import Table as Table
    from calibrant.results.evaluation import Evaluation

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


def evaluation_bibtex(evaluation: Evaluation) -> str:
    """The works behind everything in an evaluation, as BibTeX."""
    from calibrant.bibliography import bibtex
    from calibrant.render.references import works_of

    return bibtex(works_of(evaluation))
