"""What is said of the inputs together: a comparison, what a recalibration gained, gates, notes."""

from __future__ import annotations

import math

from calibrant.errors import plain
from calibrant.evaluation.comparison_words import CALIBRATED, comparison_lines, named
from calibrant.evaluation.gains import Gain
from calibrant.evaluation.rendering import elide
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.verdicts.records import LONGEST, InputVerdict, Point, Tone, headline
from calibrant.evaluation.wording import number, span

MAIN_SCORES = ("nll", "crps", "pinball", "dss", "brier", "interval_score")
"""The score that a gain is told by: the first that was taken of both."""
NEAR_ONE = 0.05
"""By what a temperature may differ from 1 and say nothing."""


# --------------------------------------------------------------------------------------------- comparison
def comparison_points(evaluation: Evaluation) -> list[Point]:
    """Who is best, whom the rows do not tell apart, and whether the models are too sure."""
    if evaluation.comparison is None:
        return []
    lines = comparison_lines(evaluation)
    points = [Point(_told(evaluation) if k == 0 else "neutral", "comparison", line) for k, line in enumerate(lines)]
    return points + _temperatures(evaluation)


def _told(evaluation: Evaluation) -> Tone:
    comparison = evaluation.comparison
    if comparison is None:
        return "neutral"
    pairs = [pair for pair in comparison.pairs if pair.score == comparison.rank_by]
    return "good" if any(pair.better is not None for pair in pairs) else "neutral"


def _temperatures(evaluation: Evaluation) -> list[Point]:
    comparison = evaluation.comparison
    found = {} if comparison is None or comparison.rank_by not in CALIBRATED else dict(comparison.best_temperature)
    if not found:
        return []
    high = [name for name, t in found.items() if t > 1.0 + NEAR_ONE]
    low = [name for name, t in found.items() if t < 1.0 - NEAR_ONE]
    low_end, high_end = f"{min(found.values()):.2f}", f"{max(found.values()):.2f}"
    ends = f"temperatures of {low_end} to {high_end}" if len(found) > 1 else f"a temperature of {high_end}"
    said = {1: "the model is", 2: "both models are"}.get(len(found), f"all {len(found)} models are")
    if len(high) == len(found):
        return [Point("warn", "temperature", f"{said} too sure, with {ends}")]
    if not high and not low:
        return [Point("good", "temperature", f"with {ends}, {said} hardly changed")]
    text = f"{ends}: {len(high)} of {len(found)} models are too sure, {len(low)} not sure enough"
    return [Point("neutral", "temperature", text)]


def comparison_headline(evaluation: Evaluation) -> str:
    """The first line of a comparison, its names cut to fit."""
    lines = comparison_lines(evaluation)
    comparison = evaluation.comparison
    if not lines or comparison is None:
        return headline("One model: there is nothing to compare it with")
    first = lines[0] if len(lines[0]) <= LONGEST else lines[0].partition("; ")[0]
    text = first
    for room in (40, 24, 16, 12, 8):
        if len(text) <= LONGEST:
            break
        text = first
        for item in sorted(comparison.ranking, key=lambda item: -len(item.model)):
            shown = item.model if len(item.model) <= 60 else elide(plain(item.model, len(item.model)), 60)
            text = text.replace(plain(shown), elide(plain(shown), room))
    return headline(text[:1].upper() + text[1:] if text.startswith("than ") else text,
                    f"{len(comparison.ranking)} models compared by {named(comparison.rank_by)}")  # fmt: skip


# -------------------------------------------------------------------------------------------- improvement
def main_gain(evaluation: Evaluation) -> Gain | None:
    """The gain in the score that tells it."""
    found = evaluation.improvement
    if found is None or not found.gains:
        return None
    return next((found.gains[score] for score in MAIN_SCORES if score in found.gains), next(iter(found.gains.values())))


def gain_tone(gain: Gain) -> Tone:
    """Better or worse beyond chance, or not told."""
    if math.isinf(gain.after) and not math.isinf(gain.before):
        return "bad"
    return "good" if gain.low > 0 else "bad" if gain.high < 0 else "neutral"


def improvement_points(evaluation: Evaluation) -> list[Point]:
    """What was gained, score by score."""
    found = evaluation.improvement
    if found is None:
        if evaluation.recalibration is not None:
            return [Point("neutral", "gain", "there are no labels: what was gained could not be judged")]
        return []
    gain = main_gain(evaluation)
    if gain is None:
        return []
    how = {"good": "better beyond chance", "bad": "worse beyond chance", "neutral": "not told from chance"}
    ends = f" ({span(gain.low, gain.high)})" if span(gain.low, gain.high) else ""
    text = (
        f"{named(gain.score)} {number(gain.before)} before, {number(gain.after)} after, a gain of {number(gain.gain)}"
    )
    tone = gain_tone(gain)
    rest = f": {how[tone]} by {found.n} rows"
    return [Point(tone, "gain", f"{text}{ends}{rest}", (f"{gain.score} gain {number(gain.gain)}{ends}",))]


def improvement_headline(evaluation: Evaluation, inputs: tuple[InputVerdict, ...]) -> str | None:
    """Whether a recalibration helps, and what is left."""
    facts, gain = evaluation.recalibration, main_gain(evaluation)
    if facts is None and evaluation.improvement is None:
        return None
    title = "Recalibration" if facts is None else plain(str(facts["title"]), 40)
    if gain is None:
        return headline(f"{title}: what it gained cannot be judged")
    tone = gain_tone(gain)
    size = f"{named(gain.score)} {'falls' if gain.gain > 0 else 'rises'} by {number(abs(gain.gain))}"
    said = {"good": f"{title} helps: {size}", "bad": f"{title} harms: {size}",
            "neutral": f"{title} does not help beyond chance"}.get(tone, title)  # fmt: skip
    if facts is not None and facts["method"] == "none":
        said = "Nothing was recalibrated"
    after = inputs[-1] if len(inputs) == 2 else None
    if after is None or not after.word or after.word == "not judged":
        return headline(said)
    left = f"now {after.word}" if after.word != inputs[0].word else f"still {after.word}"
    return headline(f"{said}; {left}", said)


# ------------------------------------------------------------------------------------------ gates and notes
def gate_points(evaluation: Evaluation) -> list[Point]:
    """How many gates passed, and which did not."""
    gates = evaluation.gates
    if not gates:
        return []
    failed = [item for item in gates if not item.passed]
    text = "the gate passed" if len(gates) == 1 else f"all {len(gates)} gates passed"
    if failed:
        text = f"{len(gates) - len(failed)} of {len(gates)} gate{'s' * (len(gates) != 1)} passed"
        text += f"; failed: {', '.join(plain(item.gate, 60) for item in failed)}"
    unsure = sum(item.passed and item.undecided for item in gates)
    text += f", {unsure} of them without being sure" if unsure else ""
    return [Point("bad" if failed else "good", "gates", text)]


def note_points(evaluation: Evaluation) -> list[Point]:
    """How many notes there are to read."""
    count = len(evaluation.warnings)
    if not count:
        return []
    them = "a note says" if count == 1 else f"{count} notes say"
    return [Point("neutral", "notes", f"{them} what should be known of these numbers")]
