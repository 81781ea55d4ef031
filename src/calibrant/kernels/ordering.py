"""Rows sorted by content, so that no sum depends on the order of the input."""

from __future__ import annotations

import numpy as np


def order_of(key: np.ndarray, *others: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The order by rising key, then by the others in turn; and tied[i]: the row after the i-th has the same key.

    One plain sort, then one by all keys of the tied rows only: rows that are still tied are equal.
    """
    order = np.argsort(key)
    ranked = key[order]
    tied = np.append(ranked[1:] == ranked[:-1], False) if len(key) else np.zeros(0, bool)
    further = [other for other in others if other is not None and other is not key]
    shared = np.flatnonzero(tied | np.append(False, tied[:-1])) if further and tied.any() else np.empty(0, np.int64)
    if shared.size:
        run = np.cumsum(~tied)[shared] - ~tied[shared]
        rows = order[shared]
        order[shared] = rows[np.lexsort((*(other[rows] for other in reversed(further)), run))]
    return order, tied
