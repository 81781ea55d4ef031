"""One table, many forms: text, Markdown, CSV, LaTeX, HTML. Names are plain text in all of them."""

from __future__ import annotations

import csv
import html
import io
import re
import unicodedata
from dataclasses import dataclass, replace

from calibrant.errors import plain
from calibrant.evaluation.bars import Bar, drawn

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "−": "$-$",
    "↓": r"$\downarrow$", "↑": r"$\uparrow$", "·": r"$\cdot$", "…": r"\dots{}", "–": "--", "±": r"$\pm$",
    "≤": r"$\le$", "≥": r"$\ge$", "→": r"$\to$", "×": r"$\times$", "ρ": r"$\rho$", "√": r"$\surd$", "²": r"$^2$",
    "₂": r"$_2$", "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}",
    "[": "{[}", "]": "{]}", "*": "{*}", "-": "{-}",
}  # fmt: skip
"""Signs that LaTeX would read; brackets and stars too, which after the end of a row are its options."""
FEWEST, ENOUGH = 8, 24
"""Columns that names have at least, and those that they need not give up for a table in one block."""
LONGEST = 1 << 16
BARRED = 80
"""Columns from which tables have bars."""
CELLS = ((12, False), (10, False), (10, True), (8, True))
"""The cells of bars and whether numbers are short beside them, in the order in which it is tried."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the beginning of a formula, wide forms of it too."""
MARKDOWN = "\\`*_[]|~$"
AT_START = re.compile(r"[#+=-]|\d{1,9}[.)]")
"""What makes something else of a line in Markdown, where it stands at its beginning."""
LATIN = 0x17F
"""The last sign of Latin alphabets that every LaTeX has."""
BEYOND_LATIN = "% set it with XeLaTeX or LuaLaTeX: some names have signs that pdfLaTeX lacks"


