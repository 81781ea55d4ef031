"""Multiple testing: p-values of groups corrected for the number of groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.results.evaluation import Group


def benjamini_hochberg(p_values: np.ndarray) -> np.ndarray:
    """Smallest false-discovery rate at which each hypothesis is rejected: min over j ≥ i of m·p_(j)/j.

    Benjamini & Hochberg (1995), J. R. Statist. Soc. B 57: 289-300; groups share no rows, so tests are independent.
    """
    m = len(p_values)
    order = np.argsort(p_values)
    ratio = p_values[order] * m / np.arange(1, m + 1)
    out = np.empty(m)
    out[order] = np.minimum(np.minimum.accumulate(ratio[::-1])[::-1], 1.0)
    return out


def with_q_values(groups: Sequence[Group]) -> list[Group]:
    """The groups of one column with q-values: the p-values of each metric corrected for the number of groups."""
    metrics = corrected([group.metrics for group in groups], lambda estimate: estimate.p_value)
    return [replace(group, metrics=by_spec) for group, by_spec in zip(groups, metrics, strict=True)]


def corrected(groups: Sequence[Mapping[str, Any]], p_value: Callable[[Any], float]) -> list[dict[str, Any]]:
    """Records of groups, each by key, with the q-values of those whose p-value is finite."""
    out = [dict(records) for records in groups]
    for key in dict.fromkeys(key for records in groups for key in records):
        p_values = {k: p_value(records[key]) for k, records in enumerate(groups) if key in records}
        tested = [k for k, p in p_values.items() if math.isfinite(p)]
        q_values = benjamini_hochberg(np.array([p_values[k] for k in tested])).tolist() if tested else []
        for k, q in zip(tested, q_values, strict=True):
            out[k][key] = replace(out[k][key], q_value=q)
    return out
