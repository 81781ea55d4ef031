"""Findings on several inputs together: a comparison, the improvement by a recalibration, gates."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from calibrant.errors import plain
from calibrant.registry.lookup import metric_label, with_role
from calibrant.render.comparison_text import (
    RECALIBRATED,
    comparison_lines,
    describe_instability,
    join_names,
    unfit_to_rank,
)
from calibrant.render.formatting import count, format_interval, format_number
from calibrant.render.table import elide
from calibrant.render.verdicts.model import MAX_HEADLINE, Point, Tone, headline, tone_of, worst
from calibrant.results.evaluation import Evaluation
from calibrant.results.improvement import Gain
from calibrant.results.verdict import CALIBRATED, INCONCLUSIVE, MISCALIBRATED, NEGLIGIBLE, NOT_TESTED
from calibrant.results.verdict import Verdict as CalibrationVerdict

MAX_GROUPS = 3
"""Sentences on models that share a verdict; those of more are counted."""


# ------------------------------------------------------------------------------- quoted verdicts on calibration
BOUND = 64.0
"""Optimal temperatures are searched from 1/64 to 64."""


def format_temperature(t: float) -> str:
    """Two decimals; at an end of what is searched, that end as a bound."""
    if t >= BOUND * (1.0 - 1e-6):
        return f"at least {BOUND:g}"
    return f"at most 1/{BOUND:g}" if t <= (1.0 + 1e-6) / BOUND else f"{t:.2f}"


def predicate(verdict: CalibrationVerdict) -> str:
    """What a stored verdict says of a model, such as `is overconfident`; empty if inconclusive or not tested."""
    if verdict.status != MISCALIBRATED:
        return {CALIBRATED: "is well calibrated", NEGLIGIBLE: "is negligibly miscalibrated"}.get(verdict.status, "")
    what = f"'{plain(verdict.positive, 30)}'" if verdict.positive else "risk"
    words = [
        f"{word} {what}" if word in ("overestimates", "underestimates") else f"is {word.replace('_', ' ')}"
        for word in verdict.direction
        if word != "mixed"
    ]
    return " and ".join(words) or "is miscalibrated"


def quoted_verdicts(evaluation: Evaluation) -> Point | None:
    """The stored verdicts on calibration of compared models in one sentence; optimal temperatures are numbers only."""
    verdicts = {result.input: result.verdict for result in evaluation.results if result.verdict is not None}
    if not verdicts:
        return None
    models = len(verdicts)
    everyone = {1: "the model", 2: "both models"}.get(models, f"all {models} models")
    groups: dict[str, list[str]] = {}
    for name, verdict in verdicts.items():
        groups.setdefault(predicate(verdict) or verdict.status, []).append(plain(name, 60))
    parts = []
    for state, names in groups.items():
        who = everyone if len(names) == models else join_names(names, "and")
        if len(groups) > MAX_GROUPS:
            who = count(len(names), "model")
        if state in (INCONCLUSIVE, NOT_TESTED):
            parts.append(f"calibration is {state.replace('_', ' ')} for {who}")
        else:
            parts.append(f"{who} {state if len(names) == 1 else _plural(state)}")
    temperatures = [
        t
        for item in (evaluation.comparison, *evaluation.comparison.datasets.values())
        if item.rank_by in RECALIBRATED
        for t in item.best_temperature.values()
    ]
    text = "; ".join(parts)
    if temperatures:
        ends = dict.fromkeys(map(format_temperature, (min(temperatures), max(temperatures))))
        text += f" (optimal temperature {' to '.join(ends)})"
    tones = [tone_of(verdict) for verdict in verdicts.values()]
    tone = worst("warn" if tone == "bad" else tone for tone in tones)
    return Point(tone if "neutral" not in tones or tone != "good" else "neutral", "calibration", text)


def _plural(state: str) -> str:
    """A predicate of several models."""
    words = {"is": "are", "overestimates": "overestimate", "underestimates": "underestimate"}
    return " ".join(words.get(word, word) for word in state.split(" "))


# --------------------------------------------------------------------------------------------- comparison
def comparison_points(evaluation: Evaluation) -> list[Point]:
    """Which model is best, which differences are not significant, and what the stored verdicts say of calibration."""
    comparison = evaluation.comparison
    decided = any(pair.better is not None for pair in comparison.pairs if pair.score == comparison.rank_by)
    doubtful = bool(unfit_to_rank(evaluation) or describe_instability(comparison))
    tones: list[Tone] = ["warn" if doubtful else "good" if decided else "neutral"]
    lines = comparison_lines(evaluation)
    tones += ["neutral"] * len(lines)
    points = [Point(tone, "comparison", line) for tone, line in zip(tones, lines, strict=False)]
    quoted = quoted_verdicts(evaluation)
    return points if quoted is None else [*points, quoted]


def comparison_headline(evaluation: Evaluation) -> str:
    """The first line of a comparison, with model names shortened to fit."""
    lines, comparison = comparison_lines(evaluation), evaluation.comparison
    if not lines:
        return "Only one model: nothing to compare"
    first = lines[0]
    while len(first) > MAX_HEADLINE and "; " in first:
        first = first.rpartition("; ")[0]
    text, short = first, re.sub(r" is not significantly different from .*", " not significantly", first)
    for sentence, room in ((first, 40), (short, 60), (short, 40), (short, 24), (short, 16), (short, 12), (short, 8)):
        if len(text) <= MAX_HEADLINE:
            break
        text = sentence
        for item in sorted(comparison.ranking, key=lambda item: -len(item.model)):
            shown = item.model if len(item.model) <= 60 else elide(plain(item.model, len(item.model)), 60)
            text = text.replace(plain(shown), elide(plain(shown), room))
    text = text[:1].upper() + text[1:] if comparison.baseline is not None else text
    return headline(text, f"{len(comparison.ranking)} models compared by {metric_label(comparison.rank_by)}")


# -------------------------------------------------------------------------------------------- improvement
def main_gain(evaluation: Evaluation) -> Gain | None:
    """The gain in the main score."""
    improvement = evaluation.improvement
    if improvement is None or not improvement.gains:
        return None
    gains, scores = improvement.gains, (*with_role("row_loss"), *with_role("comparison"))
    return next((gains[score] for score in scores if score in gains), next(iter(gains.values())))


def gain_tone(gain: Gain) -> Tone:
    """Whether a score became significantly better or worse."""
    if math.isinf(gain.after) and not math.isinf(gain.before):
        return "bad"
    return "good" if gain.low > 0 else "bad" if gain.high < 0 else "neutral"


def improvement_points(evaluation: Evaluation) -> list[Point]:
    """The improvement in the main score, with its significance."""
    if evaluation.improvement is None:
        return [Point("neutral", "improvement", "no labels: the improvement cannot be assessed")]
    gain = main_gain(evaluation)
    if gain is None:
        return []
    tone = gain_tone(gain)
    significance = {"good": "significantly better", "bad": "significantly worse", "neutral": "not significant"}[tone]
    ends = format_interval(gain.low, gain.high)
    interval = f" ({ends})" if ends else ""
    change = f"{metric_label(gain.score)} {format_number(gain.before)} before, {format_number(gain.after)} after"
    size = f"improvement {format_number(gain.gain)}{interval}"
    text = f"{change}; {size}: {significance} (n = {evaluation.improvement.n})"
    return [Point(tone, "improvement", text, (f"{gain.score} gain {format_number(gain.gain)}{interval}",))]


def improvement_headline(evaluation: Evaluation) -> str:
    """Whether a recalibration helps, and how calibrated the result is."""
    facts, gain = evaluation.recalibration, main_gain(evaluation)
    title = plain(str(facts["title"]), 40)
    if gain is None:
        return headline(f"{title}: the improvement cannot be assessed")
    change = f"{metric_label(gain.score)} {'falls' if gain.gain > 0 else 'rises'} by {format_number(abs(gain.gain))}"
    text = {"good": f"{title} helps: {change}", "bad": f"{title} hurts: {change}",
            "neutral": f"{title} makes no significant difference", "warn": title}[gain_tone(gain)]  # fmt: skip
    if facts["method"] == "none":
        text = "Nothing was recalibrated"
    before, after = [result.verdict for result in evaluation.results] if len(evaluation.results) == 2 else (None, None)
    if after is None or after.status == NOT_TESTED:
        return headline(text)
    same = before is not None and before.status == after.status
    states = []
    for directions in (after.direction, after.direction[:1]):  # all of them if they fit, else the most important one
        adverb = "still" if same and before is not None and set(directions) <= set(before.direction) else "now"
        states.append(f"{adverb} {predicate(replace(after, direction=directions)).removeprefix('is ')}")
    if after.status == INCONCLUSIVE:
        states = [f"calibration {'still' if same else 'now'} inconclusive"]
    return headline(*(f"{text}; {state}" for state in states), f"{title}: {states[-1]}", text)


# ------------------------------------------------------------------------------------------ gates
def gate_points(evaluation: Evaluation) -> list[Point]:
    """How many gates passed, and which failed."""
    gates = evaluation.gates
    failed = [item for item in gates if not item.passed]
    text = "the gate passed" if len(gates) == 1 else f"all {len(gates)} gates passed"
    if failed:
        text = f"{len(gates) - len(failed)} of {count(len(gates), 'gate')} passed"
        text += f"; failed: {', '.join(plain(item.gate, 60) for item in failed)}"
    inconclusive = sum(item.passed and item.undecided for item in gates)
    text += f"; {inconclusive} passed inconclusively" if inconclusive else ""
    return [Point("bad" if failed else "good", "gates", text)]
