"""Colours and style of charts: one palette for light and dark themes that is safe for colour-blind readers.

Charts are written in light colours. On the page each colour becomes a CSS variable, which the theme and print change;
figures in files keep the light colours. The series follow Okabe and Ito, darkened or lightened to a contrast of 3 to 1
with the background.
"""

from __future__ import annotations

from typing import Any

COLOURS = {
    "ink": ("#1d2129", "#e8eaef"), "soft": ("#59606d", "#a9b0bd"), "line": ("#d8dce3", "#3b414c"),
    "paper": ("#ffffff", "#13161b"), "card": ("#f5f6f8", "#1c2027"), "blue": ("#0b6bb0", "#6db6f0"),
    "orange": ("#c4501b", "#f2935f"), "green": ("#08805f", "#4fc9a4"), "purple": ("#9c4f95", "#d99ed4"),
    "amber": ("#9a6f00", "#e2b94f"), "sky": ("#3387bd", "#93d0f4"), "grey": ("#7a818c", "#9aa2af"),
}  # fmt: skip
"""Each colour in the light and in the dark theme."""
LIGHT, DARK = ({name: pair[theme] for name, pair in COLOURS.items()} for theme in (0, 1))
INK, SOFT, LINE, PAPER = LIGHT["ink"], LIGHT["soft"], LIGHT["line"], LIGHT["paper"]
BLUE, ORANGE, GREEN, GREY = LIGHT["blue"], LIGHT["orange"], LIGHT["green"], LIGHT["grey"]
SERIES = [LIGHT[name] for name in ("blue", "orange", "green", "purple", "amber", "sky", "grey")]
_NAMES = {colour: f"var(--{name})" for name, colour in LIGHT.items()}


def css() -> str:
    """The variables of both themes, selected by the system or by the `data-theme` of the page."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in theme.items()) for theme in (LIGHT, DARK))
    return (
        f":root{{color-scheme:light;{light}}}"
        f"@media(prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}"
        f":root[data-theme=light]{{color-scheme:light;{light}}}"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}"
        f"@media print{{:root,:root[data-theme]{{color-scheme:light;{light}}}}}"
    )


def themed(value: Any) -> Any:
    """A chart with CSS variables for its colours."""
    if isinstance(value, dict):
        return {key: themed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [themed(item) for item in value]
    return _NAMES.get(value, value) if isinstance(value, str) else value


def config() -> dict[str, Any]:
    """The Vega-Lite configuration of all charts."""
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
