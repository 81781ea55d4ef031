"""Rejection and risk against coverage: what is gained by leaving out what the model is not sure of."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.reporting.document import Block, Figure, Panel, Section
from calibrant.reporting.estimate_table import estimates
from calibrant.reporting.gathering import Gathered, Subject, curve_options
from calibrant.reporting.lines import FEWEST, lines_chart

LEAD = "If the rows that the model is least sure of go to somebody else, how good is it on those that are left?"
METRICS = ("aurc", "e_aurc", "aac", "misclassification_auroc", "misclassification_aupr")
REJECTION = (
    "The rows that the model is least sure of are left out first. A line that rises at once says that it knows which "
    "rows it gets wrong; the dashed line is what leaving out rows at random would do. Models may be compared by it."
)
RISK = (
    "The share of errors among the rows that the model is at least so sure of, against how many they are. The area "
    "under it is aurc; e_aurc is what it exceeds that of the best order by."
)
THRESHOLDS = (
    "Accuracy among rows above a threshold of confidence, and how many they are. Not for comparing models: at one "
    "threshold they leave other shares of rows, and sharpening a model moves it along the axis without its having "
    "learnt anything. Compare by rejection instead, which leaves the same share for all."
)
ORDERS = {"confidence": "confidence", "entropy": "entropy", "mutual_information": "mutual information"}
LEFT = (("accuracy", "accuracy of the rows left"), ("share", "share of rows left"))


def section(gathered: Gathered) -> Section | None:
    """A panel for each input that has one of the curves."""
    panels = [Panel(k, found) for k, subject in enumerate(gathered.subjects) if (found := _blocks(subject))]
    return Section("selective", "Leaving rows out", tuple(panels), LEAD) if panels else None


def _blocks(subject: Subject) -> tuple[Block, ...]:
    made = (_rejection(subject), _risk(subject), _thresholds(subject))
    figures = [figure for figure in made if figure is not None]
    return (*figures, *estimates(subject.scored, METRICS, "Areas and rankings")) if figures else ()


def _rejection(subject: Subject) -> Figure | None:
    """A line for each score that rows were ordered by."""
    found: dict[str, Sequence[float]] = {}
    for name, curve in subject.curves.items():
        kind, options = curve_options(name)
        score = options.get("score", "confidence")
        if kind == "rejection" and score in ORDERS and len(curve["rejected"]) >= FEWEST:
            known = found.setdefault("x", curve["rejected"])
            found |= {score: curve["accuracy"]} if known == curve["rejected"] else {}
    if not found:
        return None
    lines = tuple((score, ORDERS[score]) for score in ORDERS if score in found)
    return Figure(
        key="rejection",
        title="Accuracy of the rows that are left",
        chart=lines_chart("share of rows left out", "accuracy", lines, start=True),
        data={(): found},
        heads={"x": "share of rows left out"} | {score: f"accuracy, by {shown}" for score, shown in lines},
        said="Accuracy of the rows that are left against the share that is left out, the least certain first",
        caption=REJECTION,
    )


def _risk(subject: Subject) -> Figure | None:
    curve = subject.curves.get("risk_coverage", {})
    if len(curve.get("coverage", ())) < FEWEST:
        return None
    also = (("threshold", "confidence of at least"),)
    titles = "coverage: share of rows answered", "risk: share of errors"
    return Figure(
        key="risk-coverage",
        title="Risk and coverage",
        chart=lines_chart(*titles, (("risk", "risk"),), also=also),
        data={(): {"x": curve["coverage"], "risk": curve["risk"], "threshold": curve["threshold"]}},
        heads={"x": "coverage", "risk": "risk", "threshold": "confidence of at least"},
        said="Share of errors among the most certain rows against the share of rows that these are",
        caption=RISK,
    )


def _thresholds(subject: Subject) -> Figure | None:
    curve = subject.curves.get("accuracy_confidence", {})
    if len(curve.get("threshold", ())) < FEWEST:
        return None
    names = ("accuracy", "share", "n")
    return Figure(
        key="accuracy-confidence",
        title="Accuracy above a threshold of confidence",
        chart=lines_chart("confidence of at least", "share", LEFT, also=(("n__i", "rows"),)),
        data={(): {"x": curve["threshold"]} | {name: curve[name] for name in names}},
        heads={"x": "confidence of at least"} | dict(LEFT) | {"n": "rows"},
        said="Accuracy among rows of at least some confidence, and the share of rows that these are",
        caption=THRESHOLDS,
    )
