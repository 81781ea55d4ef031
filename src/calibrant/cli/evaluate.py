"""calibrant evaluate: metrics of prediction files, with intervals."""

from __future__ import annotations

from typing import Any

from calibrant.cli import gate_options, inputs, options

EXAMPLES = """\
calibrant evaluate predictions.npz
calibrant evaluate predictions.npz --metrics 'nll,ece(bins=10)' --by site
calibrant evaluate predictions.csv --labels truth --probs 'p_*' --html out.html
calibrant evaluate predictions.npz --fail-on 'ece > 0.05' --json evaluation.json
"""


@options.with_columns(options.CLASSIFICATION | options.REGRESSION | options.READING)
def command(
    *,
    files: options.Files,
    metrics: options.Metrics = None,
    by: options.By = None,
    compare_by: options.CompareBy = None,
    select: options.Select = None,
    shift: options.Shift = False,
    over: options.Over = "mean",
    hierarchy: options.Hierarchy = False,
    ladder: options.Ladder = False,
    sizes: options.Sizes = False,
    at: options.At = None,
    repeats: options.Repeats = None,
    pairs: options.Pairs = False,
    rows: options.WorstRows = 100,
    along: options.Along = None,
    level: options.Level = 0.95,
    resamples: options.Resamples = 1000,
    units: options.Units = None,
    relevant_error: options.RelevantError = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    soft: options.Soft = False,
    strict: options.Strict = False,
    blocks: options.Blocks = False,
    hashed: options.Hash = False,
    columns: options.Columns,
    fail_on: options.FailOn = None,
    require: options.Require = None,
    json_path: options.JsonPath = None,
    html_path: options.HtmlPath = None,
    form: options.Format = "table",
    quiet: options.Quiet = False,
) -> None:
    """Compute metrics, with confidence intervals.

    Computes about ten main metrics with confidence intervals and, for calibration errors, the range that a perfectly
    calibrated model would score on as many rows. `--metrics report` and `--metrics all` compute more.
    """
    from calibrant.cli.output import check_format, check_outputs, progress_bar, strict_end, write_outputs
    from calibrant.pipeline.evaluate import EvaluateOptions, inputs_of, run_evaluation
    from calibrant.predictions.files.stream import Stream
    from calibrant.results.error_hierarchy import SPECS

    form = check_format(form)
    at_sizes = inputs.parse_sizes(sizes, at)
    check_outputs(json=json_path, html=html_path)
    gates = gate_options.parse_gate_options(fail_on, require, by=by or ()) if fail_on or require else []
    if compare_by is None:
        inputs.check_select(select)
        predictions = inputs.read_all(files, columns, strict=False, blocks=blocks, soft_labels=soft, quiet=quiet)
    else:
        models = inputs.read_models_by(files, columns, compare_by, units=units, select=select)
        predictions = list(models.values())
    units = inputs.default_units(units, predictions)
    if hashed:
        predictions = [item.with_sha256() if isinstance(item, Stream) else item for item in predictions]
    hierarchy = hierarchy or ladder
    specs: str | list[str] | None = None if metrics is None else ",".join(metrics)
    if gates and hierarchy and not metrics:
        specs = [gate.spec for gate in gates if gate.spec is not None and gate.spec not in SPECS] or None
    elif gates:
        specs = gate_options.add_gate_metrics(metrics, gates)
    if gates:
        gate_options.check_gate_inputs(gates, (item.name for item in inputs_of(predictions)))
    with progress_bar(quiet, inputs.count_rows(predictions)) as progress:
        settings = EvaluateOptions(
            by=by or (), units=units, shift=shift, over=over, hierarchy=hierarchy, sizes=at_sizes, repeats=repeats,
            pairs=pairs, level=level, resamples=resamples, seed=seed, threads=threads, along=along, worst_rows=rows,
            relevant_error=relevant_error, always_judge=bool(gates) and gate_options.judge_calibration(gates),
            stored=bool(json_path or html_path) or form == "json", progress=progress,
            preview=None if progress is None else progress.show_values,
        )  # fmt: skip
        evaluation = run_evaluation(predictions, specs, settings)
    outputs: dict[str, Any] = {"form": form, "json_path": json_path, "html_path": html_path, "quiet": quiet}
    with strict_end(strict, evaluation.warnings, evaluation):
        if gates:
            gate_options.write_gated(evaluation, gates, **outputs)
        else:
            write_outputs(evaluation, **outputs)
