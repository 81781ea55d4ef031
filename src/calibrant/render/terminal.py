"""Evaluations as text: the verdict, the tables with their legend, then remarks; also Markdown and LaTeX.

A line is a tuple of segments, each a text and a style: `good`, `warn`, `bad`, `bold`, `dim`, several joined by a space,
or none. The caller turns styles into colours or drops them. Control characters are removed from every text, so nothing
but the styles reaches a terminal.
"""

from __future__ import annotations

from calibrant.errors import plain
from calibrant.render import table as rendering
from calibrant.render.checks import check_legend
from calibrant.render.comparison_text import comparison_legend
from calibrant.render.evaluation import remarks, tables
from calibrant.render.table import bar_legend
from calibrant.render.verdicts.api import verdict
from calibrant.render.verdicts.model import Verdict
from calibrant.results.evaluation import CHECK, COMPARISON, Evaluation

Segment = tuple[str, str]
Line = tuple[Segment, ...]
MARKS = {"good": "✓", "warn": "!", "bad": "✗", "neutral": "·"}
"""The bullet of each tone, so that colour is not the only cue."""
MAX_INPUTS = 12
"""Inputs with a line of their own in a verdict."""
MAX_NAME = 40
"""Columns of an input name in a verdict."""


def text_lines(evaluation: Evaluation, width: int = 80) -> list[Line]:
    """Everything that is printed, line by line."""
    parts = [verdict_lines(verdict(evaluation), width)]
    texts = [rendering.text(table, width) for table in tables(evaluation)]
    parts += [[((line, ""),) for line in text.splitlines()] for text in texts]
    band = "expected" if evaluation.kind == CHECK else "if calibrated"
    legend = [*filter(None, [bar_legend("\n".join(texts), band)])]
    legend += comparison_legend(evaluation) if evaluation.kind == COMPARISON else []
    legend += [check_legend(str(evaluation.settings["rule"]))] if evaluation.kind == CHECK else []
    parts.append([((line, "dim"),) for text in legend for line in rendering.wrap(text, width)])
    remark_lines: list[Line] = []
    for text in remarks(evaluation):
        style = "bad" if text.startswith("gate failed") else "good" if text.startswith("gate passed:") else ""
        remark_lines += [((line, style),) for line in rendering.wrap(text, width)]
    out: list[Line] = []
    for part in filter(None, [*parts, remark_lines]):
        out += [*([()] if out else []), *part]
    return out


def as_text(evaluation: Evaluation, width: int = 80) -> str:
    """The same without styles."""
    return "\n".join("".join(text for text, _ in line) for line in text_lines(evaluation, width))


# ------------------------------------------------------------------------------------------------ verdict
def verdict_points(answer: Verdict) -> list[tuple[str, str]]:
    """Tone and text of each bullet: all points of a single input, one line each for several.

    Points that repeat the headline are left out, and notes, which are printed among the remarks.
    """
    single = answer.inputs[0].points if len(answer.inputs) == 1 else ()
    points = [point for point in (*single, *answer.points) if point.topic != "notes" and point.text != answer.headline]
    out: list[tuple[str, str]] = [(point.tone, point.text) for point in points]
    for item in answer.inputs[:MAX_INPUTS] if len(answer.inputs) > 1 else ():
        name = rendering.elide(plain(item.input, rendering.MAX_TEXT), MAX_NAME)
        out.append((item.tone, f"{name}: {item.headline}"))
    hidden = len(answer.inputs) - MAX_INPUTS
    return out + ([("neutral", f"… and {hidden} more inputs")] if hidden > 0 else [])


def verdict_lines(answer: Verdict, width: int = 80) -> list[Line]:
    """The headline, then a bullet per point with a hanging indent."""
    out: list[Line] = [((line, f"bold {answer.tone}"),) for line in rendering.wrap(answer.headline, width, "")]
    for tone, text in verdict_points(answer):
        first, *rest = rendering.wrap(text, width - 4, "") or [""]
        style = tone if tone != "neutral" else "dim"
        out.append((("  ", ""), (MARKS[tone], style), (f" {first}", "")))
        out += [((f"    {line}", ""),) for line in rest]
    return out


# ------------------------------------------------------------------------------------- Markdown and LaTeX
def as_markdown(evaluation: Evaluation) -> str:
    """The verdict, the tables and the remarks in Markdown."""
    answer, escape = verdict(evaluation), rendering.escape_markdown
    points = [escape(text) for _, text in verdict_points(answer)]
    parts = [f"**{escape(answer.headline)}**", *(["\n".join(f"- {point}" for point in points)] if points else [])]
    parts += [rendering.markdown(table) for table in tables(evaluation)]
    return "\n\n".join([*parts, *map(escape, [*comparison_legend(evaluation), *remarks(evaluation)])])


def as_latex(evaluation: Evaluation) -> str:
    """The tables in LaTeX; the verdict and the remarks are comments."""
    answer = verdict(evaluation)
    lines = [answer.headline, *(text for _, text in verdict_points(answer))]
    parts = ["\n".join(f"% {plain(line)}" for line in lines), *map(rendering.latex, tables(evaluation))]
    notes = [*comparison_legend(evaluation), *remarks(evaluation)]
    return "\n\n".join([*parts, *(f"% {plain(line, rendering.MAX_TEXT)}" for line in notes)])
