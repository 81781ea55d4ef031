"""What conformal methods give: intervals and sets, and how often they hold what came true.

Shares have Wilson intervals, which take rows for independent. Coverage of a method is a statement about repeated
held-out and new rows: of n new rows the share moves about the level, and of n held-out rows the probability does too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import UsageError, plain, show
from calibrant.intervals import wilson
from calibrant.predictions.base import Note
from calibrant.predictions.files.writing import atomic_write

CONFIDENCE = 0.95
"""Of the intervals of shares."""
RANGES = (0, 1, 2, 3, 4, 5, 10, 100)
"""Upper ends of the ranges of sizes that tables show; files have every size."""
MOST_CLASSES = 20
QUARTERS = 4


@dataclass(frozen=True)
class Share:
    """How many of some rows are covered, and how large what covers them is."""

    n: int
    covered: int | None
    """None without labels."""
    mean: float
    """Mean size of sets, or width of intervals."""

    @property
    def coverage(self) -> float:
        """The share of rows that are covered; undefined without rows or labels."""
        return math.nan if self.covered is None or not self.n else self.covered / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the coverage."""
        if math.isnan(self.coverage):
            return math.nan, math.nan
        found = wilson(self.coverage, self.n, CONFIDENCE)
        return found.low, found.high

    def to_json(self) -> dict[str, Any]:
        """As plain data; what is not finite becomes null."""
        low, high = self.interval
        numbers = {"coverage": self.coverage, "low": low, "high": high, "mean": self.mean}
        return {"n": self.n, "covered": self.covered} | {key: _finite(value) for key, value in numbers.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Covering:
    """What intervals and sets share."""

    level: float
    method: str
    threshold: float
    name: str
    fitted_on: tuple[str, int]
    """The name and the number of the held-out rows."""
    ids: np.ndarray | None = None
    notes: tuple[Note, ...] = ()

    @property
    def sizes(self) -> np.ndarray:
        """The size (N,) of each set, or the width of each interval."""
        raise NotImplementedError

    @property
    def covered(self) -> np.ndarray | None:
        """Whether each row (N,) is covered; None without labels."""
        raise NotImplementedError

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.sizes)

    @property
    def overall(self) -> Share:
        """Coverage and mean size of all rows."""
        return self.among(np.ones(self.n, bool))

    @property
    def coverage(self) -> float:
        """The share of rows that are covered; undefined without labels."""
        return self.overall.coverage

    def among(self, rows: np.ndarray) -> Share:
        """Coverage and mean size of some rows, by a mask (N,)."""
        sizes, covered = self.sizes[rows], self.covered
        mean = float(sizes.mean()) if sizes.size else math.nan
        return Share(len(sizes), None if covered is None else int(covered[rows].sum()), mean)

    def arrays(self) -> dict[str, np.ndarray]:
        """What `save` writes."""
        raise NotImplementedError

    def save(self, path: str | Path) -> Path:
        """Write the arrays as .npz, whole or not at all."""
        path = Path(path)
        if path.suffix.lower() != ".npz":
            raise UsageError(str(path), expected="a name that ends in .npz", came=f"it ends in {show(path.suffix)}",
                             do="choose another name")  # fmt: skip
        known = {} if self.ids is None else {"ids": self.ids}
        with atomic_write(path) as stream:
            np.savez(stream, **self.arrays(), **known)  # type: ignore[arg-type]
        return path

    def to_json(self) -> dict[str, Any]:
        """The summary as plain data; what is not finite becomes null."""
        return {
            "schema": 1,
            "kind": self._kind,
            "name": self.name,
            "method": self.method,
            "level": self.level,
            "threshold": _finite(self.threshold),
            "fitted_on": {"name": self.fitted_on[0], "rows": self.fitted_on[1]},
            "rows": self.n,
            "overall": self.overall.to_json(),
            "warnings": [{"code": note.code, "message": note.message} for note in self.notes],
        } | self._more()

    _kind = ""
    _measure = ""

    def _more(self) -> dict[str, Any]:
        raise NotImplementedError

    def _shares(self) -> Iterator[tuple[str, Share]]:
        """The rows of the table below the first."""
        raise NotImplementedError

    def __str__(self) -> str:
        title = f"{plain(self.name, 40)} · {self.n} rows · {self.method} · level {self.level:g}"
        title += f" · threshold {self.threshold:.4g} of {self.fitted_on[1]} rows"
        heads = ("rows", "n", "coverage", "95 % interval", f"mean {self._measure}")
        shares = (("all", self.overall), *self._shares())
        lines = _lines([heads, *(_cells(name, share) for name, share in shares)])
        said = [f"warning: {plain(note.message)}" for note in self.notes]
        return "\n".join([title, *lines, *said])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Intervals(_Covering):
    """An interval for each row; one whose lower end lies above its upper end is empty."""

    lower: np.ndarray
    upper: np.ndarray
    y: np.ndarray | None = None

    _kind = "conformal intervals"
    _measure = "width"

    @property
    def sizes(self) -> np.ndarray:
        """The width (N,) of each interval."""
        return np.maximum(self.upper - self.lower, 0.0)

    @property
    def covered(self) -> np.ndarray | None:
        """Whether each interval (N,) holds the outcome; None without outcomes."""
        return None if self.y is None else (self.lower <= self.y) & (self.y <= self.upper)

    @property
    def by_width(self) -> dict[str, Share]:
        """Coverage of four equally filled ranges of widths; none where all are of one width."""
        widths = self.sizes
        if not np.isfinite(widths).all() or np.ptp(widths) <= 1e-9 * np.abs(widths).max(initial=0.0):
            return {}
        cuts = np.unique(np.quantile(widths, np.arange(1, QUARTERS) / QUARTERS))
        place = np.searchsorted(cuts, widths, side="left")
        shares = {}
        for k in np.unique(place):
            inside = widths[place == k]
            shares[f"width {inside.min():.4g} to {inside.max():.4g}"] = self.among(place == k)
        return shares

    def arrays(self) -> dict[str, np.ndarray]:
        """Both ends, and outcomes where they are known."""
        return {"lower": self.lower, "upper": self.upper} | ({} if self.y is None else {"y": self.y})

    def _more(self) -> dict[str, Any]:
        widths = self.sizes
        return {
            "median_width": _finite(float(np.median(widths))),
            "empty": int((self.lower > self.upper).sum()),
            "by_width": {name: share.to_json() for name, share in self.by_width.items()},
        }

    def _shares(self) -> Iterator[tuple[str, Share]]:
        yield from self.by_width.items()

    def __repr__(self) -> str:
        return f"Intervals({self.name!r}, {self.method}, level={self.level:g}, rows={self.n}, y={self.y is not None})"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Sets(_Covering):
    """A set of classes for each row."""

    included: np.ndarray
    labels: np.ndarray | None = None
    class_names: tuple[str, ...] | None = None

    _kind = "conformal sets"
    _measure = "size"

    @property
    def sizes(self) -> np.ndarray:
        """The number of classes (N,) in each set."""
        return self.included.sum(axis=1)

    @property
    def covered(self) -> np.ndarray | None:
        """Whether each set (N,) holds the label; None without labels."""
        return None if self.labels is None else self.included[np.arange(len(self.included)), self.labels]

    @property
    def size_distribution(self) -> dict[int, int]:
        """How many sets have each size."""
        sizes, counts = np.unique(self.sizes, return_counts=True)
        return dict(zip(sizes.tolist(), counts.tolist(), strict=True))

    @property
    def by_size(self) -> dict[int, Share]:
        """Coverage of the sets of each size."""
        return {size: self.among(self.sizes == size) for size in self.size_distribution}

    @property
    def by_class(self) -> dict[str, Share]:
        """Coverage of the rows of each class, by its name or number; none without labels."""
        if self.labels is None:
            return {}
        names = self.class_names or tuple(map(str, range(self.included.shape[1])))
        return {names[k]: self.among(self.labels == k) for k in np.unique(self.labels).tolist()}

    def arrays(self) -> dict[str, np.ndarray]:
        """Which classes are in each set, and labels where they are known."""
        return {"included": self.included} | ({} if self.labels is None else {"labels": self.labels})

    def _more(self) -> dict[str, Any]:
        return {
            "classes": self.included.shape[1],
            "empty": self.size_distribution.get(0, 0),
            "by_size": {str(size): share.to_json() for size, share in self.by_size.items()},
            "by_class": {name: share.to_json() for name, share in self.by_class.items()},
        }

    def _shares(self) -> Iterator[tuple[str, Share]]:
        sizes, low = self.sizes, 0
        for high in (*RANGES, self.included.shape[1]):
            rows = (sizes >= low) & (sizes <= high)
            if rows.any():
                yield f"size {low}" + f" to {high}" * (high > low), self.among(rows)
            low = high + 1
        found = self.by_class
        if len(found) <= MOST_CLASSES:
            yield from ((f"class {plain(name, 30)}", share) for name, share in found.items())

    def __repr__(self) -> str:
        labelled = self.labels is not None
        return f"Sets({self.name!r}, {self.method}, level={self.level:g}, rows={self.n}, labels={labelled})"


def _cells(name: str, share: Share) -> tuple[str, ...]:
    low, high = share.interval
    known = share.covered is not None
    interval = f"{low:.3f} to {high:.3f}" if known else "—"
    return name, str(share.n), f"{share.coverage:.3f}" if known else "—", interval, f"{share.mean:.4g}"


def _lines(cells: list[tuple[str, ...]]) -> list[str]:
    """Columns in plain text, with a rule below the heads."""
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
    lines = []
    for row in cells:
        padded = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *padded[1:]]))
    return [lines[0], "  ".join("─" * width for width in widths), *lines[1:]]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
