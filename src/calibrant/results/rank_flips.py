"""Ranks of models by one calibration error under many settings (Ashukha et al. 2020, figure 7).

Ranks count from 1, the smallest error; equal values share the smaller rank, and undefined values come last.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.registry import lookup
from calibrant.results import display
from calibrant.results.json import Stored, encode

REFERENCE = "Ashukha et al. (2020), ICLR 8, figure 7; Nixon et al. (2019)"


@dataclass(frozen=True, repr=False)
class RankFlips(Stored):
    """Values of one metric by setting and model, and how the ranking changes."""

    metric: str
    models: tuple[str, ...]
    settings: tuple[str, ...]
    """Spec strings."""
    values: tuple[tuple[float, ...], ...]
    """By setting, then by model."""

    @cached_property
    def ranks(self) -> tuple[tuple[int, ...], ...]:
        """By setting, then by model; 1 is best."""
        higher = lookup.parse(self.metric).metric.direction == "higher"
        every = (np.array([math.inf if math.isnan(v) else -v if higher else v for v in row]) for row in self.values)
        return tuple(tuple(int((keys < key).sum()) + 1 for key in keys) for keys in every)

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
        signs = [np.sign(np.subtract.outer(np.array(ranks), np.array(ranks))) for ranks in self.ranks]
        swaps = (
            (int((signs[i] * signs[j] < 0).sum()) // 2, i, j) for i, j in itertools.combinations(range(len(signs)), 2)
        )
        count, i, j = max(swaps, key=lambda item: item[0], default=(0, 0, 0))
        return self.settings[i], self.settings[j], count

    def table(self) -> display.Table:
        """One row per model: its best and worst rank, and how often it ranks first."""
        return display.comparison().rank_flips_table(self)

    def csv(self) -> str:
        """Setting, model, value and rank, one line each."""
        return str(display.comparison().rank_flips_csv(self))

    def reading(self) -> str:
        """The changes of ranking in words."""
        if len(self.orders) == 1:
            return f"{len(self.settings)} settings of {self.metric} give the same ranking of {len(self.models)} models"
        name, best, worst = self.largest_range
        one, other, pairs = self.extremes
        firsts = sum(count > 0 for count in self.first.values())
        return (
            f"{len(self.settings)} settings of {self.metric} give {len(self.orders)} rankings of {len(self.models)} "
            f"models, with {firsts} of them in first place; {name} ranks between {best} and {worst}; {one} and {other} "
            f"order {pairs} of {math.comb(len(self.models), 2)} pairs differently"
        )

    def __str__(self) -> str:
        return str(display.comparison().rank_flips_text(self))

    def __repr__(self) -> str:
        return f"RankFlips({self.metric!r}, models={list(self.models)}, settings={len(self.settings)})"

    def to_json(self) -> dict[str, Any]:
        """The fields, with ranks and what they say."""
        one, other, pairs = self.extremes
        return super().to_json() | {
            "ranks": encode(self.ranks),
            "orders": len(self.orders),
            "first": self.first,
            "extremes": {"settings": [one, other], "pairs": pairs},
            "reference": REFERENCE,
        }
