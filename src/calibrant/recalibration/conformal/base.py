"""What conformal methods share: a level, scores of held-out rows, and the threshold that they give."""

from __future__ import annotations

import dataclasses
import math
import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.errors import CalibrantWarning, LabelsError, ShapeError, UsageError, show
from calibrant.predictions import Classification, Judged, Regression
from calibrant.predictions.base import Note

ROUNDING = 1e-14
"""By what share (n + 1)·level may lie above a whole number and still be it: 10·0.9 and the like."""


def rank_of(n: int, level: float) -> int:
    """⌈(n + 1)·level⌉: which of n scores, in rising order from 1, is the threshold; more than n where none is."""
    return math.ceil((n + 1) * level * (1.0 - ROUNDING))


def threshold_of(scores: np.ndarray, level: float) -> float:
    """The ⌈(n + 1)·level⌉-th smallest score; infinite where there are too few."""
    rank = rank_of(len(scores), level)
    return math.inf if rank > len(scores) else float(np.partition(scores, rank - 1)[rank - 1])


def rows_needed(level: float) -> int:
    """The least number of rows with a finite threshold."""
    n = max(1, math.floor(level / (1.0 - level)))
    return n if rank_of(n, level) <= n else n + 1


@dataclass(frozen=True)
class Calibrated:
    """What a fit leaves: the threshold, of how many rows it is, and what it can be used on."""

    threshold: float
    n: int
    name: str = ""
    """What the fitted rows were called."""
    classes: int | None = None
    class_names: tuple[str, ...] | None = None
    lower: float | None = None
    upper: float | None = None
    """The levels of the two quantiles that intervals start from."""
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        if math.isnan(self.threshold) or self.threshold == -math.inf or self.n < 1:
            raise ValueError(f"a threshold of {self.threshold} from {self.n} rows")


@dataclass(eq=False, kw_only=True)
class Conformal:
    """A conformal method: `fit(predictions)` finds its threshold, `predict(predictions)` gives intervals or sets."""

    kind: ClassVar[str]
    """How the method is named in files."""
    title: ClassVar[str]
    reference: ClassVar[str]
    task: ClassVar[str]
    without_threshold: ClassVar[str]
    """What comes out where there are too few rows, in words."""
    level: float = 0.9
    fitted: Calibrated | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        known = isinstance(self.level, int | float) and not isinstance(self.level, bool)
        if not known or not 0.0 < self.level < 1.0:
            came = f"got {show(self.level)}"
            raise UsageError("level", expected="a number between 0 and 1", came=came, do="0.9 is usual")
        self.level = float(self.level)

    # ------------------------------------------------------------------------------------------ facts
    def options(self) -> dict[str, Any]:
        """The options by name, as they are set."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if item.init}

    @property
    def found(self) -> Calibrated:
        """What the fit left; an error before there was one."""
        if self.fitted is None:
            raise UsageError(
                type(self).__name__, expected="a fitted method", came="it was not fitted", do="call fit first"
            )
        return self.fitted

    @property
    def threshold(self) -> float:
        """The score up to which outcomes belong to the interval or set."""
        return self.found.threshold

    def notes(self) -> tuple[Note, ...]:
        """What the user should know of the fit."""
        return self.found.notes

    # ------------------------------------------------------------------------------------------ verbs
    def fit(self, predictions: Any) -> Self:
        """Find the threshold from held-out rows that the model was not fitted to. Warns where they are too few."""
        self._check(predictions)
        if not self._labelled(predictions):
            raise LabelsError(
                f"{type(self).__name__}: {predictions.name}",
                expected="what came true for each row",
                came="there are only soft labels" if predictions.has_labels else "there are no labels",
                do="fit on held-out rows with labels",
            )
        known = self._known(predictions)
        found = Calibrated(threshold_of(self._scores(predictions, known), self.level), predictions.n, **known)
        self.fitted = dataclasses.replace(found, notes=(*found.notes, *self._too_few(predictions.n)))
        for note in self.fitted.notes:
            warnings.warn(note.message, CalibrantWarning, stacklevel=2)
        return self

    def predict(self, predictions: Any) -> Any:
        """Intervals or sets of these rows; with labels, how often they hold what came true."""
        self._check(predictions)
        self._check_fits(predictions)
        return self._predicted(predictions)

    def save(self, path: Any) -> Any:
        """Write the fitted method as JSON, whole or not at all."""
        from calibrant.recalibration.conformal.storing import save

        return save(self, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """The method that `save` wrote; another one is an error."""
        from calibrant.recalibration.conformal.storing import load

        made = load(path)
        if not isinstance(made, cls):
            raise UsageError(
                str(path), expected=f"a fitted {cls.__name__}", came=f"it is {type(made).__name__}",
                do="use calibrant.recalibration.conformal.load",
            )  # fmt: skip
        return made

    # ------------------------------------------------------------------------------------- for methods
    def _known(self, predictions: Any) -> dict[str, Any]:
        """What is to be remembered of the fitted rows beside the threshold."""
        return {"name": predictions.name}

    def _scores(self, predictions: Any, known: dict[str, Any]) -> np.ndarray:
        """The score (n,) of what came true."""
        raise NotImplementedError

    def _predicted(self, predictions: Any) -> Any:
        raise NotImplementedError

    def _labelled(self, predictions: Any) -> bool:
        return getattr(predictions, "labels" if self.task == "classification" else "y", None) is not None

    def _too_few(self, n: int) -> tuple[Note, ...]:
        if rank_of(n, self.level) <= n:
            return ()
        said = f"{n} rows cannot give a level of {self.level:g}, {rows_needed(self.level)} could"
        return (Note("conformal-too-few-rows", f"{type(self).__name__}: {said}: {self.without_threshold}"),)

    def _check(self, predictions: Any) -> None:
        name = type(self).__name__
        if not isinstance(predictions, Classification | Judged | Regression):
            raise UsageError(
                name, expected="predictions in memory", came=f"got {type(predictions).__name__}",
                do="make them with Classification.from_logits and the like, or read them with cal.read(path)",
            )  # fmt: skip
        if predictions.task != self.task:
            raise UsageError(
                name, expected=f"{self.task} predictions", came=f"{show(predictions.name)} is {predictions.task}",
                do="numbers have split and scaled (SplitConformal) and cqr (ConformalQuantiles), classes have lac, aps "
                "and raps (ConformalSets)",
            )  # fmt: skip
        if predictions.weights is not None:
            raise UsageError(
                name, expected="rows that count alike", came=f"{show(predictions.name)} has weights",
                do="leave them out: conformal prediction with weights is another method",
            )  # fmt: skip

    def _check_fits(self, predictions: Any) -> None:
        found = self.found
        if found.classes is not None and predictions.classes != found.classes:
            raise ShapeError(
                type(self).__name__, expected=f"the {found.classes} classes of the fit",
                came=f"{show(predictions.name)} has {predictions.classes}", do="fit on predictions of the same classes",
            )  # fmt: skip
        names = getattr(predictions, "class_names", None)
        if names and found.class_names and names != found.class_names:
            odd = next(k for k in range(len(names)) if names[k] != found.class_names[k])
            raise UsageError(
                type(self).__name__,
                expected=f"the classes of the fit in their order, {show(found.class_names[odd])} as number {odd}",
                came=f"it is {show(names[odd])}",
                do="put the classes in the order of the fit",
            )


def chosen(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """One of some words, or an error that lists them."""
    if value not in choices:
        raise UsageError(name, expected=" or ".join(choices), came=f"got {show(value)}", do="choose one of them")
    return str(value)
