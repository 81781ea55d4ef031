"""calibrant evaluate: the metrics of prediction files, with intervals."""

from __future__ import annotations

from typing import Any

from calibrant.cli import gating, inputs


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
    rows: inputs.WorstRows = 100,
    along: inputs.Along = None,
    soft: inputs.Soft = False,
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
    hashed: inputs.Hash = False,
    quiet: inputs.Quiet = False,
) -> None:
    """Judge predictions: every metric that applies, with its interval and what a calibrated model would give."""
    from calibrant.cli.output import check_format, check_outputs, refuse_warnings
    from calibrant.cli.terminal import progress_bar
    from calibrant.evaluation.evaluate import evaluate, inputs_of

    form = check_format(form)
    at_sizes = inputs.sizes_of(sizes, at)
    check_outputs(json=json_path, html=html_path)
    gates = gating.parsed(fail_on, require, by=by or ())
    predictions = inputs.read_all(files, columns, strict=strict, blocks=blocks, soft_labels=soft, quiet=quiet)
    if hashed:
        predictions = [inputs.hashed(p) for p in predictions]
    specs = _specs(metrics, gates, ladder)
    gating.check_inputs(gates, (item.name for item in inputs_of(predictions)))
    with progress_bar(quiet, inputs.rows_of(predictions)) as progress:
        evaluation = evaluate(
            predictions, specs, by=by or (), units=units, shift=shift, over=over, ladder=ladder, sizes=at_sizes,
            repeats=repeats, pairs=pairs, level=level, resamples=resamples, seed=seed, threads=threads,
            along=along, rows=rows, progress=progress,
        )  # fmt: skip
    if strict:
        refuse_warnings(evaluation.warnings)
    gating.write_gated(evaluation, gates, form=form, json_path=json_path, html_path=html_path, quiet=quiet)


def _specs(metrics: list[str] | None, gates: list[Any], ladder: bool) -> str | list[str] | None:
    """The metrics that were named, or those of the ladder, or all that run by default; and those of gates."""
    from calibrant.evaluation.ladder import SPECS
    from calibrant.registry import default_specs

    if ladder and not metrics:
        return [gate.spec for gate in gates if gate.spec not in SPECS] or None
    return gating.with_metrics(metrics, gates, [spec.text for spec in default_specs()])
