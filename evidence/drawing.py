"""How figures are drawn and kept: the same bytes from the same numbers, in the reader's own font."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def panels(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> tuple[Any, Any]:
    """An empty figure and its panels (rows, columns)."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "calibrant", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 8}
    known = {"figsize": size, "layout": "constrained", "facecolor": "white", "squeeze": False}
    return plt.subplots(rows, columns, **known, **shared)


def over_rows(panel: Any) -> None:
    """A panel with the number of rows on its axis, and nothing that distracts."""
    panel.set_xscale("log")
    panel.locator_params(axis="y", nbins=4)
    panel.set_xticks([100, 1000, 10_000], ["100", "1000", "10 000"])
    panel.minorticks_off()
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color="0.9", lw=0.6)


def save(drawn: Any, path: Path) -> None:
    """Write the figure without a date, with coordinates of two decimals."""
    from matplotlib import pyplot as plt

    path.parent.mkdir(exist_ok=True)
    drawn.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(drawn)
    svg = re.sub(r"font-family: [^;]*;", "font-family: sans-serif;", path.read_text(encoding="utf-8"))
    path.write_text(re.sub(r"(\d\.\d\d)\d+", r"\1", svg), encoding="utf-8")
