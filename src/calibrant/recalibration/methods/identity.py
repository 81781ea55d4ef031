"""No recalibration: the baseline of every other method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from calibrant.recalibration.base import FitState, Map, Recalibrator
from calibrant.recalibration.fit_report import FitReport


@dataclass(frozen=True)
class IdentityMap(Map):
    """Predictions as they are."""

    injective: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = True


@dataclass(eq=False, kw_only=True)
class Identity(Recalibrator):
    """Leave predictions as they are, members included; a candidate in `choose`."""

    name = "none"
    title = "No recalibration"
    reference = "The model as it was trained"
    tasks = frozenset({"classification", "judged", "regression"})
    map_class = IdentityMap
    promises_accuracy = True

    def _fit(self, predictions: Any, threads: int | None) -> FitState:
        fit = FitReport(n=predictions.n, loss="none", before=0.0, after=0.0)
        classes = getattr(predictions, "classes", None)
        return FitState((IdentityMap(),), (fit,), predictions.task, classes, name=predictions.name)

    def notes(self) -> tuple[()]:
        """None: nothing was fitted."""
        return ()

    def _transform(self, predictions: Any) -> Any:
        return predictions
