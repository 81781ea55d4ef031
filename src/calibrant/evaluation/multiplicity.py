"""Many groups, many tests: p-values of groups corrected for how many there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibrant.evaluation.result import Group
from calibrant.registry.estimate import Estimate


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


def corrected(groups: Sequence[Group]) -> list[Group]:
    """The groups of one column, each p-value with its q-value beside it, metric by metric."""
    found: list[dict[str, float]] = [{} for _ in groups]
    for spec in dict.fromkeys(spec for group in groups for spec in group.metrics):
        known = [
            k for k, group in enumerate(groups) if spec in group.metrics and math.isfinite(group.metrics[spec].p_value)
        ]
        if known:
            q_values = benjamini_hochberg(np.array([groups[k].metrics[spec].p_value for k in known]))
            for k, q in zip(known, q_values.tolist(), strict=True):
                found[k][spec] = q
    return [replace(group, metrics=_with_q(group, q)) for group, q in zip(groups, found, strict=True)]


def _with_q(group: Group, q_values: dict[str, float]) -> dict[str, Estimate]:
    return {
        spec: replace(estimate, q_value=q_values[spec]) if spec in q_values else estimate
        for spec, estimate in group.metrics.items()
    }
