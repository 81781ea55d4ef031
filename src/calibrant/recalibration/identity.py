"""No recalibration: what every other method must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from calibrant.recalibration.base import Fitted, Map, Recalibrator
from calibrant.recalibration.report import Fit


@dataclass(frozen=True)
class IdentityMap(Map):
    """Predictions as they are."""

    n_parameters: ClassVar[int] = 0
    injective: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = True


@dataclass(eq=False, kw_only=True)
class Identity(Recalibrator):
    """Leaves predictions as they are, members included; a candidate when a method is chosen."""

    name = "none"
    title = "No recalibration"
    reference = "The model as it was trained"
    tasks = frozenset({"classification", "judged", "regression"})
    map_class = IdentityMap
    promises_accuracy = True

    def _fitted(self, predictions: Any, threads: int | None) -> Fitted:
        fit = Fit(n=predictions.n, loss="none", before=0.0, after=0.0)
        classes = getattr(predictions, "classes", None)
        return Fitted((IdentityMap(),), (fit,), predictions.task, classes, name=predictions.name)

    def notes(self) -> tuple[()]:
        """Nothing was fitted."""
        return ()

    def _check_members(self, predictions: Any) -> None:
        """Any number of them stays as it is."""

    def _transformed(self, predictions: Any) -> Any:
        return predictions
