"""The shifts of images in the registry: 19 corruptions, rotation and translation.

Reference: Hendrycks & Dietterich (2019), ICLR 7; rotations and translations as in Ovadia et al. (2019), NeurIPS 32.
"""

from __future__ import annotations

from typing import Any

from calibrant.shift.images.corrupt import CORRUPTIONS, corrupt
from calibrant.shift.images.geometry import DEGREES, PIXELS, rotate, translate
from calibrant.shift.images.parameters import SEVERITIES
from calibrant.shift.philox import Draws
from calibrant.shift.registry import register

REFERENCE = "Hendrycks & Dietterich (2019)"


def _register(name: str, summary: str) -> None:
    """Register a corruption under its name."""

    @register(name, kind="corruption", severities=SEVERITIES, summary=summary, reference=REFERENCE)
    def corruption(rows: Any, severity: int, draws: Draws) -> Any:
        return corrupt(rows, name, severity, draws.seed, draws.first)


for _name, _function in CORRUPTIONS.items():
    _register(_name, str(_function.__doc__).partition("\n")[0])


@register(
    "rotation",
    kind="geometry",
    severities=range(1, 13),
    summary=f"rotated by {DEGREES}° per severity, by cubic splines",
    reference="Ovadia et al. (2019)",
)
def rotation(rows: Any, severity: int, draws: Draws) -> Any:
    """Rotated by 15° to 180°."""
    return rotate(rows, DEGREES * severity)


@register(
    "translation",
    kind="geometry",
    severities=range(1, 15),
    summary=f"shifted to the right by {PIXELS} pixels per severity, cyclically",
    reference="Ovadia et al. (2019)",
)
def translation(rows: Any, severity: int, draws: Draws) -> Any:
    """Shifted by 2 to 28 pixels."""
    return translate(rows, PIXELS * severity)
