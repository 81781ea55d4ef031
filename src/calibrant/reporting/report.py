"""`report`: evaluations in, one HTML file out, and each of its charts as a file where a folder is named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from calibrant.evaluation.result import Evaluation
from calibrant.predictions.files.writing import atomic_write
from calibrant.reporting.document import Document
from calibrant.reporting.gathering import gather
from calibrant.reporting.page import html_page
from calibrant.reporting.sections import sections


def document_of(evaluations: Iterable[Evaluation], title: str = "Calibrant report") -> Document:
    """What the report shows, before it is a page."""
    gathered = gather(evaluations)
    return Document(title, sections(gathered), tuple(subject.name for subject in gathered.subjects))


def report(evaluations: Iterable[Evaluation], path: str | Path, *, title: str = "Calibrant report") -> Path:
    """Write the page, whole or not at all."""
    path, page = Path(path), html_page(document_of(evaluations, title))
    with atomic_write(path) as stream:
        stream.write(page.encode())
    return path
