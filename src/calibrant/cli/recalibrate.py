"""calibrant recalibrate: fit a recalibration map, apply it, and measure the improvement."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from calibrant.cli import completion, gate_options, inputs, options
from calibrant.cli.options import option

EXAMPLES = """\
calibrant recalibrate --fit validation.npz --apply test.npz --output fixed.npz
calibrant recalibrate --fit validation.npz --apply test.npz --method 'ets(loss=brier)' --save map.json
calibrant recalibrate --map map.json --apply new.npz --output fixed.npz
calibrant recalibrate --fit validation.npz --method auto
"""
Fit = Annotated[str | None, option("--fit", "Fit the map on these held-out predictions.", "FILE")]
Apply = Annotated[
    str | None, option("--apply", "Recalibrate these predictions.  [default: those of --fit, cross-fitted]", "FILE")
]
Method = Annotated[
    str | None,
    option(
        "--method",
        "Method, or auto; see --list.  [default: temperature; variance; levels]",
        "METHOD",
        completion.methods,
    ),
]
MapPath = Annotated[str | None, option("--map", "Apply a map written with --save instead of fitting one.", "FILE")]
Candidates = Annotated[
    str | None,
    option(
        "--candidates",
        "With --method auto: methods to choose from, separated by commas.",
        "METHODS",
        completion.candidates,
    ),
]
Score = Annotated[
    str | None, option("--score", "With auto: proper score to choose by.  [default: nll; dss for regression]", "SCORE")
]
Folds = Annotated[int | None, option("--folds", "Folds of cross-fitting and of --method auto.  [default: 5]", "N")]
Output = Annotated[
    str | None, option("--output -o", "Write the recalibrated predictions.", "OUT", panel=options.OUTPUT)
]
Save = Annotated[str | None, option("--save", "Write the fitted map (.json or .npz).", "FILE", panel=options.OUTPUT)]
List = Annotated[bool, option("--list", "List the methods with their options and exit.")]


@options.with_columns(options.CLASSIFICATION | options.REGRESSION)
def command(
    *,
    fit: Fit = None,
    apply: Apply = None,
    method: Method = None,
    map_path: MapPath = None,
    candidates: Candidates = None,
    score: Score = None,
    folds: Folds = None,
    list_methods: List = False,
    metrics: options.Metrics = None,
    sizes: options.Sizes = False,
    at: options.At = None,
    repeats: options.Repeats = None,
    level: options.Level = 0.95,
    resamples: options.Resamples = 1000,
    units: options.Units = None,
    relevant_error: options.RelevantError = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    strict: options.Strict = False,
    columns: options.Columns,
    fail_on: options.RecalibrateFailOn = None,
    require: options.RecalibrateRequire = None,
    output: Output = None,
    save: Save = None,
    json_path: options.JsonPath = None,
    html_path: options.HtmlPath = None,
    form: options.Format = "table",
    quiet: options.Quiet = False,
) -> None:
    """Recalibrate predictions and measure the improvement.

    Fits a map on held-out rows, applies it to other rows, and reports the gain in proper scores with paired intervals.
    """
    from calibrant.cli.output import check_format, check_outputs, emit, progress_bar, strict_end
    from calibrant.errors import UsageError
    from calibrant.predictions.files.write import write
    from calibrant.recalibration.api import apply_fitted, recalibrate
    from calibrant.recalibration.serialization import load
    from calibrant.registry.lookup import with_role

    if list_methods:
        emit(methods_table())
        return
    form = check_format(form)
    check_outputs(json=json_path, html=html_path)
    if (fit is None) == (map_path is None):
        got = "neither" if fit is None else "both"
        hint = "pass held-out predictions with --fit, or a fitted map with --map"
        raise UsageError("recalibrate", expected="either --fit or --map", got=got, hint=hint)
    choosing: dict[str, Any] = {"candidates": candidates, "score": score, "folds": folds}
    if map_path is not None:
        if apply is None:
            raise UsageError("--map", expected="--apply too", got="none", hint="add --apply FILE")
        extra = [f"--{name}" for name, value in {"method": method, **choosing}.items() if value is not None]
        if extra:
            got = " and ".join(extra)
            raise UsageError("--map", expected="no options for fitting", got=got, hint=f"remove {got}, or --map")
    check_paths({"--output": output, "--save": save, "--json": json_path, "--html": html_path}, fit, apply)
    gates = gate_options.parse_gate_options(fail_on, require, kinds=("Threshold", "VerdictIs", "GainThreshold"), by=())
    fit_rows: Any
    apply_rows: Any
    fit_rows, apply_rows = (
        None if file is None else inputs.read_in_memory(file, columns, quiet=quiet) for file in (fit, apply)
    )
    settings: dict[str, Any] = {
        "metrics": gate_options.add_gate_metrics(metrics, gates, set(with_role("recalibration"))),
        "sizes": inputs.parse_sizes(sizes, at), "repeats": repeats, "units": units, "level": level,
        "resamples": resamples, "relevant_error": relevant_error, "seed": seed, "threads": threads,
    }  # fmt: skip
    with progress_bar(quiet, inputs.count_rows([fit_rows, apply_rows])) as progress:
        if map_path is not None:
            done = apply_fitted(load(map_path), apply_rows, **settings, progress=progress)
        else:
            choosing["folds"] = folds or 5
            done = recalibrate(
                fit_rows, apply_rows, method, **choosing, **settings, progress=progress
            )  # fmt: skip
    if output is not None:  # probabilities stay probabilities
        source = apply_rows or fit_rows
        as_probs = getattr(source, "kind", "") == "probs" and done.predictions.task == "classification"
        write(done.predictions.as_probs() if as_probs else done.predictions, output)
    if save is not None:
        done.recalibrator.save(save)
    with strict_end(strict, done.evaluation.warnings, done.evaluation):
        gate_options.write_gated(
            done.evaluation, gates, form=form, json_path=json_path, html_path=html_path, quiet=quiet
        )  # fmt: skip


def check_paths(outputs: dict[str, str | None], *inputs_read: str | None) -> None:
    """Refuse outputs that overwrite an input or each other, or that cannot be written, before anything is fitted."""
    from calibrant.errors import UsageError, WriteError, show
    from calibrant.predictions.files.sources import Source

    save = outputs["--save"]
    if save is not None and Path(save).suffix.lower() not in (".json", ".npz"):
        raise UsageError("--save", expected="a name ending in .json or .npz", got=show(save), hint="use map.json")
    used = {Path(Source.parse(name).path).resolve() for name in inputs_read if name is not None}
    for output, name in outputs.items():
        if name is None or name == "-":
            continue
        path = Path(name).resolve()
        if path in used:
            got = f"{show(name)}, which is read or written by another option"
            raise UsageError(output, expected="a file of its own", got=got, hint="choose another name")
        if not path.parent.is_dir():
            hint = f"nothing was written; run `mkdir -p {path.parent}` or choose another folder"
            raise WriteError(str(name), expected="an existing folder", got="none", hint=hint)
        used.add(path)


def methods_table() -> str:
    """Tabulate the methods, and list their options below."""
    import textwrap

    from calibrant.cli.output import width_of
    from calibrant.recalibration.lookup import METHODS, method_class
    from calibrant.render.table import Table, text

    rows, lines, width = [], [], width_of()
    for name in METHODS:
        cls = method_class(name)
        task = "both" if len(cls.tasks) == 3 else "regression" if "regression" in cls.tasks else "classification"
        rows.append((name, cls.title, task, "preserved" if cls.promises_accuracy else ""))
        known = [item for item in cls.declared_options() if item.name != "members"]
        described = "; ".join(f"{item.name}={item.default} ({item.help}: {item.allowed()})" for item in known)
        lines += textwrap.wrap(f"{name}: {described}", width, subsequent_indent="  ") if known else []
    table = Table("", ("method", "title", "task", "accuracy"), tuple(rows), left=4, names=1)
    every = "all: members=average (recalibrate the average of the members, or each: average or each)"
    return "\n".join([text(table, width), "", "Options, as in 'ets(loss=brier)':", every, *lines])
