"""Colours and the look of charts: one palette, told apart by colour-blind readers, on light and on dark paper.

Charts are written in the colours of light paper. On the page each of them becomes a CSS variable, so that the theme,
the reader's wish and print change them all at once; in figures that are files they stay as they are. The series are
after the colours of Okabe and Ito, darkened or lightened until they have a contrast of 3 to 1 with their paper.
"""

from __future__ import annotations

from typing import Any

LIGHT = {
    "ink": "#1d2129",
    "soft": "#59606d",
    "line": "#d8dce3",
    "paper": "#ffffff",
    "card": "#f5f6f8",
    "blue": "#0b6bb0",
    "orange": "#c4501b",
    "green": "#08805f",
    "purple": "#9c4f95",
    "amber": "#9a6f00",
    "sky": "#3387bd",
    "grey": "#7a818c",
}
DARK = {
    "ink": "#e8eaef",
    "soft": "#a9b0bd",
    "line": "#3b414c",
    "paper": "#13161b",
    "card": "#1c2027",
    "blue": "#6db6f0",
    "orange": "#f2935f",
    "green": "#4fc9a4",
    "purple": "#d99ed4",
    "amber": "#e2b94f",
    "sky": "#93d0f4",
    "grey": "#9aa2af",
}
INK, SOFT, LINE, PAPER = LIGHT["ink"], LIGHT["soft"], LIGHT["line"], LIGHT["paper"]
BLUE, ORANGE, GREEN, GREY = LIGHT["blue"], LIGHT["orange"], LIGHT["green"], LIGHT["grey"]
SERIES = [LIGHT[name] for name in ("blue", "orange", "green", "purple", "amber", "sky", "grey")]
_NAMES = {colour: f"var(--{name})" for name, colour in LIGHT.items()}


def css() -> str:
    """The variables of both themes: by what the reader's system says, or by the `data-theme` of the page."""

    def variables(colours: dict[str, str]) -> str:
        return ";".join(f"--{name}:{colour}" for name, colour in colours.items())

    light, dark = variables(LIGHT), variables(DARK)
    return (
        f":root{{color-scheme:light;{light}}}"
        f"@media(prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}"
        f":root[data-theme=light]{{color-scheme:light;{light}}}"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}"
        f"@media print{{:root,:root[data-theme]{{color-scheme:light;{light}}}}}"
    )


def themed(value: Any) -> Any:
    """A chart whose colours are the variables of the page."""
    if isinstance(value, dict):
        return {key: themed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [themed(item) for item in value]
    return _NAMES.get(value, value) if isinstance(value, str) else value


def config() -> dict[str, Any]:
    """What all charts have in common: thin lines, little ink, names that may be long."""
    axis = {
        "labelColor": SOFT, "titleColor": SOFT, "gridColor": LINE, "domainColor": LINE, "tickColor": LINE,
        "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 220, "gridOpacity": 0.7,
        "labelSeparation": 6,
    }  # fmt: skip
    legend = {
        "labelColor": INK, "titleColor": SOFT, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal",
        "orient": "top", "labelLimit": 260, "symbolStrokeWidth": 2,
    }  # fmt: skip
    return {
        "background": None,
        "font": "system-ui, sans-serif",
        "view": {"stroke": LINE},
        "axis": axis,
        "legend": legend,
        "range": {"category": SERIES},
        "line": {"strokeWidth": 2.2},
        "text": {"color": SOFT, "fontSize": 12},
        "rule": {"color": SOFT},
    }
