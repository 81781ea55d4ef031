"""Values against the size of the test set, as plain data: what `value_by_size` finds and an evaluation stores.

An estimator that is unbiased at every size gives a flat line. The relative bias is the mean at a size divided by the
value at full size (Gruber & Buettner 2022, figure 3); an improvement is the value before minus the value after a
recalibration, on the same rows (their figure 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.registry import find
from calibrant.registry.estimate import NOT_FINITE

COMPANIONS = ("rbs", "dss")
"""Roots or means of proper scores, that others are set beside: of classes, and of numbers."""
LEVELS = {"q05": 0.05, "q50": 0.5, "q95": 0.95}
NUMBERS = ("mean", "sd", "error", *LEVELS)


@dataclass(frozen=True)
class Curve:
    """One metric: over the subsets of each size, leaving out those in which it is undefined."""

    mean: tuple[float, ...]
    sd: tuple[float, ...]
    """Between subsets. Those near the full size share most of their rows: it falls to 0 there whatever the metric."""
    error: tuple[float, ...]
    """Standard error of the mean."""
    q05: tuple[float, ...]
    q50: tuple[float, ...]
    q95: tuple[float, ...]
    undefined: tuple[int, ...]

    @classmethod
    def of(cls, values: Sequence[np.ndarray]) -> Curve:
        """From the values of all subsets, size by size."""
        columns = zip(*(_summed_up(np.asarray(of_size, np.float64)) for of_size in values), strict=True)
        return cls(*columns)

    def to_json(self) -> dict[str, Any]:
        """Lists over the sizes; `status` says what a number that is null was."""
        out: dict[str, Any] = {name: [_or_null(x) for x in getattr(self, name)] for name in NUMBERS}
        odd = {name: [_status(x) for x in getattr(self, name)] for name in ("mean", *LEVELS)}
        status = {name: said for name, said in odd.items() if any(said)}
        return out | {"undefined": list(self.undefined)} | ({"status": status} if status else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Curve:
        """The curve that was written."""
        status = data.get("status", {})
        numbers: dict[str, Any] = {}
        for name in NUMBERS:
            pairs = zip(data[name], status.get(name, [None] * len(data[name])), strict=True)
            numbers[name] = tuple(NOT_FINITE.get(s or "", math.nan) if x is None else float(x) for x, s in pairs)
        return cls(**numbers, undefined=tuple(data["undefined"]))


def _summed_up(values: np.ndarray) -> tuple[Any, ...]:
    """The fields of a curve at one size; order does not matter, and one value has no spread."""
    known = np.sort(values[~np.isnan(values)])
    undefined = len(values) - len(known)
    if not len(known):
        return (math.nan,) * len(NUMBERS) + (undefined,)
    if not np.isfinite(known).all():
        ends = {float(x) for x in known[[0, -1]] if math.isinf(x)}
        places = [float(known[round(level * (len(known) - 1))]) for level in LEVELS.values()]
        return (ends.pop() if len(ends) == 1 else math.nan, math.nan, math.nan, *places, undefined)
    mean = math.fsum(known) / len(known)
    quantiles = [float(x) for x in np.quantile(known, list(LEVELS.values()))]
    if len(known) == 1:
        return (mean, math.nan, math.nan, *quantiles, undefined)
    sd = math.sqrt(math.fsum((known - mean) ** 2) / (len(known) - 1))
    return (mean, sd, sd / math.sqrt(len(known)), *quantiles, undefined)


def _or_null(x: float) -> float | None:
    return x if math.isfinite(x) else None


def _status(x: float) -> str | None:
    return None if math.isfinite(x) else next(name for name, value in NOT_FINITE.items() if str(value) == str(x))


@dataclass(frozen=True)
class Sizes:
    """Every metric against the size of the test set; with `after`, also there, and what was gained by it."""

    input: str
    sizes: tuple[int, ...]
    """Rows, the last being all of them, of which there is one value."""
    repeats: int
    """Subsets of each size but the last."""
    seed: int
    specs: Mapping[str, Curve]
    rows: tuple[float, ...] = ()
    """Mean rows of the subsets: with units these are whole, and so perhaps a few more."""
    units: str | None = None
    after: str | None = None
    specs_after: Mapping[str, Curve] = field(default_factory=dict)
    improvement: Mapping[str, Curve] = field(default_factory=dict)
    """Before minus after, subset by subset."""

    def drift(self, spec: str) -> float:
        """The mean at the smallest size divided by the value at full size; NaN where 0 is no natural end."""
        if find(spec.partition("(")[0]).limits[0] < 0:
            return math.nan
        return _ratio(self.specs[spec])

    def share(self, spec: str) -> float:
        """The mean improvement at the smallest size divided by the improvement at full size."""
        return _ratio(self.improvement[spec], signed=True)

    def ratios(self) -> dict[str, float]:
        """The drift of each metric; where there is an `after`, the share of each improvement instead."""
        return {spec: self.share(spec) if self.after is not None else self.drift(spec) for spec in self.specs}

    def reading(self) -> str:
        """The metric that depends most on the size, and the score that it is set beside, in plain words."""
        ratios = {spec: ratio for spec, ratio in self.ratios().items() if math.isfinite(ratio)}
        if not ratios or len(self.sizes) < 2:
            return ""
        small, full = self.sizes[0], self.sizes[-1]
        worst = max(ratios, key=lambda spec: abs(ratios[spec] - 1))
        beside = [spec for spec in COMPANIONS if spec in ratios and spec != worst]
        times = f"{ratios[worst]:.2f} times".replace("-", "−")
        others = "".join(f"; {spec} {ratios[spec]:.2f} times" for spec in beside).replace("-", "−")
        if self.after is None:
            return f"{worst} at n = {small} is {times} its value at n = {full}{others}"
        return f"the improvement of {worst} at n = {small} is {times} that at n = {full}{others}"

    def to_json(self) -> dict[str, Any]:
        """As it stands in an evaluation file."""
        out: dict[str, Any] = {"input": self.input, "after": self.after, "sizes": list(self.sizes)}
        out |= {"rows": list(self.rows), "repeats": self.repeats, "seed": self.seed, "units": self.units}
        out["specs"] = _as_json(self.specs)
        out["drift"] = {spec: _or_null(self.drift(spec)) for spec in self.specs}
        if self.after is not None:
            out |= {"specs_after": _as_json(self.specs_after), "improvement": _as_json(self.improvement)}
            out["share"] = {spec: _or_null(self.share(spec)) for spec in self.specs}
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Sizes:
        """What was written."""
        curves: dict[str, Any] = {
            key: {spec: Curve.from_json(item) for spec, item in data.get(key, {}).items()}
            for key in ("specs", "specs_after", "improvement")
        }
        plain = {key: data[key] for key in ("input", "repeats", "seed", "units", "after")}
        return cls(sizes=tuple(data["sizes"]), rows=tuple(data["rows"]), **plain, **curves)


def _as_json(curves: Mapping[str, Curve]) -> dict[str, Any]:
    return {spec: curve.to_json() for spec, curve in curves.items()}


def _ratio(curve: Curve, *, signed: bool = False) -> float:
    """First mean over last, or NaN where the last is 0 or one of them is not a number."""
    first, last = curve.mean[0], curve.mean[-1]
    known = math.isfinite(first) and math.isfinite(last) and (last != 0 if signed else last > 0)
    return first / last if known else math.nan
