"""calibrant demo: a real ensemble, evaluated, checked, recalibrated and compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from calibrant.cli import options
from calibrant.cli.options import option

if TYPE_CHECKING:
    from calibrant.render.terminal import Line

EXAMPLES = """\
calibrant demo
calibrant demo --out results
calibrant demo llm
"""
DEMOS = ("digits", "llm")
LLM_QUESTIONS = ("Do six language models know what they know?", "Which one answers best?")
QUESTIONS = (
    "Are 20 networks calibrated?", "Posterior predictive checks", "OOD detection", "Can recalibration fix it?",
    "Are 20 networks better than one?",
)  # fmt: skip


def command(
    name: Annotated[str, options.argument("The demo: digits, or llm (six language models).", "NAME")] = "digits",
    out: Annotated[str, option("--out -o", "Write results and report to this folder.", "FOLDER")] = "calibrant-demo",
    quiet: options.Quiet = False,
) -> None:
    """Run a demo: an ensemble on digits, or six language models.

    Evaluates bundled predictions on clean digits, on rotated and noisy ones, and on glyphs that are not digits; with
    `llm` the confidence that six language models state on MMLU-Pro.
    """
    from calibrant.cli.output import emit, paint, progress_bar, shows_colours, width_of
    from calibrant.demo import missing_extra, run_demo, run_llm_demo
    from calibrant.errors import check_choice
    from calibrant.registry.lookup import with_role
    from calibrant.render.evaluation import group_table, main_table
    from calibrant.render.table import bar_legend, text, wrap
    from calibrant.render.terminal import verdict_lines
    from calibrant.render.verdicts.api import verdict

    check_choice("demo", name, DEMOS)
    with progress_bar(quiet) as progress:
        evaluations, files = (run_demo if name == "digits" else run_llm_demo)(Path(out), progress)
    if quiet:
        return
    width = width_of()
    lines: list[Line] = []
    for question, evaluation in zip(QUESTIONS if name == "digits" else LLM_QUESTIONS, evaluations, strict=True):
        lines += [((question, "bold"),), *verdict_lines(verdict(evaluation), width), ()]
        if question == QUESTIONS[0]:
            clean, shifted = evaluation.results[1:3]
            shown = replace(clean, metrics={spec: clean.metrics[spec] for spec in with_role("demo")})
            table = text(main_table(evaluation, shown), width)
            lines += [((line, ""),) for line in table.splitlines()]
            lines += [((line, "dim"),) for line in wrap(bar_legend(table), width)]
            severities = text(group_table(evaluation, shifted, "severity"), width)
            lines += [(), *(((line, ""),) for line in [shifted.input, *severities.splitlines()]), ()]
    missing = missing_extra()
    last = f"no report: {missing}" if missing else f"open {files[-1]} in a browser"
    lines += [((line, ""),) for line in [*(f"written: {file}" for file in files), last]]
    emit(paint(lines, shows_colours()))
