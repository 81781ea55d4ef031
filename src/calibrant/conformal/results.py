"""Conformal intervals and sets, and their coverage.

Coverages have Wilson intervals, which assume independent rows. The guarantee of a method is about repeated held-out and
new rows: the coverage of n new rows fluctuates around the level, and so does the probability given n held-out rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.special import bdtr

from calibrant.errors import UsageError, plain, show
from calibrant.intervals import wilson
from calibrant.predictions.base import Note
from calibrant.predictions.files.write import atomic_write
from calibrant.render import table as rendering
from calibrant.results.json import encode

CONFIDENCE = 0.95
"""The level of the intervals of coverages."""
SIZE_RANGES = (0, 1, 2, 3, 4, 5, 10, 100)
"""Upper ends of the ranges of set sizes in tables; files have every size."""
SIGNIFICANT = 0.05
"""Level, corrected for the number of classes, at which a class is covered too rarely."""
MAX_CLASSES = 20
"""Number of classes up to which tables have a row for each."""
QUARTERS = 4


@dataclass(frozen=True)
class Share:
    """The number of covered rows among some rows, and the mean size of their sets or intervals."""

    n: int
    covered: int | None
    """None without labels."""
    mean: float
    """Mean size of sets, or width of intervals."""

    @property
    def coverage(self) -> float:
        """The share of covered rows; NaN without rows or labels."""
        return math.nan if self.covered is None or not self.n else self.covered / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the coverage."""
        if math.isnan(self.coverage):
            return math.nan, math.nan
        interval = wilson(self.coverage, self.n, CONFIDENCE)
        return interval.low, interval.high

    def to_json(self) -> dict[str, Any]:
        """As plain data; non-finite numbers become null."""
        low, high = self.interval
        numbers = {"coverage": self.coverage, "low": low, "high": high, "mean": self.mean}
        return encode({"n": self.n, "covered": self.covered} | numbers)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConformalPrediction:
    """The base class of intervals and sets."""

    level: float
    method: str
    threshold: float
    name: str
    fitted_on: tuple[str, int]
    """The name and the number of the held-out rows."""
    ids: np.ndarray | None = None
    notes: tuple[Note, ...] = ()
    json_kind: ClassVar[str]
    size_name: ClassVar[str]

    @property
    def sizes(self) -> np.ndarray:
        """The size (N,) of each set, or the width of each interval."""
        raise NotImplementedError

    @property
    def covered(self) -> np.ndarray | None:
        """Whether the outcome of each row (N,) is covered; None without labels."""
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
        """The share of covered rows; NaN without labels."""
        return self.overall.coverage

    def among(self, rows: np.ndarray) -> Share:
        """Coverage and mean size of a subset of rows, given by a mask (N,)."""
        sizes, covered = self.sizes[rows], self.covered
        mean = float(sizes.mean()) if sizes.size else math.nan
        return Share(len(sizes), None if covered is None else int(covered[rows].sum()), mean)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that `save` writes: those of the intervals or sets, and what is known of outcomes and ids."""
        names = (*type(self).__annotations__, "ids")
        return {name: value for name in names if isinstance(value := getattr(self, name), np.ndarray)}

    def save(self, path: str | Path) -> Path:
        """Write the arrays to a .npz file, atomically."""
        path = Path(path)
        if path.suffix.lower() != ".npz":
            got, hint = show(path.suffix), "use sets.npz"
            raise UsageError(str(path), expected="a file name ending in .npz", got=got, hint=hint)
        with atomic_write(path) as stream:
            np.savez(stream, **self.arrays())  # type: ignore[arg-type]
        return path

    def to_json(self) -> dict[str, Any]:
        """The summary as plain data; non-finite numbers become null."""
        data = {
            "schema": 1,
            "kind": self.json_kind,
            **{key: getattr(self, key) for key in ("name", "method", "level", "threshold")},
            "fitted_on": {"name": self.fitted_on[0], "rows": self.fitted_on[1]},
            "rows": self.n,
            "overall": self.overall,
            "warnings": [{"code": note.code, "message": note.message} for note in self.notes],
        }
        return encode(data | self._details())

    def _details(self) -> dict[str, Any]:
        """Further entries of `to_json`."""
        raise NotImplementedError

    def _subsets(self) -> Iterator[tuple[str, Share]]:
        """The rows of the table below the first."""
        raise NotImplementedError

    def __repr__(self) -> str:
        labelled = self.covered is not None
        name = type(self).__name__
        return f"{name}({self.name!r}, {self.method}, level={self.level:g}, rows={self.n}, labels={labelled})"

    def __str__(self) -> str:
        title = f"{plain(self.name, 40)} · {self.n} rows · {self.method} · level {self.level:g}"
        title += f" · threshold {self.threshold:.4g} from {self.fitted_on[1]} rows"
        rows = []
        for name, share in (("all", self.overall), *self._subsets()):
            coverage = ("—", "—")
            if share.covered is not None:
                coverage = f"{share.coverage:.3f}", "{:.3f} to {:.3f}".format(*share.interval)
            rows.append((name, str(share.n), *coverage, f"{share.mean:.4g}"))
        heads = ("rows", "n", "coverage", "95% interval", f"mean {self.size_name}")
        table = rendering.text(rendering.Table(title, heads, tuple(rows)), max(80, len(title)))
        return "\n".join([table, *self._remarks(), *(f"warning: {plain(note.message)}" for note in self.notes)])

    def _remarks(self) -> list[str]:
        """What a reader of the table should know."""
        return []


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Intervals(ConformalPrediction):
    """An interval for each row; an interval whose lower end lies above its upper end is empty."""

    lower: np.ndarray
    upper: np.ndarray
    y: np.ndarray | None = None

    json_kind = "conformal intervals"
    size_name = "width"

    @property
    def sizes(self) -> np.ndarray:
        return np.maximum(self.upper - self.lower, 0.0)

    @property
    def covered(self) -> np.ndarray | None:
        return None if self.y is None else (self.lower <= self.y) & (self.y <= self.upper)

    @property
    def by_width(self) -> dict[str, Share]:
        """Coverage of four equally filled ranges of widths; empty if all widths are equal."""
        widths = self.sizes
        if not np.isfinite(widths).all() or np.ptp(widths) <= 1e-9 * np.abs(widths).max(initial=0.0):
            return {}
        cuts = np.unique(np.quantile(widths, np.arange(1, QUARTERS) / QUARTERS))
        quarter = np.searchsorted(cuts, widths, side="left")
        shares = {}
        for k in np.unique(quarter):
            inside = widths[quarter == k]
            shares[f"width {inside.min():.4g} to {inside.max():.4g}"] = self.among(quarter == k)
        return shares

    def _details(self) -> dict[str, Any]:
        empty = int((self.lower > self.upper).sum())
        return {"median_width": float(np.median(self.sizes)), "empty": empty, "by_width": self.by_width}

    def _subsets(self) -> Iterator[tuple[str, Share]]:
        yield from self.by_width.items()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Sets(ConformalPrediction):
    """A set of classes for each row."""

    included: np.ndarray
    labels: np.ndarray | None = None
    class_names: tuple[str, ...] | None = None

    json_kind = "conformal sets"
    size_name = "size"

    @property
    def sizes(self) -> np.ndarray:
        return self.included.sum(axis=1)

    @property
    def covered(self) -> np.ndarray | None:
        return None if self.labels is None else self.included[np.arange(len(self.included)), self.labels]

    @property
    def size_distribution(self) -> dict[int, int]:
        """The number of sets of each size."""
        sizes, counts = np.unique(self.sizes, return_counts=True)
        return dict(zip(sizes.tolist(), counts.tolist(), strict=True))

    @property
    def by_size(self) -> dict[int, Share]:
        """Coverage of the sets of each size."""
        return {size: self.among(self.sizes == size) for size in self.size_distribution}

    @property
    def by_class(self) -> dict[str, Share]:
        """Coverage of the rows of each class, by its name or number; empty without labels."""
        if self.labels is None:
            return {}
        names = self.class_names or tuple(map(str, range(self.included.shape[1])))
        return {names[k]: self.among(self.labels == k) for k in np.unique(self.labels).tolist()}

    def _remarks(self) -> list[str]:
        by_class = self.by_class
        less = [
            (share.coverage, name)
            for name, share in by_class.items()
            if len(by_class) * bdtr(share.covered, share.n, self.level) < SIGNIFICANT
        ]
        if not less:
            return []
        coverage, name = min(less)
        text = f"class {plain(name, 30)} is covered in {100 * coverage:.1f}% of its rows"
        more = f" ({len(less)} classes are significantly below {100 * self.level:g}%)" if len(less) > 1 else ""
        return [f"note: {text}{more}: the guarantee is for all rows together, not for each class"]

    def _details(self) -> dict[str, Any]:
        return {
            "classes": self.included.shape[1],
            "empty": self.size_distribution.get(0, 0),
            "by_size": {str(size): share for size, share in self.by_size.items()},
            "by_class": self.by_class,
        }

    def _subsets(self) -> Iterator[tuple[str, Share]]:
        sizes, low = self.sizes, 0
        for high in (*SIZE_RANGES, self.included.shape[1]):
            rows = (sizes >= low) & (sizes <= high)
            if rows.any():
                yield f"size {low}" + f" to {high}" * (high > low), self.among(rows)
            low = high + 1
        by_class = self.by_class
        if len(by_class) <= MAX_CLASSES:
            yield from ((f"class {plain(name, 30)}", share) for name, share in by_class.items())
