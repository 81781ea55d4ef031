"""Reading the files that the arguments of a command name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import UsageError, error_context, parse_count, show

if TYPE_CHECKING:
    from calibrant.cli.options import Columns
    from calibrant.predictions import InMemory
    from calibrant.predictions.files.stream import Stream

MAX_BYTES_IN_MEMORY = 1 << 28
"""Larger inputs are streamed."""
Arrays = dict[Path, frozenset[str]]
"""By file, the arrays that any argument selects: what one model reads is no stray array to the others."""


def parse_sizes(sizes: bool, at: str | None) -> bool | list[int]:
    """Combine --sizes and --at: off, automatic sizes, or a list of them."""
    if at is None:
        return sizes
    counts = [count for part in at.split(",") if (count := parse_count(part.strip())) is not None]
    if len(counts) < at.count(",") + 1:
        hint = "for example --at 100,1000"
        raise UsageError("--at", expected="integers separated by commas", got=show(at), hint=hint)
    return counts


def parse_draws(text: str) -> int | str:
    """Parse --draws: a number, or 'exact'."""
    count = parse_count(text.strip())
    if count is None and text.strip() != "exact":
        hint = "for example --draws 1000"
        raise UsageError("--draws", expected="an integer from 1, or 'exact'", got=show(text), hint=hint)
    return "exact" if count is None else count


def read_all(
    files: list[str],
    columns: Columns,
    *,
    strict: bool,
    blocks: bool = False,
    soft_labels: bool = False,
    quiet: bool = False,
    elsewhere: frozenset[str] = frozenset(),
) -> list[InMemory | Stream]:
    """Read every input into memory; large ones, or all with `blocks`, are left in their files as streams.

    elsewhere: arrays of these files that other inputs read, so that no note says they are ignored.
    """
    from calibrant.cli.output import progress_bar
    from calibrant.predictions import Classification
    from calibrant.predictions.files.read import read_source
    from calibrant.predictions.files.sources import TEXT, Source, list_shards
    from calibrant.predictions.files.stream import Stream, scan_source
    from calibrant.predictions.files.tables import ColumnOptions
    from calibrant.predictions.logs.read import find_log

    options = ColumnOptions.of(columns)
    out: list[InMemory | Stream] = []
    with progress_bar(quiet) as progress:
        for place, file in enumerate(files):
            if progress is not None:
                progress(f"reading {file}", place, len(files))
            source = replace(Source.parse(file), elsewhere=elsewhere)
            log = find_log(source.path)
            paths = [source.path] if log is not None else list_shards(source.path)
            item: InMemory | Stream
            if (
                log is not None
                or options.vote_share is not None
                or (
                    not blocks
                    and paths[0].suffix.lower() in TEXT
                    and sum(path.stat().st_size for path in paths if path.exists()) <= MAX_BYTES_IN_MEMORY
                )
            ):
                item = read_source(source, options, strict=strict)
            else:
                item = scan_source(source, options, strict=strict)
                if not blocks and item.nbytes <= MAX_BYTES_IN_MEMORY:
                    item = read_source(source, options, strict=strict)
            if soft_labels and isinstance(item, Classification | Stream):
                with error_context(item.name):
                    item = item.with_soft_labels()
            out.append(item)
    return out


def read_models_by(
    files: list[str], columns: Columns, by: str, *, units: str | None, select: str | None, strict: bool = False
) -> dict[str, Any]:
    """Read the models of one file, which the column `by` names."""
    from calibrant.predictions.files.several_models import read_models_of
    from calibrant.predictions.files.sources import Source
    from calibrant.predictions.files.tables import ColumnOptions

    if len(files) != 1:
        hint = "leave --compare-by out to use one file per model"
        raise UsageError("--compare-by", expected="one file with several models", got=f"{len(files)} files", hint=hint)
    names = [name.strip() for name in (select or "").split(",") if name.strip()]
    source = Source.parse(split_name(files[0])[2])
    return dict(read_models_of(source, ColumnOptions.of(columns), by, units=units, select=names, strict=strict))


def check_matched(models: dict[str, Any], by: str) -> None:
    """Refuse to compare graded answers of one file that no id matches between its models."""
    first = next(iter(models.values()))
    if first.task == "judged" and first.info.ids is None:
        columns = ", ".join(show(name) for name in first.columns if name != by) or "none in the file"
        hint = f"add --units COLUMN, the column of questions: {columns}"
        raise UsageError("--compare-by", expected="ids that match rows between models", got="none", hint=hint)


def check_select(select: str | None) -> None:
    """Refuse --select without the option that it belongs to."""
    if select is not None:
        hint = "add --compare-by COLUMN, the column that names the models"
        raise UsageError("--select", expected="--compare-by with it", got="it alone", hint=hint)


def read_in_memory(file: str, columns: Columns, *, strict: bool = False, quiet: bool = False, **settings: Any) -> Any:
    """Read one input into memory, whatever its size."""
    from calibrant.predictions.files.stream import Stream

    (item,) = read_all([file], columns, strict=strict, quiet=quiet, **settings)
    return item.read() if isinstance(item, Stream) else item


def default_units(units: str | None, predictions: Iterable[Any]) -> str | None:
    """The column of dependent rows: the named one, or that of the samples of logs with several epochs."""
    logs = [item.example.info.meta.get("log", {}) for item in predictions]
    return units or next((log["units"] for log in logs if log.get("units")), None)


def count_rows(predictions: Iterable[Any]) -> int:
    """Count the rows of all inputs together, for the progress bar."""
    return sum(int(item.n) for item in predictions if item is not None)


# ------------------------------------------------------------------------------------------ NAME=FILE
def split_name(argument: str) -> tuple[str, str, str]:
    """Split DATASET/NAME=FILE into its parts; an existing path is a file, whatever characters it has."""
    before = argument.partition("::")[0]
    name, sign, rest = argument.partition("=")
    if not sign or "::" in name or Path(before).exists():
        return "", "", argument
    dataset, _, model = name.rpartition("/")
    return dataset.strip(), model.strip(), rest


def selected_arrays(arguments: list[str]) -> Arrays:
    """Collect the arrays that the suffixes `::logits=NAME` of all arguments select, by file."""
    from calibrant.predictions.files.sources import Source

    out: Arrays = {}
    for argument in arguments:
        source = Source.parse(split_name(argument)[2])
        path = source.path.resolve()
        out[path] = out.get(path, frozenset()) | frozenset(source.rename.values())
    return out


def read_models(
    arguments: list[str], columns: Columns, arrays: Arrays, by_member: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Read NAME=FILE and DATASET/NAME=FILE: models by name, nested by data set where there are any.

    With `by_member` the members are models too; members whose name is not unique in their data set get the name of
    their file as a prefix.
    """
    from collections import Counter

    from calibrant.predictions.files.sources import Source

    models: list[tuple[str, Any, dict[str, Any]]] = []
    counts: Counter[tuple[str, str]] = Counter()
    for argument in arguments:
        dataset, name, file = split_name(argument)
        elsewhere = arrays.get(Source.parse(file).path.resolve(), frozenset())
        item = read_in_memory(file, columns, quiet=quiet, elsewhere=elsewhere)
        item = item.named(name) if name else item
        members: dict[str, Any] = {}
        if by_member and item.members > 1:
            names = getattr(item, "member_names", None) or [f"{item.name}[{k}]" for k in range(item.members)]
            members = {member: item.member(k) for k, member in enumerate(names)}
        models.append((dataset, item, members))
        counts.update((dataset, own) for own in (item.name, *members))
    repeated = {name for (_, name), count in counts.items() if count > 1}
    out: dict[str, dict[str, Any]] = {}
    for dataset, item, members in models:
        unique = {f"{item.name}/{name}" if name in repeated else name: member for name, member in members.items()}
        for key, model in ((item.name, item), *unique.items()):
            if key in out.setdefault(dataset, {}):
                got = f"two models named {show(key)}"
                raise UsageError("compare", expected="a different name for each model", got=got, hint="use NAME=FILE")
            out[dataset][key] = model.named(key)
    if "" in out and len(out) > 1:
        expected, got = "a data set for every model, or for none", "a data set for some models only"
        raise UsageError("compare", expected=expected, got=got, hint="use DATASET/NAME=FILE for all")
    return out.get("", out)
