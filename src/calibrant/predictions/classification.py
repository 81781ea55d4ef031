"""Class predictions: scores (M, N, C) that say what they are, with labels and what is known of the rows.

A binary problem may come in one number per row: P(class 1), its log, or its logit, as (N,) or, with members, (M, N, 1).
It is kept so and widened to two classes block by block, as 16-bit scores are widened to 32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibrant.errors import LabelsError, ShapeError, UsageError, ValuesError, show, whole_number
from calibrant.predictions.arrays import SMALL, as_array, as_floats, as_names
from calibrant.predictions.base import Note, Predictions, RowInfo
from calibrant.predictions.checking import SUM_TOLERANCE, check_scores
from calibrant.predictions.labels import as_label_probs, as_labels, look_up

BLOCK_ELEMENTS = 1 << 20


@dataclass(frozen=True, repr=False)
class Classification(Predictions):
    """Scores of C classes for N rows by M members, and what the rows really were."""

    kind: str
    scores: np.ndarray
    labels: np.ndarray | None
    label_probs: np.ndarray | None
    class_names: tuple[str, ...] | None
    member_names: tuple[str, ...] | None
    info: RowInfo
    task = "classification"

    # ------------------------------------------------------------------------------ constructors
    @classmethod
    def from_logits(cls, logits: Any, labels: Any = None, **known: Any) -> Classification:
        """Unnormalised scores: softmax makes them probabilities. See `build` for the other arguments."""
        return cls.build("logits", logits, labels, **known)

    @classmethod
    def from_log_probs(cls, log_probs: Any, labels: Any = None, **known: Any) -> Classification:
        """Logarithms of probabilities; −inf is allowed. See `build` for the other arguments."""
        return cls.build("log_probs", log_probs, labels, **known)

    @classmethod
    def from_probs(cls, probs: Any, labels: Any = None, **known: Any) -> Classification:
        """Probabilities whose rows sum to one within 1e-3. See `build` for the other arguments."""
        return cls.build("probs", probs, labels, **known)

    @classmethod
    def build(
        cls,
        kind: str,
        scores: Any,
        labels: Any = None,
        *,
        classes: Any = None,
        member_names: Any = None,
        label_probs: Any = None,
        ids: Any = None,
        weights: Any = None,
        columns: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        name: str = "predictions",
        check: bool = True,
    ) -> Classification:
        """Scores (N, C) or (M, N, C), or one number per row of a binary problem: (N,) or (M, N, 1).

        labels: (N,) whole numbers, or names that stand in `classes`; label_probs: (N, C) soft labels; weights: (N,)
        sampling weights; columns: (N,) arrays to slice by. Without labels, what needs them is skipped. check: look at
        every score now, unless there are many; they are looked at again when they are evaluated.
        """
        array = _with_members(as_floats(scores, kind), kind)
        members, n, width = array.shape
        if width == 1:
            _check_one_number(array, kind)
        n_classes = max(width, 2)
        _refuse_transposed(array, labels, kind)
        names = None if classes is None else as_names(classes, "classes", n_classes)
        made = cls(
            kind=kind,
            scores=array,
            labels=None if labels is None else as_labels(labels, n, n_classes, names),
            label_probs=None if label_probs is None else as_label_probs(label_probs, n, n_classes),
            class_names=names,
            member_names=None if member_names is None else as_names(member_names, "member_names", members),
            info=RowInfo.build(n, ids=ids, weights=weights, columns=columns, meta=meta, name=name),
        )
        if check and array.size <= SMALL:
            for start, block in made.score_blocks():
                check_scores(block, kind, start)
            return made.with_notes(made._doubts())
        return made

    @classmethod
    def from_sklearn(cls, estimator: Any, X: Any, y: Any = None, **known: Any) -> Classification:
        """`estimator.predict_proba(X)`, its classes by name; labels are looked up among them."""
        if not hasattr(estimator, "predict_proba"):
            raise UsageError(
                "from_sklearn",
                expected="a fitted classifier with predict_proba",
                came=f"got {type(estimator).__name__}",
                do="use a probabilistic classifier, or from_logits on its decision function",
            )
        known.setdefault("name", type(estimator).__name__)
        values = np.asarray(estimator.classes_)
        labels = None if y is None else look_up(as_array(y, "y"), values)
        return cls.from_probs(estimator.predict_proba(X), labels, classes=values, **known)

    @classmethod
    def from_torch(
        cls,
        *,
        logits: Any = None,
        log_probs: Any = None,
        probs: Any = None,
        labels: Any = None,
        **known: Any,
    ) -> Classification:
        """Tensors of any device and precision; say which of logits, log_probs and probs they are."""
        given = {"logits": logits, "log_probs": log_probs, "probs": probs}
        kinds = [kind for kind, value in given.items() if value is not None]
        if len(kinds) != 1:
            raise UsageError(
                "from_torch",
                expected="exactly one of logits, log_probs and probs",
                came=f"got {', '.join(kinds) or 'none'}",
                do="name what the tensor holds, e.g. from_torch(logits=model(x), labels=y)",
            )
        return cls.build(kinds[0], given[kinds[0]], labels, **known)

    # ------------------------------------------------------------------------------------- shape
    @property
    def members(self) -> int:
        """The number of members; a single model is one."""
        return self.scores.shape[0]

    @property
    def classes(self) -> int:
        """The number of classes."""
        return max(self.scores.shape[2], 2)

    @property
    def has_labels(self) -> bool:
        """Whether labels, hard or soft, are known."""
        return self.labels is not None or self.label_probs is not None

    @property
    def soft(self) -> bool:
        """Whether rows are scored against soft labels: where these are all there is."""
        return self.labels is None and self.label_probs is not None

    def class_index(self, name: str) -> int:
        """The index of a class given by name or number."""
        if self.class_names and name in self.class_names:
            return self.class_names.index(name)
        place = whole_number(name)
        if place is not None and place < self.classes:
            return place
        raise UsageError(
            "class",
            expected=f"a class name or a number below {self.classes}",
            came=f"got {show(name)}",
            do="see `calibrant describe` for the classes of the input",
        )

    def label_indices(self, labels: np.ndarray) -> np.ndarray:
        """Labels, given as numbers or names, as the numbers of these classes."""
        return as_labels(labels, len(labels), self.classes, self.class_names)

    # -------------------------------------------------------------------------------------- parts
    def member(self, k: int) -> Classification:
        """One member as predictions of its own."""
        k = self._member_index(k)
        names = None if self.member_names is None else (self.member_names[k],)
        return replace(self, scores=self.scores[k : k + 1], member_names=names)

    def subset(self, members: Iterable[int]) -> Classification:
        """Some members, in the order that is given, as predictions of their own."""
        chosen = self._member_places(members)
        names = None if self.member_names is None else tuple(self.member_names[k] for k in chosen)
        return replace(self, scores=self.scores[chosen], member_names=names)

    def average(self) -> Classification:
        """The average of the members' probabilities, as one model; in log space unless probabilities were given."""
        if self.members == 1:
            return self
        kind = "probs" if self.kind == "probs" else "log_probs"
        mean = np.empty((1, self.n, self.classes))
        for start, block in self.score_blocks():
            stop = start + block.shape[1]
            mean[0, start:stop] = _average(block.astype(np.float64, copy=False), self.kind)
        return replace(self, kind=kind, scores=mean, member_names=None)

    def as_probs(self) -> Classification:
        """The same predictions as probabilities of every class, in double precision."""
        if self.kind == "probs" and self.scores.shape[2] > 1:
            return self
        out = np.empty((self.members, self.n, self.classes))
        for start, block in self.score_blocks():
            wide = block.astype(np.float64, copy=False)
            if self.kind != "probs":
                wide = np.exp(wide - np.logaddexp.reduce(wide, axis=2, keepdims=True))
            out[:, start : start + block.shape[1]] = wide
        return replace(self, kind="probs", scores=out)

    def with_soft_labels(self) -> Classification:
        """The same predictions, scored against `label_probs` instead of `labels`."""
        if self.label_probs is None:
            raise LabelsError(
                "soft labels",
                expected="label_probs (N, C)",
                came="there are none",
                do="pass label_probs, or score against labels",
            )
        return replace(self, labels=None)

    def score_blocks(self, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, scores (M, n, C)) in C order, float32 or float64; the whole at once where it is that already."""
        scores = self.scores
        ready = scores.flags.c_contiguous and scores.dtype in (np.float32, np.float64)
        if ready and scores.dtype.isnative and scores.shape[2] > 1 and (rows or self.n) >= self.n:
            yield 0, scores
            return
        dtype = np.float64 if scores.dtype.itemsize == 8 else np.float32
        step = rows or max(1, BLOCK_ELEMENTS // (self.members * self.classes))
        for start in range(0, self.n, step):
            block = scores[:, start : start + step]
            if block.shape[2] == 1:
                block = two_classes(block[:, :, 0], self.kind)
            yield start, np.ascontiguousarray(block, dtype)

    def _take(self, rows: np.ndarray) -> Self:
        return replace(
            self,
            scores=self.scores[:, rows],
            labels=None if self.labels is None else self.labels[rows],
            label_probs=None if self.label_probs is None else self.label_probs[rows],
            info=self.info.select(rows),
        )

    def _with_info(self, info: RowInfo) -> Self:
        return replace(self, info=info)

    def _doubts(self) -> tuple[Note, ...]:
        """What was taken as it was declared, and looks as if something else was meant."""
        lowest = 0 if self.labels is None else int(self.labels.min())
        return doubts(self.name, self.like_probs(), lowest, self.n, self.classes)

    def like_probs(self) -> bool:
        """Whether these are logits that could be probabilities: in [0, 1], with rows that sum to 1."""
        scores = self.scores
        if self.kind != "logits" or scores.shape[2] < 2 or not (scores[:, :8] >= 0).all():
            return False
        unit = scores.min() >= 0 and scores.max() <= 1
        return bool(unit and np.allclose(scores.sum(axis=2, dtype=np.float64), 1.0, atol=SUM_TOLERANCE))

    def notes(self) -> tuple[Note, ...]:
        """What the user should know of these predictions."""
        if self.labels is None or self.label_probs is None:
            return super().notes()
        message = "both labels and label_probs are given: rows are scored against labels (--soft takes label_probs)"
        return (*super().notes(), Note("two-kinds-of-labels", message))

    def __repr__(self) -> str:
        return (
            f"Classification({self.name!r}, {self.kind}, rows={self.n}, classes={self.classes}, "
            f"members={self.members}, labels={'soft' if self.soft else self.labels is not None})"
        )


def doubts(name: str, like_probs: bool, lowest_label: int, n: int, classes: int) -> tuple[Note, ...]:
    """What is said of predictions that look as if something else was meant."""
    out = []
    if like_probs:
        said = "the logits lie in [0, 1] and sum to 1 in every row; if they are probabilities, say probs"
        out.append(Note("logits-like-probs", f"{name}: {said}"))
    if lowest_label == 1 and classes > 2 and n >= 20 * classes:
        said = "no label is 0; if labels count from 1, subtract 1"
        out.append(Note("labels-from-one", f"{name}: {said}"))
    return tuple(out)


# ------------------------------------------------------------------------------------------ checks
def _with_members(array: np.ndarray, kind: str) -> np.ndarray:
    """The array as (M, N, C), or (M, N, 1) where one number stands for two classes."""
    shapes = {1: (1, *array.shape, 1), 2: (1, *array.shape), 3: array.shape}
    if array.ndim not in shapes:
        raise ShapeError(
            kind,
            expected="shape (N, C) or (M, N, C), or (N,) for a binary problem",
            came=f"its shape is {array.shape}",
            do="put members first, rows second, classes last",
        )
    if array.size == 0:
        raise ShapeError(
            kind,
            expected="at least one member, one row and one class",
            came=f"its shape is {array.shape}",
            do="check how the file was written",
        )
    if array.ndim == 2 and array.shape[1] == 1:
        raise ShapeError(
            kind,
            expected="at least two classes",
            came=f"its shape is {array.shape}",
            do="drop the last axis if it holds the one number of a binary problem",
        )
    return array.reshape(shapes[array.ndim])


def _check_one_number(array: np.ndarray, kind: str) -> None:
    """Of a binary problem: P(class 1) in [0, 1], its log at most 0; logits may be anything."""
    low, high = {"probs": (0.0, 1.0), "log_probs": (-np.inf, 0.0)}.get(kind, (-np.inf, np.inf))
    odd = (array < low) | (array > high)
    if odd.any():
        raise ValuesError(
            kind,
            expected=f"numbers from {low:g} to {high:g} for P(class 1)" + (" in logs" * (kind != "probs")),
            came=f"row {int(np.argmax(odd.any(axis=(0, 2))))} is {array[odd][0]}",
            do="use from_logits (key 'logits') if they are not probabilities",
        )


def _refuse_transposed(array: np.ndarray, labels: Any, kind: str) -> None:
    """Labels that are as many as another axis is long tell that the scores lie on their side."""
    members, n, width = array.shape
    count = len(labels) if isinstance(labels, list | tuple) or len(getattr(labels, "shape", ())) == 1 else n
    if count == n or count not in (members, width):
        return
    is_width = count == width
    given = ("(M, C, N)" if is_width else "(N, M, C)") if members > 1 else "(C, N)"
    raise ShapeError(
        kind,
        expected=f"rows second to last: shape (N, C) or (M, N, C), with N = {count} labels",
        came=f"its shape {array.shape if members > 1 else (n, width)} looks like {given}",
        do="transpose it",
    )


# ---------------------------------------------------------------------------------------- numbers
def two_classes(score: np.ndarray, kind: str) -> np.ndarray:
    """Both classes (M, n, 2) from the one number (M, n) that stands for class 1."""
    if kind == "logits":
        other = np.zeros_like(score)
    elif kind == "probs":
        other = 1 - score
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            other = np.log(-np.expm1(score.astype(np.float64)))
    return np.stack([other, score], axis=-1)


def _average(block: np.ndarray, kind: str) -> np.ndarray:
    """Mean probability over members (n, C), or its log where scores are logs."""
    if kind == "probs":
        return (block / block.sum(axis=2, keepdims=True)).mean(axis=0)
    logs = block - np.logaddexp.reduce(block, axis=2, keepdims=True)
    return np.logaddexp.reduce(logs, axis=0) - np.log(block.shape[0])
