"""Predictions of any model in one validated form, from memory or from files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.predictions.base import Note, Predictions, RowInfo
from calibrant.predictions.classification import Classification
from calibrant.predictions.detection import Detection
from calibrant.predictions.judged import Judged
from calibrant.predictions.regression import Regression

if TYPE_CHECKING:
    from calibrant.predictions.files.several_models import read_models
    from calibrant.predictions.files.stream import Stream

InMemory = Classification | Judged | Regression
Evaluable = InMemory | Detection
"""Everything that can be evaluated: predictions, and out-of-distribution scores."""

__all__ = [
    "Classification",
    "Detection",
    "Evaluable",
    "InMemory",
    "Judged",
    "Note",
    "Predictions",
    "Regression",
    "RowInfo",
    "Stream",
    "read_models",
]


def __getattr__(name: str) -> Any:
    if name == "Stream":  # the file readers import this package
        from calibrant.predictions.files.stream import Stream

        return Stream
    if name == "read_models":
        from calibrant.predictions.files.several_models import read_models

        return read_models
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
