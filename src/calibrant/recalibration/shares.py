"""The share of each row in a loss: its weight over the weight of all."""

from __future__ import annotations

import numpy as np

from calibrant.errors import ValuesError
from calibrant.kernels.exact import exact_sum
from calibrant.predictions import Classification, Regression


def shares_of(predictions: Classification | Regression) -> np.ndarray:
    """The weight (n,) of each row, all together one: a loss is Σ shares · loss of the row."""
    weights = predictions.weights
    if weights is None:
        return np.full(predictions.n, 1.0 / predictions.n)
    weights = weights.astype(np.float64) / predictions.info.weight_unit
    total = exact_sum(weights)
    if not total > 0:
        raise ValuesError("weights", expected="some row that counts", came="all are 0", do="give weights above 0")
    return weights / total
