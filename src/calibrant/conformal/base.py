"""The base class of conformal methods: a coverage level, scores of held-out rows, and the threshold that they give."""

from __future__ import annotations

import dataclasses
import math
import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.errors import CalibrantWarning, LabelsError, UsageError, check_range, show
from calibrant.predictions.base import Note
from calibrant.recalibration.base import check_in_memory, check_same_classes

ROUNDING = 1e-14
"""Relative rounding error of (n + 1)·level, as for 10·0.9."""


def rank_of(n: int, level: float) -> int:
    """⌈(n + 1)·level⌉: the rank, from 1, of the threshold among n sorted scores; above n there is no threshold."""
    return math.ceil((n + 1) * level * (1.0 - ROUNDING))


def threshold_of(scores: np.ndarray, level: float) -> float:
    """The ⌈(n + 1)·level⌉-th smallest score; infinite if there are too few."""
    rank = rank_of(len(scores), level)
    return math.inf if rank > len(scores) else float(np.partition(scores, rank - 1)[rank - 1])


def rows_needed(level: float) -> int:
    """The smallest number of rows with a finite threshold."""
    n = max(1, math.floor(level / (1.0 - level)))
    return n if rank_of(n, level) <= n else n + 1


@dataclass(frozen=True)
class ConformalState:
    """What `fit` leaves behind: the threshold, the number of rows it rests on, and what it applies to."""

    threshold: float
    n: int
    name: str = ""
    """The name of the fitted predictions."""
    classes: int | None = None
    class_names: tuple[str, ...] | None = None
    lower: float | None = None
    upper: float | None = None
    """The levels of the two quantiles that intervals start from."""
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        if math.isnan(self.threshold) or self.threshold == -math.inf or self.n < 1:
            raise ValueError(f"a threshold of {self.threshold} from {self.n} rows")


@dataclass(eq=False, kw_only=True, repr=False)
class Conformal:
    """A conformal method: `fit` it on held-out predictions with labels, then `predict` intervals or sets.

    Parameters
    ----------
    level : float
        The probability that an interval or set covers the observed outcome, on average over rows.
    """

    kind: ClassVar[str]
    """The name of the method in files."""
    title: ClassVar[str]
    reference: ClassVar[str]
    task: ClassVar[str]
    without_threshold: ClassVar[str]
    """The consequence of too few rows, in words."""
    level: float = 0.9
    _state: ConformalState | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.level = check_range("level", self.level, 0, 1, inclusive="neither", hint="use level=0.9")

    def __repr__(self) -> str:
        text = f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.options().items())})"
        if self._state is None:
            return text
        return f"{text}: threshold={self.threshold:.4g}, fitted on {self.state.n} rows"

    # ------------------------------------------------------------------------------------------ facts
    def options(self) -> dict[str, Any]:
        """The current value of each option."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if item.init}

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called."""
        return self._state is not None

    @property
    def state(self) -> ConformalState:
        """What `fit` left behind; a UsageError before."""
        if self._state is None:
            name = type(self).__name__
            raise UsageError(name, expected="a fitted method", got="an unfitted one", hint="call fit first")
        return self._state

    @property
    def method(self) -> str:
        """The short name of the method."""
        return self.kind

    @property
    def threshold(self) -> float:
        """The score up to which outcomes belong to the interval or set."""
        return self.state.threshold

    def notes(self) -> tuple[Note, ...]:
        """Warnings about the fit."""
        return self.state.notes

    # ------------------------------------------------------------------------------------------ verbs
    def fit(self, predictions: Any) -> Self:
        """Find the threshold from held-out rows that the model was not trained on; warn if they are too few.

        Parameters
        ----------
        predictions : Classification or Regression
            Held-out predictions with observed outcomes.

        Returns
        -------
        Self
            This method, fitted.
        """
        self._check_task(predictions)
        if getattr(predictions, "labels" if self.task == "classification" else "y", None) is None:
            got = "soft labels only" if predictions.has_labels else "no labels"
            raise LabelsError(
                f"{type(self).__name__}: {predictions.name}", expected="an observed outcome for each row", got=got,
                hint="fit on held-out rows with labels",
            )  # fmt: skip
        properties, n = self._fitted_properties(predictions), predictions.n
        notes: tuple[Note, ...] = properties.pop("notes", ())
        if rank_of(n, self.level) > n:
            text = f"{n} rows are too few for a level of {self.level:g}, which needs {rows_needed(self.level)}"
            text = f"{type(self).__name__}: {text}: {self.without_threshold}"
            notes = (*notes, Note("conformal-too-few-rows", text))
        threshold = threshold_of(self._scores(predictions, properties), self.level)
        self._state = ConformalState(threshold, n, predictions.name, notes=notes, **properties)
        for note in notes:
            warnings.warn(note.message, CalibrantWarning, stacklevel=2)
        return self

    def predict(self, predictions: Any) -> Any:
        """Predict an interval or set for each row; with labels, the result also has the observed coverage.

        Parameters
        ----------
        predictions : Classification or Regression
            New predictions of the same model.

        Returns
        -------
        Intervals or Sets
        """
        self._check_task(predictions)
        check_same_classes(type(self).__name__, predictions, self.state.classes, self.state.class_names)
        return self._predict(
            predictions, level=self.level, method=self.method, threshold=self.threshold, name=predictions.name,
            ids=predictions.info.ids, fitted_on=(self.state.name, self.state.n), notes=self.notes(),
        )  # fmt: skip

    def save(self, path: Any) -> Any:
        """Write the fitted method as JSON, atomically."""
        from calibrant.conformal.lookup import save

        return save(self, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Load a method of this class that `save` wrote."""
        from calibrant.conformal.lookup import load

        method = load(path)
        if not isinstance(method, cls):
            got, hint = type(method).__name__, "use calibrant.conformal.load"
            raise UsageError(str(path), expected=f"a fitted {cls.__name__}", got=got, hint=hint)
        return method

    # ------------------------------------------------------------------------------------- for subclasses
    def _fitted_properties(self, predictions: Any) -> dict[str, Any]:
        """Further fields of `ConformalState`."""
        return {}

    def _scores(self, predictions: Any, properties: dict[str, Any]) -> np.ndarray:
        """The score (n,) of the observed outcomes."""
        raise NotImplementedError

    def _predict(self, predictions: Any, **facts: Any) -> Any:
        """The intervals or sets, with these facts about the method and the rows."""
        raise NotImplementedError

    def _check_task(self, predictions: Any) -> None:
        name = type(self).__name__
        check_in_memory(name, predictions)
        if predictions.task != self.task:
            raise UsageError(
                name, expected=f"{self.task} predictions",
                got=f"{predictions.task} predictions, {show(predictions.name)}",
                hint="regression has split and scaled (SplitConformal) and cqr (ConformalQuantiles), classification "
                "has lac, aps and raps (ConformalSets)",
            )  # fmt: skip
        if predictions.weights is not None:
            raise UsageError(
                name, expected="unweighted rows", got=f"weights in {show(predictions.name)}",
                hint="leave them out: weighted conformal prediction is not supported",
            )  # fmt: skip
