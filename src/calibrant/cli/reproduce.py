"""calibrant reproduce: tables of papers, reproduced next to the published numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from calibrant.cli import options
from calibrant.cli.options import argument, option

if TYPE_CHECKING:
    from calibrant.bench.papers import Reproduction
    from calibrant.render.terminal import Line

EXAMPLES = """\
calibrant reproduce
calibrant reproduce gopal table1 --quick
"""
DEVICES = ("auto", "cpu", "cuda")
Paper = Annotated[str | None, argument("Paper; without it, list all.", "PAPER")]
Table = Annotated[str | None, argument("Table; without it, list those of the paper.", "TABLE")]
Out = Annotated[str | None, option("--out -o", "Write results to this folder; finished runs are reused.", "FOLDER")]
Seeds = Annotated[int, option("--seeds", "Number of seeds for data and training.", "N")]
Quick = Annotated[bool, option("--quick", "Use fewer networks, rows and epochs; takes about a minute.")]
Device = Annotated[str, option("--device", "Train on auto, cpu or cuda.", "DEVICE")]


def command(
    paper: Paper = None,
    table: Table = None,
    out: Out = None,
    seeds: Seeds = 3,
    quick: Quick = False,
    device: Device = "auto",
    json_path: options.JsonPath = None,
    quiet: options.Quiet = False,
) -> None:
    """Reproduce a table of a paper.

    Trains, predicts and evaluates, and shows the numbers next to the published ones. To resume an interrupted run, pass
    the same folder.
    """
    from calibrant.bench.papers import PAPERS, recipe, recipes
    from calibrant.cli.output import check_outputs, emit, paint, progress_bar, shows_colours, width_of, write_json
    from calibrant.errors import UsageError, did_you_mean, show
    from calibrant.render.table import wrap

    if paper is None or table is None:
        lines: list[str] = []
        for one in recipes(paper):
            title = wrap(f"{one.paper}: {PAPERS[one.paper]}", width_of())
            lines += title if title[0] not in lines else []
            lines += [f"  {line}" for line in wrap(f"{one.table}: {one.content}", width_of() - 2)]
        if not quiet:
            emit("\n".join([*lines, "", "Run `calibrant reproduce PAPER TABLE`; --quick takes about a minute."]))
        return
    chosen = recipe(paper, table)
    if device.partition(":")[0] not in DEVICES:
        hint = did_you_mean(device, DEVICES)
        raise UsageError("--device", expected=", ".join(DEVICES), got=show(device), hint=hint)
    check_outputs(json=json_path)
    with progress_bar(quiet) as progress:
        reproduction = chosen.run(out, seeds=seeds, quick=quick, device=device, progress=progress)
    text = paint(result_lines(reproduction, width_of()), shows_colours())
    write_json(reproduction.dumps(), json_path, text, quiet)


def result_lines(reproduction: Reproduction, width: int) -> list[Line]:
    """The tables, each claim of the paper with whether it is reproduced, and the files."""
    from calibrant.render.table import text, wrap
    from calibrant.render.terminal import MARKS

    out: list[Line] = [((line, "bold"),) for line in wrap(reproduction.title, width, "")]
    for table in reproduction.tables():
        out += [(), *(((line, ""),) for line in text(table, width).splitlines())]
    out += [(), (("Claims of the paper", "bold"),)]
    for claim in reproduction.statements:
        tone = "good" if claim.holds else "warn" if any(claim.reproduced) else "bad"
        out += [((line, tone),) for line in wrap(f"{MARKS[tone]} {claim.claim}: {claim.outcome}", width)]
    notes = [line for note in reproduction.notes for line in wrap(f"note: {note}", width)]
    out += [(), *(((line, "dim"),) for line in notes), ()]
    out += [((f"written: {file}", ""),) for file in reproduction.files]
    if reproduction.missing_package:
        out.append(((f"no figures and no report: {reproduction.missing_package}", ""),))
    return out
