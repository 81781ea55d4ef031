"""Shifts of tables: rows are floats (N, D), NumPy arrays or PyTorch tensors.

Scales, directions and regions come from the rows themselves, so that a shift is applied to a whole set at once.
Shifts that select rows return indices from `indices`, so that labels can follow.

References: Shimodaira (2000), Journal of Statistical Planning and Inference 90: 227-244, for covariate shift; Gopal
(2021) for a region that training rows leave out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.errors import ShapeError, ValuesError
from calibrant.shift.backend import Array, Backend, backend_of
from calibrant.shift.philox import Draws
from calibrant.shift.registry import register

NOISE = (0.1, 0.2, 0.4, 0.8, 1.6)
FACTORS = (1.1, 1.25, 1.5, 2.0, 3.0)
TILTS = (0.25, 0.5, 1.0, 1.5, 2.0)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
SEVERITIES = (1, 2, 3, 4, 5)


def table(rows: Any, arrays: Backend) -> Array:
    """Validated rows in float64."""
    kind = str(getattr(rows, "dtype", type(rows).__name__)).removeprefix("torch.")
    if getattr(rows, "ndim", 0) != 2 or not len(rows) or not rows.shape[1]:
        got = f"shape {tuple(rows.shape)}" if hasattr(rows, "shape") else kind
        raise ShapeError("rows", expected="numbers (N, D)", got=got, hint="pass x.reshape(len(x), -1)")
    if not kind.startswith(("float", "int")):
        raise ValuesError("rows", expected="numbers (N, D)", got=f"dtype {kind}", hint="select the numeric columns")
    x = arrays.cast(rows, "float64")
    if not bool(arrays.xp.isfinite(x).all()):
        hint = "fill missing values first"
        raise ValuesError("rows", expected="finite numbers", got="NaN or an infinity", hint=hint)
    return x


def like(x: Array, rows: Any, arrays: Backend) -> Array:
    """x in the dtype of the rows, if that is a float."""
    kind = str(rows.dtype).removeprefix("torch.")
    return arrays.cast(x, kind) if kind.startswith("float") else x


def spread(x: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of every column."""
    mean = x.mean(0)
    return mean, ((x - mean) ** 2).mean(0) ** 0.5


@register(
    "feature_noise", kind="tabular", severities=SEVERITIES, needs_all_rows=True,
    summary="normal noise of 0.1, 0.2, 0.4, 0.8, 1.6 standard deviations of each column",
)  # fmt: skip
def feature_noise(rows: Any, severity: int, draws: Draws) -> Any:
    """Normal noise in proportion to the standard deviation of each column."""
    x = table(rows, draws.arrays)
    noise = draws.arrays.cast(draws.normal("noise", x.shape[1]), "float64")
    return like(x + NOISE[severity - 1] * spread(x)[1] * noise, rows, draws.arrays)


@register(
    "feature_scaling", kind="tabular", severities=SEVERITIES,
    summary="every feature multiplied by 1.1, 1.25, 1.5, 2, 3, like a change of units",
)  # fmt: skip
def feature_scaling(rows: Any, severity: int, draws: Draws) -> Any:
    """Every feature times a factor."""
    return like(table(rows, draws.arrays) * FACTORS[severity - 1], rows, draws.arrays)


@register(
    "missing_columns", kind="tabular", severities=SEVERITIES, needs_all_rows=True,
    summary="10% to 50% of the columns (at least one), the same for all rows, replaced by their mean",
)  # fmt: skip
def missing_columns(rows: Any, severity: int, draws: Draws) -> Any:
    """Some columns are lost and replaced by their mean; a higher severity loses further columns."""
    arrays = draws.arrays
    x = table(rows, arrays)
    count = max(round(SHARES[severity - 1] * x.shape[1]), 1)
    one = Draws(arrays, draws.seed, "missing_columns", 0, 1)  # whatever the severity and the first row
    order = np.argsort(arrays.numpy(one.uniform("order", x.shape[1]))[0], kind="stable")
    lost = np.zeros(x.shape[1], bool)
    lost[order[:count]] = True
    return like(arrays.xp.where(arrays.put(lost), spread(x)[0], x), rows, arrays)


@register(
    "covariate_shift", kind="tabular", severities=SEVERITIES, needs_all_rows=True, selects=True,
    summary="rows resampled with weights exp(t·z), z the first principal component, t = 0.25, 0.5, 1, 1.5, 2",
    reference="Shimodaira (2000)",
)  # fmt: skip
def covariate_shift(rows: Any, severity: int, draws: Draws) -> Any:
    """Indices (N,) drawn with replacement: the features are shifted, y given x is not."""
    arrays = draws.arrays
    z = arrays.numpy(principal_component(table(rows, arrays), arrays))
    weights = np.exp(TILTS[severity - 1] * (z - z.max()))
    total = np.cumsum(weights)
    u = arrays.numpy(draws.uniform("rows"))
    return arrays.put(np.minimum(np.searchsorted(total, u * total[-1]), len(z) - 1))


@register(
    "removed_region", kind="tabular", severities=SEVERITIES, needs_all_rows=True, selects=True,
    summary="only the 10% to 50% of the rows that are central in the first principal component: test rows of a model "
    "trained on the others (`outside_region`)",
    reference="Gopal (2021)",
)  # fmt: skip
def removed_region(rows: Any, severity: int, draws: Draws) -> Any:
    """Indices of the rows in the region, in their order."""
    arrays = draws.arrays
    return arrays.put(np.flatnonzero(_in_region(rows, severity, arrays)))


def outside_region(rows: Any, severity: int) -> Any:
    """Indices of the rows outside the region of `removed_region`: what a model is trained on.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.shift import outside_region
    >>> outside_region(np.arange(10.0)[:, None], 2)
    array([0, 1, 2, 3, 6, 7, 8, 9])
    """
    arrays = backend_of(rows)
    return arrays.put(np.flatnonzero(~_in_region(rows, severity, arrays)))


def _in_region(rows: Any, severity: int, arrays: Backend) -> np.ndarray:
    z = arrays.numpy(principal_component(table(rows, arrays), arrays))
    rank = np.empty(len(z))
    rank[np.argsort(z, kind="stable")] = np.arange(len(z)) + 0.5
    return np.abs(rank / len(z) - 0.5) < SHARES[severity - 1] / 2 + 1e-12


def principal_component(x: Array, arrays: Backend) -> Array:
    """Scores (N,) on the first principal component of the standardised columns, of standard deviation one.

    The sign makes the largest loading positive.
    """
    mean, std = spread(x)
    values = arrays.numpy((x - mean) / arrays.xp.where(std > 0, std, std + 1.0))
    _, vectors = np.linalg.eigh(values.T @ values)
    loading = vectors[:, -1] * np.sign(vectors[np.argmax(np.abs(vectors[:, -1])), -1])
    scores = values @ loading
    return arrays.put(scores / (scores.std() or 1.0))
