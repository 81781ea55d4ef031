"""The hierarchy of calibration errors √BS, CE₂, CWCE₂, TCE₂, KS and ECE, and which inequalities between them hold.

Gruber & Buettner (2022), theorem 3.1, orders the errors √BS ≥ CE_p ≥ CWCE_p ≥ TCE_p ≥ TCE_1 ≥ {KS, ECE}. Of that chain,
CWCE_p ≥ TCE_p is false even for the population, and kernel estimates may violate any of it (docs, theory). A link is of
one of three kinds:

    must      holds between these estimates, whatever the data: they share their bins, or one bounds the other
    limit     holds for the population, as n grows without bound; the estimates may violate it
    may cross is guaranteed for neither
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.records import Record
from calibrant.registry.estimate import Estimate

ROUNDING = 1e-9


@dataclass(frozen=True)
class Rung(Record):
    """One error of the hierarchy, and what a value of 0 means."""

    spec: str
    symbol: str
    zero: str
    not_zero: str
    """What a value of 0 does not imply."""


@dataclass(frozen=True)
class Link(Record):
    """The inequality upper ≥ lower between two errors, and why it holds or may not."""

    upper: str
    lower: str
    kind: str
    why: str


RUNGS = (
    Rung("rbs", "√BS", "every label was predicted with probability 1", ""),
    Rung(
        "ce(p=2)",
        "CE₂",
        "the predicted distribution is calibrated",
        "the model is accurate or sharp: always predicting the base rates gives 0",
    ),
    Rung(
        "cwce",
        "CWCE₂",
        "the probability of each class is calibrated, on average in each bin",
        "the predicted distribution is calibrated (CE₂ may be as large as √(0.99 − 1/C), proposition 3.2), or that "
        "TCE₂ is 0",
    ),
    Rung(
        "tce",
        "TCE₂",
        "the confidence in the top label is calibrated, on average in each bin",
        "the other classes, or the rows within a bin, are calibrated",
    ),
    Rung(
        "ks",
        "KS",
        "the confidence is calibrated, on average over every range of it",
        "the other classes are calibrated",
    ),
    Rung(
        "ece",
        "ECE",
        "the confidence is calibrated, on average in each bin",
        "single rows are calibrated: always predicting the accuracy gives 0 (proposition D.2)",
    ),
)
COARSE = "guaranteed only in the limit of fine bins: gaps of opposite sign cancel within a bin, and KS has no bins"
LINKS = (
    Link("rbs", "ce(p=2)", "limit", "it holds for the population, but kernel estimates may violate it"),
    Link("rbs", "cwce", "must", "Jensen's inequality in each bin of each class"),
    Link("rbs", "tce", "must", "the top label is one of the classes; Jensen's inequality in each bin"),
    Link("rbs", "ks", "must", "a mean of absolute gaps is at most their root mean square"),
    Link(
        "ce(p=2)", "cwce", "limit",
        "it holds for the population, but the two estimates have different biases",
    ),
    Link(
        "cwce", "tce", "may cross",
        "not guaranteed, although published as a theorem: the top class differs between rows",
    ),
    Link("tce", "ece", "must", "a root mean square over the same bins is at least the mean"),
    Link("tce", "ks", "may cross", COARSE),
    Link("ece", "ks", "may cross", COARSE),
)  # fmt: skip
SPECS = tuple(rung.spec for rung in RUNGS)


@dataclass(frozen=True)
class Standing(Record):
    """An inequality, and whether it holds between two estimates."""

    link: Link
    holds: bool

    @property
    def inequality(self) -> str:
        """The inequality in symbols."""
        symbols = {rung.spec: rung.symbol for rung in RUNGS}
        return f"{symbols[self.link.upper]} ≥ {symbols[self.link.lower]}"

    @property
    def surprising(self) -> bool:
        """Whether an inequality that must hold does not."""
        return self.link.kind == "must" and not self.holds


@dataclass(frozen=True)
class ErrorHierarchy(Record):
    """The errors that these predictions have, the strictest first, and the inequalities between them."""

    estimates: Mapping[str, Estimate]
    standings: tuple[Standing, ...]

    @classmethod
    def of(cls, metrics: Mapping[str, Estimate]) -> ErrorHierarchy:
        """From the metrics of a result, without those that were skipped."""
        known = {spec: metrics[spec] for spec in SPECS if spec in metrics}
        standings = tuple(
            Standing(link, known[link.upper].value >= known[link.lower].value - ROUNDING)
            for link in LINKS
            if link.upper in known and link.lower in known
        )
        return cls(known, standings)

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """The errors that were computed."""
        return tuple(rung for rung in RUNGS if rung.spec in self.estimates)

    def to_json(self) -> dict[str, Any]:
        """The JSON form; the estimates are among the metrics."""
        return {
            "rungs": [
                {"spec": r.spec, "symbol": r.symbol, "zero_means": r.zero, "zero_does_not_mean": r.not_zero}
                for r in self.rungs
            ],
            "links": [
                {"upper": s.link.upper, "lower": s.link.lower, "kind": s.link.kind, "holds": s.holds, "why": s.link.why}
                for s in self.standings
            ],
        }
