"""Arrays as they come in: tensors, lists, data-frame columns, made into NumPy without importing their libraries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calibrant.errors import ShapeError, ValuesError, show

SMALL = 1 << 22
"""Elements up to which values are checked at once; larger inputs are checked in the one pass that reads them."""


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
        raise ShapeError(
            what,
            expected="a rectangular array",
            came="its rows differ in length",
            do="pad or split it",
        ) from error
    if array.dtype.name == "bfloat16":  # of ml_dtypes, as JAX gives it
        array = array.astype(np.float32)
    if array.dtype == object:
        array = _text_of_objects(array, what)
    if array.dtype.kind not in "biufUS":
        raise ValuesError(
            what,
            expected="numbers or text",
            came=f"its items are {array.dtype}",
            do="convert it to a numeric or string array",
        )
    return _text_of_bytes(array, what) if array.dtype.kind == "S" else array


def _text_of_bytes(array: np.ndarray, what: str) -> np.ndarray:
    try:
        return np.char.decode(array, "utf-8")
    except UnicodeDecodeError as error:
        raise ValuesError(
            what, expected="text in UTF-8", came=f"its bytes are not ({error.reason})", do="save it as a string array"
        ) from error


def _text_of_objects(array: np.ndarray, what: str) -> np.ndarray:
    """Data frames keep text as Python objects; anything else of that type is refused."""
    if all(isinstance(item, str) for item in array.ravel()):
        return array.astype(np.str_)
    raise ValuesError(
        what,
        expected="numbers or text",
        came="it holds Python objects",
        do="convert it to a numeric or string array",
    )


def as_floats(value: Any, what: str) -> np.ndarray:
    """An array of real numbers in a floating type; whole numbers become float64."""
    array = as_array(value, what)
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise ValuesError(
            what,
            expected="real numbers",
            came=f"its items are {array.dtype}",
            do="convert it to float32 or float64",
        )
    with np.errstate(over="ignore", invalid="ignore"):
        return array if array.dtype.itemsize <= 8 else array.astype(np.float64)


def as_column(value: Any, what: str, n: int) -> np.ndarray:
    """An array with one item per row."""
    array = as_array(value, what)
    if array.shape != (n,):
        raise ShapeError(
            what,
            expected=f"one item for each of the {n} rows",
            came=f"its shape is {array.shape}",
            do="give it the length of the predictions",
        )
    return array


def as_weights(value: Any, n: int, *, some: bool = True) -> np.ndarray:
    """Sampling weights: finite, not negative, with `some` not all zero; float64."""
    weights = as_floats(as_column(value, "weights", n), "weights").astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        total = (weights**2).sum()
    if not np.isfinite(weights).all() or (weights < 0).any() or not (0 if some else -1) < total < np.inf:
        raise ValuesError(
            "weights",
            expected="finite numbers of at least 0, not all 0, whose squares can be summed",
            came=f"they range from {weights.min()} to {weights.max()}",
            do="drop the rows that should not count, or mend the weights",
        )
    return weights


def mean_over_members(x: np.ndarray) -> np.ndarray:
    """Mean over the first axis in float64, member after member: the same bits for one row, many, and any layout."""
    total = np.zeros(x.shape[1:])
    for member in x:
        total += member
    return total / len(x)


def unit_of(weights: np.ndarray) -> float:
    """The power of two by which weights are divided before they are summed, so that they are below 2."""
    largest = float(weights.max())
    return 2.0 ** math.floor(math.log2(largest)) if 0 < largest < math.inf else 1.0


def as_names(value: Any, what: str, count: int) -> tuple[str, ...]:
    """`count` distinct names; numbers are written out."""
    array = as_array(value, what)
    if array.shape != (count,):
        raise ShapeError(
            what,
            expected=f"{count} names",
            came=f"its shape is {array.shape}",
            do="give one name for each",
        )
    names = tuple(str(item) for item in array.tolist())
    if len(set(names)) < count:
        twice = next(name for name in names if names.count(name) > 1)
        raise ValuesError(
            what,
            expected="distinct names",
            came=f"{show(twice)} stands twice",
            do="rename one of them",
        )
    return names
