"""`detect`: how well a score separates outside (OOD) rows from inside rows.

The score is a row uncertainty, a column, or the user's own function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.detection.mixes import mixed_accuracy_versus_confidence
from calibrant.errors import NotApplicable, UsageError, did_you_mean, show
from calibrant.kernels.rows import rows_of
from calibrant.pipeline.evaluate import KINDS, EvaluateOptions, Progress, run_evaluation
from calibrant.pipeline.select_metrics import Input
from calibrant.predictions import Classification, Detection, Evaluable, Judged
from calibrant.predictions.arrays import as_array, as_floats
from calibrant.registry.metrics.selective import lacks_score
from calibrant.results.evaluation import DETECTION, Evaluation
from calibrant.scores.uncertainty import ROW_SCORES

Score = str | Callable[[Evaluable], Any]
Side = Input | np.ndarray | Iterable[float]
THRESHOLDS = np.arange(20) / 20
"""Confidences from which the accuracy on both sides together is computed."""


@dataclass(frozen=True)
class ScoredRows:
    """The scores of the rows of one side, and what else is known of them."""

    name: str
    score: np.ndarray
    weights: np.ndarray | None = None
    units: np.ndarray | None = None
    confidence: np.ndarray | None = None
    hit: np.ndarray | None = None
    sha256: str | None = None


def detect(
    inside: Side,
    outside: Side | Sequence[Input] | Mapping[str, Side],
    score: Score | Iterable[Score] | None = None,
    metrics: str | Iterable[str] | None = None,
    *,
    units: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    intervals: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate out-of-distribution detection: AUROC, AUPR, detection accuracy, FPR95 and Wasserstein distance.

    Parameters
    ----------
    inside : predictions, stream or array of shape (N,)
        In-distribution rows: predictions, or plain scores.
    outside : like `inside`, or a list or mapping of them
        Out-of-distribution rows; several sets in a list, or by name in a mapping.
    score : str, callable, or iterable of them, optional
        What separates them, high meaning outside: a row uncertainty (``"entropy"``, ``"max_probability"``,
        ``"mutual_information"``, ``"energy"``, …), a column, or a function of predictions that returns (N,) scores. By
        default the entropy of classes, one minus the confidence of judged answers, the variance of a regression.
    metrics : str or iterable of str, optional
        Detection metrics; by default all.
    units : str, optional
        A column of dependent rows; a unit with the same name on both sides is one unit.
    level, resamples, seed, threads, progress
        As in `evaluate`.
    intervals : bool
        Whether to compute intervals.

    Returns
    -------
    Evaluation
        One result per outside set and score. If the inside has labels and both sides have confidences, the curve
        ``mix`` has accuracy against confidence on both sides together, outside rows counting as wrong.

    Examples
    --------
    >>> import calibrant as cal
    >>> round(cal.detect([0.1, 0.2, 0.3], [0.4, 0.9, 0.25], metrics="auroc")["auroc"].value, 3)
    0.889
    """
    others = _named_sides(outside)
    if score is None:
        task = inside.example.task if isinstance(inside, KINDS) else ""
        score = {"judged": "max_probability", "regression": "variance"}.get(task, "entropy")
    scores = _scores(score)
    plain = [name for name, side in [("inside", inside), *others] if not isinstance(side, KINDS)]
    if plain and len(plain) <= len(others):
        got = f"scores for {plain[0]}, and predictions for others"
        expected, hint = "predictions on both sides, or scores on both", "score both sides in the same way"
        raise UsageError("detect", expected=expected, got=got, hint=hint)
    if isinstance(inside, KINDS) and isinstance(inside.example, Classification):
        known = inside.example.classes
        for name, side in others:
            other = getattr(side.example, "classes", known) if isinstance(side, KINDS) else known
            if other != known:
                expected, hint = "predictions of one model on both sides", "use predictions of the same classes"
                got = f"{known} classes inside, {other} in {name}"
                raise UsageError("detect", expected=expected, got=got, hint=hint)
    inputs: list[Detection] = []
    mixes: list[dict[str, list[float]] | None] = []
    hashes: list[dict[str, str | None]] = []
    for one in scores:
        inside_rows = _score_side(inside, one, "inside", units)
        for name, side in others:
            outside_rows = _score_side(side, one, name, units)
            label = outside_rows.name + (f" by {_score_name(one)}" if len(scores) > 1 else "")
            pair, columns = _weights(inside_rows, outside_rows), {}
            if inside_rows.units is not None and outside_rows.units is not None:
                both = (inside_rows.units.astype(str), outside_rows.units.astype(str))
                columns["unit"] = np.concatenate(both)
            inputs.append(
                Detection.from_scores(
                    inside_rows.score, outside_rows.score, weights=None if pair is None else np.concatenate(pair),
                    columns=columns, name=label,
                    meta={"inside": inside_rows.name, "outside": outside_rows.name, "score": _score_name(one)},
                )
            )  # fmt: skip
            mixes.append(_mix_curve(inside_rows, outside_rows))
            hashes.append({"sha256": outside_rows.sha256, "inside_sha256": inside_rows.sha256})
    options = EvaluateOptions(
        units="unit" if units else None, level=level, resamples=resamples, seed=seed, intervals=intervals,
        threads=threads, progress=progress,
    )  # fmt: skip
    evaluation = run_evaluation(inputs, metrics, options)
    results = tuple(
        result if mix is None else replace(result, curves={**result.curves, "mix": mix})
        for result, mix in zip(evaluation.results, mixes, strict=True)
    )
    facts = tuple({**item, **sides} for item, sides in zip(evaluation.inputs, hashes, strict=True))
    settings = {
        **evaluation.settings,
        "command": "detect",
        "scores": [_score_name(one) for one in scores],
        "units": units,
    }
    return replace(evaluation, results=results, inputs=facts, settings=settings, kind=DETECTION)


