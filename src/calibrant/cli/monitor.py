"""calibrant monitor: is a model in use still calibrated? Evidence that one may look at after every row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import inputs
from calibrant.errors import UsageError, show

if TYPE_CHECKING:
    from calibrant.evaluation.monitor import Monitor
    from calibrant.predictions import InMemory
    from calibrant.predictions.base import Note
    from calibrant.predictions.files.stream import Stream

Of = Annotated[str | None, typer.Option("--of", help="A class by name or number; the top label without it.")]
Alpha = Annotated[float | None, typer.Option("--alpha", help="Level of the test; 0.05 without it.")]
State = Annotated[
    str | None,
    typer.Option("--state", help="Go on from this file if it is there, and keep the state in it.", metavar="JSON"),
]


@inputs.with_columns(inputs.CLASSES)
def command(
    *,
    files: inputs.Files,
    of: Of = None,
    alpha: Alpha = None,
    state: State = None,
    columns: inputs.Columns,
    json_path: inputs.JsonPath = None,
    strict: inputs.Strict = False,
    blocks: inputs.Blocks = False,
    quiet: inputs.Quiet = False,
) -> None:
    """Test calibration along a stream: rows in the order of the files, a verdict that holds whenever one looks."""
    from calibrant.cli.output import check_outputs, emit, refuse_warnings

    check_outputs(json=json_path, state=state)
    monitor = _monitor(state, of, alpha)
    predictions = inputs.read_all(files, columns, strict=strict, blocks=blocks, quiet=quiet)
    for item in predictions:
        _add(monitor, item)
    notes = tuple(dict.fromkeys(note for item in predictions for note in item.notes()))
    if strict:
        refuse_warnings(notes)
    said = _as_json(monitor, predictions, notes)
    if state is not None:
        monitor.save(state)
    if json_path not in (None, "-"):
        _save(said, Path(str(json_path)))
    if json_path == "-":
        emit(said)
    elif not quiet:
        emit("\n".join([str(monitor), *(f"Note: {note.message}" for note in notes)]))


def _monitor(state: str | None, of: str | None, alpha: float | None) -> Monitor:
    """A new one, or the one that was kept; what it follows cannot change on the way."""
    from calibrant.evaluation.monitor import Monitor

    if state is None or state == "-" or not Path(state).exists():
        if state == "-":
            raise UsageError("--state", expected="the name of a file", came="got '-'", do="write --state state.json")
        return Monitor("top" if of is None else of, 0.05 if alpha is None else alpha)
    found = Monitor.load(state)
    for name, given, kept in (("alpha", alpha, found.alpha), ("of", of, found.of)):
        if given is not None and given != kept:
            raise UsageError(
                f"--{name}",
                expected=f"{kept}, as in {show(Path(state).name)}",
                came=f"got {show(given)}",
                do=f"leave --{name} out, or start anew with another --state",
            )
    return found


def _add(monitor: Monitor, item: InMemory | Stream) -> None:
    """Take in a file that has not been taken in before: rows that count twice would be evidence of nothing."""
    if item.sha256 in monitor.taken:
        raise UsageError(
            f"{item.name}: monitor",
            expected="a file whose rows have not been taken in",
            came="this one has been",
            do="give each file once; rows that count twice are evidence of nothing",
        )
    monitor.add(item)  # type: ignore[arg-type]
    monitor.taken += [item.sha256] if item.sha256 is not None else []


def _as_json(monitor: Monitor, predictions: list[InMemory | Stream], notes: tuple[Note, ...]) -> str:
    """In the form of an evaluation, with the monitor in the place of its results."""
    from calibrant import __version__

    described = [{"name": p.name, "sha256": p.sha256, "n": p.n, "members": p.example.members} for p in predictions]
    data: dict[str, Any] = {
        "schema": 1,
        "version": __version__,
        "settings": {"of": monitor.of, "alpha": monitor.alpha},
        "inputs": described,
        "results": [{"monitor": monitor.to_json()}],
        "warnings": [vars(note) for note in notes],
    }
    return json.dumps(data, indent=1, allow_nan=False)


def _save(said: str, path: Path) -> None:
    from calibrant.predictions.files.writing import atomic_write

    with atomic_write(path) as stream:
        stream.write((said + "\n").encode())
