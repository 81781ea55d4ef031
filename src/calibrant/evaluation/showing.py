"""What a notebook shows of an evaluation: the verdict, its tables, and its charts where they can be drawn.

Charts are made by `reporting`, which stands above this layer and is therefore looked up by its name when something is
shown, and not imported; without the extra `report` there are tables alone.
"""

from __future__ import annotations

import html
from importlib import import_module
from typing import TYPE_CHECKING

from calibrant.errors import MissingExtra, plain
from calibrant.evaluation.printing import verdict_lines
from calibrant.evaluation.tables import as_html
from calibrant.evaluation.verdict import verdict

if TYPE_CHECKING:
    from calibrant.evaluation.result import Evaluation

ONE_LINE = 4000
"""Signs of a line that is not broken here."""
DRAWING = "calibrant.reporting.notebook"


def notebook_html(evaluation: Evaluation) -> str:
    """The verdict in words, tables, then charts."""
    try:
        drawn = str(import_module(DRAWING).charts(evaluation))
    except MissingExtra:
        drawn = ""
    return _verdict_html(evaluation) + as_html(evaluation) + drawn


def _verdict_html(evaluation: Evaluation) -> str:
    """What is printed first, as a line and a list."""
    lines = ["".join(part for part, _ in line).strip() for line in verdict_lines(verdict(evaluation), ONE_LINE)]
    first, *points = [html.escape(plain(line, ONE_LINE)) for line in lines if line] or [""]
    listed = "".join(f'<li style="text-align:left">{point}</li>' for point in points)
    told = f'<p style="text-align:left"><strong>{first}</strong></p>' if first else ""
    return told + (f'<ul style="list-style:none;padding-left:1em">{listed}</ul>' if listed else "")
