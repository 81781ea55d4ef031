"""One table in five formats: text, Markdown, CSV, LaTeX and HTML. All of them escape what users name.

Tables of text may have bars: an interval, its value and its reference band, drawn on one scale in a few character cells
from the lowest to the highest number of the row.
"""

from __future__ import annotations

import csv
import html
import io
import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace

from calibrant.errors import plain

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "−": "$-$",
    "↓": r"$\downarrow$", "↑": r"$\uparrow$", "·": r"$\cdot$", "…": r"\dots{}", "–": "--", "±": r"$\pm$",
    "≤": r"$\le$", "≥": r"$\ge$", "→": r"$\to$", "×": r"$\times$", "ρ": r"$\rho$", "√": r"$\surd$", "²": r"$^2$",
    "₂": r"$_2$", "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}",
    "[": "{[}", "]": "{]}", "*": "{*}", "-": "{-}",
}  # fmt: skip
"""Characters that LaTeX interprets; brackets and stars too, which are options after the end of a row."""
MIN_NAME, COMFORTABLE_NAME = 8, 24
"""Minimum width of the name column, and the width it keeps before a table is split into blocks."""
MAX_TEXT = 1 << 16
BAR_WIDTH = 80
"""Minimum width of a table with bars."""
BAR_LAYOUTS = ((12, False), (10, False), (10, True), (8, True))
"""Cells of a bar and whether numbers are short, in the order of preference."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""What a spreadsheet interprets as the start of a formula, full-width forms included."""
MARKDOWN = "\\`*_[]|~$"
LINE_START = re.compile(r"[#+=-]|\d{1,9}[.)]")
"""What changes the meaning of a Markdown line when it starts it."""
LATIN = 0x17F
"""The last character of the Latin alphabets that every LaTeX supports."""
NEEDS_UNICODE = "% compile with XeLaTeX or LuaLaTeX: some names have characters that pdfLaTeX lacks"


@dataclass(frozen=True)
class Table:
    """A title, column heads and rows of text; the first `left` columns and the name column are text, not numbers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1
    breaks: frozenset[int] = frozenset()
    """Rows that start a new block."""
    names: int = 0
    """The column that identifies rows: in a narrow terminal it is elided in the middle."""
    joint: str = ""
    """The separator of two names in one cell of that column: each is then elided by itself."""

    bars: tuple[Bar | None, ...] = ()
    """One bar per row, in text where there is room."""
    short: tuple[tuple[str, ...], ...] = ()
    """The same rows in fewer characters, for lines with bars."""
    bar_column: int = -1
    """The column of bars, once they are drawn."""

    def is_text(self, column: int) -> bool:
        """Whether a column is left-aligned text."""
        return column < self.left or column in (self.names, self.bar_column)


def text(table: Table, width: int = 80) -> str:
    """Plain text, at most `width` wide: names are elided first, then columns move into further blocks below."""
    table = _with_bars(table, width)
    cells, widths = _measure(table)
    body = [max([6, *(columns_of(row[k]) for row in cells[1:])]) for k in range(len(table.heads))]
    others = [k for k in range(len(widths)) if k != table.names]
    while _total(widths, others) + MIN_NAME > width and any(widths[k] > body[k] for k in others):
        widest = max(others, key=lambda k: widths[k] - body[k])
        widths[widest] -= 1
    lines = [_fit(plain(table.title), width).rstrip()] if table.title else []
    for place, columns in enumerate(_blocks(table, widths, width)):
        lines += [""] * (place > 0)
        room = width - _total(widths, [k for k in columns if k != table.names])
        fitted = {k: widths[k] for k in columns} | {table.names: max(MIN_NAME, min(widths[table.names], room))}
        for at, row in enumerate(cells):
            aligned = []
            for k in columns:
                cell = elide(row[k], fitted[k], table.joint) if k == table.names else _fit(row[k], fitted[k]).rstrip()
                blank = " " * (fitted[k] - columns_of(cell))
                aligned.append(cell + blank if table.is_text(k) else blank + cell)
            lines += [""] * (at - 1 in table.breaks)
            lines.append("  ".join(aligned).rstrip())
            if at == 0:
                lines.append("  ".join("─" * fitted[k] for k in columns))
    return "\n".join(lines)


def _measure(table: Table) -> tuple[list[tuple[str, ...]], list[int]]:
    """All cells without control characters, heads first, and the natural width of each column."""
    cells = [
        tuple(plain(cell, MAX_TEXT if k == table.names else 600) for k, cell in enumerate(row))
        for row in (table.heads, *table.rows)
    ]
    return cells, [max(columns_of(row[k]) for row in cells) for k in range(len(table.heads))]


def _with_bars(table: Table, width: int) -> Table:
    """The table with a column of bars, if names keep a comfortable width next to it."""
    if width < BAR_WIDTH or not any(bar is not None and bar.ends() for bar in table.bars):
        return table
    heads = (*table.heads, "")
    for cells, is_short in BAR_LAYOUTS:
        pictures = [" " * cells if bar is None else draw_bar(bar, cells) for bar in table.bars]
        rows = (table.short if is_short else table.rows) or table.rows
        rows = tuple((*row, bar) for row, bar in zip(rows, pictures, strict=True))
        wider = replace(table, heads=heads, rows=rows, bars=(), short=(), bar_column=len(heads) - 1)
        widths = _measure(wider)[1]
        natural = _total(widths, range(len(widths))) - 2
        if natural <= width:
            return wider
    names = max(columns_of(row[table.names]) for row in rows)
    return wider if natural - names + min(names, COMFORTABLE_NAME) <= width else table


def _total(widths: list[int], columns: Iterable[int]) -> int:
    return sum(widths[k] + 2 for k in columns)


def _blocks(table: Table, widths: list[int], width: int) -> list[list[int]]:
    """The columns of each block: all, or as many as fit, with those up to the names repeated in every block."""
    every = list(range(len(widths)))
    lead, rest = every[: table.names + 1], every[table.names + 1 :]
    if MIN_NAME + _total(widths, [k for k in every if k != table.names]) <= width or len(rest) < 2:
        return [every]
    start = _total(widths, lead[:-1]) + max(MIN_NAME, min(widths[table.names], COMFORTABLE_NAME))
    blocks: list[list[int]] = [[]]
    for k in rest:
        if blocks[-1] and start + _total(widths, [*blocks[-1], k]) > width:
            blocks.append([])
        blocks[-1].append(k)
    return [lead + block for block in blocks]


def columns_of(cell: str) -> int:
    """Width of a text in a terminal: wide East Asian characters take two columns, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in cell)


