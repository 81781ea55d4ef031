"""Conformal methods by the short names of papers."""

from __future__ import annotations

from typing import Any

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.recalibration.conformal.base import Conformal
from calibrant.recalibration.conformal.classes import ConformalSets
from calibrant.recalibration.conformal.numbers import ConformalQuantiles, SplitConformal

METHODS: dict[str, tuple[type[Conformal], dict[str, Any]]] = {
    "lac": (ConformalSets, {"score": "lac"}),
    "aps": (ConformalSets, {"score": "aps"}),
    "raps": (ConformalSets, {"score": "raps"}),
    "split": (SplitConformal, {"score": "absolute"}),
    "scaled": (SplitConformal, {"score": "scaled"}),
    "cqr": (ConformalQuantiles, {}),
}


def conformal(name: str, level: float = 0.9, **options: Any) -> Conformal:
    """The method, not yet fitted, of a name: lac, aps, raps (classes), split, scaled or cqr (numbers)."""
    if name not in METHODS:
        raise UsageError(
            "method", expected="a conformal method", came=f"got {show(name)}", do=did_you_mean(name, METHODS)
        )
    method, known = METHODS[name]
    return method(level=level, **known, **options)
