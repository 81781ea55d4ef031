"""calibrant compare: models on the same rows, without fooling oneself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from calibrant.cli import completion, gating, inputs

Models = Annotated[
    list[str],
    typer.Argument(
        help="Models as NAME=FILE, or DATASET/NAME=FILE; FILE alone is named after itself.", metavar="NAME=FILE"
    ),
]
Scores = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        "-s",
        help="Scores, as in 'cll,nll,brier'; cll and brier_ts are at the best temperature.",
        autocompletion=completion.scores,
    ),
]
RankBy = Annotated[
    str | None,
    typer.Option("--rank-by", help="The score that ranks; cll, of numbers nll.", autocompletion=completion.rank_by),
]
Baseline = Annotated[str | None, typer.Option("--baseline", help="Compare every model with this one only.")]
Pool = Annotated[
    str | None,
    typer.Option("--pool", help="Independently trained members, by NAME or FILE: count equivalents in them (DEE)."),
]
ByMember = Annotated[bool, typer.Option("--by-member", help="Every member of every file is a model too.")]
Temperature = Annotated[
    str,
    typer.Option(
        "--temperature",
        help="same: of the scored rows, cross-fitted; clean: of other rows.",
        autocompletion=completion.temperatures,
    ),
]
Clean = Annotated[
    list[str] | None,
    typer.Option("--clean", help="Clean rows of a model, for --temperature clean or --shift; else those of severity 0.",
                 metavar="NAME=FILE"),
]  # fmt: skip
Repeats = Annotated[int, typer.Option("--repeats", help="How often rows are split in halves.")]
Draws = Annotated[int, typer.Option("--draws", help="Random orders of the members of the pool.")]
Shift = Annotated[
    bool, typer.Option("--shift", help="Calibrated likelihood by severity, at the temperature of clean and same rows.")
]
Flips = Annotated[bool, typer.Option("--flips", help="Show how ranks by TACE change with its bins and threshold.")]
Resamples = Annotated[int, typer.Option("--resamples", help="Replicates of the bootstrap and of flipped signs.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with code 1 where a pitfall or anything else is noted.")]


@inputs.with_columns(inputs.CLASSES | inputs.NUMBERS)
def command(
    *,
    models: Models,
    scores: Scores = None,
    rank_by: RankBy = None,
    baseline: Baseline = None,
    pool: Pool = None,
    by_member: ByMember = False,
    temperature: Temperature = "same",
    clean: Clean = None,
    repeats: Repeats = 5,
    draws: Draws = 10,
    units: inputs.Units = None,
    shift: Shift = False,
    flips: Flips = False,
    level: inputs.Level = 0.95,
    resamples: Resamples = 2000,
    seed: inputs.Seed = 0,
    threads: inputs.Threads = None,
    columns: inputs.Columns,
    json_path: inputs.JsonPath = None,
    html_path: inputs.HtmlPath = None,
    fail_on: gating.FailOn = None,
    require: gating.Require = None,
    form: inputs.Format = "table",
    strict: Strict = False,
    quiet: inputs.Quiet = False,
) -> None:
    """Compare models on the same rows: ranks by calibrated likelihood, paired differences, equivalents, pitfalls."""
    from calibrant.cli.output import check_format, check_outputs
    from calibrant.cli.terminal import progress_bar
    from calibrant.evaluation.compare import compare

    form = check_format(form)
    gates = gating.parsed(fail_on, require, of=("Threshold", "Versus", "Best"))
    check_outputs(json=json_path, html=html_path)
    wanted = _scores(scores, gates, pool)
    arrays = _arrays([*models, *(clean or []), *([] if pool is None else [pool])])
    given = named_files(models, columns, arrays, by_member, quiet)
    how: dict[str, Any] = {
        "rank_by": rank_by, "baseline": baseline, "temperature": temperature, "repeats": repeats, "draws": draws,
        "units": units, "shift": shift, "flips": flips, "level": level, "resamples": resamples, "seed": seed,
        "threads": threads,
    }  # fmt: skip
    how["pool"] = _pool(pool, given, columns, arrays)
    how["clean"] = named_files(clean, columns, arrays, by_member, quiet) if clean else None
    with progress_bar(quiet, _rows(given)) as progress:
        evaluation = compare(given, wanted, progress=progress, **how)
    gating.write_gated(evaluation, gates, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
    if strict and evaluation.warnings:
        codes = ", ".join(dict.fromkeys(note.code for note in evaluation.warnings))
        typer.echo(f"calibrant: --strict: noticed {codes}", err=True)
        raise typer.Exit(1)


def _rows(given: dict[str, Any]) -> int:
    """How many rows all models have together."""
    sets = [item if isinstance(item, dict) else {"": item} for item in given.values()]
    return inputs.rows_of(model for models in sets for model in models.values())


def _scores(named: list[str] | None, gates: list[Any], pool: str | None) -> list[str] | None:
    """The scores that were named, and those that gates speak of; None for the usual ones."""
    from calibrant.errors import UsageError

    asked = [gate.spec for gate in gates if gate.spec is not None]
    if "dee" in asked and pool is None:
        came, do = "got none", "name the members that equivalents are counted in"
        raise UsageError("gate of dee", expected="a --pool beside it", came=came, do=do)
    more = [spec for spec in asked if spec != "dee"]
    if named is None:
        return ["default", *more] if more else None
    return [*named, *more]


Arrays = dict[Path, frozenset[str]]
"""By file the arrays that some argument names: what one model reads is nothing odd to the others."""


def _arrays(arguments: list[str]) -> Arrays:
    from calibrant.predictions.files.shards import Source

    out: Arrays = {}
    for argument in arguments:
        source = Source.parse(parts_of(argument)[2])
        path = source.path.resolve()
        out[path] = out.get(path, frozenset()) | frozenset(source.rename.values())
    return out


def named_files(
    arguments: list[str], columns: Any, arrays: Arrays, by_member: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """What NAME=FILE and DATASET/NAME=FILE name: models by name, by data set where there are several.

    Members that are called as another model of their data set have the name of their file before their own.
    """
    from calibrant.errors import UsageError, show

    read = []
    for argument in arguments:
        dataset, name, file = parts_of(argument)
        read.append((dataset, *_read(name, file, columns, arrays, by_member, quiet)))
    again = _given_twice([(dataset, [item.name, *members]) for dataset, item, members in read])
    found: dict[str, dict[str, Any]] = {}
    for dataset, item, members in read:
        called = {f"{item.name}/{name}" if name in again else name: member for name, member in members.items()}
        for key, model in ((item.name, item), *called.items()):
            if key in found.setdefault(dataset, {}):
                came, do = f"two are called {show(key)}", "write NAME=FILE, no name twice"
                raise UsageError("compare", expected="a name for each model", came=came, do=do)
            found[dataset][key] = model.named(key)
    if "" in found and len(found) > 1:
        came = "some have one and some have none"
        raise UsageError("compare", expected="a data set for every model, or for none", came=came,
                         do="write DATASET/NAME=FILE for all")  # fmt: skip
    return found.get("", found)


def _given_twice(names: list[tuple[str, list[str]]]) -> set[str]:
    """The names that two models of one data set have, or a model and a member."""
    from collections import Counter

    counts = Counter((dataset, name) for dataset, own in names for name in own)
    return {name for (_, name), count in counts.items() if count > 1}


def parts_of(argument: str) -> tuple[str, str, str]:
    """Data set, name and file; a path that exists is a file, whatever signs it has."""
    before = argument.partition("::")[0]
    name, sign, rest = argument.partition("=")
    if not sign or "::" in name or Path(before).exists():
        return "", "", argument
    dataset, _, model = name.rpartition("/")
    return dataset.strip(), model.strip(), rest


def _read(
    name: str, file: str, columns: Any, arrays: Arrays, by_member: bool, quiet: bool
) -> tuple[Any, dict[str, Any]]:
    """The model of a file, and its members by name where they are models too."""
    from calibrant.predictions.files.shards import Source
    from calibrant.predictions.files.stream import Stream

    elsewhere = arrays.get(Source.parse(file).path.resolve(), frozenset())
    (item,) = inputs.read_all([file], columns, strict=False, quiet=quiet, elsewhere=elsewhere)
    item = item.read() if isinstance(item, Stream) else item
    item = item.named(name) if name else item
    if not by_member or item.members < 2:
        return item, {}
    names = getattr(item, "member_names", None) or [f"{item.name}[{k}]" for k in range(item.members)]
    return item, {member: item.member(k) for k, member in enumerate(names)}


def _pool(pool: str | None, given: dict[str, Any], columns: Any, arrays: Arrays) -> Any:
    """The name of a model, or predictions of a file."""
    if pool is None or pool in given or any(isinstance(value, dict) for value in given.values()):
        return pool
    if "=" in pool or Path(pool.partition("::")[0]).exists():
        (item,) = named_files([pool], columns, arrays).values()
        return item
    return pool
