"""calibrant recalibrate: mend predictions, and say honestly what that gained."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from calibrant.cli import completion, gating, inputs

Fit = Annotated[str | None, typer.Option("--fit", help="Held-out predictions with labels that the map is fitted on.")]
Apply = Annotated[
    str | None, typer.Option("--apply", help="Predictions to recalibrate; without it those of --fit, cross-fitted.")
]
Method = Annotated[
    str | None,
    typer.Option(
        "--method",
        help="A method, temperature by default, as in 'ets(loss=brier)', or auto; see --list.",
        autocompletion=completion.methods,
    ),
]
MapPath = Annotated[
    str | None, typer.Option("--map", help="Apply a map that --save wrote, instead of fitting one.", metavar="FILE")
]
Candidates = Annotated[
    str | None,
    typer.Option(
        "--candidates",
        help="With auto: the methods to choose from, commas between them.",
        autocompletion=completion.candidates,
    ),
]
Score = Annotated[
    str | None, typer.Option("--score", help="With auto: the proper score that decides; nll, of numbers dss.")
]
Folds = Annotated[int | None, typer.Option("--folds", help="Folds of cross-fitting and of auto; 5 by default.")]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="Write the recalibrated predictions.", metavar="OUT")
]
Save = Annotated[str | None, typer.Option("--save", help="Write the fitted map: .json or .npz.", metavar="FILE")]
Listed = Annotated[bool, typer.Option("--list", help="List the methods and stop.")]


@inputs.with_columns(inputs.CLASSES | inputs.NUMBERS)
def command(
    *,
    fit: Fit = None,
    apply: Apply = None,
    method: Method = None,
    map_path: MapPath = None,
    candidates: Candidates = None,
    score: Score = None,
    folds: Folds = None,
    output: Output = None,
    save: Save = None,
    metrics: inputs.Metrics = None,
    sizes: inputs.Sizes = False,
    at: inputs.At = None,
    repeats: inputs.Repeats = None,
    units: inputs.Units = None,
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 0,
    threads: inputs.Threads = None,
    columns: inputs.Columns,
    fail_on: gating.FailOn = None,
    require: gating.Require = None,
    json_path: inputs.JsonPath = None,
    html_path: inputs.HtmlPath = None,
    form: inputs.Format = "table",
    strict: inputs.Strict = False,
    quiet: inputs.Quiet = False,
    listed: Listed = False,
) -> None:
    """Recalibrate predictions: fit a map on held-out rows, apply it to others, and say what it gained there."""
    from calibrant.cli.output import check_format, check_outputs, emit, refuse_warnings
    from calibrant.cli.terminal import progress_bar

    if listed:
        emit(_list())
        return
    form = check_format(form)
    check_outputs(json=json_path, html=html_path)
    choosing = {"candidates": candidates, "score": score, "folds": folds}
    _check_asked(fit, apply, map_path, {"method": method} | choosing)
    _check_writable({"--output": output, "--save": save, "--json": json_path, "--html": html_path}, fit, apply)
    gates = gating.parsed(fail_on, require, of=("Threshold", "Gained"), by=())
    given = _read(fit, apply, columns, strict, quiet)
    specs = gating.with_metrics(metrics, gates, _usual())
    how: dict[str, Any] = {
        "metrics": specs, "sizes": inputs.sizes_of(sizes, at), "repeats": repeats,
        "units": units, "level": level, "resamples": resamples, "seed": seed, "threads": threads,
    }  # fmt: skip
    with progress_bar(quiet, inputs.rows_of(given)) as progress:
        done = _recalibrated(given, method, map_path, choosing, how | {"progress": progress})
    if strict:
        refuse_warnings(done.evaluation.warnings)
    _write(done, given[1] or given[0], output, save)
    gating.write_gated(done.evaluation, gates, form=form, json_path=json_path, html_path=html_path, quiet=quiet)


def _usual() -> set[str]:
    """What is shown before and after, where nothing is named."""
    from calibrant.evaluation.recalibrate import CLASSES, NUMBERS

    return {*CLASSES, *NUMBERS}


def _check_asked(fit: str | None, apply: str | None, map_path: str | None, fitting: dict[str, Any]) -> None:
    """A map is fitted or read, and what belongs to the one is not given with the other."""
    from calibrant.errors import UsageError

    if (fit is None) == (map_path is None):
        came = "got neither" if fit is None else "got both"
        do = "name held-out predictions with --fit, or a fitted map with --map"
        raise UsageError("recalibrate", expected="one of --fit and --map", came=came, do=do)
    if map_path is not None and apply is None:
        raise UsageError("--map", expected="--apply beside it", came="got it alone", do="name what to recalibrate")
    extra = [f"--{name}" for name, value in fitting.items() if value is not None]
    if map_path is not None and extra:
        came = f"got {' and '.join(extra)} beside it"
        raise UsageError(
            "--map", expected="a map that is fitted already, and no fitting", came=came, do="leave one out"
        )


def _check_writable(outputs: dict[str, str | None], *read: str | None) -> None:
    """Refuse names that would lose something, or cannot be written, before anything is fitted."""
    from pathlib import Path

    from calibrant.errors import UsageError, WriteError, show
    from calibrant.predictions.files.shards import Source

    save = outputs["--save"]
    if save is not None and Path(save).suffix.lower() not in (".json", ".npz"):
        came = f"got {show(save)}"
        raise UsageError("--save", expected="a name that ends in .json or .npz", came=came, do="choose one of these")
    taken = {Path(Source.parse(name).path).resolve() for name in read if name is not None}
    for option, name in outputs.items():
        if name is None or name == "-":
            continue
        if Path(name).resolve() in taken:
            came = f"{show(name)} is read, or written by another option"
            raise UsageError(option, expected="a file of its own", came=came, do="choose another name")
        if not Path(name).resolve().parent.is_dir():
            do = "nothing was written; make the folder or choose another path"
            raise WriteError(str(name), expected="a folder to write to", came="there is none", do=do)
        taken.add(Path(name).resolve())


def _read(fit: str | None, apply: str | None, columns: Any, strict: bool, quiet: bool) -> list[Any]:
    """The predictions of --fit and --apply, None for what is not given."""
    from calibrant.predictions.files.stream import Stream

    read: list[Any] = []
    for name in (fit, apply):
        item = None if name is None else inputs.read_all([name], columns, strict=strict, quiet=quiet)[0]
        read.append(item.read() if isinstance(item, Stream) else item)
    return read


def _recalibrated(given: list[Any], method: str | None, map_path: str | None, choosing: Any, how: Any) -> Any:
    from calibrant.evaluation.recalibrate import apply_fitted, recalibrate
    from calibrant.recalibration.storing import load

    fit, apply = given
    if map_path is not None:
        return apply_fitted(load(map_path), apply, **how)
    return recalibrate(fit, apply, method or "temperature", **choosing | {"folds": choosing["folds"] or 5}, **how)


def _write(done: Any, given: Any, output: str | None, save: str | None) -> None:
    """Predictions and map; where probabilities were read, probabilities are written."""
    from calibrant.predictions.files.writing import write

    if output is not None:
        keeps = getattr(given, "kind", "") == "probs" and done.predictions.task == "classification"
        write(done.predictions.as_probs() if keeps else done.predictions, output)
    if save is not None:
        done.recalibrator.save(save)


def _list() -> str:
    """Every method with what it is for and what it promises, then the options that methods have."""
    import textwrap

    from calibrant.cli.terminal import width_of
    from calibrant.evaluation.rendering import Table, text
    from calibrant.recalibration.methods import METHODS, method_class

    rows, lines, width = [], [], width_of()
    for name in METHODS:
        found = method_class(name)
        of = "both" if len(found.tasks) == 3 else "numbers" if "regression" in found.tasks else "classes"
        rows.append((name, found.title, of, "kept" if found.promises_accuracy else ""))
        known = [item for item in found.options_known() if item.name != "members"]
        said = "; ".join(f"{item.name}={item.default} ({item.help}: {item.allowed()})" for item in known)
        lines += textwrap.wrap(f"{name}: {said}", width, subsequent_indent="  ") if known else []
    table = Table("", ("method", "what it is", "of", "accuracy"), tuple(rows), left=4)
    every = "all: members=average (of several members their average, or each: average or each)"
    return "\n".join([text(table, width), "", "Options, as in 'ets(loss=brier)':", every, *lines])
