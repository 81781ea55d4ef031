"""Arrays of predictions: converted from user input and validated, with messages that name the first bad entry.

The file format has the arrays `RESERVED`; any other array of length N is a column. Rows are on axis 1 of (M, N, C)
scores and of (M, N) or (S, N) arrays of one number per row, else on axis 0.

Scores: logits are real numbers or −inf (an excluded class), but not −inf for all classes of a row. log_probs: rows sum
to 1 after exp, −inf allowed. probs: not negative. The probabilities of a row must sum to 1 within `SUM_TOLERANCE`; they
are divided by their sum. The constructors validate small arrays, the evaluation every block.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calibrant.errors import LabelsError, ShapeError, ValuesError, show

SMALL = 1 << 22
TIE_ROUNDINGS = 8
"""Roundings of one probability, beside those of the sum over members."""
"""Arrays of at most this many elements are checked by the constructors; larger ones when they are evaluated."""


def tie_tolerance(members: int, dtype: np.dtype) -> float:
    """The relative difference up to which two classes of an averaged prediction are tied.

    It is the rounding of an average over members: probabilities such as 0.1 + 0.7 and 0.5 + 0.3 are equal, their sums
    in floating-point numbers may not be.
    """
    return (members + TIE_ROUNDINGS) * float(np.finfo(dtype).eps)


def as_array(value: Any, what: str) -> np.ndarray:
    """A NumPy array of numbers, booleans or text; bfloat16 tensors are widened to float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy()
    try:
        array = np.asarray(value)
    except ValueError as error:
        hint = "pad the shorter rows, or pass fewer rows"
        raise ShapeError(what, expected="a rectangular array", got="rows that differ in length", hint=hint) from error
    if array.dtype.name == "bfloat16":  # the ml_dtypes type that JAX arrays use
        array = array.astype(np.float32)
    if array.dtype == object and all(isinstance(item, str) for item in array.ravel()):
        array = array.astype(np.str_)  # data frames store text as Python objects
    if array.dtype.kind not in "biufUS":
        got = "Python objects" if array.dtype == object else f"dtype {array.dtype}"
        hint = "convert it with .astype(float) or .astype(str)"
        raise ValuesError(what, expected="numbers or text", got=got, hint=hint)
    if array.dtype.kind != "S":
        return array
    try:
        return np.char.decode(array, "utf-8")
    except UnicodeDecodeError as error:
        got, hint = f"bytes that are not UTF-8 ({error.reason})", "save it as a string array"
        raise ValuesError(what, expected="text in UTF-8", got=got, hint=hint) from error


def as_floats(value: Any, what: str) -> np.ndarray:
    """An array of real numbers with a floating dtype; integers become float64."""
    array = as_array(value, what)
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        hint = "convert it with .astype('float64')"
        raise ValuesError(what, expected="real numbers", got=f"dtype {array.dtype}", hint=hint)
    with np.errstate(over="ignore", invalid="ignore"):
        return array if array.dtype.itemsize <= 8 else array.astype(np.float64)


def as_column(value: Any, what: str, n: int) -> np.ndarray:
    """An array with one value per row."""
    array = as_array(value, what)
    if array.shape != (n,):
        hint = "pass one value per row of the predictions"
        raise ShapeError(what, expected=f"shape ({n},), one value per row", got=f"shape {array.shape}", hint=hint)
    return array


def as_weights(value: Any, n: int, *, allow_all_zero: bool = False) -> np.ndarray:
    """Sampling weights in float64: finite and not negative."""
    weights = as_floats(as_column(value, "weights", n), "weights").astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        total = (weights**2).sum()
    valid = np.isfinite(weights).all() and (weights >= 0).all() and (-1 if allow_all_zero else 0) < total < np.inf
    if not valid:
        raise ValuesError(
            "weights",
            expected="finite numbers of at least 0, not all 0, with a finite sum of squares",
            got=f"values from {weights.min()} to {weights.max()}",
            hint="fix the weights, or drop the rows that should not count",
        )
    return weights


