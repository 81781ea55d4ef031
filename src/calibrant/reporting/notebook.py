"""Evaluations in a notebook: the charts that say most, as pictures, so that they show wherever the notebook is read."""

from __future__ import annotations

import html

from calibrant.evaluation.result import Evaluation
from calibrant.reporting.document import Figure, figures_of
from calibrant.reporting.figures import svg
from calibrant.reporting.report import document_of

MOST = 6
"""Charts of one evaluation; the report has all."""


def charts(evaluation: Evaluation) -> str:
    """The first chart of each section, for the first input of each, as HTML."""
    chosen: dict[str, Figure] = {}
    for section, figure, _ in figures_of(document_of([evaluation], rows=False)):
        chosen.setdefault(section, figure)
    return "".join(_figure(figure) for figure in list(chosen.values())[:MOST])


def _figure(figure: Figure) -> str:
    caption = html.escape(figure.title)
    return (
        f'<figure style="display:inline-block;margin:0.5em 1em 0.5em 0;max-width:100%">{svg(figure)}'
        f'<figcaption style="text-align:center">{caption}</figcaption></figure>'
    )
