"""Rank flips: models in order by one calibration error under many settings (Ashukha et al. 2020, figure 7).

TACE has a number of bins and a threshold, ECE a number of bins and a kind of binning; none of them is right, and each
choice may put another model first. Ranks count from 1, the smallest error; equal values share the smaller rank, and
what is undefined comes last.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.errors import UsageError, show
from calibrant.evaluation.choosing import Input
from calibrant.evaluation.evaluate import inputs_of, measure
from calibrant.evaluation.rendering import Table, as_csv, text
from calibrant.registry.metric import Spec

BINS = (5, 10, 15, 20, 50, 100)
THRESHOLDS = (0.0, 1e-4, 1e-3, 1e-2, 0.1)
REFERENCE = "Ashukha et al. (2020), ICLR 8, figure 7; Nixon et al. (2019)"


@dataclass(frozen=True)
class RankFlips:
    """Values of one metric by setting and model, and what becomes of their order."""

    metric: str
    models: tuple[str, ...]
    settings: tuple[str, ...]
    """Spec strings."""
    values: tuple[tuple[float, ...], ...]
    """By setting, then by model."""

    @cached_property
    def ranks(self) -> tuple[tuple[int, ...], ...]:
        """By setting, then by model; 1 is the best."""
        higher = registry.parse(self.metric).metric.direction == "higher"
        return tuple(_ranks(row, higher) for row in self.values)

    @cached_property
    def orders(self) -> dict[tuple[int, ...], list[str]]:
        """The settings of each distinct order, the most frequent first."""
        out: dict[tuple[int, ...], list[str]] = {}
        for setting, ranks in zip(self.settings, self.ranks, strict=True):
            out.setdefault(ranks, []).append(setting)
        return dict(sorted(out.items(), key=lambda item: -len(item[1])))

    @property
    def first(self) -> dict[str, int]:
        """How many settings put each model first."""
        return {name: sum(row[k] == 1 for row in self.ranks) for k, name in enumerate(self.models)}

    def rank_range(self, model: str) -> tuple[int, int]:
        """The best and the worst rank of a model."""
        place = self.models.index(model)
        own = [row[place] for row in self.ranks]
        return min(own), max(own)

    @property
    def largest_range(self) -> tuple[str, int, int]:
        """The model whose rank changes most, its best and its worst rank."""
        spans = [(name, *self.rank_range(name)) for name in self.models]
        return max(spans, key=lambda item: item[2] - item[1])

    @cached_property
    def extremes(self) -> tuple[str, str, int]:
        """The two settings whose orders differ in most pairs of models, and in how many they do."""
        found = ((_turned(a, b), i, j) for (i, a), (j, b) in itertools.combinations(enumerate(self.ranks), 2))
        count, i, j = max(found, key=lambda item: item[0], default=(0, 0, 0))
        return self.settings[i], self.settings[j], count

    # ------------------------------------------------------------------------------------- display
    def table(self) -> Table:
        """One row a model: its best and worst rank, and how often it is first."""
        rows = []
        for name in self.models:
            best, worst = self.rank_range(name)
            rows.append((name, str(best), str(worst), f"{self.first[name]} of {len(self.settings)}"))
        heads = ("model", "best rank", "worst rank", "first")
        return Table(f"Ranks by {self.metric} under {len(self.settings)} settings", heads, tuple(rows))

    def csv(self) -> str:
        """Setting, model, value and rank, one line each."""
        heads = ("setting", "model", "value", "rank")
        rows: list[tuple[object, ...]] = [
            (setting, name, value, rank)
            for setting, values, ranks in zip(self.settings, self.values, self.ranks, strict=True)
            for name, value, rank in zip(self.models, values, ranks, strict=True)
        ]
        return as_csv(heads, rows)

    def reading(self) -> str:
        """In words."""
        if len(self.orders) == 1:
            return f"{len(self.settings)} settings of {self.metric} give one order of {len(self.models)} models"
        name, best, worst = self.largest_range
        one, other, pairs = self.extremes
        firsts = sum(count > 0 for count in self.first.values())
        said = f"{len(self.settings)} settings of {self.metric} give {len(self.orders)} orders of {len(self.models)} "
        said += f"models and put {firsts} of them first; {name} is between rank {best} and {worst}; {one} and {other}"
        return f"{said} differ in {pairs} of {math.comb(len(self.models), 2)} pairs"

    def __str__(self) -> str:
        return f"{text(self.table())}\n\n{self.reading()}"

    __repr__ = __str__

    # --------------------------------------------------------------------------------------- files
    def to_json(self) -> dict[str, Any]:
        """As plain data, ranks and what they say included."""
        one, other, pairs = self.extremes
        return {
            "metric": self.metric,
            "models": list(self.models),
            "settings": list(self.settings),
            "values": [[value if math.isfinite(value) else None for value in row] for row in self.values],
            "ranks": [list(row) for row in self.ranks],
            "orders": len(self.orders),
            "first": self.first,
            "extremes": {"settings": [one, other], "pairs": pairs},
            "reference": REFERENCE,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RankFlips:
        """What `to_json` wrote."""
        values = tuple(tuple(math.nan if x is None else float(x) for x in row) for row in data["values"])
        return cls(data["metric"], tuple(data["models"]), tuple(data["settings"]), values)


def rank_flips(
    models: Mapping[str, Input] | Iterable[Input],
    metric: str = "tace",
    *,
    bins: Sequence[int] = BINS,
    thresholds: Sequence[float] = THRESHOLDS,
    threads: int | None = None,
) -> RankFlips:
    """The order of models by a calibration error for every number of bins and threshold, or kind of binning.

    metric: a spec string of a metric with `bins`, such as "tace", "ece" or "cwce(p=1)"; thresholds are used where it
    has one, equal-width and equal-mass bins where it has `binning`.
    """
    inputs = inputs_of(models, "rank_flips")
    if len(inputs) < 2:
        raise UsageError(
            "rank_flips", expected="at least two models", came=f"got {len(inputs)}", do="give them by name"
        )
    settings = _settings(registry.parse(metric), bins, thresholds)
    measured = [measure(item, settings, threads=threads) for item in inputs]
    values = tuple(tuple(float(own[setting]) for own in measured) for setting in settings)
    return RankFlips(registry.parse(metric).text, tuple(item.name for item in inputs), tuple(settings), values)


def _settings(spec: Spec, bins: Sequence[int], thresholds: Sequence[float]) -> list[str]:
    known = [option.name for option in spec.metric.options]
    if "bins" not in known:
        do = "tace, ece, cwce and mce have them"
        raise UsageError("rank_flips", expected="a metric with bins", came=f"got {show(spec.text)}", do=do)
    second: list[dict[str, Any]] = [{}]
    if "threshold" in known:
        second = [{"threshold": float(value)} for value in thresholds]
    elif "binning" in known:
        second = [{"binning": value} for value in spec.metric.option("binning").choices]
    given = spec.options
    made = [Spec.make(spec.metric, **{**given, **other, "bins": int(count)}).text for other in second for count in bins]
    if not made:
        raise UsageError("rank_flips", expected="at least one setting", came="got none", do="leave bins out")
    return list(dict.fromkeys(made))


def _ranks(values: Sequence[float], higher: bool) -> tuple[int, ...]:
    keys = np.array([math.inf if math.isnan(v) else -v if higher else v for v in values])
    return tuple(int((keys < key).sum()) + 1 for key in keys)


def _turned(one: Sequence[int], other: Sequence[int]) -> int:
    """Pairs of models whose order is one way here and the other way there."""
    a, b = np.array(one), np.array(other)
    signs = np.sign(a[:, None] - a) * np.sign(b[:, None] - b)
    return int((signs < 0).sum()) // 2
