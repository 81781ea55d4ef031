"""What a notebook shows of an evaluation: its tables, and its charts where they can be drawn.

Charts are made by `reporting`, which stands above this layer and is therefore looked up by its name when something is
shown, and not imported; without the extra `report` there are tables alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from calibrant.errors import MissingExtra
from calibrant.evaluation.tables import as_html

if TYPE_CHECKING:
    from calibrant.evaluation.result import Evaluation

DRAWING = "calibrant.reporting.notebook"


def notebook_html(evaluation: Evaluation) -> str:
    """Tables, then charts."""
    try:
        drawn = str(import_module(DRAWING).charts(evaluation))
    except MissingExtra:
        drawn = ""
    return as_html(evaluation) + drawn
