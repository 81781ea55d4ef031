"""`report`: evaluations in, one HTML file out, and each of its charts as a file where a folder is named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from calibrant.errors import UsageError, plain
from calibrant.evaluation.evaluate import Progress
from calibrant.evaluation.gates import load_evaluation
from calibrant.evaluation.result import Evaluation
from calibrant.predictions import Predictions
from calibrant.predictions.files.writing import atomic_write
from calibrant.reporting.bundle import converter
from calibrant.reporting.charting import altair
from calibrant.reporting.document import Document
from calibrant.reporting.figures import FORMS, check_forms, write_figures
from calibrant.reporting.gathering import Gathered, gather
from calibrant.reporting.page import html_page
from calibrant.reporting.sections import sections
from calibrant.reporting.sections.verdict import headline

TITLE = "Calibrant report"


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
    """Write one page that shows what evaluations hold; nothing is computed. Returns the path of the page.

    evaluations: what `evaluate`, `check`, `compare`, `detect` and `recalibrate` returned, or paths of what they stored,
    one or several. path: an HTML file that needs no network and nothing beside it. title: what stands above it.
    figures: a folder for every chart as SVG, PNG and PDF and its numbers as CSV; forms: which of these. rows: whether
    single rows are shown, with their ids and columns. progress: called with what is being done, and how much of all is
    done, while figures are drawn. Needs the extra `report`.
    """
    check_ready()
    wanted = check_forms(forms)
    document = document_of(evaluations_of(evaluations), title, rows=rows)
    path, page = Path(path), html_page(document)
    with atomic_write(path) as stream:
        stream.write(page.encode())
    if figures is not None:
        write_figures(document, figures, wanted, progress)
    return path


def check_ready() -> None:
    """Refuse before anything is computed where charts cannot be drawn."""
    altair()
    converter()


def document_of(evaluations: Iterable[Evaluation], title: str | None = None, *, rows: bool = True) -> Document:
    """What the report shows, before it is a page."""
    gathered = gather(evaluations, rows=rows)
    versions = dict.fromkeys(evaluation.version for evaluation in gathered.evaluations)
    said, tone = headline(gathered)
    return Document(
        _title(gathered) if title is None else title,
        sections(gathered),
        tuple(subject.name for subject in gathered.subjects),
        said,
        tone,
        {"version": ", ".join(versions)},
    )


def _title(gathered: Gathered) -> str:
    """What stands above a page without a title: whose it is, where it is of one input."""
    names = [plain(subject.name, 80) for subject in gathered.subjects]
    return f"{TITLE}: {names[0]}" if len(names) == 1 and names[0].strip() else TITLE


def evaluations_of(given: Any) -> list[Evaluation]:
    """Evaluations, what holds one, and paths of stored ones, one or several."""
    if isinstance(given, Evaluation):
        return [given]
    if isinstance(given, str | Path):
        return [load_evaluation(given)]
    if isinstance(getattr(given, "evaluation", None), Evaluation):
        return [given.evaluation]
    if isinstance(given, Predictions):
        raise UsageError(
            "report",
            expected="evaluations, or paths of stored ones",
            came="got predictions, which nobody has judged yet",
            do="give cal.evaluate(predictions)",
        )
    if isinstance(given, Iterable):
        found = [evaluation for item in given for evaluation in evaluations_of(item)]
        if found:
            return found
    raise UsageError(
        "report",
        expected="evaluations, or paths of stored ones",
        came="got none" if isinstance(given, Iterable) else f"got {type(given).__name__}",
        do="give what cal.evaluate, check, compare, detect or recalibrate returned",
    )
