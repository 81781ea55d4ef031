"""calibrant demo: the bundled predictions of a real ensemble, judged, checked and mended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from calibrant.evaluation.printing import Line
    from calibrant.evaluation.result import Evaluation

SHOWN = ("accuracy", "nll", "brier", "ece", "ks", "misclassification_auroc", "mutual_information")
"""Metrics that the table of the demo has: the pages have all of them."""

ASKED = (
    "Do 20 networks know what they do not know?", "Is it what they expect?", "Do they know what is no digit?",
    "Can they be mended?", "Are 20 better than one?",
)  # fmt: skip


def command(
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for results and pages.")] = "calibrant-demo",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Judge 20 small networks on handwritten digits: clean, rotated and noised, and on glyphs that are no digits."""
    from calibrant.cli.output import emit
    from calibrant.cli.terminal import painted, progress_bar, shows_colours, width_of
    from calibrant.demo import lacking, run_demo
    from calibrant.evaluation.result import Evaluation

    with progress_bar(quiet) as progress:
        found, files = run_demo(Path(out), progress)
    if quiet:
        return
    evaluations = [item if isinstance(item, Evaluation) else item.evaluation for item in found]
    lacks = lacking()
    last = f"no page with charts: {lacks}" if lacks else f"open {files[-1]} in a browser for the charts"
    written: list[Line] = [((line, ""),) for line in [*(f"written: {file}" for file in files), last]]
    emit(painted([*_told(evaluations, width_of()), *written], shows_colours()))


def _told(evaluations: list[Evaluation], width: int) -> list[Line]:
    """What was asked, the verdict, and of the digits the tables that show most."""
    from calibrant.evaluation.printing import verdict_lines
    from calibrant.evaluation.verdict import verdict

    out: list[Line] = []
    for asked, evaluation in zip(ASKED, evaluations, strict=True):
        out += [((asked, "bold"),), *verdict_lines(verdict(evaluation), width), ()]
        if asked == ASKED[0]:
            out += _tables(evaluation, width)
    return out


def _tables(evaluation: Evaluation, width: int) -> list[Line]:
    """The main metrics of the ensemble on clean digits, then by severity of shift."""
    from dataclasses import replace

    from calibrant.evaluation import bars
    from calibrant.evaluation.rendering import text, wrap
    from calibrant.evaluation.tables import group_table, main_table

    clean, shifted = evaluation.results[1:3]
    few = replace(clean, metrics={spec: clean.metrics[spec] for spec in SHOWN})
    first = text(main_table(evaluation, few), width)
    second = text(group_table(evaluation, shifted, "severity"), width)
    legend = [((line, "dim"),) for line in wrap(bars.legend(first), width)]
    plain: list[list[Line]] = [[((line, ""),) for line in table.splitlines()] for table in (first, second)]
    return [*plain[0], *legend, (), ((shifted.input, ""),), *plain[1], ()]
