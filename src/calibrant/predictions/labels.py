"""Labels as they come in: numbers of classes, their names, or a probability for each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.errors import LabelsError, ShapeError, ValuesError, show
from calibrant.predictions.arrays import as_array, as_column, as_floats
from calibrant.predictions.checking import SUM_TOLERANCE


def as_labels(value: Any, n: int, classes: int, names: tuple[str, ...] | None) -> np.ndarray:
    """Labels (N,) as numbers of classes; names are looked up."""
    labels = as_column(as_array(value, "labels"), "labels", n)
    if labels.dtype.kind == "U":
        return _named_labels(labels, names)
    if labels.dtype.kind not in "biu":
        raise LabelsError(
            "labels",
            expected="whole numbers, or names with `classes`",
            came=f"its items are {labels.dtype}, such as {labels[0]}",
            do="convert them with .astype(int)",
        )
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise LabelsError(
            "labels",
            expected=f"numbers from 0 to {classes - 1} for {classes} classes",
            came=f"they range from {low} to {high}",
            do="count classes from 0, and drop rows without a label",
        )
    return labels.astype(np.int64)


def _named_labels(labels: np.ndarray, names: tuple[str, ...] | None) -> np.ndarray:
    if names is None:
        raise LabelsError(
            "labels",
            expected="whole numbers, or names with `classes`",
            came=f"they are text, such as {show(labels[0])}, and no classes are named",
            do="pass classes in the order of the scores",
        )
    return look_up(labels, np.array(names))


def look_up(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The position of each label among the class values."""
    place = {value: k for k, value in enumerate(values.tolist())}
    found = [place.get(label, -1) for label in labels.tolist()]
    if -1 in found:
        row = found.index(-1)
        raise LabelsError(
            "labels",
            expected=f"one of the {len(values)} classes",
            came=f"row {row} is {show(labels[row])}",
            do="name every class in `classes`, spelt alike",
        )
    return np.array(found, np.int64)


def as_label_probs(value: Any, n: int, classes: int) -> np.ndarray:
    """Soft labels (N, C) in float64, whose rows sum to one."""
    probs = as_floats(value, "label_probs").astype(np.float64)
    if probs.shape != (n, classes):
        raise ShapeError(
            "label_probs",
            expected=f"shape ({n}, {classes})",
            came=f"its shape is {probs.shape}",
            do="give one probability per row and class",
        )
    with np.errstate(over="ignore", invalid="ignore"):
        sums = probs.sum(axis=1)
    if not (probs >= 0).all() or not (np.abs(sums - 1) <= SUM_TOLERANCE).all():
        row = int(np.argmax(~((probs >= 0).all(axis=1) & (np.abs(sums - 1) <= SUM_TOLERANCE))))
        raise ValuesError(
            "label_probs",
            expected="rows of probabilities that sum to 1",
            came=f"row {row} sums to {sums[row]:.6g} with smallest entry {probs[row].min():.6g}",
            do="divide votes by their number",
        )
    rounding = probs.shape[1] * np.finfo(np.float64).eps
    return np.where(np.abs(sums - 1)[:, None] <= rounding, probs, probs / sums[:, None])
