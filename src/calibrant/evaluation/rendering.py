"""One table, many forms: text, Markdown, CSV, LaTeX, HTML. Names are plain text in all of them."""

from __future__ import annotations

import csv
import html
import io
import unicodedata
from dataclasses import dataclass

from calibrant.errors import plain

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "−": "$-$",
    "↓": r"$\downarrow$", "↑": r"$\uparrow$", "·": r"$\cdot$",
}  # fmt: skip
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Table:
    """A title, column heads and rows of text; `left` columns at the start are text, the others numbers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1
    breaks: frozenset[int] = frozenset()
    """Rows that a new kind of rows begins with."""


def text(table: Table, width: int = 80) -> str:
    """Columns in plain text, at most `width` wide: the first column gives way."""
    cells = [tuple(plain(cell) for cell in row) for row in (table.heads, *table.rows)]
    widths = [max(_columns(row[k]) for row in cells) for k in range(len(table.heads))]
    body = [max([6, *(_columns(row[k]) for row in cells[1:])]) for k in range(len(table.heads))]
    while 8 + sum(w + 2 for w in widths[1:]) > width and any(w > b for w, b in zip(widths[1:], body[1:], strict=True)):
        widest = max(range(1, len(widths)), key=lambda k: widths[k] - body[k])
        widths[widest] -= 1
    widths[0] = max(8, min(widths[0], width - sum(w + 2 for w in widths[1:])))
    lines = [_fit(plain(table.title), width).rstrip()] if table.title else []
    for place, row in enumerate(cells):
        aligned = [_fit(row[0], widths[0])]
        for k in range(1, len(row)):
            cell = _fit(row[k], widths[k]).rstrip()
            blank = " " * (widths[k] - _columns(cell))
            aligned.append(cell + blank if k < table.left else blank + cell)
        lines += [""] * (place - 1 in table.breaks)
        lines.append("  ".join(aligned).rstrip())
        if place == 0:
            lines.append("  ".join("─" * w for w in widths))
    return "\n".join(lines)


def _columns(cell: str) -> int:
    """Terminal columns that a text takes: wide East Asian characters take two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in cell)


def _fit(cell: str, width: int) -> str:
    if _columns(cell) <= width:
        return cell + " " * (width - _columns(cell))
    kept = ""
    for c in cell:
        if _columns(kept + c) > width - 1:
            break
        kept += c
    return kept + "…" + " " * (width - 1 - _columns(kept))


def escape_markdown(text: str) -> str:
    """Text in which neither Markdown nor HTML finds anything to read."""
    text = html.escape(plain(text), quote=False)
    return "".join("\\" + c if c in r"\`*_[]|" else c for c in text)


def markdown(table: Table) -> str:
    """A pipe table; signs that Markdown or HTML would read are escaped."""
    lines = [f"**{escape_markdown(table.title)}**", ""] if table.title else []
    lines.append("| " + " | ".join(map(escape_markdown, table.heads)) + " |")
    lines.append("|" + "|".join([" --- ", *([" ---: "] * (len(table.heads) - 1))]) + "|")
    lines += ["| " + " | ".join(map(escape_markdown, row)) + " |" for row in table.rows]
    return "\n".join(lines)


def as_csv(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """Comma-separated values; text that a spreadsheet would run as a formula is quoted with an apostrophe."""

    def safe(cell: object) -> object:
        if not isinstance(cell, str):
            return cell
        return "'" * cell.lstrip().startswith(FORMULA) + plain(cell)

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([tuple(map(safe, row)) for row in rows])
    return stream.getvalue().rstrip("\n")


def latex(table: Table) -> str:
    """A booktabs tabular."""

    def escape(cell: str) -> str:
        return "".join(LATEX.get(c, c) for c in plain(cell))

    lines = [
        f"% {plain(table.title)}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.heads) - 1)}}}",
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
        first = f'<th scope="{"col" if tag == "th" else "row"}">{html.escape(plain(row[0]))}</th>'
        scope = ' scope="col"' if tag == "th" else ""
        return first + "".join(f"<{tag}{scope}>{html.escape(plain(cell))}</{tag}>" for cell in row[1:])

    body = "".join(
        "</tbody><tbody>" * (place in table.breaks) + f"<tr>{cells(row, 'td')}</tr>"
        for place, row in enumerate(table.rows)
    )
    caption = f"<caption>{html.escape(plain(table.title))}</caption>" if table.title else ""
    return f"<table>{caption}<thead><tr>{cells(table.heads, 'th')}</tr></thead><tbody>{body}</tbody></table>"
