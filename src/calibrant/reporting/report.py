"""`report`: write stored evaluations as one HTML file, and optionally each chart as a file of its own."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from calibrant.errors import UsageError, plain
from calibrant.gates.api import load_evaluation
from calibrant.pipeline.evaluate import Progress
from calibrant.predictions import Predictions
from calibrant.predictions.files.write import atomic_write
from calibrant.reporting.charts.base import altair
from calibrant.reporting.document import Document, Figure, figures_of
from calibrant.reporting.figures import FORMS, check_forms, converter, svg, write_figures
from calibrant.reporting.page import html_page
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections import sections
from calibrant.reporting.sections.verdict import headline
from calibrant.results.evaluation import Evaluation

TITLE = "Calibrant report"
MAX_CHARTS = 6
"""Charts of one evaluation in a notebook; the report has all."""


def report(
    evaluations: Any,
    path: str | Path,
    *,
    title: str | None = None,
    figures: str | Path | None = None,
    forms: Iterable[str] = FORMS,
    rows: bool = True,
    progress: Progress | None = None,
) -> Path:
    """Write a self-contained HTML report from evaluations; it computes no metrics.

    Needs the extra `report`.

    Parameters
    ----------
    evaluations : result of `evaluate`, `check`, `compare`, `detect` or `recalibrate`, path, or iterable of these
        What to show. A path is the JSON file of a stored evaluation.
    path : str or Path
        The HTML file to write. It needs no network and no other files.
    title : str, optional
        The title of the page.
    figures : str or Path, optional
        A folder for every chart as SVG, PNG and PDF, and its data as CSV.
    forms : iterable of {"svg", "png", "pdf", "csv"}, optional
        The file formats of `figures`.
    rows : bool, default True
        Whether to show individual rows with their ids and columns.
    progress : callable, optional
        Called as `progress(task, done, total)` while figures are drawn.

    Returns
    -------
    Path
        The path of the page.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import calibrant as cal
    >>> predictions = cal.Classification.from_probs([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, 1])
    >>> result = cal.evaluate(predictions, "accuracy,nll")
    >>> with TemporaryDirectory() as folder:
    ...     page = cal.report(result, f"{folder}/report.html", title="Three rows")
    ...     "Three rows" in page.read_text(encoding="utf-8")
    True
    """
    check_ready()
    forms = check_forms(forms)
    document = document_of(evaluations_of(evaluations), title, rows=rows)
    path, page = Path(path), html_page(document)
    with atomic_write(path) as stream:
        stream.write(page.encode())
    if figures is not None:
        write_figures(document, figures, forms, progress)
    return path


def check_ready() -> None:
    """Raise before anything is computed if the plotting libraries are not installed."""
    altair()
    converter()


def document_of(evaluations: Iterable[Evaluation], title: str | None = None, *, rows: bool = True) -> Document:
    """The content of the report, independent of HTML."""
    data = collect(evaluations, rows=rows)
    if title is None:
        shown = [plain(subject.name, 80) for subject in data.subjects]
        title = f"{TITLE}: {shown[0]}" if len(shown) == 1 and shown[0].strip() else TITLE
    versions = dict.fromkeys(evaluation.version for evaluation in data.evaluations)
    names = tuple(subject.name for subject in data.subjects)
    return Document(title, sections(data), names, *headline(data), {"version": ", ".join(versions)})


def notebook_charts(evaluation: Evaluation) -> str:
    """The first chart of each section, for the first input of each, as SVG in HTML."""
    chosen: dict[str, Figure] = {}
    for section, figure, _ in figures_of(document_of([evaluation], rows=False)):
        chosen.setdefault(section, figure)
    return "".join(
        f'<figure style="display:inline-block;margin:0.5em 1em 0.5em 0;max-width:100%">{svg(figure)}'
        f'<figcaption style="text-align:center">{html.escape(figure.title)}</figcaption></figure>'
        for figure in list(chosen.values())[:MAX_CHARTS]
    )


def evaluations_of(source: Any) -> list[Evaluation]:
    """The evaluations of a result, of a path, or of an iterable of these."""
    if isinstance(source, Evaluation):
        return [source]
    if isinstance(source, str | Path):
        return [load_evaluation(source)]
    if isinstance(getattr(source, "evaluation", None), Evaluation):
        return [source.evaluation]
    expected = "evaluations, or paths of stored ones"
    if isinstance(source, Predictions):
        raise UsageError("report", expected=expected, got="predictions", hint="pass cal.evaluate(predictions)")
    if isinstance(source, Iterable):
        evaluations = [evaluation for item in source for evaluation in evaluations_of(item)]
        if evaluations:
            return evaluations
    got = "none" if isinstance(source, Iterable) else type(source).__name__
    hint = "pass the result of cal.evaluate, check, compare, detect or recalibrate"
    raise UsageError("report", expected=expected, got=got, hint=hint)