def mean_over_members(x: np.ndarray) -> np.ndarray:
    """Mean over the first axis in float64, summed in member order: bit-identical for any number of rows and layout."""
    total = np.zeros(x.shape[1:])
    for member in x:
        total += member
    return total / len(x)


def power_of_two_unit(weights: np.ndarray) -> float:
    """The power of two that scales the weights below 2 before they are summed."""
    largest = float(weights.max())
    return 2.0 ** math.floor(math.log2(largest)) if 0 < largest < math.inf else 1.0


def as_names(value: Any, what: str, count: int) -> tuple[str, ...]:
    """`count` distinct names; numbers are converted to text."""
    array = as_array(value, what)
    if array.shape != (count,):
        raise ShapeError(what, expected=f"{count} names", got=f"shape {array.shape}", hint=f"pass {count} names")
    names = tuple(str(item) for item in array.tolist())
    if len(set(names)) < count:
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValuesError(what, expected="distinct names", got=f"{show(repeated)} twice", hint="rename one of them")
    return names


SUM_TOLERANCE = 1e-3


def surely_valid(block: np.ndarray, kind: str) -> bool:
    """Whether two reductions rule out every invalid value of a block (M, n, C); False decides nothing.

    NaN spreads to each of them. The sums are those of a product in the block's own precision, with a margin for it.
    """
    if kind == "log_probs" or block.size == 0:
        return False
    if kind == "logits":
        return bool(block.max() < np.inf and block.min() > -np.inf)
    if not block.min() >= 0:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        sums = block.reshape(-1, block.shape[2]) @ np.ones(block.shape[2], block.dtype)
    return bool(sums.max() <= 1.0 + 0.9 * SUM_TOLERANCE and sums.min() >= 1.0 - 0.9 * SUM_TOLERANCE)


def check_scores(block: np.ndarray, kind: str, start: int = 0) -> None:
    """Raise `ValuesError` for the first invalid value of a block (M, n, C) of scores that begins with row `start`."""
    if block.dtype in (np.float32, np.float64) and surely_valid(block, kind):
        return
    block = block.astype(np.float64, copy=False)

    def refuse(invalid: np.ndarray, expected: str, hint: str) -> None:
        if not invalid.any():
            return
        m, i, c = (int(k) for k in np.unravel_index(int(np.argmax(invalid)), invalid.shape))
        count = int(invalid.any(axis=(0, 2)).sum())
        position = f"row {start + i}, class {c}" + (f" of member {m}" if block.shape[0] > 1 else "")
        rows = f" ({count} such rows in this block)" if count > 1 else ""
        raise ValuesError(kind, expected=expected, got=f"{block[m, i, c]} in {position}{rows}", hint=hint)

    refuse(np.isnan(block), "numbers", "drop or fix the row")
    refuse(np.isposinf(block), "finite numbers", "drop or fix the row")
    if kind == "probs":
        refuse(block < 0, "probabilities of at least 0", "use from_logits (key 'logits') if these are logits")
    else:
        impossible = np.isneginf(block).all(axis=2, keepdims=True) & np.isneginf(block)
        refuse(impossible, "a finite entry per row", "give at least one class of every row a finite score")
    if kind == "logits":
        return
    with np.errstate(over="ignore"):
        sums = (block if kind == "probs" else np.exp(block)).sum(axis=2)
    deviation = np.abs(sums - 1.0)
    worst = np.unravel_index(int(np.argmax(deviation)), deviation.shape)
    if deviation[worst] > SUM_TOLERANCE:
        other = "from_logits (key 'logits')" if kind == "log_probs" else "from_logits or from_log_probs"
        raise ValuesError(
            kind,
            expected=f"probabilities that sum to 1 within {SUM_TOLERANCE:g} in every row",
            got=f"a sum of {sums[worst]:.6g} in row {start + int(worst[1])}",
            hint=f"normalise the rows, or use {other} if these are not {kind}",
        )


