"""The parts of a report, independent of HTML: sections of text, tables and figures.

A `Figure` has a chart without data, which many figures may share, and one set of columns for each choice of its
controls. A `Panel` is shown while its input is selected.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calibrant.errors import plain
from calibrant.render.table import Table

DIGITS = 6
"""Significant digits of numbers in charts; the evaluation stores all of them."""
Columns = Mapping[str, Sequence[Any]]
Choices = dict[tuple[str, ...], Columns]
"""Columns by the options that are selected."""


@dataclass(frozen=True)
class Control:
    """A control of a figure."""

    label: str
    options: tuple[str, ...]
    """The first is selected when the page opens."""


@dataclass(frozen=True)
class Figure:
    """A chart, its data and its text."""

    key: str
    """Unique within its section: letters, digits and hyphens."""
    title: str
    chart: Mapping[str, Any]
    """A Vega-Lite specification whose data set is named `rows`."""
    data: Mapping[tuple[str, ...], Columns]
    """Columns by the selected options, in the order of the controls; under () if there are no controls."""
    heads: Mapping[str, str]
    """Columns of the table below the chart and of its CSV, with their heads."""
    description: str
    """Alternative text of the chart."""
    caption: str = ""
    controls: tuple[Control, ...] = ()

    def default_choice(self) -> tuple[str, ...]:
        """The options that are selected when the page opens: the first of each control, if that choice has data."""
        first = tuple(control.options[0] for control in self.controls)
        return first if first in self.data else next(iter(self.data))


@dataclass(frozen=True)
class Text:
    """Paragraphs."""

    lines: tuple[str, ...]
    note: bool = False
    """Whether it is an explanation, in a muted colour."""


@dataclass(frozen=True)
class Points:
    """A list of statements, each with a tone, a topic and its text."""

    items: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class TableBlock:
    """A table."""

    table: Table


@dataclass(frozen=True)
class Definitions:
    """Terms with their definitions."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Details:
    """Blocks that are collapsed until opened."""

    summary: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class CopyBlock:
    """Text with a button that copies it."""

    text: str
    label: str


@dataclass(frozen=True)
class RowBrowser:
    """Rows of data that can be filtered by two of their columns."""

    key: str
    caption: str
    heads: tuple[tuple[str, str], ...]
    """Name and title of the columns."""
    rows: tuple[Mapping[str, Any], ...]
    ranges: tuple[tuple[str, str], tuple[str, str]]
    """The two columns that have a slider, and its label."""


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Panel:
    """Blocks that are shown while their input is selected."""

    subject: int
    """The position of the input in the document."""
    blocks: tuple[Block, ...]


Block = Text | Points | TableBlock | Definitions | Details | CopyBlock | RowBrowser | Heading | Panel | Figure


@dataclass(frozen=True)
class Section:
    """A part of the report with its heading."""

    key: str
    title: str
    blocks: tuple[Block, ...]
    lead: str = ""
    """The question that the section answers."""


@dataclass(frozen=True)
class Document:
    """A report."""

    title: str
    sections: tuple[Section, ...]
    subjects: tuple[str, ...] = ()
    """The names of the inputs that panels belong to."""
    headline: str = ""
    tone: str = "neutral"
    meta: Mapping[str, str] = field(default_factory=dict)


def present(blocks: Iterable[Block | None]) -> tuple[Block, ...]:
    """The blocks that are not None."""
    return tuple(block for block in blocks if block is not None)


def figures_of(document: Document) -> list[tuple[str, Figure, int | None]]:
    """Every figure in order, with the key of its section and the input of its panel, if it is in one."""
    out: list[tuple[str, Figure, int | None]] = []

    def visit(key: str, blocks: Iterable[Block], subject: int | None) -> None:
        for block in blocks:
            if isinstance(block, Figure):
                out.append((key, block, subject))
            elif isinstance(block, Panel):
                visit(key, block.blocks, block.subject)
            elif isinstance(block, Details):
                visit(key, block.blocks, subject)

    for section in document.sections:
        visit(section.key, section.blocks, None)
    return out


# ---------------------------------------------------------------------------------------------- plain values
def slug(text: str, limit: int = 48) -> str:
    """A name of letters, digits and hyphens, valid as a file name or anchor on any system."""
    bare = unicodedata.normalize("NFKD", plain(text)).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", bare).strip("-")[:limit].strip("-") or "unnamed"


def numbered(names: Iterable[str], taken: Iterable[str] = (), form: str = "{} ({})") -> list[str]:
    """Distinct names: a duplicate of another one, or of one that is taken, gets a number."""
    out: list[str] = []
    known = set(taken)
    for name in names:
        unique, k = name, 1
        while unique in known:
            k += 1
            unique = form.format(name, k)
        known.add(unique)
        out.append(unique)
    return out


def rounded(value: Any) -> Any:
    """A value for a chart: six digits, plain text, and None for numbers that are not finite."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return plain(str(value), 200)


def columns(data: Columns) -> dict[str, list[Any]]:
    """Columns with values for a chart."""
    return {name: [rounded(value) for value in values] for name, values in data.items()}


def records(data: Columns) -> list[dict[str, Any]]:
    """The same by row."""
    known = columns(data)
    return [dict(zip(known, values, strict=True)) for values in zip(*known.values(), strict=True)]
