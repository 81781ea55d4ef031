"""calibrant demo: the bundled predictions of a real ensemble, judged, checked and mended."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for results and pages.")] = "calibrant-demo",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Judge 20 small networks on handwritten digits: clean, rotated and noised, and on glyphs that are no digits."""
    from calibrant.cli.output import emit, progress_bar
    from calibrant.demo import run_demo

    with progress_bar(quiet) as progress:
        found, files = run_demo(Path(out), progress)
    if not quiet:
        written = "\n".join(f"written: {file}" for file in files)
        emit("\n\n".join([*map(str, found), written]))
