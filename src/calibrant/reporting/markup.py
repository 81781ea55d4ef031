"""Blocks of a document as HTML. Every text is escaped here, and nowhere else is text made into markup."""

from __future__ import annotations

import html
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from calibrant.errors import plain
from calibrant.evaluation import rendering
from calibrant.reporting.document import (
    Block,
    Copy,
    Definitions,
    Figure,
    Fold,
    Heading,
    Panel,
    Points,
    Rows,
    Section,
    Shown,
    Text,
    columns,
    rounded,
    slug,
)
from calibrant.reporting.palette import themed

UNSAFE = {sign: f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""What could end a script, or a line of one, and how it is written in data."""
LONG = 100_000
"""Characters of text that is there to be copied."""


def escape(text: str, limit: int = 2000) -> str:
    """Text that is only text, on one line."""
    return html.escape(plain(text, limit))


def data_script(value: Any, name: str = "") -> str:
    """Numbers and names for the page's own script; nothing in them can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, written in UNSAFE.items():
        text = text.replace(sign, written)
    called = f' id="{name}"' if name else ""
    return f'<script type="application/json"{called}>{text}</script>'


@dataclass
class Writer:
    """Writes blocks, and keeps the charts that it meets: each is written once, however many figures share it."""

    charts: dict[str, int] = field(default_factory=dict)
    figures: int = 0

    def section(self, section: Section) -> str:
        """A section with its heading; where all of it is in panels, it is there while one of them is."""
        lead = f'<p class="lead">{escape(section.lead)}</p>' if section.lead else ""
        body = self.blocks(section.blocks, slug(section.key))
        return (
            f'<section id="{slug(section.key)}" aria-labelledby="{slug(section.key)}-title">'
            f'<h2 id="{slug(section.key)}-title">{escape(section.title)}</h2>{lead}{body}</section>'
        )

    def blocks(self, blocks: Iterable[Block], place: str) -> str:
        """One after another; figures that follow each other stand side by side where there is room."""
        out = []
        for are_figures, run in itertools.groupby(blocks, key=lambda block: isinstance(block, Figure)):
            inner = "".join(self.block(block, place) for block in run)
            out.append(f'<div class="figures">{inner}</div>' if are_figures else inner)
        return "".join(out)

    def block(self, block: Block, place: str) -> str:
        """One block."""
        if isinstance(block, Figure):
            return self.figure(block, place)
        if isinstance(block, Panel):
            inner = self.blocks(block.blocks, place)
            return f'<div class="panel" data-subject="{block.subject}"{" hidden" * (block.subject > 0)}>{inner}</div>'
        if isinstance(block, Fold):
            inner = self.blocks(block.blocks, place)
            return f"<details><summary>{escape(block.summary)}</summary>{inner}</details>"
        if isinstance(block, Shown):
            return _table(block)
        if isinstance(block, Text):
            note = ' class="note"' * block.note
            return "".join(f"<p{note}>{escape(line)}</p>" for line in block.lines)
        if isinstance(block, Points):
            return _points(block)
        if isinstance(block, Definitions):
            return _definitions(block)
        if isinstance(block, Heading):
            return f"<h3>{escape(block.text)}</h3>"
        if isinstance(block, Copy):
            return _copy(block)
        return _rows(block, place)

    # ------------------------------------------------------------------------------------------------ figures
    def chart(self, figure: Figure) -> int:
        """The number of a chart among those of the page."""
        text = json.dumps(themed(dict(figure.chart)), sort_keys=True)
        return self.charts.setdefault(text, len(self.charts))

    def figure(self, figure: Figure, place: str) -> str:
        """The chart's place, its controls, the table beside it and what can be taken from it."""
        self.figures += 1
        name = f"figure-{self.figures}"
        data = {"|".join(key): columns(value) for key, value in figure.data.items()}
        known = {
            "chart": self.chart(figure),
            "name": slug(f"{place}-{figure.key}"),
            "said": plain(figure.said, 400),
            "heads": {key: plain(head, 200) for key, head in figure.heads.items()},
            "data": data,
        }
        caption = f"<p>{escape(figure.caption)}</p>" if figure.caption else ""
        return (
            f'<figure class="chart" id="{name}"><figcaption><h3>{escape(figure.title)}</h3></figcaption>'
            f'{_controls(figure, name)}<div class="canvas" role="group" aria-label="{escape(figure.said)}"></div>'
            f'<div class="below">{caption}<div class="tools" role="group" aria-label="Take from this chart">'
            f"{_button('csv', 'CSV')}{_button('svg', 'SVG')}{_button('png', 'PNG')}</div></div>"
            f'<details class="numbers"><summary>Numbers of this chart</summary></details>'
            f"{data_script(known, f'{name}-data')}</figure>"
        )


def _button(form: str, label: str) -> str:
    return f'<button type="button" data-take="{form}" aria-label="Download {label}">{label}</button>'


def _controls(figure: Figure, name: str) -> str:
    """A list to choose from for each control that leaves a choice."""
    first, out = figure.first(), []
    for k, control in enumerate(figure.controls):
        options = "".join(
            f'<option value="{escape(option)}"{" selected" * (option == first[k])}>{escape(option)}</option>'
            for option in control.options
        )
        hidden = " hidden" * (len(control.options) < 2)
        out.append(
            f'<span{hidden}><label for="{name}-{k}">{escape(control.label)}</label>'
            f'<select id="{name}-{k}">{options}</select></span>'
        )
    return f'<div class="controls">{"".join(out)}</div>' if out else ""


# --------------------------------------------------------------------------------------------- the other blocks
def _table(block: Shown) -> str:
    title = escape(block.table.title) or "Table"
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{title}">{rendering.as_html(block.table)}</div>'


def _points(block: Points) -> str:
    items = "".join(
        f'<li class="{tone if tone.isalpha() else "neutral"}"><b>{escape(topic)}</b> {escape(text)}</li>'
        for tone, topic, text in block.items
    )
    return f'<ul class="points">{items}</ul>'


def _definitions(block: Definitions) -> str:
    items = "".join(f"<dt>{escape(term)}</dt><dd>{escape(said)}</dd>" for term, said in block.items)
    return f"<dl>{items}</dl>"


def _copy(block: Copy) -> str:
    text = html.escape("\n".join(plain(line, 2000) for line in block.text.splitlines())[:LONG])
    return (
        f'<div class="copy"><button type="button" data-copy>Copy {escape(block.label)}</button>'
        f'<pre tabindex="0" role="region" aria-label="{escape(block.label)}">{text}</pre></div>'
    )


def _rows(block: Rows, place: str) -> str:
    """The sliders and the place of the table; the rows are filled in by the page."""
    name = slug(f"{place}-{block.key}")
    sliders = []
    for k, (column, label) in enumerate(block.ranges):
        known = [row[column] for row in block.rows if isinstance(row.get(column), int | float)]
        low, high = (min(known), max(known)) if known else (0.0, 0.0)
        sliders.append(
            f'<span><label for="{name}-{k}">{escape(label)}</label>'
            f'<input type="range" id="{name}-{k}" data-column="{escape(column)}" min="{low:.6g}" max="{high:.6g}" '
            f'step="any" value="{low:.6g}"><output for="{name}-{k}">{low:.3g}</output></span>'
        )
    rows = [{key: rounded(row.get(key)) for key, _ in block.heads} for row in block.rows]
    heads = [[key, plain(title, 200)] for key, title in block.heads]
    return (
        f'<div class="rows" id="{name}"><div class="controls">{"".join(sliders)}</div>'
        f'<p class="note" aria-live="polite"></p><div class="scroll" role="region" tabindex="0" '
        f'aria-label="{escape(block.caption)}"></div>{data_script({"heads": heads, "rows": rows})}</div>'
    )
