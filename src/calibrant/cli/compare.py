"""calibrant compare: rank models on the same rows, with paired tests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from calibrant.cli import completion, gate_options, inputs, options
from calibrant.cli.options import argument, option

EXAMPLES = """\
calibrant compare old=old.npz new=new.npz
calibrant compare old=old.npz new=new.npz --baseline old --scores cll,nll,brier
calibrant compare answers.csv --compare-by model --units question
calibrant compare cifar/a=a1.npz cifar/b=b1.npz svhn/a=a2.npz svhn/b=b2.npz
"""
Models = Annotated[
    list[str], argument("Models as NAME=FILE, or DATASET/NAME=FILE; a FILE alone is named after itself.", "NAME=FILE")
]
Scores = Annotated[
    list[str] | None,
    option(
        "--scores -s",
        "Scores, such as 'cll,nll,brier'; cll, brier_ts: at optimal temperature.",
        "SCORES",
        completion.scores,
    ),
]
RankBy = Annotated[
    str | None,
    option("--rank-by", "Rank models by this score.  [default: cll; nll for regression]", "SCORE", completion.rank_by),
]
Baseline = Annotated[str | None, option("--baseline", "Compare every model with this one only.", "NAME")]
Pool = Annotated[
    str | None, option("--pool", "Show how many of these independent members a model is worth (DEE).", "NAME|FILE")
]
ByMember = Annotated[bool, option("--by-member", "Compare every member of every file too.")]
Temperature = Annotated[
    str,
    option(
        "--temperature",
        "Fit temperatures on the same rows (cross-fitted), or on clean ones.",
        "ROWS",
        completion.temperatures,
    ),
]
Clean = Annotated[
    list[str] | None, option("--clean", "Clean rows of a model.  [default: its rows of severity 0]", "NAME=FILE")
]
Repeats = Annotated[int, option("--repeats", "Random splits into halves for cross-fitting.", "N")]
Draws = Annotated[int, option("--draws", "With --pool: random orders of its members.", "N")]
Shift = Annotated[bool, option("--shift", "Show CLL by severity, at the temperature of clean and of shifted rows.")]
Flips = Annotated[bool, option("--flips", "Show how ranks by TACE change with its bins and threshold.")]
Resamples = Annotated[
    int, option("--resamples", "Replicates of the bootstrap and the sign-flip test.", "N", panel=options.INTERVALS)
]


@options.with_columns(options.CLASSIFICATION | options.REGRESSION | options.READING)
def command(
    *,
    models: Models,
    scores: Scores = None,
    rank_by: RankBy = None,
    baseline: Baseline = None,
    pool: Pool = None,
    by_member: ByMember = False,
    compare_by: options.CompareBy = None,
    select: options.Select = None,
    temperature: Temperature = "same",
    clean: Clean = None,
    repeats: Repeats = 5,
    draws: Draws = 10,
    shift: Shift = False,
    flips: Flips = False,
    level: options.Level = 0.95,
    resamples: Resamples = 2000,
    units: options.Units = None,
    relevant_error: options.RelevantError = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    strict: options.Strict = False,
    columns: options.Columns,
    fail_on: options.CompareFailOn = None,
    require: options.CompareRequire = None,
    json_path: options.JsonPath = None,
    html_path: options.HtmlPath = None,
    form: options.Format = "table",
    quiet: options.Quiet = False,
) -> None:
    """Rank models on the same rows and test their differences.

    Ranks models by calibrated log-likelihood, tests paired differences, and warns about pitfalls of the comparison.
    Rows are matched by the column ids where there is one.
    """
    from calibrant.cli.output import check_format, check_outputs, progress_bar, strict_end
    from calibrant.comparison.api import compare
    from calibrant.errors import UsageError

    form = check_format(form)
    gates = gate_options.parse_gate_options(fail_on, require, kinds=("Threshold", "VerdictIs", "Versus", "BestModel"))
    check_outputs(json=json_path, html=html_path)
    needed = [gate.spec for gate in gates if gate.spec is not None]
    if "dee" in needed and pool is None:
        hint = "add --pool FILE with independently trained members"
        raise UsageError("gate on dee", expected="--pool", got="none", hint=hint)
    needed = [spec for spec in needed if spec != "dee"]
    specs = [*scores, *needed] if scores is not None else ["default", *needed] if needed else None
    arrays = inputs.selected_arrays([*models, *(clean or []), *([] if pool is None else [pool])])
    if compare_by is None:
        inputs.check_select(select)
        compared = inputs.read_models(models, columns, arrays, by_member, quiet)
    else:
        compared = inputs.read_models_by(models, columns, compare_by, units=units, select=select)
        inputs.check_matched(compared, compare_by)
    members: Any = pool
    several_sets = any(isinstance(value, dict) for value in compared.values())
    is_file = pool is not None and ("=" in pool or Path(pool.partition("::")[0]).exists())
    if pool is not None and is_file and pool not in compared and not several_sets:
        (members,) = inputs.read_models([pool], columns, arrays).values()
    clean_rows = inputs.read_models(clean, columns, arrays, by_member, quiet) if clean else None
    sets = list(compared.values()) if several_sets else [compared]
    units = inputs.default_units(units, [model for item in sets for model in item.values()])
    with progress_bar(quiet, inputs.count_rows(model for item in sets for model in item.values())) as progress:
        evaluation = compare(
            compared, specs, rank_by=rank_by, baseline=baseline, pool=members, temperature=temperature,
            clean=clean_rows, repeats=repeats, draws=draws, units=units, shift=shift, flips=flips, level=level,
            resamples=resamples, relevant_error=relevant_error, seed=seed, threads=threads, progress=progress,
        )  # fmt: skip
    with strict_end(strict, evaluation.warnings):
        gate_options.write_gated(evaluation, gates, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