# ----------------------------------------------------------------------------------------- scores
def _score_name(score: Score) -> str:
    return score if isinstance(score, str) else getattr(score, "__name__", "score")


def _scores(score: Any) -> list[Score]:
    """Names and functions, at least one."""
    single = isinstance(score, str) or callable(score)
    scores = [score] if single else list(score) if isinstance(score, Iterable) else [score]
    if not scores or not all(isinstance(one, str) or callable(one) for one in scores):
        expected = "a row uncertainty, a column, a function of predictions, or several of them"
        got = show(str(scores[0])) if scores else "none"
        raise UsageError("score", expected=expected, got=got, hint=f"choose from {', '.join(ROW_SCORES)}")
    return scores


def _named_sides(outside: Any) -> list[tuple[str, Side]]:
    """Each outside set with a name."""
    named: list[tuple[str, Any]] = [("outside", outside)]
    if isinstance(outside, Mapping):
        items = [(str(name), side) for name, side in outside.items()]
        named = [(name, side.named(name) if isinstance(side, KINDS) else side) for name, side in items]
    elif isinstance(outside, list | tuple) and any(isinstance(side, (*KINDS, np.ndarray)) for side in outside):
        named = [(f"outside {k + 1}", side) for k, side in enumerate(outside)]
    if not named:
        raise UsageError("outside", expected="at least one set of rows", got="none", hint="give predictions or scores")
    return named


def _score_side(side: Side, score: Score, name: str, units: str | None) -> ScoredRows:
    """The scores of one side; anything but predictions is taken as scores."""
    if not isinstance(side, KINDS):
        if units is not None:
            raise UsageError("units", expected="predictions with columns", got="plain scores", hint="leave it out")
        values = side if hasattr(side, "__len__") or hasattr(side, "__array__") else list(side)
        return ScoredRows(name, as_floats(values, f"{name} scores"))
    blocks = [_score_block(block, score) for block in side.blocks()]
    joined = [None if part[0] is None else np.concatenate(part) for part in zip(*blocks, strict=True)]
    scores, weights, confidence, hit = joined
    unit = None if units is None else side.column(units)
    return ScoredRows(side.name, scores, weights, unit, confidence, hit, side.sha256)  # type: ignore[arg-type]


def _score_block(block: Evaluable, score: Score) -> tuple[np.ndarray | None, ...]:
    """Scores, weights, confidence and hits of a block, each (N,) or None."""
    row_score = ROW_SCORES.get(score) if isinstance(score, str) else None
    rows = rows_of(block, row_score.required_columns if row_score else frozenset())
    if row_score is not None:
        reason = lacks_score(str(score), block)
        if reason:
            expected, hint = "a score that applies", f"choose another of {', '.join(ROW_SCORES)}"
            raise NotApplicable(
                f"{block.name}: score {score}", expected=expected, got=f"{show(score)} ({reason})", hint=hint
            )
        values = row_score.of(rows)
    elif callable(score):
        what = f"score {show(_score_name(score))}"
        values = as_array(score(block), what)
        if values.shape != (block.n,) or values.dtype.kind not in "biuf":
            expected = f"numbers of shape ({block.n},), one per row"
            hint = "return one number for each row, high meaning outside"
            raise UsageError(what, expected=expected, got=f"{values.dtype} of shape {values.shape}", hint=hint)
    else:
        columns = dict(block.columns)
        if score not in columns:
            expected = f"one of {', '.join(ROW_SCORES)}, or a column"
            hint = did_you_mean(score, [*ROW_SCORES, *columns])
            raise UsageError(f"{block.name}: score", expected=expected, got=show(score), hint=hint)
        values = columns[score]
        if values.dtype.kind not in "biuf":
            got = f"column {show(score)} holds text"
            raise UsageError(f"{block.name}: score", expected="numbers", got=got, hint="choose another column")
    has_hits = isinstance(block, Classification | Judged)
    confidence, hit = (rows.confidence, rows.hit) if has_hits else (None, None)
    return np.array(values, np.float64), block.weights, confidence, hit


# ------------------------------------------------------------------------------------- both sides
def _weights(inside: ScoredRows, outside: ScoredRows) -> tuple[np.ndarray, np.ndarray] | None:
    """Weights of both sides; if only one side has them they are scaled to mean 1, the weight of the other's rows."""
    if inside.weights is None and outside.weights is None:
        return None
    only_one = inside.weights is None or outside.weights is None
    both = []
    for side in (inside, outside):
        weights = np.ones(len(side.score)) if side.weights is None else side.weights
        mean = float(weights.mean())
        both.append(weights / mean if only_one and mean > 0 else weights)
    return both[0], both[1]


def _mix_curve(inside: ScoredRows, outside: ScoredRows) -> dict[str, list[float]] | None:
    """Accuracy against confidence on both sides together, outside rows counting as wrong (Ovadia et al., figure 4)."""
    if inside.hit is None or inside.confidence is None or outside.confidence is None:
        return None
    weights, outside_weights = _weights(inside, outside) or (None, None)
    curve = mixed_accuracy_versus_confidence(
        inside.confidence, inside.hit, outside.confidence, THRESHOLDS, weights=weights, outside_weights=outside_weights
    )
    reached = ~np.isnan(curve.accuracy)
    return {
        "confidence": curve.threshold[reached].tolist(),
        "accuracy": curve.accuracy[reached].tolist(),
        "share": curve.share[reached].tolist(),
        "n": curve.rows[reached].tolist(),
    }
