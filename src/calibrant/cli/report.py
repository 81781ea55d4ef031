"""calibrant report: one page from stored evaluations, or from predictions that are judged first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import inputs

if TYPE_CHECKING:
    from calibrant.evaluation.result import Evaluation

Given = Annotated[
    list[str],
    typer.Argument(
        help="Evaluations that --json wrote, folders of them, or predictions (NAME=FILE), which are judged first.",
        metavar="FILE_OR_FOLDER",
    ),
]
Out = Annotated[str, typer.Option("--output", "-o", help="The page.", metavar="OUT.html")]
Figures = Annotated[
    str | None, typer.Option("--figures", help="Write every chart as SVG, PNG, PDF and CSV too.", metavar="DIR")
]
Forms = Annotated[str, typer.Option("--forms", help="With --figures: which of svg,png,pdf,csv.")]
NoRows = Annotated[bool, typer.Option("--no-rows", help="Leave single rows out: no ids, columns or classes of them.")]
Title = Annotated[str | None, typer.Option("--title", help="The title of the page.")]


@inputs.with_columns(inputs.CLASSES | inputs.NUMBERS)
def command(
    *,
    given: Given,
    output: Out = "report.html",
    figures: Figures = None,
    forms: Forms = "svg,png,pdf,csv",
    no_rows: NoRows = False,
    title: Title = None,
    by: inputs.By = None,
    units: inputs.Units = None,
    level: inputs.Level = 0.95,
    resamples: inputs.Resamples = 1000,
    seed: inputs.Seed = 0,
    threads: inputs.Threads = None,
    columns: inputs.Columns,
    quiet: inputs.Quiet = False,
) -> None:
    """Make a page that people want to look at: what was found, in words, charts and tables, in one file."""
    from calibrant.cli.output import check_outputs, emit
    from calibrant.cli.terminal import progress_bar
    from calibrant.evaluation.assessing import assess
    from calibrant.reporting.figures import FORMS, check_forms
    from calibrant.reporting.report import report

    check_outputs(html=output)
    _check_place(output)
    chosen = check_forms(form.strip() for form in forms.split(",") if form.strip()) if figures else FORMS
    stored, files = _sorted_out(given)
    found = [_loaded(path) for path in stored]
    if files:
        predictions = [_read(file, columns) for file in files]
        with progress_bar(quiet) as progress:
            found += assess(
                predictions, by=by or (), units=units, level=level, resamples=resamples, seed=seed, threads=threads,
                progress=progress,
            )  # fmt: skip
    with progress_bar(quiet) as progress:
        written = report(
            found, output, title=title, figures=figures, forms=chosen, rows=not no_rows, progress=progress
        )  # fmt: skip
    if not quiet:
        emit("\n".join(["written: " + str(written)] + ([f"written: {figures}"] if figures else [])))


def _check_place(output: str) -> None:
    """Refuse before anything is computed where the page could not be written."""
    from pathlib import Path

    from calibrant.errors import WriteError

    if not Path(output).absolute().parent.is_dir():
        came = "there is none of that name"
        raise WriteError(output, expected="a folder that exists", came=came, do="make it, or choose another with -o")


def _read(argument: str, columns: inputs.Columns) -> Any:
    """The predictions that NAME=FILE names."""
    from calibrant.cli.compare import parts_of

    _, name, file = parts_of(argument)
    (item,) = inputs.read_all([file], columns, strict=False)
    return item.named(name) if name else item


def _loaded(path: Any) -> Evaluation:
    from calibrant.evaluation.gates import load_evaluation

    return load_evaluation(path)


def _sorted_out(given: list[str]) -> tuple[list[Any], list[str]]:
    """Stored evaluations, those of a folder in the order of their names, and what is taken for predictions."""
    from pathlib import Path

    stored: list[Any] = []
    predictions: list[str] = []
    for argument in given:
        path = Path(argument)
        inside = sorted(path.glob("*.json")) if path.is_dir() else []
        if inside:
            stored += inside
        elif path.suffix.lower() == ".json":
            stored.append(path)
        else:
            predictions.append(argument)
    return stored, predictions
