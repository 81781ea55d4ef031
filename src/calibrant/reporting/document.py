"""What a report is made of, before it is a page: sections of text, tables and figures. Nothing here knows of HTML.

A `Figure` has a chart without data, which many figures may share, and the columns of numbers that it shows; where there
are several, one for each choice of its controls. A `Panel` is shown while its input is the one that was chosen.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calibrant.errors import plain
from calibrant.evaluation.rendering import Table

DIGITS = 6
"""Digits that count of the numbers in charts; the evaluation has all of them."""
TONES = ("good", "warn", "bad", "neutral")
Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Control:
    """A choice that a figure offers."""

    label: str
    options: tuple[str, ...]
    """The first is chosen when the page is opened."""


@dataclass(frozen=True)
class Figure:
    """A chart, the numbers that it shows, and what they say."""

    key: str
    """Names the figure within its section, in letters, digits and hyphens."""
    title: str
    chart: Mapping[str, Any]
    """A Vega-Lite chart whose data is named `rows`."""
    data: Mapping[tuple[str, ...], Columns]
    """Columns by the options that are chosen, in the order of the controls; under () where there are none."""
    heads: Mapping[str, str]
    """The columns that the table beside the chart and its CSV have, and how they are headed there."""
    said: str
    """What the chart shows, for those who do not see it."""
    caption: str = ""
    controls: tuple[Control, ...] = ()

    def first(self) -> tuple[str, ...]:
        """The options that are chosen when the page is opened; where that choice has no data, one that has."""
        wanted = tuple(control.options[0] for control in self.controls)
        return wanted if wanted in self.data else next(iter(self.data))


@dataclass(frozen=True)
class Text:
    """Paragraphs."""

    lines: tuple[str, ...]
    note: bool = False
    """Whether it is set back, as what explains a figure is."""


@dataclass(frozen=True)
class Points:
    """A list of statements, each with a tone, a topic and the numbers that carry it."""

    items: tuple[tuple[str, str, str], ...]
    """Tone, topic, text."""


@dataclass(frozen=True)
class Shown:
    """A table."""

    table: Table


@dataclass(frozen=True)
class Definitions:
    """Terms, each with what is said of it."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Fold:
    """What is there for those who open it."""

    summary: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Copy:
    """Text that is there to be copied."""

    text: str
    label: str


@dataclass(frozen=True)
class Rows:
    """Rows that can be filtered by two of their numbers."""

    key: str
    caption: str
    heads: tuple[tuple[str, str], ...]
    """Name and title of the columns."""
    rows: tuple[Mapping[str, Any], ...]
    ranges: tuple[tuple[str, str], tuple[str, str]]
    """The two columns that a slider belongs to, and what stands beside it."""


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Panel:
    """Shown while this input is the chosen one."""

    subject: int
    """The place of the input among those of the document."""
    blocks: tuple[Block, ...]


Block = Text | Points | Shown | Definitions | Fold | Copy | Rows | Heading | Panel | Figure


@dataclass(frozen=True)
class Section:
    """A part of the report under a heading of its own."""

    key: str
    title: str
    blocks: tuple[Block, ...]
    lead: str = ""
    """What the section asks, in a sentence."""


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


def figures_of(document: Document) -> list[tuple[str, Figure, int | None]]:
    """Every figure with the key of its section, and the input of its panel if it is in one; in order."""
    out: list[tuple[str, Figure, int | None]] = []

    def visit(key: str, blocks: Iterable[Block], subject: int | None) -> None:
        for block in blocks:
            if isinstance(block, Figure):
                out.append((key, block, subject))
            elif isinstance(block, Panel):
                visit(key, block.blocks, block.subject)
            elif isinstance(block, Fold):
                visit(key, block.blocks, subject)

    for section in document.sections:
        visit(section.key, section.blocks, None)
    return out


# ---------------------------------------------------------------------------------------------- plain values
def slug(text: str, most: int = 48) -> str:
    """Letters, digits and hyphens: what a file or an anchor may be called on any system."""
    bare = unicodedata.normalize("NFKD", plain(text)).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", bare).strip("-")[:most].strip("-") or "unnamed"


def rounded(value: Any) -> Any:
    """A value as a chart takes it: few digits, plain text, and None for what is no finite number."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return plain(str(value), 200)


def columns(data: Columns) -> dict[str, list[Any]]:
    """Columns as they are written into a page."""
    return {name: [rounded(value) for value in values] for name, values in data.items()}


def records(data: Columns) -> list[dict[str, Any]]:
    """The same row by row."""
    made = columns(data)
    return [dict(zip(made, values, strict=True)) for values in zip(*made.values(), strict=True)]
