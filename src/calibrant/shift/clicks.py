"""Shifts of click logs: rows are integer tokens (N, F), one column a categorical feature.

Reference: Ovadia et al. (2019), NeurIPS 32, section 4.4, on Criteo.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.errors import ShapeError, check_range
from calibrant.shift.backend import backend_of
from calibrant.shift.philox import Draws, draws
from calibrant.shift.registry import register

STEP = 0.05
"""The probability of a new token per severity."""


@register(
    "token_randomization", kind="clicks", severities=range(1, 21), needs_all_rows=True,
    summary="each token replaced by a random one of its column with probability 0.05 per severity",
    reference="Ovadia et al. (2019)",
)  # fmt: skip
def token_randomization(rows: Any, severity: int, draws: Draws) -> Any:
    """Tokens replaced with probability 0.05 to 1."""
    return _randomised(rows, STEP * severity, draws, None)


def randomise_tokens(
    tokens: Any, p: float, seed: int = 0, first: int = 0, vocabularies: list[np.ndarray] | None = None
) -> Any:
    """Tokens (N, F), each replaced with probability p by a uniformly random token of its column.

    Parameters
    ----------
    tokens : integer array (N, F)
        Categorical features.
    p : float
        Probability of replacement; the random token may be the old one.
    seed, first : int
        Random seed, and the index of the first row.
    vocabularies : list of arrays, optional
        The tokens of each column; by default the distinct ones in `tokens`.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.shift import randomise_tokens
    >>> randomise_tokens(np.array([[3, 7], [4, 7]]), 1.0, seed=1)[:, 1]
    array([7, 7])
    """
    p = check_range("p", p, 0, 1, hint="use p=0.1")
    scope = "token_randomization/given"
    return _randomised(tokens, p, draws(backend_of(tokens), seed, scope, first, len(tokens)), vocabularies)


def _randomised(rows: Any, p: float, draws: Draws, vocabularies: list[np.ndarray] | None) -> Any:
    arrays = draws.arrays
    kind = str(getattr(rows, "dtype", "")).removeprefix("torch.")
    if getattr(rows, "ndim", 0) != 2 or not kind.startswith(("int", "uint")):
        got = f"shape {tuple(rows.shape)} of {kind}" if kind else type(rows).__name__
        raise ShapeError("rows", expected="integer tokens (N, F)", got=got, hint="select the categorical columns")
    host, features = arrays.numpy(rows), rows.shape[1]
    if vocabularies is None:
        vocabularies = [np.unique(host[:, column]) for column in range(features)]
    elif len(vocabularies) != features:
        expected, got = f"{features} vocabularies, one a column", f"{len(vocabularies)}"
        raise ShapeError("vocabularies", expected=expected, got=got, hint="pass vocabularies=None for the tokens seen")
    replaced = arrays.numpy(draws.uniform("replaced", features)) < p
    choice = arrays.numpy(draws.uniform("token", features))
    columns = []
    for column, vocabulary in enumerate(vocabularies):
        at = np.minimum((choice[:, column] * len(vocabulary)).astype(np.int64), max(len(vocabulary) - 1, 0))
        new = np.asarray(vocabulary)[at] if len(vocabulary) else host[:, column]
        columns.append(np.where(replaced[:, column], new, host[:, column]).astype(host.dtype))
    return arrays.put(np.stack(columns, 1))
