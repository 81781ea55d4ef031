"""calibrant conformal: sets of classes and intervals of numbers that hold the outcome as often as is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import completion, inputs

if TYPE_CHECKING:
    from calibrant.predictions import InMemory

FORMATS = ("table", "json")


@inputs.with_columns(inputs.CLASSES | inputs.NUMBERS)
def command(
    *,
    fit: Annotated[str, typer.Option("--fit", help="Held-out predictions with labels.", metavar="FILE")],
    apply: Annotated[
        str, typer.Option("--apply", help="New predictions of the same model; with labels, coverage.", metavar="FILE")
    ],
    method: Annotated[
        str,
        typer.Option(
            "--method", help="Classes: lac, aps or raps. Numbers: split, scaled or cqr.",
            autocompletion=completion.conformal,
        ),
    ],
    level: Annotated[float, typer.Option("--level", help="How often the outcome is to be covered.")] = 0.9,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="aps, raps: not randomised; sets are larger.")
    ] = False,
    penalty: Annotated[float | None, typer.Option("--penalty", help="raps: what a further class costs; 0.01.")] = None,
    k_reg: Annotated[int | None, typer.Option("--k-reg", help="raps: how many classes cost nothing; 5.")] = None,
    seed: inputs.Seed = 0,
    columns: inputs.Columns,
    json_path: Annotated[
        str | None, typer.Option("--json", help="Write the summary as JSON; '-' prints it.", metavar="OUT|-")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write sets or intervals of all rows.", metavar="OUT.npz")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
    strict: inputs.Strict = False,
    quiet: inputs.Quiet = False,
) -> None:  # fmt: skip
    """Find a threshold on held-out rows, and give sets or intervals of new rows that are covered at the level."""
    from calibrant.cli.output import check_outputs, emit, refuse_warnings
    from calibrant.errors import UsageError, show
    from calibrant.recalibration.conformal.methods import conformal

    if form not in FORMATS:
        raise UsageError("--format", expected="table or json", came=f"got {show(form)}", do="choose one")
    check_outputs(json=json_path)
    _check_output(output, fit, apply)
    made = conformal(method, level, **_options(method, deterministic, penalty, k_reg, seed))
    held, new = (_read(file, columns, strict) for file in (fit, apply))
    found = _noted(_fitted(made, held).predict(new), held, new)
    if strict:
        refuse_warnings(found.notes)
    _write(found, json_path, output)
    if json_path == "-":
        emit(_dumps(found))
    elif not quiet:
        emit(_dumps(found) if form == "json" else str(found))


def _options(method: str, deterministic: bool, penalty: float | None, k_reg: int | None, seed: int) -> dict[str, Any]:
    """The options that this method has; one that it has not is refused."""
    from calibrant.errors import UsageError

    asked = {"--deterministic": deterministic, "--penalty": penalty is not None, "--k-reg": k_reg is not None}
    known = {"aps": ("--deterministic",), "raps": tuple(asked)}.get(method, ())
    for option in (name for name, given in asked.items() if given and name not in known):
        raise UsageError(option, expected="a method that it belongs to", came=f"the method is {method}",
                         do="leave it out, or ask for --method raps")  # fmt: skip
    if method not in ("aps", "raps"):
        return {}
    limits = {"penalty": penalty, "k_reg": k_reg}
    return {"randomised": not deterministic, "seed": seed} | {k: v for k, v in limits.items() if v is not None}


def _check_output(output: str | None, *taken: str) -> None:
    """Refuse to write over what is read, before anything is."""
    from pathlib import Path

    from calibrant.errors import UsageError, show

    if output is None:
        return
    if Path(output).suffix.lower() != ".npz":
        raise UsageError(
            "--output", expected="a name that ends in .npz", came=f"got {show(output)}", do="write -o out.npz"
        )
    if any(Path(output).resolve() == Path(file.partition("::")[0]).resolve() for file in taken):
        raise UsageError(
            "--output", expected="a file of its own", came=f"{show(output)} is read too", do="choose another"
        )


def _read(file: str, columns: inputs.Columns, strict: bool) -> InMemory:
    from calibrant.predictions.files.reading import read_source
    from calibrant.predictions.files.shards import Source
    from calibrant.predictions.files.tables import ColumnOptions

    return read_source(Source.parse(file), ColumnOptions(**columns), strict=strict)


def _fitted(made: Any, held: InMemory) -> Any:
    """Fit; what is to be said stands below the table."""
    import warnings

    from calibrant.errors import CalibrantWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return made.fit(held)


def _noted(found: Any, held: InMemory, new: InMemory) -> Any:
    """With a note where rows that the threshold was found on are predicted: their coverage is no test of it."""
    from dataclasses import replace

    from calibrant.evaluation.recalibrate import shared_rows
    from calibrant.predictions.base import Note

    shared = shared_rows(held, new)
    if not shared:
        return found
    said = f"{shared} of the {new.n} rows of {new.name} were fitted on: their coverage says nothing of new rows"
    return replace(found, notes=(*found.notes, Note("scored-on-fitted-rows", said)))


def _dumps(found: Any) -> str:
    import json

    return json.dumps(found.to_json(), indent=2, ensure_ascii=False, allow_nan=False)


def _write(found: Any, json_path: str | None, output: str | None) -> None:
    from pathlib import Path

    from calibrant.predictions.files.writing import atomic_write

    if output:
        found.save(output)
    if json_path and json_path != "-":
        with atomic_write(Path(json_path)) as stream:
            stream.write((_dumps(found) + "\n").encode())