def as_labels(value: Any, n: int, classes: int, names: tuple[str, ...] | None) -> np.ndarray:
    """Labels (N,) as class indices; class names are looked up."""
    labels = as_column(as_array(value, "labels"), "labels", n)
    expected = "class indices, or names that are in `classes`"
    if labels.dtype.kind == "U":
        if names is None:
            hint = "pass classes=[…], the class names in the order of the scores"
            raise LabelsError("labels", expected=expected, got=f"{show(labels[0])} without classes", hint=hint)
        return class_indices(labels, np.array(names))
    if labels.dtype.kind not in "biu":
        got, hint = f"{labels.dtype}, such as {labels[0]}", "convert them with .astype(int)"
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            row = int(np.isfinite(labels).argmin())
            got, hint = f"{labels[row]} in row {row}", "drop rows without a label"
        raise LabelsError("labels", expected=expected, got=got, hint=hint)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        expected = f"integers from 0 to {classes - 1} for {classes} classes"
        hint = "count classes from 0, and drop rows without a label"
        raise LabelsError("labels", expected=expected, got=f"labels from {low} to {high}", hint=hint)
    return labels.astype(np.int64)


def class_indices(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The index of each label among the class values."""
    index = {value: k for k, value in enumerate(values.tolist())}
    indices = [index.get(label, -1) for label in labels.tolist()]
    if -1 in indices:
        row = indices.index(-1)
        expected, hint = f"one of the {len(values)} classes", "list every class in `classes`, with the same spelling"
        if str(labels[row]).strip().lower() in ("", "nan", "none"):
            hint = "drop rows without a label"
        raise LabelsError("labels", expected=expected, got=f"row {row}: {show(labels[row])}", hint=hint)
    return np.array(indices, np.int64)


def as_label_probs(value: Any, n: int, classes: int) -> np.ndarray:
    """Soft labels (N, C) in float64, normalised to rows that sum to 1."""
    probs = as_floats(value, "label_probs").astype(np.float64)
    if probs.shape != (n, classes):
        expected, hint = f"shape ({n}, {classes})", "pass one probability per row and class"
        raise ShapeError("label_probs", expected=expected, got=f"shape {probs.shape}", hint=hint)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = probs.sum(axis=1)
    valid = (probs >= 0).all(axis=1) & (np.abs(sums - 1) <= SUM_TOLERANCE)
    if not valid.all():
        row = int(np.argmax(~valid))
        got = f"a sum of {sums[row]:.6g} and a smallest entry of {probs[row].min():.6g} in row {row}"
        expected, hint = "rows of probabilities that sum to 1", "divide the votes of each row by their number"
        raise ValuesError("label_probs", expected=expected, got=got, hint=hint)
    rounding = probs.shape[1] * np.finfo(np.float64).eps
    return np.where(np.abs(sums - 1)[:, None] <= rounding, probs, probs / sums[:, None])


SCORE_KEYS = ("logits", "log_probs", "probs")
NUMBER_KEYS = ("mean", "std", "var", "samples", "quantiles")
CONSTANTS = ("classes", "member_names", "levels", "meta")
"""Arrays without rows."""
RESERVED = [
    *SCORE_KEYS, "labels", "classes", "member_names", "ids", "weights", "label_probs", "meta", "confidence", "correct",
    "y", *NUMBER_KEYS, "levels",
]  # fmt: skip
"""All names of the format; any other array of length N is a column."""


def row_axis(key: str, ndim: int) -> int:
    """The axis of the rows in array `key` with `ndim` dimensions."""
    if key in SCORE_KEYS:
        return 1 if ndim == 3 else 0
    return 1 if key in ("confidence", "mean", "std", "var", "samples") and ndim == 2 else 0
