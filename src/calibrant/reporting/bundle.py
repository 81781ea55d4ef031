"""The drawing library of the page: Vega, Vega-Lite and Vega-Embed in one script, from the installed vl-convert.

Putting it together takes seconds, so it is kept in a private folder of the user, under the version that it is of; where
no such folder can be had it is made each time.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from calibrant.errors import CalibrantError
from calibrant.predictions.files.writing import atomic_write
from calibrant.private import private_folder
from calibrant.reporting.charting import altair, missing


def converter() -> Any:
    """The library that draws charts into files."""
    try:
        import vl_convert
    except ImportError as error:
        raise missing("vl-convert-python") from error
    return vl_convert


def vega_lite_version() -> str:
    """The newest Vega-Lite of the converter that Altair's charts are written for, as '6.4'."""
    known = converter().get_vegalite_versions()
    wanted = ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return wanted if wanted in known else known[-1]


@cache
def script() -> str:
    """The script: it sets `window.vegaEmbed`; the bundle leaves `window.vega` and `window.vegaLite` empty."""
    kept = _kept()
    if kept is not None and kept.is_file():
        return kept.read_text(encoding="utf-8")
    made = _made()
    if kept is not None:
        try:
            with atomic_write(kept) as stream:
                stream.write(made.encode())
        except CalibrantError:  # a full disk: it is made anew next time
            pass
    return made


def _kept() -> Path | None:
    folder = private_folder("report")
    if folder is None:
        return None
    vl = converter()
    return folder / f"vega-{vl.get_vega_version()}-lite-{vega_lite_version()}-convert-{vl.__version__}.js"


def _made() -> str:
    """In a function of its own, so that its short names do not meet those of the page."""
    bundle = converter().javascript_bundle(vl_version=vega_lite_version())
    return f"(function(){{{bundle}}})();".replace("</script", "<\\/script").replace("<!--", "<\\!--")