@dataclass(frozen=True)
class Table:
    """A title, column heads and rows of text; `left` columns at the start and that of names are text, not numbers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1
    breaks: frozenset[int] = frozenset()
    """Rows that a new kind of rows begins with."""
    names: int = 0
    """The column that tells rows apart: where a line is too narrow it gives way, without the middle of its text."""
    joint: str = ""
    """What stands between two names of one cell of that column: each of them then gives way for itself."""

    bars: tuple[Bar | None, ...] = ()
    """A bar a row, in text alone, where there is room."""
    short: tuple[tuple[str, ...], ...] = ()
    """The same rows in fewer signs, for a line with bars."""
    pictures: int = -1
    """The column of bars, once they are drawn."""

    def is_text(self, column: int) -> bool:
        """Whether a column is text, which begins at the left."""
        return column < self.left or column in (self.names, self.pictures)


def text(table: Table, width: int = 80) -> str:
    """Columns in plain text, at most `width` wide: the names give way; what still does not fit stands below."""
    table = _barred(table, width)
    cells = [_plain_row(row, table.names) for row in (table.heads, *table.rows)]
    widths = [max(columns_of(row[k]) for row in cells) for k in range(len(table.heads))]
    body = [max([6, *(columns_of(row[k]) for row in cells[1:])]) for k in range(len(table.heads))]
    others = [k for k in range(len(widths)) if k != table.names]
    while _taken(widths, others) + FEWEST > width and any(widths[k] > body[k] for k in others):
        widest = max(others, key=lambda k: widths[k] - body[k])
        widths[widest] -= 1
    lines = [_fit(plain(table.title), width).rstrip()] if table.title else []
    for place, columns in enumerate(_blocks(table, widths, width)):
        lines += [""] * (place > 0)
        lines += _block(table, cells, widths, columns, width)
    return "\n".join(lines)


def _barred(table: Table, width: int) -> Table:
    """The table with a column of bars, where names need not give way to it beyond what is enough for them."""
    if width < BARRED or not any(bar is not None and bar.ends() for bar in table.bars):
        return table
    tried = [_with_bars(table, cells, table.short if few else table.rows) for cells, few in CELLS]
    fitting = [one for one in tried if _natural(one) <= width]
    last = tried[-1]
    names = max(columns_of(row[last.names]) for row in last.rows)
    if not fitting and _natural(last) - names + min(names, ENOUGH) <= width:
        fitting = [last]
    return fitting[0] if fitting else table


def _with_bars(table: Table, cells: int, rows: tuple[tuple[str, ...], ...]) -> Table:
    pictures = [" " * cells if bar is None else drawn(bar, cells) for bar in table.bars]
    wider = tuple((*row, bar) for row, bar in zip(rows or table.rows, pictures, strict=True))
    heads = (*table.heads, "")
    return replace(table, heads=heads, rows=wider, bars=(), short=(), pictures=len(heads) - 1)


def _natural(table: Table) -> int:
    """How wide a table is where nothing gives way."""
    every = [_plain_row(row, table.names) for row in (table.heads, *table.rows)]
    widths = [max(columns_of(row[k]) for row in every) for k in range(len(table.heads))]
    return _taken(widths, list(range(len(widths)))) - 2


def _plain_row(row: tuple[str, ...], names: int) -> tuple[str, ...]:
    """Without control characters; a long name keeps its end."""
    return tuple(plain(cell, LONGEST if k == names else 600) for k, cell in enumerate(row))


def _taken(widths: list[int], columns: list[int]) -> int:
    return sum(widths[k] + 2 for k in columns)


def _blocks(table: Table, widths: list[int], width: int) -> list[list[int]]:
    """Which columns stand beside each other: all, or as many as fit, the first ones up to the names in every block."""
    every = list(range(len(widths)))
    lead, rest = every[: table.names + 1], every[table.names + 1 :]
    if FEWEST + _taken(widths, [k for k in every if k != table.names]) <= width or len(rest) < 2:
        return [every]
    start = _taken(widths, lead[:-1]) + max(FEWEST, min(widths[table.names], ENOUGH))
    blocks: list[list[int]] = [[]]
    for k in rest:
        if blocks[-1] and start + _taken(widths, [*blocks[-1], k]) > width:
            blocks.append([])
        blocks[-1].append(k)
    return [lead + block for block in blocks]


def _block(table: Table, cells: list[tuple[str, ...]], widths: list[int], columns: list[int], width: int) -> list[str]:
    """The lines of some of the columns."""
    room = width - _taken(widths, [k for k in columns if k != table.names])
    fitted = {k: widths[k] for k in columns} | {table.names: max(FEWEST, min(widths[table.names], room))}
    lines = []
    for place, row in enumerate(cells):
        aligned = []
        for k in columns:
            cell = elide(row[k], fitted[k], table.joint) if k == table.names else _fit(row[k], fitted[k]).rstrip()
            blank = " " * (fitted[k] - columns_of(cell))
            aligned.append(cell + blank if table.is_text(k) else blank + cell)
        lines += [""] * (place - 1 in table.breaks)
        lines.append("  ".join(aligned).rstrip())
        if place == 0:
            lines.append("  ".join("─" * fitted[k] for k in columns))
    return lines


def columns_of(cell: str) -> int:
    """Terminal columns that a text takes: wide East Asian characters take two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in cell)


def _fit(cell: str, width: int) -> str:
    if columns_of(cell) <= width:
        return cell + " " * (width - columns_of(cell))
    kept = _start(cell, width - 1)
    return kept + "…" + " " * (width - 1 - columns_of(kept))


def _start(cell: str, width: int) -> str:
    """The beginning of a text, at most so wide."""
    kept, taken = [], 0
    for c in cell:
        taken += columns_of(c)
        if taken > width:
            break
        kept.append(c)
    return "".join(kept)


