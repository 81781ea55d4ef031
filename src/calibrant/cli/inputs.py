"""Options that several commands share, and reading what they name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import completion

if TYPE_CHECKING:
    from calibrant.predictions import InMemory
    from calibrant.predictions.files.stream import Stream

Labels = Annotated[str | None, typer.Option("--labels", help="Tables: the column of labels.", metavar="COL")]
Probs = Annotated[str | None, typer.Option("--probs", help="Tables: columns of probabilities.", metavar="'p_*'")]
Logits = Annotated[str | None, typer.Option("--logits", help="Tables: columns of logits.", metavar="'z_*'")]
LogProbs = Annotated[
    str | None,
    typer.Option("--log-probs", help="Tables: columns of log-probabilities.", metavar="'l_*'"),
]
Prob = Annotated[str | None, typer.Option("--prob", help="Tables: the column of P(class 1).", metavar="COL")]
Confidence = Annotated[
    str | None,
    typer.Option("--confidence", help="Tables: confidence in the answer.", metavar="COL"),
]
Correct = Annotated[
    str | None,
    typer.Option("--correct", help="Tables: whether the answer was right.", metavar="COL"),
]
Y = Annotated[str | None, typer.Option("--y", help="Tables, regression: what came true.", metavar="COL")]
Mean = Annotated[
    str | None,
    typer.Option("--mean", help="Tables, regression: predicted mean; with '*', of members.", metavar="COL"),
]
Std = Annotated[
    str | None,
    typer.Option("--std", help="Tables, regression: predicted standard deviation.", metavar="COL"),
]
Var = Annotated[str | None, typer.Option("--var", help="Tables, regression: predicted variance.", metavar="COL")]
Samples = Annotated[
    str | None,
    typer.Option("--samples", help="Tables, regression: columns of draws.", metavar="'s_*'"),
]
Quantiles = Annotated[
    str | None,
    typer.Option("--quantiles", help="Tables, regression: columns named after their levels.", metavar="'q_*'"),
]
Files = Annotated[
    list[str],
    typer.Argument(
        help="Prediction files, folders or patterns of shards; FILE::logits=NAME,labels=NAME,member=K chooses keys.",
        metavar="FILE",
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics", "-m", help="Metrics, as in 'nll,ece(bins=10)', or 'all'.", autocompletion=completion.metrics
    ),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by", help="Slice by a column; COLUMN:BINS cuts numbers into ranges.", autocompletion=completion.columns
    ),
]
Units = Annotated[
    str | None,
    typer.Option(
        "--units",
        help="Column of dependent rows (patient, prompt): intervals by unit.",
        autocompletion=completion.columns,
    ),
]
Soft = Annotated[bool, typer.Option("--soft", help="Score against label_probs instead of labels.")]
Resamples = Annotated[int, typer.Option("--resamples", help="Replicates of resampled intervals and bands.")]
Level = Annotated[float, typer.Option("--level", help="Level of the intervals.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
Threads = Annotated[int | None, typer.Option("--threads", help="Threads; all by default.")]
Strict = Annotated[bool, typer.Option("--strict", help="Make warnings errors.")]
Blocks = Annotated[
    bool, typer.Option("--blocks", help="Read block by block, as is done with large inputs, whatever the size.")
]
Hash = Annotated[
    bool, typer.Option("--hash", help="SHA-256 of inputs read block by block too; they are read once more for it.")
]
JsonPath = Annotated[
    str | None, typer.Option("--json", help="Write the evaluation as JSON; '-' prints it.", metavar="OUT|-")
]
HtmlPath = Annotated[str | None, typer.Option("--html", help="Write a report: one HTML page.", metavar="OUT")]
Format = Annotated[
    str, typer.Option("--format", help="table, json, csv, markdown or latex.", autocompletion=completion.formats)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Shift = Annotated[
    bool, typer.Option("--shift", help="Summaries over types of shift and severities: columns shift and severity.")
]
Over = Annotated[
    str,
    typer.Option(
        "--over", help="With --shift: mean or median over types is ranked by severity.", autocompletion=completion.over
    ),
]
Ladder = Annotated[
    bool, typer.Option("--ladder", help="The errors from √BS down to ECE, what holds between them, what zero means.")
]
Sizes = Annotated[
    bool, typer.Option("--sizes", help="Values against the size of the test set, by random subsets, beside rbs.")
]
At = Annotated[
    str | None, typer.Option("--at", help="The sizes, as in 100,1000,5000; implies --sizes.", metavar="N,N,…")
]
Repeats = Annotated[
    int | None, typer.Option("--repeats", help="With --sizes: subsets of each size; 100, fewer of large inputs.")
]
Pairs = Annotated[
    bool, typer.Option("--pairs", help="With --sizes: files are before, after, before, after, …: improvements.")
]
WorstRows = Annotated[
    int, typer.Option("--rows", help="Rows of the largest losses that the JSON tells of; 0 leaves rows out.")
]
Along = Annotated[
    str | None, typer.Option("--along", help="Regression: the column that the members' functions are along.")
]
CLASSES: dict[str, Any] = {
    "labels": Labels,
    "probs": Probs,
    "logits": Logits,
    "log_probs": LogProbs,
    "prob": Prob,
    "confidence": Confidence,
    "correct": Correct,
}
NUMBERS: dict[str, Any] = {
    "y": Y,
    "mean": Mean,
    "std": Std,
    "var": Var,
    "samples": Samples,
    "quantiles": Quantiles,
}
Columns = dict[str, str | None]
"""What the column options of tables name."""
IN_MEMORY = 1 << 28
"""Bytes up to which an input is read at once."""


def sizes_of(sizes: bool, at: str | None) -> bool | list[int]:
    """What --sizes and --at ask for together."""
    from calibrant.errors import UsageError, show, whole_number

    if at is None:
        return sizes
    numbers = [whole_number(part.strip()) for part in at.split(",")]
    if None in numbers:
        raise UsageError(
            "--at", expected="whole numbers with commas between them", came=f"got {show(at)}", do="write --at 100,1000"
        )
    return [number for number in numbers if number is not None]


def draws_of(text: str) -> int | str:
    """What --draws asks for: a number, or the word for computed laws."""
    from calibrant.errors import UsageError, show, whole_number

    count = whole_number(text.strip())
    if count is None and text.strip() != "exact":
        raise UsageError(
            "--draws", expected="a whole number from 1, or 'exact'", came=f"got {show(text)}", do="1000 is usual"
        )
    return "exact" if count is None else count


def with_columns(options: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose parameter `columns` is made of these options, in its place among the others."""

    def given(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        kind = inspect.Parameter.KEYWORD_ONLY
        added = [inspect.Parameter(name, kind, default=None, annotation=option) for name, option in options.items()]
        known = [item.replace(kind=kind) for item in signature.parameters.values()]
        place = [item.name for item in known].index("columns")

        @functools.wraps(command)
        def run(**values: Any) -> None:
            columns = {name: values.pop(name) for name in options}
            command(columns=columns, **values)

        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*known[:place], *added, *known[place + 1 :]]
        )
        return run

    return given


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
    """Every input that was named, with the column options: read at once, or left in its files where it is large.

    elsewhere: arrays of these files that other inputs read, and that are ignored without a word.
    """
    from calibrant.cli.terminal import progress_bar
    from calibrant.predictions.files.shards import Source
    from calibrant.predictions.files.tables import ColumnOptions

    options = ColumnOptions(**columns)
    read = []
    with progress_bar(quiet) as progress:
        for place, file in enumerate(files):
            if progress is not None:
                progress(f"reading {file}", place, len(files))
            read.append(_read(replace(Source.parse(file), elsewhere=elsewhere), options, strict, blocks))
    return [soft(item) for item in read] if soft_labels else read


