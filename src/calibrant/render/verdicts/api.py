"""`verdict`: is a model's uncertainty reliable? A plain-language answer from the stored numbers of an evaluation.

No metric is computed here: an evaluation that was read from its file gives the same verdict. Nothing is claimed that is
not statistically significant, and a test set too small to detect a relevant error is reported as inconclusive.

Whether a model is calibrated is stored with the evaluation (`Result.verdict`) and only quoted here: the rules are in
`render.verdicts.calibration` for the metrics of `evaluate`, and in `render.verdicts.checks` for those of `check`. To it
come findings on error detection, members, groups, shift, recalibration and comparison.

Tones:

- `good`: calibrated, or negligibly miscalibrated; uncertainty that identifies errors (lower end of the AUROC interval
  at least 0.7); OOD detection with an AUROC of at least 0.9; all checks pass; a significant improvement; gates that
  passed; uncertainty that grows with severity.
- `warn`: miscalibrated, but no error is shown to be of relevant size; partial OOD detection; some checks fail;
  miscalibrated groups after correction for multiple testing; a calibration error that grows with severity.
- `bad`: miscalibrated with the whole interval of an error above its relevant size; misleading uncertainty; OOD
  detection no better than chance; most checks fail; a significant deterioration; an observed label of probability 0; a
  failed gate.
- `neutral`: facts, and what cannot be assessed: no labels, few rows, no interval.

An input has the worst tone of its points, in the order bad, warn, good, neutral; an evaluation that of its inputs.
A comparison has the tone of its own points, a recalibration that of its improvement and of the input after it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.predictions.base import Note
from calibrant.registry.lookup import with_role
from calibrant.render.formatting import count
from calibrant.render.verdicts.checks import check_verdict
from calibrant.render.verdicts.classification import classification_verdict
from calibrant.render.verdicts.comparison import (
    comparison_headline,
    comparison_points,
    gate_points,
    improvement_headline,
    improvement_points,
)
from calibrant.render.verdicts.detection import detection_verdict
from calibrant.render.verdicts.groups_and_shift import context_points, shift_across_inputs
from calibrant.render.verdicts.model import InputVerdict, Point, Tone, Verdict, headline, worst
from calibrant.render.verdicts.regression import regression_verdict
from calibrant.results.evaluation import COMPARISON, RECALIBRATION, Evaluation, Result, task_of

__all__ = ["InputVerdict", "Point", "Tone", "Verdict", "verdict"]


def verdict(evaluation: Evaluation) -> Verdict:
    """The verdict on an evaluation: a headline, a tone, and the findings behind them, input by input."""
    inputs = () if evaluation.kind == COMPARISON else tuple(_input(evaluation, r) for r in evaluation.results)
    points: list[Point] = []
    if evaluation.kind == COMPARISON:
        points += comparison_points(evaluation)
    if evaluation.kind == RECALIBRATION:
        points += improvement_points(evaluation)
    if evaluation.across_inputs:
        points += shift_across_inputs(evaluation)
    if evaluation.gates:
        points += gate_points(evaluation)
    if evaluation.warnings:
        points.append(Point("neutral", "notes", f"{count(len(evaluation.warnings), 'note')} on these numbers"))
    tones = [item.tone for item in inputs]
    if evaluation.kind == RECALIBRATION and len(inputs) == 2:  # before and after: judge the one after
        tones = ["warn" if inputs[1].tone == "bad" else inputs[1].tone]
    return Verdict(_headline(evaluation, inputs), worst([*tones, *(p.tone for p in points)]), inputs, tuple(points))


def _input(evaluation: Evaluation, result: Result) -> InputVerdict:
    facts: Mapping[str, Any] = next(item for item in evaluation.inputs if item["name"] == result.input)
    context: tuple[Point, ...] = ()
    if result.groups or evaluation.shift or evaluation.passed:
        context = context_points(evaluation, result)
    context += tuple(_impossible_outcomes(evaluation.warnings, result))
    if result.is_check:
        return check_verdict(result, evaluation.settings, context)
    task = task_of(facts)
    if task == "detection":
        return detection_verdict(result, facts, context)
    if task == "regression":
        return regression_verdict(result, facts, context)
    return classification_verdict(result, facts, context)


def _impossible_outcomes(notes: Sequence[Note], result: Result) -> list[Point]:
    """Rows whose observed outcome had probability 0."""
    out = []
    for note in notes:
        rest = note.message.removeprefix(f"{result.input}: ")
        rows = re.match(r"(\d+) row", rest)
        if note.code == "infinite-nll" and rest != note.message and rows:
            verb = "assigns" if rows[1] == "1" else "assign"
            text = f"{count(int(rows[1]), 'row')} {verb} probability 0 to the observed outcome: NLL is infinite"
            out.append(Point("bad", "impossible outcomes", text))
    if not out and (e := result.metrics.get(with_role("row_loss")[0])) is not None and math.isinf(e.value):
        text = "some rows assign probability 0 to the observed outcome: NLL is infinite"
        out.append(Point("bad", "impossible outcomes", text))
    return out


def _headline(evaluation: Evaluation, inputs: tuple[InputVerdict, ...]) -> str:
    if evaluation.kind == COMPARISON:
        return comparison_headline(evaluation)
    if evaluation.kind == RECALIBRATION:
        return improvement_headline(evaluation)
    if len(inputs) == 1:
        return inputs[0].headline
    if not inputs:
        return "Nothing was evaluated"
    counts = Counter(item.word.removeprefix("slightly ") for item in inputs).most_common()
    candidates = []
    for shown in range(len(counts), 0, -1):  # the rarest words are summed up until the line fits
        parts = [f"{n} {word}" for word, n in counts[:shown]]
        parts += [f"{sum(n for _, n in counts[shown:])} other"] if shown < len(counts) else []
        candidates.append(f"{len(inputs)} inputs: {', '.join(parts)}")
    return headline(*candidates)
