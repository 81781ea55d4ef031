"""calibrant report: an HTML report of stored evaluations, or of predictions that are evaluated first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from calibrant.cli import inputs, options
from calibrant.cli.options import argument, option

if TYPE_CHECKING:
    from calibrant.pipeline.evaluate import EvaluateOptions
    from calibrant.predictions import InMemory
    from calibrant.predictions.base import Note
    from calibrant.predictions.files.stream import Stream
    from calibrant.results.evaluation import Evaluation

EXAMPLES = """\
calibrant report predictions.npz
calibrant report old=old.npz new=new.npz --output comparison.html
calibrant report results/ --figures figures/
"""
MAX_BYTES_COMPARED = 1 << 32
"""Inputs above this size are not compared, because a comparison needs them in memory."""
Given = Annotated[
    list[str],
    argument(
        "Evaluations written with --json, folders of them, or predictions (FILE or NAME=FILE) to evaluate first.",
        "FILE_OR_FOLDER",
    ),
]
Out = Annotated[str, option("--output -o", "Write the report to this file.", "OUT.html", panel=options.OUTPUT)]
Figures = Annotated[
    str | None, option("--figures", "Write every chart to this folder too.", "DIR", panel=options.OUTPUT)
]
Formats = Annotated[str, option("--forms", "With --figures: the file formats.", "FORMATS", panel=options.OUTPUT)]
NoRows = Annotated[
    bool, option("--no-rows", "Leave out single rows, with their ids and columns.", panel=options.OUTPUT)
]
Title = Annotated[str | None, option("--title", "Title of the report.", "TEXT", panel=options.OUTPUT)]


@options.with_columns(options.CLASSIFICATION | options.REGRESSION)
def command(
    *,
    given: Given,
    by: options.By = None,
    level: options.Level = 0.95,
    resamples: options.Resamples = 1000,
    units: options.Units = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    columns: options.Columns,
    output: Out = "report.html",
    title: Title = None,
    figures: Figures = None,
    forms: Formats = "svg,png,pdf,csv",
    no_rows: NoRows = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a self-contained HTML report.

    Shows verdicts, tables and interactive charts in one file that needs no network. Predictions are evaluated,
    checked, and compared if there are several.
    """
    from calibrant.cli.output import check_outputs, emit, progress_bar
    from calibrant.errors import WriteError
    from calibrant.gates.api import load_evaluation
    from calibrant.pipeline.evaluate import EvaluateOptions
    from calibrant.reporting.figures import check_forms
    from calibrant.reporting.report import report

    check_outputs(html=output)
    folder = Path(output).absolute().parent
    if not folder.is_dir():
        hint = f"run `mkdir -p {folder}` or choose another file with -o"
        raise WriteError(output, expected="an existing folder", got="none", hint=hint)
    chosen = check_forms(form.strip() for form in forms.split(",") if form.strip())
    stored: list[Path] = []
    files: list[str] = []
    for text in given:
        path = Path(text)
        inside = sorted(path.glob("*.json")) if path.is_dir() else []
        if inside or path.suffix.lower() == ".json":
            stored += inside or [path]
        else:
            files.append(text)
    evaluations = [load_evaluation(path) for path in stored]
    if files:
        predictions = []
        for text in files:
            _, name, file = inputs.split_name(text)
            (item,) = inputs.read_all([file], columns, strict=False)
            predictions.append(item.named(name) if name else item)
        with progress_bar(quiet) as progress:
            how = EvaluateOptions(
                by=by or (), units=units, level=level, resamples=resamples, seed=seed, threads=threads,
                progress=progress,
            )  # fmt: skip
            evaluations += assess(predictions, how)
    with progress_bar(quiet) as progress:
        written = report(
            evaluations, output, title=title, figures=figures, forms=chosen, rows=not no_rows, progress=progress
        )  # fmt: skip
    if not quiet:
        emit("\n".join(f"written: {path}" for path in (written, figures) if path))


def assess(predictions: list[InMemory | Stream], how: EvaluateOptions) -> list[Evaluation]:
    """Evaluate and check predictions, and compare them if there are several, which must be of the same rows.

    Shift is summarised if all inputs have the columns shift and severity. A check or comparison that is impossible is
    left out, and a note of the evaluation says why.
    """
    from calibrant.checks.api import check
    from calibrant.comparison.api import compare
    from calibrant.errors import CalibrantError, UsageError
    from calibrant.pipeline.evaluate import inputs_of, run_evaluation
    from calibrant.predictions.base import Note
    from calibrant.predictions.files.stream import Stream
    from calibrant.registry.lookup import REPORT
    from calibrant.results.shift import COLUMNS

    items = inputs_of(predictions, "report")
    shift = all(set(COLUMNS) <= set(item.example.columns) for item in items)
    settings: dict[str, Any] = {"seed": how.seed, "threads": how.threads, "progress": how.progress}
    main = run_evaluation(items, REPORT, replace(how, shift=shift))
    out: list[Evaluation] = []
    notes: list[Note] = []

    def attempt(run: Callable[[], Evaluation], code: str, name: str) -> None:
        try:
            out.append(run())
        except CalibrantError as error:
            notes.append(Note(code, f"{name}: {code.replace('-', ' ')}: {error}"))

    def compare_in_memory() -> Evaluation:
        size = sum(item.nbytes for item in items if isinstance(item, Stream))
        if size > MAX_BYTES_COMPARED:
            expected = f"inputs of at most {MAX_BYTES_COMPARED >> 30} GiB"
            hint = "run `calibrant compare --json comparison.json` on a larger machine and add that file"
            raise UsageError("compare", expected=expected, got=f"{size / 2**30:.1f} GiB", hint=hint)
        models = {item.name: item.read() if isinstance(item, Stream) else item for item in items}
        return compare(models, units=how.units, level=how.level, resamples=2 * how.resamples, shift=shift, **settings)

    if how.units is not None:
        text = "not checked: posterior predictive checks assume independent rows, and rows of a unit are dependent"
        notes += [Note("not-checked", f"{item.name}: {text}") for item in items]
    for item in items if how.units is None else ():
        attempt(lambda item=item: check(item, shift=shift, **settings), "not-checked", item.name)  # type: ignore[misc]
    if len(items) > 1:
        attempt(compare_in_memory, "not-compared", "these inputs")
    return [replace(main, warnings=(*main.warnings, *notes)), *out]
