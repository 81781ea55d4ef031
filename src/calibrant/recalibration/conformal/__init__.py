"""Conformal prediction: intervals and sets of classes that hold the outcome as often as is asked, whatever the model.

From n held-out rows with scores s₁ … sₙ, the larger the odder, the threshold is the ⌈(n + 1)·level⌉-th smallest. A new
row exchangeable with them has a score up to it with a probability of at least `level`, and at most level + 1/(n + 1)
where no two scores are equal. That is on average over held-out rows and new rows, not for each kind of row.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Conformal": "base",
    "ConformalQuantiles": "numbers",
    "ConformalSets": "classes",
    "Intervals": "results",
    "Sets": "results",
    "SplitConformal": "numbers",
    "conformal": "methods",
    "load": "storing",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"calibrant.recalibration.conformal.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'calibrant.recalibration.conformal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
