"""calibrant detect: how well a score separates OOD rows from in-distribution rows."""

from __future__ import annotations

from typing import Annotated

from calibrant.cli import completion, gate_options, inputs, options
from calibrant.cli.options import option

EXAMPLES = """\
calibrant detect --inside test.npz --outside svhn.npz --score entropy
calibrant detect --inside test.npz --outside svhn.npz --outside noise.npz -m auroc,fpr95
"""


@options.with_columns(options.CLASSIFICATION | options.REGRESSION)
def command(
    *,
    inside: Annotated[str, option("--inside", "In-distribution predictions.", "FILE")],
    outside: Annotated[list[str], option("--outside", "Out-of-distribution predictions. Repeatable.", "FILE")],
    score: Annotated[
        list[str] | None,
        option(
            "--score -s",
            "Score or column that is high for OOD rows, such as entropy or energy.",
            "SCORE",
            completion.uncertainties,
        ),
    ] = None,
    metrics: options.DetectMetrics = None,
    level: options.Level = 0.95,
    resamples: options.Resamples = 1000,
    units: options.Units = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    strict: options.Strict = False,
    blocks: options.Blocks = False,
    columns: options.Columns,
    fail_on: options.DetectFailOn = None,
    require: options.DetectRequire = None,
    json_path: options.JsonPath = None,
    html_path: options.HtmlPath = None,
    form: options.Format = "table",
    quiet: options.Quiet = False,
) -> None:
    """Measure how well a score detects OOD inputs.

    Computes AUROC, AUPR, FPR at 95% TPR and others, with confidence intervals, from in-distribution and
    out-of-distribution predictions of the same model.
    """
    from calibrant.cli.output import check_format, check_outputs, progress_bar, strict_end
    from calibrant.pipeline.ood import detect
    from calibrant.registry.lookup import with_role

    form = check_format(form)
    check_outputs(json=json_path, html=html_path)
    gates = gate_options.parse_gate_options(fail_on, require, by=())
    known, *others = inputs.read_all([inside, *outside], columns, strict=False, blocks=blocks, quiet=quiet)
    specs = gate_options.add_gate_metrics(metrics, gates, with_role("default", "detection"))
    with progress_bar(quiet, inputs.count_rows([known, *others])) as progress:
        evaluation = detect(
            known, others, score, specs, units=units, level=level, resamples=resamples, seed=seed,
            threads=threads, progress=progress,
        )  # fmt: skip
    with strict_end(strict, evaluation.warnings, evaluation):
        gate_options.write_gated(evaluation, gates, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
