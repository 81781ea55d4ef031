"""calibrant check: is what was observed what the model expects?"""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import inputs


@inputs.with_columns(inputs.CLASSES | inputs.NUMBERS)
def command(
    *,
    files: inputs.Files,
    statistics: Annotated[
        list[str] | None,
        typer.Option("--statistics", "-s", help="Metrics, or statistics of labels: 'accuracy,ece(bins=10),entropy'."),
    ] = None,
    draws: Annotated[str, typer.Option("--draws", help="Replicates, or 'exact' for computed laws.")] = "1000",
    members: Annotated[
        str,
        typer.Option("--members", help="bayesian (one for all rows), independent (one for each row), or both."),
    ] = "both",
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help="Check in groups: COLUMN, COLUMN:BINS for numbers, or 'predicted' for the class."),
    ] = None,
    shift: Annotated[
        bool, typer.Option("--shift", help="Count what passes at each severity: columns shift and severity.")
    ] = False,
    rule: Annotated[
        str, typer.Option("--rule", help="What passes: interval (within 95 % of replicates) or range (of all).")
    ] = "interval",
    temperatures: Annotated[
        float | None,
        typer.Option(
            "--temperatures", help="Fit a temperature for each member on this share of rows, left out then.",
            metavar="SHARE",
        ),
    ] = None,
    fit: Annotated[
        str | None,
        typer.Option("--fit", help="With --temperatures: fit them on the first rows of this file.", metavar="FILE"),
    ] = None,
    seed: inputs.Seed = 0,
    threads: inputs.Threads = None,
    columns: inputs.Columns,
    json_path: inputs.JsonPath = None,
    html_path: inputs.HtmlPath = None,
    form: inputs.Format = "table",
    strict: inputs.Strict = False,
    blocks: inputs.Blocks = False,
    quiet: inputs.Quiet = False,
) -> None:  # fmt: skip
    """Check whether what was observed is what the model expects, and what calibration error alone would have said."""
    from calibrant.cli.output import check_format, check_outputs, progress_bar, refuse_warnings, write_outputs
    from calibrant.evaluation.check import check

    form = check_format(form)
    count = inputs.draws_of(draws)
    check_outputs(json=json_path, html=html_path)
    predictions = inputs.read_all(files, columns, strict=strict, blocks=blocks)
    fitted = None if fit is None else inputs.read_all([fit], columns, strict=strict, blocks=blocks)[0]
    specs = ",".join(statistics) if statistics else None
    with progress_bar(quiet) as progress:
        evaluation = check(
            predictions, specs, draws=count, members=members, by=by or (), shift=shift, rule=rule,
            temperatures=temperatures, fit=fitted, seed=seed, threads=threads, progress=progress,
        )  # fmt: skip
    if strict:
        refuse_warnings(evaluation.warnings)
    write_outputs(evaluation, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
