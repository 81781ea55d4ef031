"""`multicalibration`: is the model calibrated within every group of rows, and every crossing of two groups?

For a group g with its rows in the order of p, the running sums of y − p have the range K_g (Kuiper's statistic, the
`cutoff_error` of the group times its rows). If the predictions are right, their end has variance V_g = Σ p(1 − p), so
that K_g/√V_g is comparable between groups of any size. The statistic is the largest of these; its p-value redraws all
labels from p and takes the largest again, which accounts for the number of groups and their overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from calibrant.errors import MAX_SEED, NotApplicable, UsageError, check_range, plain
from calibrant.kernels.rows import rows_of
from calibrant.predictions import Classification, Judged
from calibrant.predictions.base import group_rows

QUARTILES = 4
MAX_LEVELS = 50
"""Values of a column of text up to which it defines groups."""
MAX_ENTRIES = 1 << 22
"""Redrawn labels in memory at a time."""
DRAWS = 0x6D756C74
"""The purpose of the random numbers."""


@dataclass(frozen=True)
class GroupError:
    """One group of rows."""

    columns: tuple[str, ...]
    values: tuple[str, ...]
    n: int
    error: float
    """The cutoff error within the group."""
    statistic: float
    """Kuiper's statistic over its null standard deviation."""
    mean_gap: float
    """Mean p − share of y."""

    @property
    def name(self) -> str:
        """The group, such as `site = north, age = 2: 40 to 55`."""
        return ", ".join(
            f"{column} = {plain(value, 40)}" for column, value in zip(self.columns, self.values, strict=True)
        )


@dataclass(frozen=True)
class Multicalibration:
    """The result of `multicalibration`."""

    groups: tuple[GroupError, ...]
    """The groups, the largest statistic first."""
    statistic: float
    p_value: float
    """Small where some group is miscalibrated by more than chance gives to the worst of so many."""
    resamples: int
    skipped: int
    """Groups with fewer rows than `min_rows`."""

    def __str__(self) -> str:
        worst = self.groups[0]
        head = f"multicalibration: p = {self.p_value:.3g} over {len(self.groups)} groups ({self.skipped} too small)"
        lines = [
            f"  {g.name}: n = {g.n}, cutoff error {g.error:.4f}, statistic {g.statistic:.2f}" for g in self.groups[:5]
        ]
        return "\n".join([head, f"worst group: {worst.name}", *lines])

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        rows = [{"columns": list(g.columns), "values": list(g.values), "n": g.n, "error": g.error,
                 "statistic": g.statistic, "mean_gap": g.mean_gap} for g in self.groups]  # fmt: skip
        return {"statistic": self.statistic, "p_value": self.p_value, "resamples": self.resamples,
                "skipped": self.skipped, "groups": rows}  # fmt: skip