def _fit(cell: str, width: int) -> str:
    if columns_of(cell) <= width:
        return cell + " " * (width - columns_of(cell))
    start = _prefix(cell, width - 1)
    return start + "…" + " " * (width - 1 - columns_of(start))


def _prefix(cell: str, width: int) -> str:
    """The longest prefix of a text that fits into a width."""
    used = 0
    for k, c in enumerate(cell):
        used += columns_of(c)
        if used > width:
            return cell[:k]
    return cell


def elide(cell: str, width: int, joint: str = "") -> str:
    """A text cut in the middle to fit a width, since names differ at their ends; each side of a joint by itself."""
    if columns_of(cell) <= width:
        return cell
    one, separator, other = cell.partition(joint) if joint else (cell, "", "")
    room = width - len(joint)
    if separator and room >= 8:
        half = room // 2
        first = min(columns_of(one), max(half, room - columns_of(other)))
        return elide(one, first) + joint + elide(other, room - first)
    end = _prefix(cell[::-1], (width - 1) * 2 // 5)[::-1]
    return _prefix(cell, width - 1 - columns_of(end)) + "…" + end


def wrap(text: str, width: int, indent: str = "  ") -> list[str]:
    """A text in lines of at most `width` columns: indented after the first, long words broken."""
    lines, line = [], ""
    for word in re.split(r" +(?!%)", plain(text, MAX_TEXT)):
        space = " " if line.strip() else ""
        room = width - columns_of(line) - len(space)
        if _prefix(word, room) == word:
            line += space + word
            continue
        if line.strip():
            lines.append(line)
            line = indent
        while (part := _prefix(word, width - columns_of(line)) or word[:1]) != word:
            lines.append(line + part)
            line, word = indent, word[len(part) :]
        line += word
    return [*lines, line] if line.strip() else lines


def escape_markdown(text: str) -> str:
    """Text in which neither Markdown nor HTML finds markup."""
    text = plain(text)
    marker = LINE_START.match(text)
    start = "" if marker is None else f"{marker[0][:-1]}\\{marker[0][-1]}"
    rest = text if marker is None else text[marker.end() :]
    return start + "".join("\\" + c if c in MARKDOWN else c for c in html.escape(rest, quote=False))


def markdown(table: Table) -> str:
    """A pipe table with escaped cells."""
    lines = [f"**{escape_markdown(table.title)}**", ""] if table.title else []
    lines.append("| " + " | ".join(map(escape_markdown, table.heads)) + " |")
    lines.append("|" + "|".join(" --- " if k == table.names else " ---: " for k in range(len(table.heads))) + "|")
    lines += ["| " + " | ".join(map(escape_markdown, row)) + " |" for row in table.rows]
    return "\n".join(lines)


def as_csv(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """Comma-separated values; text that a spreadsheet would run as a formula gets an apostrophe in front."""

    def safe(cell: object) -> object:
        if not isinstance(cell, str):
            return cell
        shown = plain(cell)
        return "'" * (shown.lstrip().startswith(FORMULA) or cell.lstrip().startswith(FORMULA)) + shown

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([tuple(map(safe, row)) for row in rows])
    return stream.getvalue().rstrip("\n")


def latex(table: Table) -> str:
    """A booktabs tabular."""

    def escape(cell: str) -> str:
        return "".join(LATEX.get(c, c) for c in plain(cell))

    cells = "".join(map(escape, (*table.heads, *(cell for row in table.rows for cell in row))))
    lines = [
        f"% {plain(table.title)}",
        *([NEEDS_UNICODE] if any(ord(c) > LATIN for c in cells) else []),
        rf"\begin{{tabular}}{{{''.join('l' if k == table.names else 'r' for k in range(len(table.heads)))}}}",
        r"\toprule",
    ]
    lines += [" & ".join(map(escape, table.heads)) + r" \\", r"\midrule"]
    for place, row in enumerate(table.rows):
        lines += [r"\addlinespace"] * (place in table.breaks)
        lines.append(" & ".join(map(escape, row)) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def as_html(table: Table) -> str:
    """A table element with escaped cells; names are row heads and may break after an underscore or a slash."""

    def cells(row: tuple[str, ...], tag: str) -> str:
        out = ""
        for column, cell in enumerate(row):
            text, kind = html.escape(plain(cell)), ' class="text"' * table.is_text(column)
            if column == table.names:
                text, kind = text.replace("_", "_<wbr>").replace("/", "/<wbr>"), ' class="name"'
            if tag == "th":
                out += f'<th{kind} scope="col">{text}</th>'
            else:
                out += f'<th scope="row">{text}</th>' if column == table.names else f"<td{kind}>{text}</td>"
        return out

    body = "".join(
        "</tbody><tbody>" * (place in table.breaks) + f"<tr>{cells(row, 'td')}</tr>"
        for place, row in enumerate(table.rows)
    )
    caption = f"<caption>{html.escape(plain(table.title))}</caption>" if table.title else ""
    return f"<table>{caption}<thead><tr>{cells(table.heads, 'th')}</tr></thead><tbody>{body}</tbody></table>"


INTERVAL, BAND, BOTH, VALUE, OUTSIDE, ZERO = "─", "░", "▒", "┃", "█", "┊"
ROUNDING = 1e-9
"""Relative tolerance of values outside their band."""


@dataclass(frozen=True)
class Bar:
    """A value, its interval and its reference band; NaN for what is missing."""

    value: float
    low: float = math.nan
    high: float = math.nan
    band_low: float = math.nan
    band_high: float = math.nan
    zero: float = math.nan
    """A marked reference value: 0 for differences."""
    scale: tuple[float, float] | None = None
    """The numbers at both ends, where several bars share them."""

    @property
    def is_outside(self) -> bool:
        """Whether the value lies outside its band."""
        slack = ROUNDING * max(abs(self.band_low), abs(self.band_high), abs(self.value))
        return self.value > self.band_high + slack or self.value < self.band_low - slack

    def ends(self) -> tuple[float, float] | None:
        """The lowest and highest number, or None where there is nothing to draw."""
        if not math.isfinite(self.value) or not any(map(math.isfinite, (self.low, self.high, self.band_high))):
            return None
        every = (self.value, self.low, self.high, self.band_low, self.band_high, self.zero)
        finite = [x for x in every if math.isfinite(x)]
        return min(finite), max(finite)


def draw_bar(bar: Bar, cells: int) -> str:
    """The bar in `cells` characters; blank where there is nothing to draw."""
    ends = bar.ends()
    if ends is None:
        return " " * cells
    low, high = bar.scale or ends
    out = [" "] * cells

    def cell(x: float, default: float) -> int:
        x = x if math.isfinite(x) else default
        share = (x - low) / (high - low) if high > low else 0.5
        return min(max(int(share * (cells - 1) + 0.5), 0), cells - 1)

    at = cell(bar.value, low)
    if math.isfinite(bar.zero):
        out[cell(bar.zero, low)] = ZERO
    if math.isfinite(bar.band_high):
        first, last = cell(bar.band_low, low), cell(bar.band_high, high)
        for k in range(first + (bar.is_outside and at == first), last + 1 - (bar.is_outside and at == last)):
            out[k] = BAND
    if math.isfinite(bar.low) or math.isfinite(bar.high):
        for k in range(cell(bar.low, low), cell(bar.high, high) + 1):
            out[k] = BOTH if out[k] in (BAND, BOTH) else ZERO if out[k] == ZERO else INTERVAL
    out[at] = OUTSIDE if bar.is_outside else VALUE
    return "".join(out)


def on_shared_scale(bars: Iterable[Bar]) -> tuple[Bar, ...]:
    """The same bars on one scale that spans all of them."""
    every = list(bars)
    ends = [pair for bar in every if (pair := bar.ends()) is not None]
    if not ends:
        return tuple(every)
    scale = min(low for low, _ in ends), max(high for _, high in ends)
    return tuple(replace(bar, scale=scale) for bar in every)


def bar_legend(text: str, band: str = "if calibrated") -> str:
    """The legend of the bar symbols that occur in a text; empty if there are none."""
    barred = "".join(line for line in text.splitlines() if VALUE in line or OUTSIDE in line)
    meanings = {
        INTERVAL: "interval", BAND: band, BOTH: "both", ZERO: "zero", VALUE: "value", OUTSIDE: f"value outside {BAND}",
    }  # fmt: skip
    parts = [f"{symbol} {meaning}" for symbol, meaning in meanings.items() if symbol in barred]
    return f"bars: {', '.join(parts)}" if parts else ""
