"""A comparison of models on the same rows: ranks, pairs, scores before and after temperature, equivalents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calibrant.comparison.datasets import Summary
from calibrant.comparison.records import CllCurve, Equivalent, MeanEquivalent, Pair, Ranked, ShiftedCll

PLAIN = ("rank_by", "temperature", "baseline", "pool", "splits", "temperatures", "best_temperature")
"""Parts that are stored as they are."""


@dataclass(frozen=True)
class Comparison:
    """What `compare` adds to an evaluation."""

    rank_by: str
    ranking: tuple[Ranked, ...]
    """By `rank_by`, the best first."""
    pairs: tuple[Pair, ...]
    """Score by score; of each all pairs, or those with the baseline."""
    ranks: Mapping[str, tuple[Ranked, ...]] = field(default_factory=dict)
    """The ranking by every score."""
    temperature: str = "same"
    """Of which rows: same (test-time cross-validation) or clean."""
    splits: Mapping[str, Any] = field(default_factory=dict)
    """How the halves were made."""
    temperatures: Mapping[str, list[list[float]]] = field(default_factory=dict)
    """By model: repeat by repeat, those fitted on either half."""
    best_temperature: Mapping[str, float] = field(default_factory=dict)
    """By model: fitted on all rows, for information; of clean rows the one that scores."""
    baseline: str | None = None
    pool: str | None = None
    equivalents: Mapping[str, Equivalent] = field(default_factory=dict)
    curves: Mapping[str, CllCurve] = field(default_factory=dict)
    """CLL against the number of members, where there are several; that of the pool is the mean over draws."""
    equivalent_curves: Mapping[str, tuple[Equivalent, ...]] = field(default_factory=dict)
    """The equivalent of the first k members of a model, k = 1, 2, …"""

    shifted: tuple[ShiftedCll, ...] = ()
    """By model, type and severity of shift."""
    datasets: Mapping[str, Comparison] = field(default_factory=dict)
    """Where there are several, the comparison on each; ranking and pairs are then those over all of them."""
    summary: Summary | None = None
    mean_equivalents: Mapping[str, tuple[MeanEquivalent, ...]] = field(default_factory=dict)
    """Of several data sets: the mean over them of the equivalent of a model's first k members (figure 2)."""

    def pair(self, first: str, second: str, score: str) -> Pair:
        """The pair of two models by a score, the first less the second."""
        from calibrant.errors import UsageError, show

        for pair in self.pairs:
            if pair.score != score:
                continue
            if (pair.first, pair.second) == (first, second):
                return pair
            if (pair.second, pair.first) == (first, second):
                return pair.turned()
        known = ", ".join(dict.fromkeys(f"{p.first} and {p.second}" for p in self.pairs))
        scores = ", ".join(dict.fromkeys(p.score for p in self.pairs))
        raise UsageError(
            "comparison",
            expected=f"two of the models that were compared ({known}) and a score ({scores})",
            came=f"got {show(first)}, {show(second)} and {show(score)}",
            do="name them as they were given to compare",
        )

    def to_json(self) -> dict[str, Any]:
        """`ranking` and `pairs`, and the rest under `comparison`."""
        rest: dict[str, Any] = {
            "rank_by": self.rank_by,
            "temperature": self.temperature,
            "baseline": self.baseline,
            "pool": self.pool,
            "splits": dict(self.splits),
            "temperatures": dict(self.temperatures),
            "best_temperature": dict(self.best_temperature),
            "ranks": {score: [item.to_json() for item in ranked] for score, ranked in self.ranks.items()},
            "equivalents": {name: item.to_json() for name, item in self.equivalents.items()},
            "curves": {name: item.to_json() for name, item in self.curves.items()},
            "equivalent_curves": {
                name: [item.to_json() for item in items] for name, items in self.equivalent_curves.items()
            },
        }
        rest |= {"shifted": [item.to_json() for item in self.shifted]} if self.shifted else {}
        rest |= {"datasets": {name: item.to_json() for name, item in self.datasets.items()}} if self.datasets else {}
        means = {name: [item.to_json() for item in items] for name, items in self.mean_equivalents.items()}
        rest |= {"mean_equivalents": means} if means else {}
        rest |= {} if self.summary is None else {"summary": self.summary.to_json()}
        ranking, pairs = ([item.to_json() for item in items] for items in (self.ranking, self.pairs))
        return {"ranking": ranking, "pairs": pairs, "comparison": rest}

    def __str__(self) -> str:
        over = f", over {len(self.datasets)} data sets" if self.datasets else ""
        return "\n".join([f"Ranked by {self.rank_by}{over}", *map(str, self.ranking)])

    __repr__ = __str__

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Comparison:
        """What `to_json` wrote, among the other parts of an evaluation."""
        rest = data["comparison"]
        plain = {key: rest[key] for key in PLAIN}
        return cls(
            **plain,
            ranking=tuple(Ranked.from_json(item) for item in data["ranking"]),
            pairs=tuple(Pair.from_json(item) for item in data["pairs"]),
            ranks=_lists(Ranked, rest["ranks"]),
            equivalents={name: Equivalent.from_json(item) for name, item in rest["equivalents"].items()},
            curves={name: CllCurve.from_json(item) for name, item in rest["curves"].items()},
            equivalent_curves=_lists(Equivalent, rest["equivalent_curves"]),
            mean_equivalents=_lists(MeanEquivalent, rest.get("mean_equivalents", {})),
            shifted=tuple(ShiftedCll.from_json(item) for item in rest.get("shifted", [])),
            datasets={name: cls.from_json(item) for name, item in rest.get("datasets", {}).items()},
            summary=Summary.from_json(rest["summary"]) if "summary" in rest else None,
        )


def _lists(kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """Records by name, several of each."""
    return {name: tuple(kind.from_json(item) for item in items) for name, items in data.items()}
