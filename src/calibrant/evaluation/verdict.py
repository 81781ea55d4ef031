"""`verdict`: does a model know what it does not know? In plain words, from the stored numbers of an evaluation.

No metric is computed: an evaluation that was read from its file gives the same verdict. Words are careful. What is not
shown beyond chance is "not told from" its opposite by so many rows, and a test set that could not show much is said to
be small.

When a model is called miscalibrated:

- Classes and judged answers: the ECE (or the first of TCE, smooth, sweep and kernel-density ECE, MMCE that was
  computed) or the KS error lies above the band of a calibrated model. Chance alone does that in (1 − level)/2 of cases
  each, so that a calibrated model is accused in at most 1 − level of cases. Where rows depend on each other there is no
  band, and the interval of the true error must leave 0 out. It is over- or under-confident where the mean confidence
  and the accuracy differ by at least half of what the bins do, and else merely miscalibrated. Where no such error was
  asked for, it is so where the interval of the accuracy leaves the mean confidence out.
- Regression: MACE (or RMSCE, or the calibration error) lies above its band, or the coverage of the central intervals
  has a p-value below (1 − level)/2 (or, read from the stored curve, lies outside its band). It is biased where the
  mean PIT differs from ½ beyond its interval and the tails do not both hold too much or too little; over-confident
  where the tails hold more outcomes than they should. The coverage of one level alone shows no calibration.

Tones:

- `good`: calibrated as far as enough rows can tell (an error of 0.05 would have shown in four of five cases);
  uncertainty that ranks errors above right answers with an AUROC shown to be at least 0.7; outside rows told with one
  of at least 0.9; checks that all pass; a gain beyond chance; gates that passed; uncertainty that grows with severity.
- `warn`: miscalibrated beyond chance, but by less than 0.05 as far as is shown; outside told in part; some checks
  fail; groups that are off when all are counted; a calibration error that grows with severity.
- `bad`: miscalibrated, the interval of the error being above 0.05 as a whole (without an interval, the value above
  0.1); uncertainty that misleads; outside not told from inside; most checks fail; a loss beyond chance; a label that
  was held impossible; a gate that failed.
- `neutral`: facts, and what could not be judged: no labels, few rows, no interval.

An input has the worst tone of its points, in the order bad, warn, good, neutral; so has an evaluation of its inputs.
A comparison has the tone of its own points, and a recalibration that of its gain and of what is left after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from calibrant.evaluation.result import Evaluation, Result
from calibrant.evaluation.verdicts.beside import across, beside
from calibrant.evaluation.verdicts.checks import check_verdict
from calibrant.evaluation.verdicts.classes import classes_verdict
from calibrant.evaluation.verdicts.detection import detection_verdict
from calibrant.evaluation.verdicts.records import InputVerdict, Point, Tone, Verdict, headline, worst
from calibrant.evaluation.verdicts.regression import regression_verdict
from calibrant.evaluation.verdicts.together import (
    comparison_headline,
    comparison_points,
    gate_points,
    improvement_headline,
    improvement_points,
    note_points,
)

__all__ = ["InputVerdict", "Point", "Tone", "Verdict", "verdict"]


def verdict(evaluation: Evaluation) -> Verdict:
    """What an evaluation says, in words: a headline, a tone, and the points that carry them, input by input."""
    inputs = () if evaluation.comparison is not None else tuple(_input(evaluation, r) for r in evaluation.results)
    points = (
        *comparison_points(evaluation),
        *improvement_points(evaluation),
        *across(evaluation),
        *gate_points(evaluation),
        *note_points(evaluation),
    )
    return Verdict(_headline(evaluation, inputs), _tone(evaluation, inputs, points), inputs, points)


def _input(evaluation: Evaluation, result: Result) -> InputVerdict:
    """One input, by what it holds."""
    facts: Mapping[str, Any] = next(item for item in evaluation.inputs if item["name"] == result.input)
    others = beside(evaluation, result)
    if result.checks:
        return check_verdict(result, evaluation.settings, others)
    if "outside" in facts:
        return detection_verdict(result, facts, others)
    if "kind" in facts:
        return regression_verdict(result, facts, others)
    return classes_verdict(result, facts, others)


def _tone(evaluation: Evaluation, inputs: tuple[InputVerdict, ...], points: tuple[Point, ...]) -> Tone:
    if evaluation.improvement is not None and len(inputs) == 2:  # before, after: what is left counts
        left: Tone = "warn" if inputs[1].tone == "bad" else inputs[1].tone
        return worst([left, *(point.tone for point in points)])
    return worst([*(item.tone for item in inputs), *(point.tone for point in points)])


def _headline(evaluation: Evaluation, inputs: tuple[InputVerdict, ...]) -> str:
    if evaluation.comparison is not None:
        return comparison_headline(evaluation)
    mended = improvement_headline(evaluation, inputs)
    if mended is not None:
        return mended
    if len(inputs) == 1:
        return inputs[0].headline
    if not inputs:
        return "Nothing was evaluated"
    return _counted(inputs)


def _counted(inputs: tuple[InputVerdict, ...]) -> str:
    """Of several inputs, how many are what; the rarest words give way."""
    counts = Counter(item.word.removeprefix("slightly ") for item in inputs).most_common()
    candidates = []
    for kept in range(len(counts), 0, -1):
        parts = [f"{count} {word}" for word, count in counts[:kept]]
        parts += [f"{sum(count for _, count in counts[kept:])} otherwise"] if kept < len(counts) else []
        candidates.append(f"{len(inputs)} inputs: {', '.join(parts)}")
    return headline(*candidates)