def multicalibration(
    predictions: Classification | Judged,
    columns: Iterable[str] | None = None,
    *,
    of: str | None = None,
    pairs: bool = True,
    min_rows: int = 50,
    resamples: int = 1000,
    seed: int = 0,
) -> Multicalibration:
    """Test calibration within all groups by the columns of the predictions, and by pairs of columns.

    Parameters
    ----------
    predictions : Classification or Judged
        Predictions with labels; rows are taken as independent.
    columns : iterable of str, optional
        The columns that define groups: numeric ones by quartiles, others by their values. By default all columns with
        at most 50 values, and all numeric ones.
    of : str, optional
        The class whose probability is tested; by default the top label (of a binary problem class 1).
    pairs : bool
        Whether groups are also the crossings of two columns.
    min_rows : int
        Groups with fewer rows are skipped, and counted.
    resamples : int
        Number of redrawn data sets.
    seed : int
        Seed of the redrawn labels.

    Returns
    -------
    Multicalibration

    Notes
    -----
    Hébert-Johnson, Kim, Reingold & Rothblum (2018), ICML, ask for calibration in all groups of a class.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cal
    >>> rng = np.random.default_rng(0)
    >>> p, site = rng.uniform(0.2, 0.8, 1000), rng.integers(0, 4, 1000)
    >>> y = rng.random(1000) < np.where(site == 3, p - 0.2, p)
    >>> answers = cal.Judged.from_confidence(p, y, columns={"site": site.astype(str)})
    >>> found = cal.checks.multicalibration(answers)
    >>> found.groups[0].name, found.p_value < 0.01
    ('site = 3', True)
    """
    min_rows = check_range("min_rows", min_rows, 2, integer=True, hint="use min_rows=50")
    resamples = check_range("resamples", resamples, 20, 1_000_000, integer=True, hint="use resamples=1000")
    seed = check_range("seed", seed, 0, MAX_SEED, integer=True, hint="use seed=0")
    p, y = _pairs(predictions, of)
    groups = _groups(predictions, columns, pairs)
    order = np.argsort(p, kind="stable")
    p, y = p[order], y[order]
    kept: list[tuple[tuple[str, ...], tuple[str, ...], np.ndarray, np.ndarray]] = []
    skipped = 0
    for names, values, mask in groups:
        rows = np.flatnonzero(mask[order])
        if len(rows) < min_rows or not (p[rows] * (1 - p[rows])).sum() > 0:
            skipped += 1
            continue
        kept.append((names, values, rows, np.append(np.diff(p[rows]) > 0, True)))
    if not kept:
        hint = "lower min_rows, or name columns with fewer values"
        expected = f"a group of at least {min_rows} rows"
        raise NotApplicable("multicalibration", expected=expected, got=f"{skipped} smaller ones", hint=hint)
    observed = _statistics(p, y[None], kept)[:, 0]
    largest = np.empty(resamples)
    step = max(1, MAX_ENTRIES // len(p))
    generator = np.random.Generator(np.random.Philox(key=(DRAWS << 64) + seed))  # draw (replicate, row) has its place
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        u = generator.random((stop - start, len(p)))
        largest[start:stop] = _statistics(p, (u < p).astype(np.float64), kept).max(axis=0)
    found = []
    for (names, values, rows, _), statistic in zip(kept, observed, strict=True):
        spread = math.sqrt(float((p[rows] * (1 - p[rows])).sum()))
        gap = float((p[rows] - y[rows]).mean())
        found.append(GroupError(names, values, len(rows), float(statistic) * spread / len(rows), float(statistic), gap))
    found.sort(key=lambda group: -group.statistic)
    p_value = (1 + int((largest >= observed.max() - 1e-12).sum())) / (1 + resamples)
    return Multicalibration(tuple(found), float(observed.max()), p_value, resamples, skipped)


def _statistics(p: np.ndarray, y: np.ndarray, groups: list[Any]) -> np.ndarray:
    """Kuiper's statistic over its null standard deviation (groups, replicates), at the ends of runs of equal p."""
    out = np.empty((len(groups), len(y)))
    residuals = y - p
    for place, (_, _, rows, ends) in enumerate(groups):
        sums = np.cumsum(residuals[:, rows], axis=1)[:, ends]
        height = np.maximum(sums.max(axis=1), 0.0) - np.minimum(sums.min(axis=1), 0.0)
        out[place] = height / math.sqrt(float((p[rows] * (1 - p[rows])).sum()))
    return out


def _pairs(predictions: Classification | Judged, of: str | None) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities and outcomes that are tested."""
    if not isinstance(predictions, Classification | Judged) or not predictions.has_labels:
        hint = "pass a Classification or Judged with labels"
        raise UsageError("multicalibration", expected="labelled predictions", got=f"{predictions!r}", hint=hint)
    if getattr(predictions, "soft", False) or not getattr(predictions, "has_confidence", True):
        hint = "use hard labels, and answers with a confidence"
        raise NotApplicable("multicalibration", expected="probabilities and hard labels", got="others", hint=hint)
    k = None
    if isinstance(predictions, Classification):
        k = predictions.class_index(of) if of is not None else 1 if predictions.classes == 2 else None
    rows = rows_of(predictions, frozenset() if k is None else frozenset({("class", k)}))
    p, y = rows.pairs(k)
    return np.asarray(p, np.float64), np.asarray(y, np.float64)


def _groups(
    predictions: Classification | Judged, columns: Iterable[str] | None, pairs: bool
) -> list[tuple[tuple[str, ...], tuple[str, ...], np.ndarray]]:
    """Columns, values and mask of each group."""
    named = list(predictions.columns) if columns is None else list(columns)
    parts: dict[str, tuple[list[Any], np.ndarray]] = {}
    for name in named:
        values = predictions.column(name)
        numeric = values.dtype.kind == "f" or (values.dtype.kind in "iu" and len(np.unique(values)) > QUARTILES)
        if columns is None and not numeric and len(np.unique(values)) > MAX_LEVELS:
            continue
        parts[name] = group_rows(values, name, QUARTILES if numeric else None)
    if not parts:
        hint = "pass columns={'site': …} with the predictions"
        raise UsageError("multicalibration", expected="columns that define groups", got="none", hint=hint)
    out: list[tuple[tuple[str, ...], tuple[str, ...], np.ndarray]] = []
    for name, (levels, place) in parts.items():
        out += [((name,), (str(value),), place == k) for k, value in enumerate(levels)]
    if pairs:
        out += [
            ((one, two), (str(a), str(b)), (parts[one][1] == i) & (parts[two][1] == j))
            for one, two in combinations(parts, 2)
            for i, a in enumerate(parts[one][0])
            for j, b in enumerate(parts[two][0])
        ]
    return out
