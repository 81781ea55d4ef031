"""calibrant check: posterior predictive checks."""

from __future__ import annotations

from typing import Annotated

from calibrant.cli import completion, gate_options, inputs, options
from calibrant.cli.options import option

EXAMPLES = """\
calibrant check predictions.npz
calibrant check predictions.npz --statistics 'accuracy,ece(bins=10)' --draws exact
calibrant check predictions.npz --by predicted --temperatures 0.2
"""
Statistics = Annotated[
    list[str] | None,
    option(
        "--statistics -s",
        "Metrics and label statistics, such as 'accuracy,ece(bins=10),entropy'.",
        "STATISTICS",
        completion.statistics,
    ),
]
Draws = Annotated[
    str, option("--draws", "Number of simulated data sets; 'exact' computes distributions instead.", "N|exact")
]
Members = Annotated[
    str,
    option(
        "--members", "Draw a member once (bayesian), for each row (independent), or both.", "HOW", completion.members
    ),
]
By = Annotated[
    list[str] | None,
    option(
        "--by", "Check groups by column, COLUMN:BINS (numeric) or 'predicted' (class).", "COLUMN", completion.columns
    ),
]
Shift = Annotated[bool, option("--shift", "Count passes by severity, from the columns shift and severity.")]
Rule = Annotated[
    str,
    option(
        "--rule", "Pass unless significant at 2% (interval), or within all replicates (range).", "RULE",
        completion.rules,
    ),
]  # fmt: skip
Of = Annotated[
    str | None, option("--of", "Class whose share and error are checked too.  [default: class 1 if binary]", "CLASS")
]
Temperatures = Annotated[
    float | None,
    option("--temperatures", "Fit a temperature per member on this share of rows; check the others.", "SHARE"),
]
Fit = Annotated[str | None, option("--fit", "With --temperatures: fit on the first rows of this file instead.", "FILE")]


@options.with_columns(options.CLASSIFICATION | options.REGRESSION | options.READING)
def command(
    *,
    files: options.Files,
    statistics: Statistics = None,
    draws: Draws = "1000",
    members: Members = "both",
    by: By = None,
    shift: Shift = False,
    rule: Rule = "interval",
    of: Of = None,
    relevant_error: options.RelevantError = None,
    temperatures: Temperatures = None,
    fit: Fit = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    strict: options.Strict = False,
    blocks: options.Blocks = False,
    columns: options.Columns,
    fail_on: options.CheckFailOn = None,
    require: options.CheckRequire = None,
    json_path: options.JsonPath = None,
    html_path: options.HtmlPath = None,
    form: options.Format = "table",
    quiet: options.Quiet = False,
) -> None:
    """Run posterior predictive checks.

    Simulates labels from the predictions, and tests whether metrics of the observed labels are plausible among those
    of the simulated ones. An ensemble can pass with a calibration error, and fail without one.
    """
    from calibrant.checks.api import check
    from calibrant.cli.output import check_format, check_outputs, progress_bar, strict_end
    from calibrant.pipeline.evaluate import inputs_of
    from calibrant.registry.lookup import with_role

    form = check_format(form)
    count = inputs.parse_draws(draws)
    check_outputs(json=json_path, html=html_path)
    gates = gate_options.parse_gate_options(
        fail_on, require, kinds=("Threshold", "CheckOutcome", "VerdictIs"), by=by or ()
    )
    predictions = inputs.read_all(files, columns, strict=False, blocks=blocks, quiet=quiet)
    fitted = None if fit is None else inputs.read_all([fit], columns, strict=False, blocks=blocks, quiet=quiet)[0]
    specs = gate_options.add_gate_metrics(statistics, gates, set(with_role("check")))
    gate_options.check_gate_inputs(gates, (item.name for item in inputs_of(predictions, "check")))
    with progress_bar(quiet, inputs.count_rows(predictions)) as progress:
        evaluation = check(
            predictions, specs, draws=count, members=members, by=by or (), shift=shift, rule=rule,
            of=of, relevant_error=relevant_error, temperatures=temperatures, fit=fitted, seed=seed, threads=threads,
            progress=progress,
        )  # fmt: skip
    with strict_end(strict, evaluation.warnings, evaluation):
        gate_options.write_gated(evaluation, gates, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
