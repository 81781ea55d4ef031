"""Evaluations as they are printed: the verdict first, the tables, what their signs mean, what else should be known.

A line is made of segments, each a text and a style: `good`, `warn`, `bad`, `bold`, `dim`, several with a space between
them, or none. Whoever prints makes colours of them, or leaves them out. Every text is plain: control characters are
gone, so that nothing but the styles reaches a terminal.
"""

from __future__ import annotations

from calibrant.errors import plain
from calibrant.evaluation import bars, rendering
from calibrant.evaluation.comparison_words import comparison_legend
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.tables import remarks, tables
from calibrant.evaluation.verdict import verdict
from calibrant.evaluation.verdicts.records import InputVerdict, Point, Verdict

Segment = tuple[str, str]
Line = tuple[Segment, ...]
MARKS = {"good": "✓", "warn": "!", "bad": "✗", "neutral": "·"}
"""What stands before a point, by its tone: colours are not the only thing that tells it."""
MOST_INPUTS = 12
"""Inputs that have a line of their own in a verdict."""
NAME = 40
"""Columns of a name in a verdict."""
PRINTED = ("notes",)
"""Topics that are printed further down."""


def text_lines(evaluation: Evaluation, width: int = 80) -> list[Line]:
    """Everything that is printed, line by line."""
    parts = [verdict_lines(verdict(evaluation), width)]
    shown = [rendering.text(table, width) for table in tables(evaluation)]
    parts += [[((line, ""),) for line in text.splitlines()] for text in shown]
    signs = bars.legend("\n".join(shown), _band(evaluation))
    said = [*([signs] if signs else []), *comparison_legend(evaluation)]
    parts.append([((line, "dim"),) for text in said for line in rendering.wrap(text, width)])
    parts.append([((line, _style(text)),) for text in remarks(evaluation) for line in rendering.wrap(text, width)])
    out: list[Line] = []
    for part in filter(None, parts):
        out += [*([()] if out else []), *part]
    return out


def as_text(evaluation: Evaluation, width: int = 80) -> str:
    """The same without styles."""
    return "\n".join("".join(text for text, _ in line) for line in text_lines(evaluation, width))


def _band(evaluation: Evaluation) -> str:
    return "expected" if any(result.checks for result in evaluation.results) else "if calibrated"


def _style(remark: str) -> str:
    """Gates are told in colour."""
    return "bad" if remark.startswith("gate failed") else "good" if remark.startswith("gate passed:") else ""


# ------------------------------------------------------------------------------------------------ verdict
def verdict_lines(said: Verdict, width: int = 80) -> list[Line]:
    """The headline, then a few points: of one input all of them, of several a line each."""
    out: list[Line] = [((line, f"bold {said.tone}"),) for line in rendering.wrap(said.headline, width, "")]
    several = said.inputs if len(said.inputs) > 1 else ()
    out += [line for point in _points(said) for line in _bullet(point.tone, point.text, width)]
    for item in several[:MOST_INPUTS]:
        out += _bullet(item.tone, _of_input(item), width)
    if len(several) > MOST_INPUTS:
        out += _bullet("neutral", f"… and {len(several) - MOST_INPUTS} more inputs", width)
    return out


def _points(said: Verdict) -> list[Point]:
    """Those of the only input and of all together, less what the headline says and what is printed further down."""
    single = said.inputs[0].points if len(said.inputs) == 1 else ()
    every = (*single, *said.points)
    return [point for point in every if point.topic not in PRINTED and point.text != said.headline]


def _of_input(item: InputVerdict) -> str:
    return f"{rendering.elide(plain(item.input, rendering.LONGEST), NAME)}: {item.headline}"


def _bullet(tone: str, text: str, width: int) -> list[Line]:
    """A mark in its colour, then the text, whose further lines begin below its first."""
    first, *rest = rendering.wrap(text, width - 4, "") or [""]
    style = tone if tone != "neutral" else "dim"
    return [(("  ", ""), (MARKS[tone], style), (f" {first}", "")), *(((f"    {line}", ""),) for line in rest)]


def verdict_texts(evaluation: Evaluation) -> list[str]:
    """The headline and the points as texts: for formats that have no width."""
    said = verdict(evaluation)
    points = [point.text for point in _points(said)]
    several = said.inputs if len(said.inputs) > 1 else ()
    more = [f"… and {len(several) - MOST_INPUTS} more inputs"] * (len(several) > MOST_INPUTS)
    return [said.headline, *points, *map(_of_input, several[:MOST_INPUTS]), *more]


def as_markdown(evaluation: Evaluation) -> str:
    """The verdict, the tables and the rest in Markdown."""
    head, *points = map(rendering.escape_markdown, verdict_texts(evaluation))
    parts = [f"**{head}**", *(["\n".join(f"- {point}" for point in points)] if points else [])]
    parts += [rendering.markdown(table) for table in tables(evaluation)]
    lines = [*comparison_legend(evaluation), *remarks(evaluation)]
    return "\n\n".join([*parts, *map(rendering.escape_markdown, lines)])


def as_latex(evaluation: Evaluation) -> str:
    """The tables in LaTeX; the verdict and what else should be known are comments."""
    said = "\n".join(f"% {plain(line)}" for line in verdict_texts(evaluation))
    parts = [said, *(rendering.latex(table) for table in tables(evaluation))]
    lines = [*comparison_legend(evaluation), *remarks(evaluation)]
    return "\n\n".join([*parts, *(f"% {plain(line, rendering.LONGEST)}" for line in lines)])
