"""Charts drawn by vl-convert: files in SVG, PNG and PDF with their data as CSV, and the JavaScript of the page.

None of these need a browser or a network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from calibrant.errors import CalibrantError, UsageError, WriteError, did_you_mean, plain, show
from calibrant.pipeline.evaluate import Progress
from calibrant.predictions.files.write import atomic_write
from calibrant.private import private_folder
from calibrant.render.table import as_csv
from calibrant.reporting.charts.base import DATA, WIDTH, altair, missing
from calibrant.reporting.charts.palette import PAPER
from calibrant.reporting.document import Document, Figure, figures_of, numbered, records, slug

FORMS = ("svg", "png", "pdf", "csv")
SCALE = 2.0


def converter() -> Any:
    """The vl-convert module, or the error that names the extra to install."""
    try:
        import vl_convert
    except ImportError as error:
        raise missing("vl-convert-python") from error
    return vl_convert


def vega_lite_version() -> str:
    """The Vega-Lite version that Altair writes, such as '6.4', or the latest of the converter."""
    known = converter().get_vegalite_versions()
    version = ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return version if version in known else known[-1]


@cache
def script() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, which sets `window.vegaEmbed`.

    Building it takes seconds, so it is cached by version in a private folder of the user, if there is one.
    """
    vl, folder = converter(), private_folder("report")
    name = f"vega-{vl.get_vega_version()}-lite-{vega_lite_version()}-convert-{vl.__version__}.js"
    cached = None if folder is None else folder / name
    if cached is not None and cached.is_file():
        return cached.read_text(encoding="utf-8")
    bundle = vl.javascript_bundle(vl_version=vega_lite_version())
    # a function of its own keeps its short names from colliding with those of the page
    text = f"(function(){{{bundle}}})();".replace("</script", "<\\/script").replace("<!--", "<\\!--")
    if cached is not None:
        try:
            with atomic_write(cached) as stream:
                stream.write(text.encode())
        except CalibrantError:  # a full disk: it is built again next time
            pass
    return text


def full_spec(figure: Figure, options: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The chart with its data and the width of a figure in a file."""
    spec = {**figure.chart}
    known = dict(spec.get("datasets", {}))
    spec["datasets"] = known | {DATA: records(figure.data[figure.default_choice() if options is None else options])}
    spec["config"] = {**spec["config"], "background": PAPER, "font": "sans-serif"}
    spec["description"] = plain(figure.description, 400)
    return spec | ({"width": WIDTH} if spec.get("width") == "container" else {})


def svg(figure: Figure) -> str:
    """The figure with the options that are selected first."""
    return str(converter().vegalite_to_svg(full_spec(figure), vl_version=vega_lite_version(), allowed_base_urls=[]))


def csv(figure: Figure) -> str:
    """The data of all options, in columns behind those of the options."""
    heads = tuple(control.label for control in figure.controls) + tuple(figure.heads.values())
    rows: list[tuple[object, ...]] = []
    for key, data in figure.data.items():
        for k in range(len(next(iter(data.values()), ()))):
            values = (data[name][k] if name in data else None for name in figure.heads)
            rows.append((*key, *("" if value is None else value for value in values)))
    return as_csv(heads, rows) + "\n"


def check_forms(forms: Iterable[str]) -> tuple[str, ...]:
    """The file formats, or an error that lists them."""
    forms = (forms,) if isinstance(forms, str) else tuple(forms)
    for form in forms:
        if form not in FORMS:
            hint = did_you_mean(form, FORMS)
            raise UsageError("forms", expected=", ".join(FORMS), got=show(form), hint=hint)
    return forms


def write_figures(
    document: Document, folder: str | Path, forms: tuple[str, ...] = FORMS, progress: Progress | None = None
) -> list[Path]:
    """Write every figure of a document in every format; file names have the section, the figure and the input."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(
            str(folder), expected="a folder to write to", got=plain(error.strerror or ""), hint="choose another"
        ) from error
    every, out = figures_of(document), []
    names = (
        "-".join(map(slug, (section, figure.key, *(() if subject is None else (document.subjects[subject],)))))
        for section, figure, subject in every
    )
    for place, (name, (_, figure, _)) in enumerate(zip(numbered(names, form="{}-{}"), every, strict=True)):
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
