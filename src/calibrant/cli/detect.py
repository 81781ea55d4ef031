"""calibrant detect: how well a score tells outside rows from inside rows."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import inputs


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
        typer.Option("--score", "-s", help="entropy, max_probability, energy or others, or a column; high is outside."),
    ] = None,
    metrics: inputs.Metrics = None,
    units: inputs.Units = None,
    resamples: inputs.Resamples = 1000,
    level: inputs.Level = 0.95,
    seed: inputs.Seed = 0,
    threads: inputs.Threads = None,
    columns: inputs.Columns,
    json_path: inputs.JsonPath = None,
    html_path: inputs.HtmlPath = None,
    form: inputs.Format = "table",
    strict: inputs.Strict = False,
    blocks: inputs.Blocks = False,
    quiet: inputs.Quiet = False,
) -> None:
    """Judge a score of rows by how well it tells outside from inside: AUROC, AUPR, FPR95 and others, with intervals."""
    from calibrant.cli.output import check_format, check_outputs, progress_bar, refuse_warnings, write_outputs
    from calibrant.evaluation.detect import detect

    form = check_format(form)
    check_outputs(json=json_path, html=html_path)
    known, *others = inputs.read_all([inside, *outside], columns, strict=strict, blocks=blocks)
    specs = ",".join(metrics) if metrics else None
    with progress_bar(quiet) as progress:
        evaluation = detect(
            known, others, score, specs, units=units, level=level, resamples=resamples, seed=seed,
            threads=threads, progress=progress,
        )  # fmt: skip
    if strict:
        refuse_warnings(evaluation.warnings)
    write_outputs(evaluation, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
