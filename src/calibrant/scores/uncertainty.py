"""How uncertain each row is (N,), from the record of the one pass. Natural logarithms throughout.

References: Depeweg et al. (2018) for the split of entropy; Gal (2016) for the variation ratio; Liu et al. (2020) for
the energy.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.rows import MARGIN, Rows


def entropy(rows: Rows) -> np.ndarray:
    """H[p] of the averaged prediction."""
    return rows.entropy


def expected_entropy(rows: Rows) -> np.ndarray:
    """mean_m H[p_m]: what remains uncertain when the member is known."""
    if rows.expected_entropy is None:
        raise AttributeError("these rows have one member")
    return rows.expected_entropy


def mutual_information(rows: Rows) -> np.ndarray:
    """H[p] − mean_m H[p_m], what the members disagree on; at least 0."""
    return np.maximum(rows.entropy - expected_entropy(rows), 0.0)


def variation_ratio(rows: Rows) -> np.ndarray:
    """Share of members that do not vote for the modal class."""
    if rows.variation_ratio is None:
        raise AttributeError("these rows have one member")
    return rows.variation_ratio


def margin(rows: Rows) -> np.ndarray:
    """Probability of the first class minus that of the second."""
    return rows.extras[MARGIN]


def energy(rows: Rows) -> np.ndarray:
    """−log Σ exp(logits), averaged over members; higher is more uncertain."""
    if rows.lse is None:
        raise AttributeError("these rows did not come from logits")
    return -rows.lse
