"""calibrant reproduce: the tables of papers, made anew and set beside the printed ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.cli import inputs

if TYPE_CHECKING:
    from calibrant.bench.recipes import Reproduction
    from calibrant.evaluation.printing import Line

DEVICES = ("auto", "cpu", "cuda")
Paper = Annotated[str | None, typer.Argument(help="A paper; without one, papers are listed.", metavar="PAPER")]
Table = Annotated[str | None, typer.Argument(help="One of its tables; without one, they are listed.", metavar="TABLE")]
Out = Annotated[
    str | None,
    typer.Option("--out", "-o", help="Folder for all of it; what is finished there is not done again."),
]
Seeds = Annotated[int, typer.Option("--seeds", help="How often data are drawn and models trained.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer networks, rows and epochs: about a minute.")]
Device = Annotated[str, typer.Option("--device", help="Where to train: auto, cpu or cuda.", metavar="DEVICE")]
JsonPath = Annotated[
    str | None, typer.Option("--json", help="Write the table as JSON too; '-' prints it.", metavar="OUT|-")
]


def command(
    paper: Paper = None,
    table: Table = None,
    out: Out = None,
    seeds: Seeds = 3,
    quick: Quick = False,
    device: Device = "auto",
    json_path: JsonPath = None,
    quiet: inputs.Quiet = False,
) -> None:
    """Make a table of a paper anew: train, predict, check, and set the numbers beside the printed ones.

    A run that was stopped goes on where it was: give the same folder.
    """
    from calibrant.bench.recipes import recipe
    from calibrant.cli.output import check_outputs, emit
    from calibrant.cli.terminal import painted, progress_bar, shows_colours, width_of

    if paper is None or table is None:
        listed = _listed(paper, width_of())
        if not quiet:
            emit(listed)
        return
    chosen = recipe(paper, table)
    _check_device(device)
    check_outputs(json=json_path)
    with progress_bar(quiet) as progress:
        found = chosen.run(out, seeds=seeds, quick=quick, device=device, progress=progress)
    if json_path and json_path != "-":
        _write(found, Path(json_path))
    if json_path == "-":
        emit(found.dumps())
    elif not quiet:
        emit(painted(_told(found, width_of()), shows_colours()))


def _listed(paper: str | None, width: int) -> str:
    """Papers and their tables, and how they are asked for."""
    from calibrant.bench.recipes import PAPERS, recipes
    from calibrant.evaluation.rendering import wrap

    lines: list[str] = []
    for one in recipes(paper):
        title = wrap(f"{one.paper}: {PAPERS[one.paper]}", width)
        lines += title if title[0] not in lines else []
        lines += [f"  {line}" for line in wrap(f"{one.table}: {one.says}", width - 2)]
    return "\n".join([*lines, "", "calibrant reproduce PAPER TABLE makes one; with --quick in about a minute."])


def _check_device(device: str) -> None:
    from calibrant.errors import UsageError, did_you_mean, show

    if device.partition(":")[0] not in DEVICES:
        do = did_you_mean(device, DEVICES)
        raise UsageError("--device", expected=", ".join(DEVICES), came=f"got {show(device)}", do=do)


def _write(found: Reproduction, path: Path) -> None:
    from calibrant.predictions.files.writing import atomic_write

    with atomic_write(path) as stream:
        stream.write((found.dumps() + "\n").encode())


def _told(found: Reproduction, width: int) -> list[Line]:
    """The title, the tables, what the paper says and whether it was found, and what was written."""
    from calibrant.evaluation.printing import MARKS
    from calibrant.evaluation.rendering import text, wrap

    out: list[Line] = [((line, "bold"),) for line in wrap(found.title, width, "")]
    for table in found.tables():
        out += [(), *(((line, ""),) for line in text(table, width).splitlines())]
    out += [(), (("What the paper says of it", "bold"),)]
    for one in found.statements:
        tone = "good" if one.holds else "warn" if any(one.found) else "bad"
        out += [((line, tone),) for line in wrap(f"{MARKS[tone]} {one.said}: {one.told}", width)]
    out += [(), *(((line, "dim"),) for note in found.notes for line in wrap(f"note: {note}", width)), ()]
    out += [((f"written: {file}", ""),) for file in found.files]
    return out + ([((f"no figures and no page: {found.lacks}", ""),)] if found.lacks else [])
