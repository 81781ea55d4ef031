"""Verdicts on classes and judged answers: how right, how sure, whether calibrated, whether errors are found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.evaluation.result import Result
from calibrant.evaluation.verdicts.calibration import Belief, Calibration, belief_of, calibration
from calibrant.evaluation.verdicts.records import (
    InputVerdict,
    Point,
    Tone,
    exact,
    has_interval,
    headline,
    interval_of,
    percent,
    rows_of,
    two_percents,
    worst,
)
from calibrant.evaluation.wording import number

USEFUL = 0.7
"""An AUROC of errors by uncertainty from which it finds them; below it finds some."""
REJECTED = 0.1
"""The share of least certain rows that is left out."""
NO_LABELS = "it needs labels"
"""Why metrics are skipped where there are none."""
TINY = 30
"""Rows up to which a test set is called tiny."""


def classes_verdict(result: Result, facts: Mapping[str, Any], others: tuple[Point, ...]) -> InputVerdict:
    """One input of classes or judged answers; `others` are points on groups, shift and notes."""
    belief = belief_of(result)
    if math.isnan(belief.right) and any(why == NO_LABELS for why in result.skipped.values()):
        return _without_labels(result, facts, others)
    found = calibration(result, belief)
    errors = _errors(result, belief)
    off = found is not None and found.point.tone in ("warn", "bad")
    known = (
        _right(belief, facts), None if found is None else found.point, shared_doubt(facts) if off else None, errors,
        members_point(result, facts),
    )  # fmt: skip
    points = (*(point for point in known if point is not None), *others)
    word = "not judged" if found is None else found.word
    return InputVerdict(
        result.input, _headline(belief, found, errors, facts), worst(p.tone for p in points), points, word
    )


def _headline(belief: Belief, found: Calibration | None, errors: Point | None, facts: Mapping[str, Any]) -> str:
    tail = "" if errors is None else SHORT.get(errors.text.partition(":")[0], "")
    if found is None:
        if math.isnan(belief.right):
            return headline("Neither accuracy nor calibration was asked for")
        sure = "" if math.isnan(belief.sure) else f", {percent(belief.sure)} sure"
        said = f"Right in {percent(belief.right)} of {rows_of(int(facts['n']))}{sure}"
        return headline(f"{said}; calibration was not tested", said)
    return headline(*(f"{said}; {tail}" for said in found.said if tail), *found.said)


def _right(belief: Belief, facts: Mapping[str, Any]) -> Point | None:
    """How right and how sure."""
    if math.isnan(belief.right):
        return None
    right, sure = percent(belief.right), ""
    if not math.isnan(belief.sure):
        right, told = two_percents(belief.right, belief.sure)
        right, told = (percent(belief.right), percent(belief.sure)) if "." not in right else (right, told)
        sure = f", {told} sure on average"
    n = int(facts["n"])
    tiny = f"; a test set of {rows_of(n)} is tiny" if n <= TINY else ""
    numbers = () if belief.accuracy is None else (exact("accuracy", belief.accuracy),)
    return Point("neutral", "accuracy", f"right in {right} of rows{sure}{tiny}", numbers)


# ------------------------------------------------------------------------------------------------- errors
FINDS = "its uncertainty finds its errors"
SOME = "its uncertainty finds some of its errors"
MISLEADS = "its uncertainty misleads"
UNTOLD = "whether its uncertainty finds its errors is not told"
SHORT = {FINDS: FINDS, SOME: SOME, MISLEADS: "its uncertainty misleads about errors"}
"""What a headline says of errors, by how the point on them begins."""


def _errors(result: Result, belief: Belief) -> Point | None:
    """Whether uncertain rows are the wrong ones."""
    e = result.metrics.get("misclassification_auroc")
    if e is None:
        return None
    if math.isnan(e.value):
        said = {1.0: "it made no error", 0.0: "it was never right"}.get(belief.right, "there is nothing to tell apart")
        return Point("neutral", "errors", f"{UNTOLD}: {said}")
    said, tone = _ranking(e.low, e.high, has_interval(e))
    parts = [f"AUROC {number(e.value)}{interval_of(e)}"] + ([] if said == UNTOLD else _rejection(result))
    if said == UNTOLD:
        parts.append("an AUROC of 0.5 is guessing")
    return Point(tone, "errors", f"{said}: {'; '.join(parts)}", (exact("misclassification_auroc", e),))


def _ranking(low: float, high: float, known: bool) -> tuple[str, Tone]:
    if not known:
        return UNTOLD, "neutral"
    if low >= USEFUL:
        return FINDS, "good"
    if low > 0.5:
        return SOME, "neutral"
    return (MISLEADS, "bad") if high < 0.5 else (UNTOLD, "neutral")


def _rejection(result: Result) -> list[str]:
    """What leaving the least certain rows out does to the error."""
    curve = result.curves.get("rejection")
    if not curve or not curve["accuracy"]:
        return []
    found = dict(zip((round(x, 6) for x in curve["rejected"]), curve["accuracy"], strict=True))
    if REJECTED not in found or 0.0 not in found:
        return []
    before, after = 1.0 - found[0.0], 1.0 - found[REJECTED]
    how = "lowers" if after < before else "leaves" if after == before else "raises"
    from_to = f"at {percent(before)}" if after == before else f"from {percent(before)} to {percent(after)}"
    return [f"rejecting the {percent(REJECTED, 0)} least certain rows {how} the error {from_to}"]


# ------------------------------------------------------------------------------------------------ members
def shared_doubt(facts: Mapping[str, Any]) -> Point | None:
    """Why the average of members may be off with good reason: they may not know the same thing."""
    if int(facts["members"]) < 2:
        return None
    said = "members that share what they do not know are off together: `calibrant check` says whether they expect it"
    return Point("neutral", "members", said)


def members_point(result: Result, facts: Mapping[str, Any]) -> Point | None:
    """How much of the uncertainty is disagreement of members."""
    whole, part = (result.metrics.get(name) for name in ("entropy", "mutual_information"))
    if whole is None or part is None or not whole.value > 0.0 or not math.isfinite(part.value):
        return None
    share = percent(part.value / whole.value, 0)
    said = f"{share} of its uncertainty is that its {facts['members']} members disagree"
    numbers = (exact("mutual_information", part), exact("entropy", whole))
    return Point("neutral", "members", f"{said} (mutual information {number(part.value)})", numbers)


# ---------------------------------------------------------------------------------------------- no labels
def _without_labels(result: Result, facts: Mapping[str, Any], others: tuple[Point, ...]) -> InputVerdict:
    said = "there are no labels: accuracy, calibration and errors could not be judged"
    points = [Point("neutral", "labels", said)]
    entropy = result.metrics.get("entropy")
    if entropy is not None and math.isfinite(entropy.value):
        most = f" of at most {number(math.log(facts['classes']))}" if facts.get("classes", 0) > 1 else ""
        text = f"its entropy is {number(entropy.value)}{interval_of(entropy)} nats on average{most}"
        points.append(Point("neutral", "uncertainty", text, (exact("entropy", entropy),)))
    members = members_point(result, facts)
    points += [] if members is None else [members]
    head = "No labels: it can be told how sure it is, not whether it is right"
    return InputVerdict(result.input, head, worst(p.tone for p in others), (*points, *others), "not judged")
