"""calibrant detect: how well a score tells outside rows from inside rows."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import completion, gating, inputs


@inputs.with_columns(inputs.CLASSES | inputs.NUMBERS)
def command(
    *,
    inside: Annotated[
        str, typer.Option("--inside", help="Predictions on rows of the known distribution.", metavar="FILE")
    ],
    outside: Annotated[
        list[str],
        typer.Option("--outside", help="Predictions on other rows; may be given several times.", metavar="FILE"),
    ],
    score: Annotated[
        list[str] | None,
        typer.Option(
            "--score",
            "-s",
            help="entropy, max_probability, energy or others, or a column; high is outside.",
            autocompletion=completion.uncertainties,
        ),
    ] = None,
    metrics: inputs.Metrics = None,
    units: inputs.Units = None,
    resamples: inputs.Resamples = 1000,
    level: inputs.Level = 0.95,
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
    """Judge a score of rows by how well it tells outside from inside: AUROC, AUPR, FPR95 and others, with intervals."""
    from calibrant.cli.output import check_format, check_outputs, refuse_warnings
    from calibrant.cli.terminal import progress_bar
    from calibrant.evaluation.detect import detect
    from calibrant.registry import default_specs

    form = check_format(form)
    check_outputs(json=json_path, html=html_path)
    gates = gating.parsed(fail_on, require, by=())
    known, *others = inputs.read_all([inside, *outside], columns, strict=strict, blocks=blocks, quiet=quiet)
    specs = gating.with_metrics(metrics, gates, [spec.text for spec in default_specs()])
    with progress_bar(quiet, inputs.rows_of([known, *others])) as progress:
        evaluation = detect(
            known, others, score, specs, units=units, level=level, resamples=resamples, seed=seed,
            threads=threads, progress=progress,
        )  # fmt: skip
    if strict:
        refuse_warnings(evaluation.warnings)
    gating.write_gated(evaluation, gates, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