def elide(cell: str, width: int, joint: str = "") -> str:
    """A text without its middle, at most so wide: names differ at their ends. Both sides of a joint keep theirs."""
    if columns_of(cell) <= width:
        return cell
    one, found, other = cell.partition(joint) if joint else (cell, "", "")
    room = width - len(joint)
    if found and room >= 8:
        half = room // 2
        first = min(columns_of(one), max(half, room - columns_of(other)))
        return elide(one, first) + joint + elide(other, room - first)
    end = _start(cell[::-1], (width - 1) * 2 // 5)[::-1]
    return _start(cell, width - 1 - columns_of(end)) + "…" + end


def wrap(text: str, width: int, indent: str = "  ") -> list[str]:
    """Lines of a text, at most so many columns wide: those after the first are indented, long words are broken."""
    lines, line = [], ""
    for word in re.split(r" +(?!%)", plain(text, LONGEST)):
        space = " " if line.strip() else ""
        room = width - columns_of(line) - len(space)
        if _start(word, room) == word:
            line += space + word
            continue
        if line.strip():
            lines.append(line)
            line = indent
        while (part := _start(word, width - columns_of(line)) or word[:1]) != word:
            lines.append(line + part)
            line, word = indent, word[len(part) :]
        line += word
    return [*lines, line] if line.strip() else lines


def escape_markdown(text: str) -> str:
    """Text in which neither Markdown nor HTML finds anything to read."""
    text = plain(text)
    found = AT_START.match(text)
    kept = "" if found is None else f"{found[0][:-1]}\\{found[0][-1]}"
    rest = text if found is None else text[found.end() :]
    return kept + "".join("\\" + c if c in MARKDOWN else c for c in html.escape(rest, quote=False))


def markdown(table: Table) -> str:
    """A pipe table; signs that Markdown or HTML would read are escaped."""
    lines = [f"**{escape_markdown(table.title)}**", ""] if table.title else []
    lines.append("| " + " | ".join(map(escape_markdown, table.heads)) + " |")
    lines.append("|" + "|".join(" --- " if k == table.names else " ---: " for k in range(len(table.heads))) + "|")
    lines += ["| " + " | ".join(map(escape_markdown, row)) + " |" for row in table.rows]
    return "\n".join(lines)


def as_csv(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """Comma-separated values; text that a spreadsheet would run as a formula is quoted with an apostrophe."""

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
        *([BEYOND_LATIN] if any(ord(c) > LATIN for c in cells) else []),
        rf"\begin{{tabular}}{{{''.join('l' if k == table.names else 'r' for k in range(len(table.heads)))}}}",
        r"\toprule",
    ]
    lines += [" & ".join(map(escape, table.heads)) + r" \\", r"\midrule"]
    for place, row in enumerate(table.rows):
        lines += [r"\addlinespace"] * (place in table.breaks)
        lines.append(" & ".join(map(escape, row)) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def as_html(table: Table) -> str:
    """A table element; every text is escaped."""

    def cells(row: tuple[str, ...], tag: str) -> str:
        return "".join(_html_cell(table, k, cell, tag) for k, cell in enumerate(row))

    body = "".join(
        "</tbody><tbody>" * (place in table.breaks) + f"<tr>{cells(row, 'td')}</tr>"
        for place, row in enumerate(table.rows)
    )
    caption = f"<caption>{html.escape(plain(table.title))}</caption>" if table.title else ""
    return f"<table>{caption}<thead><tr>{cells(table.heads, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def _html_cell(table: Table, column: int, cell: str, tag: str) -> str:
    """One cell; names are heads of their rows and may be broken after an underline or a slash."""
    shown = html.escape(plain(cell))
    if column == table.names:
        shown = shown.replace("_", "_<wbr>").replace("/", "/<wbr>")
        return f'<th class="name" scope="col">{shown}</th>' if tag == "th" else f'<th scope="row">{shown}</th>'
    kind = ' class="text"' * table.is_text(column)
    return f'<th{kind} scope="col">{shown}</th>' if tag == "th" else f"<td{kind}>{shown}</td>"
