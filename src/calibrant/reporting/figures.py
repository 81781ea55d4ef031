"""Charts as files: SVG, PNG and PDF by vl-convert, and their numbers as CSV. No browser and no network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from calibrant.errors import UsageError, WriteError, did_you_mean, plain, show
from calibrant.evaluation.evaluate import Progress
from calibrant.evaluation.rendering import as_csv
from calibrant.predictions.files.writing import atomic_write
from calibrant.reporting.bundle import converter, vega_lite_version
from calibrant.reporting.charting import DATA, WIDTH
from calibrant.reporting.document import Columns, Document, Figure, figures_of, records, slug
from calibrant.reporting.palette import PAPER

FORMS = ("svg", "png", "pdf", "csv")
SCALE = 2.0


def full_spec(figure: Figure, options: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The chart with its numbers, as wide as a figure that is a file."""
    spec = {**figure.chart}
    known = dict(spec.get("datasets", {}))
    spec["datasets"] = known | {DATA: records(figure.data[figure.first() if options is None else options])}
    spec["config"] = {**spec["config"], "background": PAPER, "font": "sans-serif"}
    spec["description"] = plain(figure.said, 400)
    return spec | ({"width": WIDTH} if spec.get("width") == "container" else {})


def svg(figure: Figure) -> str:
    """The figure as it is first shown."""
    return str(converter().vegalite_to_svg(full_spec(figure), vl_version=vega_lite_version(), allowed_base_urls=[]))


def csv(figure: Figure) -> str:
    """The numbers of all choices; where there are several, the choice stands before them."""
    heads = tuple(control.label for control in figure.controls) + tuple(figure.heads.values())
    rows = [key + _cells(figure, data, k) for key, data in figure.data.items() for k in range(_length(data))]
    return as_csv(heads, rows) + "\n"


def _length(data: Columns) -> int:
    return len(next(iter(data.values()), ()))


def _cells(figure: Figure, data: Columns, k: int) -> tuple[object, ...]:
    values = (data[name][k] if name in data else None for name in figure.heads)
    return tuple("" if value is None else value for value in values)


def check_forms(forms: Iterable[str]) -> tuple[str, ...]:
    """The forms, or an error that lists them."""
    forms = (forms,) if isinstance(forms, str) else tuple(forms)
    for form in forms:
        if form not in FORMS:
            do = did_you_mean(form, FORMS)
            raise UsageError("forms", expected=", ".join(FORMS), came=f"got {show(form)}", do=do)
    return forms


def write_figures(
    document: Document, folder: str | Path, forms: tuple[str, ...] = FORMS, progress: Progress | None = None
) -> list[Path]:
    """Every figure of a document in every form; names tell the section, the figure and the input."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(
            str(folder), expected="a folder to write to", came=plain(error.strerror or ""), do="choose another"
        ) from error
    out = []
    every = list(_named(document))
    for place, (name, figure) in enumerate(every):
        if progress is not None:
            progress("drawing figures", place, len(every))
        drawn = svg(figure) if set(forms) - {"csv"} else ""
        for form in forms:
            with atomic_write(folder / f"{name}.{form}") as stream:
                stream.write(WRITERS[form](figure, drawn))
            out.append(folder / f"{name}.{form}")
    return out


WRITERS: dict[str, Callable[[Figure, str], bytes]] = {
    "svg": lambda figure, drawn: drawn.encode(),
    "png": lambda figure, drawn: bytes(converter().svg_to_png(drawn, scale=SCALE)),
    "pdf": lambda figure, drawn: bytes(converter().svg_to_pdf(drawn)),
    "csv": lambda figure, drawn: csv(figure).encode(),
}


def _named(document: Document) -> Iterator[tuple[str, Figure]]:
    """No two figures have one name: a number is added where they would."""
    taken: set[str] = set()
    for section, figure, subject in figures_of(document):
        parts = [section, figure.key] + ([document.subjects[subject]] if subject is not None else [])
        name, k = "-".join(slug(part) for part in parts), 1
        while (unique := name if k == 1 else f"{name}-{k}") in taken:
            k += 1
        taken.add(unique)
        yield unique, figure
