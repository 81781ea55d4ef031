"""Entropy, mutual information and accuracy versus uncertainty."""

from __future__ import annotations

from calibrant.reporting.document import Block, Figure, Panel, Section
from calibrant.reporting.estimate_table import estimates
from calibrant.reporting.gathering import Gathered, Subject, curve_options
from calibrant.reporting.histograms import split_histogram
from calibrant.reporting.lines import FEWEST, lines_chart

LEAD = "Is the model less certain where it is wrong, and what is it uncertain about?"
MEANS = ("entropy", "expected_entropy", "mutual_information", "variation_ratio", "margin", "energy")
VERSUS = ("avu_auc", "avu", "p_accurate_certain", "p_uncertain_inaccurate")
HISTOGRAMS = {
    "entropy": (
        "Entropy of predictions",
        "entropy in nats",
        "How uncertain the model is of how many rows. It knows its errors where wrong rows lie further to the right.",
    ),
    "mutual_information": (
        "What the members disagree on",
        "mutual information in nats",
        "The part of the entropy that knowing the right member would remove: more data may reduce it, unlike the rest.",
    ),
}
UNLABELLED = " These rows have no labels: right and wrong are not known."
AVU = (
    "Rows below the threshold count as certain. AvU is the share of rows that are right and certain or wrong and "
    "uncertain. Thresholds run from the lowest to the highest uncertainty of this model, which others do not share: "
    "not for comparing models."
)
LINES = {
    "avu": "AvU",
    "p_accurate_certain": "p(accurate | certain)",
    "p_uncertain_inaccurate": "p(uncertain | inaccurate)",
}
SCORES = {"entropy": "entropy", "max_probability": "1 − confidence"}


def section(gathered: Gathered) -> Section | None:
    """A panel for each input that has one of the curves or means."""
    panels = [Panel(k, found) for k, subject in enumerate(gathered.subjects) if (found := _blocks(subject))]
    return Section("uncertainty", "Uncertainty of rows", tuple(panels), LEAD) if panels else None


def _blocks(subject: Subject) -> tuple[Block, ...]:
    histograms = [_histogram(subject, name) for name in HISTOGRAMS]
    means = estimates(subject.scored, MEANS, "Means over rows")
    versus = estimates(subject.scored, VERSUS, "Accuracy versus uncertainty")
    made = [*histograms, *means, *_versus(subject), *versus]
    return tuple(block for block in made if block is not None)


def _histogram(subject: Subject, name: str) -> Figure | None:
    curve = subject.curves.get(name)
    if curve is None:
        return None
    title, of, caption = HISTOGRAMS[name]
    caption += UNLABELLED * ("correct" not in curve)
    kinds, columns = ("right", "wrong"), ("correct", "wrong")
    return split_histogram(
        curve, kinds, columns, key=name.replace("_", "-"), title=title, of=of, caption=caption
    )  # fmt: skip


def _versus(subject: Subject) -> list[Figure]:
    """The curve of each uncertainty that there is one of."""
    out = []
    for name, curve in subject.curves.items():
        kind, options = curve_options(name)
        score = options.get("score", "entropy")
        if kind != "avu" or score not in SCORES or len(curve["t"]) < FEWEST:
            continue
        lines = tuple((column, shown) for column, shown in LINES.items() if column in curve)
        names = ("uncertainty", *(column for column, _ in lines))
        also = (("uncertainty", SCORES[score]),)
        out.append(
            Figure(
                key="avu",
                title="Accuracy versus uncertainty",
                chart=lines_chart("threshold, from the lowest to the highest", "share", lines, also=also),
                data={(): {"x": curve["t"]} | {name: curve[name] for name in names}},
                heads={"x": "threshold", "uncertainty": SCORES[score]} | dict(lines),
                said="AvU, p(accurate | certain) and p(uncertain | inaccurate) against the threshold of uncertainty",
                caption=AVU,
            )
        )
    return out
