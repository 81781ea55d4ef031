"""calibrant check: is what was observed what the model expects?"""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import completion, gating, inputs

Statistics = Annotated[
    list[str] | None,
    typer.Option(
        "--statistics",
        "-s",
        help="Metrics, or statistics of labels: 'accuracy,ece(bins=10),entropy'.",
        autocompletion=completion.statistics,
    ),
]
Draws = Annotated[str, typer.Option("--draws", help="Replicates, or 'exact' for computed laws.")]
Members = Annotated[
    str,
    typer.Option(
        "--members",
        help="bayesian (one for all rows), independent (one for each row), or both.",
        autocompletion=completion.members,
    ),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        help="Check in groups: COLUMN, COLUMN:BINS for numbers, or 'predicted' for the class.",
        autocompletion=completion.columns,
    ),
]
Shift = Annotated[bool, typer.Option("--shift", help="Count what passes at each severity: columns shift and severity.")]
Rule = Annotated[
    str,
    typer.Option(
        "--rule",
        help="What passes: interval (within 95 % of replicates) or range (of all).",
        autocompletion=completion.rules,
    ),
]
Temperatures = Annotated[
    float | None,
    typer.Option(
        "--temperatures", help="Fit a temperature for each member on this share of rows, left out then.",
        metavar="SHARE",
    ),
]  # fmt: skip
Fit = Annotated[
    str | None,
    typer.Option("--fit", help="With --temperatures: fit them on the first rows of this file.", metavar="FILE"),
]


@inputs.with_columns(inputs.CLASSES | inputs.NUMBERS)
def command(
    *,
    files: inputs.Files,
    statistics: Statistics = None,
    draws: Draws = "1000",
    members: Members = "both",
    by: By = None,
    shift: Shift = False,
    rule: Rule = "interval",
    temperatures: Temperatures = None,
    fit: Fit = None,
    seed: inputs.Seed = 0,
    threads: inputs.Threads = None,
    columns: inputs.Columns,
    fail_on: gating.FailOn = None,
    require: gating.Require = None,
    json_path: inputs.JsonPath = None,
    html_path: inputs.HtmlPath = None,
    form: inputs.Format = "table",
    strict: inputs.Strict = False,
    blocks: inputs.Blocks = False,
    quiet: inputs.Quiet = False,
) -> None:
    """Check whether what was observed is what the model expects, and what calibration error alone would have said."""
    from calibrant.checks.statistics import DEFAULTS
    from calibrant.cli.output import check_format, check_outputs, refuse_warnings
    from calibrant.cli.terminal import progress_bar
    from calibrant.evaluation.check import check
    from calibrant.evaluation.evaluate import inputs_of

    form = check_format(form)
    count = inputs.draws_of(draws)
    check_outputs(json=json_path, html=html_path)
    gates = gating.parsed(fail_on, require, of=("Threshold", "Outcome"), by=by or ())
    predictions = inputs.read_all(files, columns, strict=strict, blocks=blocks, quiet=quiet)
    fitted = None if fit is None else inputs.read_all([fit], columns, strict=strict, blocks=blocks, quiet=quiet)[0]
    specs = gating.with_metrics(statistics, gates, {name for names in DEFAULTS.values() for name in names})
    gating.check_inputs(gates, (item.name for item in inputs_of(predictions, "check")))
    with progress_bar(quiet, inputs.rows_of(predictions)) as progress:
        evaluation = check(
            predictions, specs, draws=count, members=members, by=by or (), shift=shift, rule=rule,
            temperatures=temperatures, fit=fitted, seed=seed, threads=threads, progress=progress,
        )  # fmt: skip
    if strict:
        refuse_warnings(evaluation.warnings)
    gating.write_gated(evaluation, gates, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