def rows_of(predictions: Iterable[Any]) -> int:
    """How many rows there are in all of them."""
    return sum(int(item.n) for item in predictions if item is not None)


def _read(source, options, strict: bool, blocks: bool) -> InMemory | Stream:  # type: ignore[no-untyped-def]
    from calibrant.predictions.files.reading import read_source
    from calibrant.predictions.files.shards import TEXT, shards_of
    from calibrant.predictions.files.stream import scan_source

    paths = shards_of(source.path)
    text = paths[0].suffix.lower() in TEXT
    if text and not blocks and sum(path.stat().st_size for path in paths if path.exists()) <= IN_MEMORY:
        return read_source(source, options, strict=strict)
    stream = scan_source(source, options, strict=strict)
    if blocks or stream.nbytes > IN_MEMORY:
        return stream
    return read_source(source, options, strict=strict)


def hashed(item: InMemory | Stream) -> InMemory | Stream:
    """The same input, with its SHA-256 where it is read block by block too."""
    from calibrant.predictions.files.stream import Stream

    return item.fingerprinted() if isinstance(item, Stream) else item


def soft(item: InMemory | Stream) -> InMemory | Stream:
    """The same input, scored against its soft labels; numbers have none."""
    from calibrant.predictions import Classification
    from calibrant.predictions.files.naming import naming
    from calibrant.predictions.files.stream import Stream

    if not isinstance(item, Classification | Stream):
        return item
    with naming(item.name):
        return item.with_soft_labels()
