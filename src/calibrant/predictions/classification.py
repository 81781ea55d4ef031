"""Classification: scores of C classes for N rows by M members, of a declared kind, with labels.

A binary problem may have one number per row, P(class 1), its log or its logit, as (N,) or (M, N, 1). It is stored in
this form and expanded to two classes block by block, as 16-bit scores are widened to 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from calibrant.errors import LabelsError, ShapeError, UsageError, ValuesError, parse_count, show
from calibrant.predictions.arrays import (
    SMALL,
    SUM_TOLERANCE,
    as_array,
    as_floats,
    as_label_probs,
    as_labels,
    as_names,
    check_scores,
    class_indices,
    tie_tolerance,
)
from calibrant.predictions.base import Note, Predictions, RowInfo
from calibrant.predictions.frames import from_frame, one_of

BLOCK_ELEMENTS = 1 << 20


@dataclass(frozen=True, repr=False)
class Classification(Predictions):
    """Predicted class scores, (N, C) or (M, N, C) with ensemble members first, and labels.

    Use a constructor that says what the numbers are: `from_logits`, `from_log_probs`, `from_probs`, `from_sklearn`
    or `from_torch`. Slicing selects rows, `member(k)` and `subset([0, 2])` select members.

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Classification.from_logits([[2.0, 0.5], [0.1, 1.2], [0.3, 0.2]], labels=[0, 1, 1])
    >>> p
    Classification('predictions', logits, rows=3, classes=2, members=1, labels=True)
    >>> len(p[:2]), p.column("labels").tolist()
    (2, [0, 1, 1])
    """

    kind: str
    scores: np.ndarray
    labels: np.ndarray | None
    label_probs: np.ndarray | None
    class_names: tuple[str, ...] | None
    member_names: tuple[str, ...] | None
    info: RowInfo
    task = "classification"
    ROW_AXES: ClassVar = {"scores": 1, "labels": 0, "label_probs": 0}
    MEMBER_ARRAYS = ("scores",)
    OUTCOMES = ("labels", "label_probs")

    # ------------------------------------------------------------------------------ constructors
    @classmethod
    def from_logits(
        cls,
        logits: Any,
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
    ) -> Classification:
        """Predictions from unnormalised scores, the input of a softmax.

        Parameters
        ----------
        logits : array_like of shape (N, C), (M, N, C), (N,) or (M, N, 1)
            Scores of any framework; members first. One number per row is the logit of class 1 of a binary problem.
        labels : array_like of shape (N,), optional
            Class indices from 0, or names that are in `classes`. Metrics that need labels are skipped without them.
        classes : sequence of str, optional
            Class names in the order of the scores.
        member_names : sequence of str, optional
            Names of the M members.
        label_probs : array_like of shape (N, C), optional
            Soft labels, for example shares of annotators' votes.
        ids : array_like of shape (N,), optional
            Row identifiers, by which models are aligned.
        weights : array_like of shape (N,), optional
            Sampling weights.
        columns : mapping of str to array_like of shape (N,), optional
            Values to group by.
        meta : mapping, optional
            JSON values to keep with the predictions.
        name : str
            The name in results.

        Examples
        --------
        >>> from calibrant import Classification
        >>> Classification.from_logits([[2.0, 0.5], [0.1, 1.2]], ["cat", "dog"], classes=["cat", "dog"], name="net")
        Classification('net', logits, rows=2, classes=2, members=1, labels=True)
        """
        info = {"ids": ids, "weights": weights, "columns": columns, "meta": meta, "name": name}
        names = {"classes": classes, "member_names": member_names}
        return cls.build("logits", logits, labels, label_probs=label_probs, **names, **info)

    @classmethod
    def from_log_probs(
        cls,
        log_probs: Any,
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
    ) -> Classification:
        """Predictions from log probabilities; −inf is allowed.

        Parameters
        ----------
        log_probs : array_like of shape (N, C), (M, N, C), (N,) or (M, N, 1)
            Logarithms of probabilities whose rows sum to 1 within 1e-3.
        labels, classes, member_names, label_probs, ids, weights, columns, meta, name
            As in `from_logits`.

        Examples
        --------
        >>> import numpy as np
        >>> from calibrant import Classification
        >>> Classification.from_log_probs(np.log([[0.7, 0.3], [0.2, 0.8]]), [0, 1])
        Classification('predictions', log_probs, rows=2, classes=2, members=1, labels=True)
        """
        info = {"ids": ids, "weights": weights, "columns": columns, "meta": meta, "name": name}
        names = {"classes": classes, "member_names": member_names}
        return cls.build("log_probs", log_probs, labels, label_probs=label_probs, **names, **info)

    @classmethod
    def from_probs(
        cls,
        probs: Any,
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
    ) -> Classification:
        """Predictions from probabilities.

        Parameters
        ----------
        probs : array_like of shape (N, C), (M, N, C), (N,) or (M, N, 1)
            Probabilities whose rows sum to 1 within 1e-3. One number per row is P(class 1) of a binary problem.
        labels, classes, member_names, label_probs, ids, weights, columns, meta, name
            As in `from_logits`.

        Examples
        --------
        >>> from calibrant import Classification
        >>> Classification.from_probs([0.9, 0.2, 0.6], [1, 0, 1], name="binary")
        Classification('binary', probs, rows=3, classes=2, members=1, labels=True)
        """
        info = {"ids": ids, "weights": weights, "columns": columns, "meta": meta, "name": name}
        names = {"classes": classes, "member_names": member_names}
        return cls.build("probs", probs, labels, label_probs=label_probs, **names, **info)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        labels: str | None = None,
        probs: str | Sequence[str] | None = None,
        logits: str | Sequence[str] | None = None,
        log_probs: str | Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        positive: str | None = None,
        ids: str | None = None,
        weights: str | None = None,
        name: str = "predictions",
    ) -> Classification:
        """Predictions from the columns of a pandas or polars data frame.

        Parameters
        ----------
        frame : DataFrame
            One row per example; columns without a role here are kept to group by.
        labels : str, optional
            The column of labels: class names, or indices from 0.
        probs, logits, log_probs : str or sequence of str
            The columns of scores, exactly one of the three: a list with one column per class, a pattern such as
            ``"p_*"``, or the one column of a binary problem.
        classes : sequence of str, optional
            Class names in the order of the columns; by default the names of the columns, or the text at the ``*``.
        positive : str, optional
            The label that the one column of a binary problem is the probability of.
        ids, weights : str, optional
            Columns of row identifiers and of sampling weights.
        name : str
            The name in results.

        Examples
        --------
        >>> import pandas as pd
        >>> from calibrant import Classification
        >>> frame = pd.DataFrame({"truth": ["cat", "dog"], "cat": [0.8, 0.3], "dog": [0.2, 0.7], "site": ["a", "b"]})
        >>> Classification.from_frame(frame, labels="truth", probs=["cat", "dog"])
        Classification('predictions', probs, rows=2, classes=2, members=1, labels=True)
        """
        options = {"labels": labels, "probs": probs, "logits": logits, "log_probs": log_probs, "positive": positive}
        one_of("from_frame", probs=probs, logits=logits, log_probs=log_probs)
        predictions: Classification = from_frame(
            frame, options, classes=classes, ids=ids, weights=weights, name=name
        )  # fmt: skip
        return predictions

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
        """Predictions of a kind, "logits", "log_probs" or "probs"; see `from_logits` for the arguments.

        With `check`, all scores of arrays up to 4 million elements are validated now; evaluation validates every score.
        """
        array = as_floats(scores, kind)
        shapes = {1: (1, *array.shape, 1), 2: (1, *array.shape), 3: array.shape}  # (M, N, C), or (M, N, 1) if binary
        if array.ndim not in shapes:
            expected = "shape (N, C) or (M, N, C), or (N,) for a binary problem"
            hint = "put members first, rows second, classes last"
            raise ShapeError(kind, expected=expected, got=f"shape {array.shape}", hint=hint)
        if array.size == 0:
            expected, hint = "at least one member, one row and one class", "check how the array was created or written"
            raise ShapeError(kind, expected=expected, got=f"shape {array.shape}", hint=hint)
        if array.ndim == 2 and array.shape[1] == 1:
            hint = "use .squeeze(-1) if it holds the one number of a binary problem"
            raise ShapeError(kind, expected="at least two classes", got=f"shape {array.shape}", hint=hint)
        array = array.reshape(shapes[array.ndim])
        members, n, width = array.shape
        if width == 1:  # logits may have any value
            low, high = {"probs": (0.0, 1.0), "log_probs": (-np.inf, 0.0)}.get(kind, (-np.inf, np.inf))
            invalid = (array < low) | (array > high)
            if invalid.any():
                raise ValuesError(
                    kind,
                    expected=f"{'log ' * (kind != 'probs')}P(class 1) from {low:g} to {high:g}",
                    got=f"{array[invalid][0]} in row {int(np.argmax(invalid.any(axis=(0, 2))))}",
                    hint="use from_logits (key 'logits') if these are not probabilities",
                )
        count = len(labels) if isinstance(labels, list | tuple) or len(getattr(labels, "shape", ())) == 1 else n
        if count != n and count in (members, width):
            order = ("(M, C, N)" if count == width else "(N, M, C)") if members > 1 else "(C, N)"
            got, hint = f"shape {array.shape if members > 1 else (n, width)}, which looks like {order}", "transpose it"
            raise ShapeError(kind, expected=f"shape (N, C) or (M, N, C), with N = {count} labels", got=got, hint=hint)
        n_classes = max(width, 2)
        names = None if classes is None else as_names(classes, "classes", n_classes)
        predictions = cls(
            kind=kind,
            scores=array,
            labels=None if labels is None else as_labels(labels, n, n_classes, names),
            label_probs=None if label_probs is None else as_label_probs(label_probs, n, n_classes),
            class_names=names,
            member_names=None if member_names is None else as_names(member_names, "member_names", members),
            info=RowInfo.build(n, ids=ids, weights=weights, columns=columns, meta=meta, name=name),
        )
        if not check or array.size > SMALL:
            return predictions
        for start, block in predictions.score_blocks():
            check_scores(block, kind, start)
        lowest = 0 if predictions.labels is None else int(predictions.labels.min())
        return predictions.with_notes(plausibility_notes(name, predictions.looks_like_probs(), lowest, n, n_classes))

    @classmethod
    def from_sklearn(cls, estimator: Any, X: Any, y: Any = None, **kwargs: Any) -> Classification:
        """Predictions of a fitted scikit-learn classifier, by its `predict_proba`.

        Parameters
        ----------
        estimator : classifier
            A fitted estimator or pipeline with `predict_proba`; its `classes_` name the classes.
        X : array_like
            The inputs.
        y : array_like of shape (N,), optional
            The labels, with the values the classifier was fitted on.
        **kwargs
            As in `from_logits`; `name` defaults to the type of the estimator.

        Examples
        --------
        >>> from calibrant import Classification
        >>> from sklearn.dummy import DummyClassifier
        >>> X, y = [[0], [1], [2]], ["no", "yes", "yes"]
        >>> Classification.from_sklearn(DummyClassifier(strategy="prior").fit(X, y), X, y)
        Classification('DummyClassifier', probs, rows=3, classes=2, members=1, labels=True)
        """
        if not hasattr(estimator, "predict_proba"):
            expected = "a fitted classifier with predict_proba"
            hint = "use a probabilistic classifier, or from_logits on its decision function"
            raise UsageError("from_sklearn", expected=expected, got=type(estimator).__name__, hint=hint)
        kwargs.setdefault("name", type(estimator).__name__)
        values = np.asarray(estimator.classes_)
        labels = None if y is None else class_indices(as_array(y, "y"), values)
        return cls.from_probs(estimator.predict_proba(X), labels, classes=values, **kwargs)

    @classmethod
    def from_torch(
        cls, *, logits: Any = None, log_probs: Any = None, probs: Any = None, labels: Any = None, **kwargs: Any
    ) -> Classification:
        """Predictions from PyTorch tensors on any device and in any precision.

        Parameters
        ----------
        logits, log_probs, probs : Tensor of shape (N, C), (M, N, C), (N,) or (M, N, 1)
            Exactly one of them: it says what the numbers are.
        labels : Tensor of shape (N,), optional
            Class indices.
        **kwargs
            As in `from_logits`.

        Examples
        --------
        >>> import torch
        >>> from calibrant import Classification
        >>> Classification.from_torch(logits=torch.eye(3), labels=torch.arange(3))
        Classification('predictions', logits, rows=3, classes=3, members=1, labels=True)
        """
        given = {"logits": logits, "log_probs": log_probs, "probs": probs}
        kinds = [kind for kind, value in given.items() if value is not None]
        if len(kinds) != 1:
            expected, hint = "exactly one of logits, log_probs and probs", "write from_torch(logits=model(x), labels=y)"
            raise UsageError("from_torch", expected=expected, got=", ".join(kinds) or "none", hint=hint)
        return cls.build(kinds[0], given[kinds[0]], labels, **kwargs)

    # ------------------------------------------------------------------------------------- shape
    @property
    def classes(self) -> int:
        """The number of classes."""
        return max(self.scores.shape[2], 2)

    @property
    def soft(self) -> bool:
        """Whether rows are scored against soft labels, because there are no hard ones."""
        return self.labels is None and self.label_probs is not None

    def class_index(self, name: str) -> int:
        """The index of a class from its name or number."""
        if self.class_names and name in self.class_names:
            return self.class_names.index(name)
        index = parse_count(name)
        if index is not None and index < self.classes:
            return index
        hint = "run `calibrant describe FILE` to list the classes"
        raise UsageError("class", expected=f"a class name or a number below {self.classes}", got=show(name), hint=hint)

    def label_indices(self, labels: np.ndarray) -> np.ndarray:
        """Convert labels, class indices or names, to class indices."""
        return as_labels(labels, len(labels), self.classes, self.class_names)

    # -------------------------------------------------------------------------------------- parts
    def average(self) -> Classification:
        """The mean of the members' probabilities as one model; in log space unless the scores are probabilities.

        Classes that differ from the most probable one by rounding only are tied with it.
        """
        if self.members == 1:
            return self
        kind = "probs" if self.kind == "probs" else "log_probs"
        mean = np.empty((1, self.n, self.classes))
        for start, scores in self.score_blocks():
            nearly = 1.0 - tie_tolerance(self.members, scores.dtype)
            block = scores.astype(np.float64, copy=False)
            if kind == "probs":
                average = (block / block.sum(axis=2, keepdims=True)).mean(axis=0)
                top = average.max(axis=1, keepdims=True)
                average = np.where(average >= top * nearly, top, average)
            else:
                logs = block - np.logaddexp.reduce(block, axis=2, keepdims=True)
                average = np.logaddexp.reduce(logs, axis=0) - np.log(self.members)
                top = average.max(axis=1, keepdims=True)
                average = np.where(average >= top + np.log(nearly), top, average)
            mean[0, start : start + block.shape[1]] = average
        return replace(self, kind=kind, scores=mean, member_names=None)

    def as_probs(self) -> Classification:
        """The same predictions as float64 probabilities of every class."""
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
            hint = "pass label_probs, or score against labels"
            raise LabelsError("soft labels", expected="label_probs (N, C)", got="none", hint=hint)
        return replace(self, labels=None)

    def score_blocks(self, rows: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first row, scores (M, n, C)) in C order as float32 or float64; without a copy if possible."""
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
                block = two_class_scores(block[:, :, 0], self.kind)
            yield start, np.ascontiguousarray(block, dtype)

    def looks_like_probs(self) -> bool:
        """Whether the "logits" lie in [0, 1] and sum to 1 in every row."""
        scores = self.scores
        if self.kind != "logits" or scores.shape[2] < 2 or not (scores[:, :8] >= 0).all():
            return False
        unit = scores.min() >= 0 and scores.max() <= 1
        return bool(unit and np.allclose(scores.sum(axis=2, dtype=np.float64), 1.0, atol=SUM_TOLERANCE))

    def notes(self) -> tuple[Note, ...]:
        """Remarks on these predictions that the user should see."""
        if self.labels is None or self.label_probs is None:
            return super().notes()
        message = "both labels and label_probs are given: labels are used; --soft uses label_probs"
        return (*super().notes(), Note("two-kinds-of-labels", message))

    def __repr__(self) -> str:
        return (
            f"Classification({self.name!r}, {self.kind}, rows={self.n}, classes={self.classes}, "
            f"members={self.members}, labels={'soft' if self.soft else self.labels is not None})"
        )


def plausibility_notes(name: str, looks_like_probs: bool, lowest_label: int, n: int, classes: int) -> tuple[Note, ...]:
    """Warn of logits that look like probabilities, and of labels that seem to count from 1."""
    out = []
    if looks_like_probs:
        message = "the logits lie in [0, 1] and sum to 1 in every row; if they are probabilities, declare them as probs"
        out.append(Note("logits-like-probs", f"{name}: {message}"))
    if lowest_label == 1 and classes > 2 and n >= 20 * classes:
        out.append(Note("labels-from-one", f"{name}: no label is 0; if labels count from 1, subtract 1"))
    return tuple(out)


# ---------------------------------------------------------------------------------------- numbers
def two_class_scores(score: np.ndarray, kind: str) -> np.ndarray:
    """Scores of both classes (M, n, 2) from the score (M, n) of class 1."""
    if kind == "logits":
        other = np.zeros_like(score)
    elif kind == "probs":
        other = 1 - score
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            other = np.log(-np.expm1(score.astype(np.float64)))
    return np.stack([other, score], axis=-1)
