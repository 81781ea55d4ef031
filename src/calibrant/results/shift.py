"""Summaries under graded shift: each metric over the types of shift, severity by severity.

A cell is a type of shift at a severity; severity 0 is clean data, whatever its type. At each severity a metric has its
mean and quartiles over types (Krishnan & Tickoo 2020, tables T2 and T3 at severity 5); over all cells beyond
severity 0 the same (Ovadia et al. 2019, appendix E). Spearman's ρ is between the severity, 0 included, and the mean
over types at it (Krishnan & Tickoo 2020, tables T1 and T4): one point a severity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import UsageError, show
from calibrant.intervals import mid_ranks
from calibrant.registry.estimate import NOT_FINITE, Estimate, status_of
from calibrant.results.json import Stored, encode

COLUMNS = ("shift", "severity")
ACROSS = "all inputs"
"""The name of a summary over inputs each of which is one cell."""
OVER = ("mean", "median")
QUARTILES = {"min": 0.0, "q25": 0.25, "median": 0.5, "q75": 0.75, "max": 1.0}


@dataclass(frozen=True)
class ShiftCell(Stored):
    """The metrics of a type of shift at a severity."""

    shift: str
    severity: float
    n: int
    values: Mapping[str, float]

    @classmethod
    def of(cls, shift: Any, severity: float, n: int, metrics: Mapping[str, Estimate]) -> ShiftCell:
        """From estimates."""
        return cls(str(shift), float(severity), n, {spec: estimate.value for spec, estimate in metrics.items()})

    def to_json(self) -> dict[str, Any]:
        """The fields; `status` says what a value that is null was."""
        status = {spec: status_of(value) for spec, value in self.values.items() if not math.isfinite(value)}
        return super().to_json() | ({"status": status} if status else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ShiftCell:
        """The cell that was written."""
        status = {spec: NOT_FINITE[name] for spec, name in data.get("status", {}).items()}
        return super().from_json({**data, "status": {}, "values": data["values"] | status})


@dataclass(frozen=True)
class ShiftSummary(Stored):
    """Each metric over the types of shift: by severity, over all shifted cells, and its rank correlation."""

    input: str
    over: str
    cells: tuple[ShiftCell, ...]

    @property
    def specs(self) -> list[str]:
        """The metrics, in order."""
        return list(dict.fromkeys(spec for cell in self.cells for spec in cell.values))

    @property
    def severities(self) -> list[float]:
        """In increasing order, clean data first."""
        return sorted({cell.severity for cell in self.cells})

    @property
    def types(self) -> list[str]:
        """The types of shift, without clean data."""
        return sorted({cell.shift for cell in self.cells if cell.severity > 0})

    def at(self, spec: str, severity: float) -> dict[str, float]:
        """Mean and quartiles over the types at a severity."""
        return spread_of(
            [cell.values[spec] for cell in self.cells if cell.severity == severity and spec in cell.values]
        )

    def shifted(self, spec: str) -> dict[str, float]:
        """Mean and quartiles over all cells beyond severity 0."""
        return spread_of([cell.values[spec] for cell in self.cells if cell.severity > 0 and spec in cell.values])

    def rho(self, spec: str) -> float:
        """Spearman's ρ between severity and the mean (or median) over types."""
        return spearman(self.severities, [self.at(spec, severity)[self.over] for severity in self.severities])

    def to_json(self) -> dict[str, Any]:
        """The cells, with the summaries of every metric."""
        metrics = {
            spec: {
                "by_severity": [{"severity": s, **encode(self.at(spec, s))} for s in self.severities],
                "shifted": encode(self.shifted(spec)),
                "spearman": encode(self.rho(spec)),
            }
            for spec in self.specs
        }
        return super().to_json() | {"metrics": metrics}


def spread_of(values: Sequence[float]) -> dict[str, float]:
    """The number of values that are not NaN, their mean, quartiles (linearly interpolated), minimum and maximum."""
    known = np.array([value for value in values if not math.isnan(value)])
    if not len(known):
        return {"types": 0, "mean": math.nan, **dict.fromkeys(QUARTILES, math.nan)}
    if not np.isfinite(known).all():
        ranked = np.sort(known)
        places = {key: ranked[round(level * (len(known) - 1))] for key, level in QUARTILES.items()}
        return {"types": len(known), "mean": float(known.sum()), **{key: float(x) for key, x in places.items()}}
    quartiles = {key: float(np.quantile(known, level)) for key, level in QUARTILES.items()}
    return {"types": len(known), "mean": float(known.mean()), **quartiles}


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's ρ: the correlation of mid-ranks; NaN for fewer than two distinct values."""
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if not math.isnan(b)]
    if len(pairs) < 2:
        return math.nan
    ranks = [mid_ranks(np.array(column)) for column in zip(*pairs, strict=True)]
    centred = [rank - rank.mean() for rank in ranks]
    scale = math.sqrt(float((centred[0] ** 2).sum() * (centred[1] ** 2).sum()))
    return float((centred[0] * centred[1]).sum()) / scale if scale > 0 else math.nan


def severities_of(values: np.ndarray, name: str) -> np.ndarray:
    """A column of severities as numbers: 0 is clean, above 0 is shifted."""
    try:
        numbers = np.asarray(values).astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.full(len(values), np.nan)
    if not np.isfinite(numbers).all() or (numbers < 0).any():
        odd = values[int(np.argmax(~(np.isfinite(numbers) & (numbers >= 0))))]
        raise UsageError(
            f"column {show(name)}",
            expected="severities: 0 for clean data, positive numbers for shifted data",
            got=show(str(odd)),
            hint="give every row a number as severity",
        )
    return numbers
