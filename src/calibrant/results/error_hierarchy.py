"""The ladder of calibration errors: √BS over CE₂, CWCE₂, TCE₂, KS and ECE; what must hold between them, and what not.

Gruber & Buettner (2022), theorem 3.1, orders the errors √BS ≥ CE_p ≥ CWCE_p ≥ TCE_p ≥ TCE_1 ≥ {KS, ECE}. Of that chain,
CWCE_p ≥ TCE_p is false even in the population, and estimates by kernels cross anything (docs, theory). A link is of
one of three kinds:

    must      holds between these estimates, whatever the data: they share their bins, or one bounds the other
    limit     holds between what they estimate, with endless data; the estimates may cross
    may cross holds neither way
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
    """One error of the ladder, and what its being zero says."""

    spec: str
    symbol: str
    zero: str
    not_zero: str
    """What its being zero does not say."""


@dataclass(frozen=True)
class Link(Record):
    """Two rungs, upper and lower, and what is known between them."""

    upper: str
    lower: str
    kind: str
    why: str


RUNGS = (
    Rung("rbs", "√BS", "every label was predicted with certainty", ""),
    Rung(
        "ce(p=2)",
        "CE₂",
        "the whole vector of probabilities is right, given itself: calibrated in full",
        "the model is accurate or sharp: always predicting the base rates gives zero",
    ),
    Rung(
        "cwce",
        "CWCE₂",
        "each class's probability is right, on average over rows that share its bin",
        "the vector is right: CE₂ may be as large as √(0.99 − 1/C) (proposition 3.2); nor that TCE₂ is zero",
    ),
    Rung(
        "tce",
        "TCE₂",
        "the confidence in the top label is right, on average over each bin",
        "other classes, or rows within a bin, are right",
    ),
    Rung("ks", "KS", "the confidence is right on average over every range of it", "other classes are right"),
    Rung(
        "ece",
        "ECE",
        "the confidence is right on average over each bin",
        "anything is known of single rows: saying the accuracy everywhere gives zero (proposition D.2)",
    ),
)
LINKS = (
    Link("rbs", "ce(p=2)", "limit", "the Brier score is CE₂² plus what is left of the spread; kernels may cross it"),
    Link("rbs", "cwce", "must", "Jensen within each bin of each class"),
    Link("rbs", "tce", "must", "the top label is one of the classes, and Jensen within each bin"),
    Link("rbs", "ks", "must", "a mean of absolute gaps is at most the root of the mean square"),
    Link("ce(p=2)", "cwce", "limit", "averaging over rows that share p_c only loses; estimates have unlike biases"),
    Link("cwce", "tce", "may cross", "printed as a theorem, and false: which class is on top changes from row to row"),
    Link("tce", "ece", "must", "the root mean square over the same bins is at least the mean"),
    Link("tce", "ks", "may cross", "in the limit of fine bins TCE₂ ≥ KS; bins hide gaps, and KS has none"),
    Link("ece", "ks", "may cross", "in the limit of fine bins ECE ≥ KS; bins hide gaps, and KS has none"),
)
SPECS = tuple(rung.spec for rung in RUNGS)


@dataclass(frozen=True)
class Standing(Record):
    """A link between two estimates."""

    link: Link
    holds: bool

    @property
    def inequality(self) -> str:
        """The link in symbols."""
        symbols = {rung.spec: rung.symbol for rung in RUNGS}
        return f"{symbols[self.link.upper]} ≥ {symbols[self.link.lower]}"

    @property
    def surprising(self) -> bool:
        """Whether a link that must hold does not."""
        return self.link.kind == "must" and not self.holds


@dataclass(frozen=True)
class ErrorHierarchy(Record):
    """The rungs that these predictions have, from the top, and the links between them."""

    estimates: Mapping[str, Estimate]
    standings: tuple[Standing, ...]

    @classmethod
    def of(cls, metrics: Mapping[str, Estimate]) -> ErrorHierarchy:
        """From the metrics of a result; rungs that were skipped are left out."""
        known = {spec: metrics[spec] for spec in SPECS if spec in metrics}
        standings = tuple(
            Standing(link, known[link.upper].value >= known[link.lower].value - ROUNDING)
            for link in LINKS
            if link.upper in known and link.lower in known
        )
        return cls(known, standings)

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """Those that are there."""
        return tuple(rung for rung in RUNGS if rung.spec in self.estimates)

    def to_json(self) -> dict[str, Any]:
        """As it stands in an evaluation file; the estimates are among the metrics."""
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
