"""calibrant evaluate: the metrics of prediction files, with intervals."""

from __future__ import annotations

from calibrant.cli import inputs


@inputs.with_columns(inputs.CLASSES | inputs.NUMBERS)
def command(
    *,
    files: inputs.Files,
    metrics: inputs.Metrics = None,
    by: inputs.By = None,
    units: inputs.Units = None,
    shift: inputs.Shift = False,
    over: inputs.Over = "mean",
    ladder: inputs.Ladder = False,
    sizes: inputs.Sizes = False,
    at: inputs.At = None,
    repeats: inputs.Repeats = None,
    pairs: inputs.Pairs = False,
    soft: inputs.Soft = False,
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
    hashed: inputs.Hash = False,
    quiet: inputs.Quiet = False,
) -> None:
    """Judge predictions: every metric that applies, with its interval and what a calibrated model would give."""
    from calibrant.cli.output import check_format, check_outputs, progress_bar, refuse_warnings, write_outputs
    from calibrant.evaluation.evaluate import evaluate

    form = check_format(form)
    rows = inputs.sizes_of(sizes, at)
    check_outputs(json=json_path, html=html_path)
    predictions = inputs.read_all(files, columns, strict=strict, blocks=blocks, soft_labels=soft)
    if hashed:
        predictions = [inputs.hashed(p) for p in predictions]
    specs = ",".join(metrics) if metrics else None
    with progress_bar(quiet) as progress:
        evaluation = evaluate(
            predictions, specs, by=by or (), units=units, shift=shift, over=over, ladder=ladder, sizes=rows,
            repeats=repeats, pairs=pairs, level=level, resamples=resamples, seed=seed, threads=threads,
            progress=progress,
        )  # fmt: skip
    if strict:
        refuse_warnings(evaluation.warnings)
    write_outputs(evaluation, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
