"""calibrant evaluate: the metrics of prediction files, with intervals."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import inputs


def command(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Prediction files; FILE::logits=NAME,labels=NAME,member=K renames keys.",
            metavar="FILE",
        ),
    ],
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", "-m", help="Metrics, as in 'nll,ece(bins=10)', or 'all'."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help="Slice by a column; COLUMN:BINS cuts numbers into ranges."),
    ] = None,
    units: Annotated[
        str | None,
        typer.Option("--units", help="Column of dependent rows (patient, prompt): intervals by unit."),
    ] = None,
    soft: Annotated[bool, typer.Option("--soft", help="Score against label_probs instead of labels.")] = False,
    resamples: Annotated[int, typer.Option("--resamples", help="Replicates of resampled intervals and bands.")] = 1000,
    level: Annotated[float, typer.Option("--level", help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option("--seed", help="Seed of everything random.")] = 0,
    threads: Annotated[int | None, typer.Option("--threads", help="Threads; all by default.")] = None,
    labels: inputs.Labels = None,
    probs: inputs.Probs = None,
    logits: inputs.Logits = None,
    log_probs: inputs.LogProbs = None,
    prob: inputs.Prob = None,
    confidence: inputs.Confidence = None,
    correct: inputs.Correct = None,
    y: inputs.Y = None,
    mean: inputs.Mean = None,
    std: inputs.Std = None,
    var: inputs.Var = None,
    samples: inputs.Samples = None,
    quantiles: inputs.Quantiles = None,
    json_path: Annotated[
        str | None,
        typer.Option("--json", help="Write the evaluation as JSON; '-' prints it.", metavar="OUT|-"),
    ] = None,
    html_path: Annotated[str | None, typer.Option("--html", help="Write a page.", metavar="OUT")] = None,
    form: Annotated[str, typer.Option("--format", help="table, json, csv, markdown or latex.")] = "table",
    strict: inputs.Strict = False,
    blocks: inputs.Blocks = False,
    hashed: inputs.Hash = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Judge predictions: every metric that applies, with its interval and what a calibrated model would give."""
    from calibrant.cli.output import check_format, progress_bar, refuse_warnings, write_outputs
    from calibrant.evaluation.evaluate import evaluate
    from calibrant.predictions import Classification
    from calibrant.predictions.files.stream import Stream

    form = check_format(form)
    predictions = inputs.read_all(
        files,
        {
            "labels": labels, "probs": probs, "logits": logits, "log_probs": log_probs, "prob": prob,
            "confidence": confidence, "correct": correct, "y": y, "mean": mean, "std": std, "var": var,
            "samples": samples, "quantiles": quantiles,
        },
        strict=strict,
        blocks=blocks,
    )  # fmt: skip
    if soft:
        predictions = [p.with_soft_labels() if isinstance(p, Classification | Stream) else p for p in predictions]
    if hashed:
        predictions = [p.fingerprinted() if isinstance(p, Stream) else p for p in predictions]
    with progress_bar(quiet) as progress:
        evaluation = evaluate(
            predictions, metrics, by=by or (), units=units, level=level, resamples=resamples, seed=seed,
            threads=threads, progress=progress,
        )  # fmt: skip
    if strict:
        refuse_warnings(evaluation)
    write_outputs(evaluation, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
