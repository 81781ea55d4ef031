"""`detect`: how well a score of rows tells outside from inside: a row uncertainty, a column, or the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.detection.mixes import mixed_accuracy_versus_confidence
from calibrant.errors import NotApplicable, UsageError, did_you_mean, show
from calibrant.evaluation.choosing import Input
from calibrant.evaluation.evaluate import KINDS, Progress, evaluate
from calibrant.evaluation.result import Evaluation
from calibrant.kernels.rows import rows_of
from calibrant.predictions import Classification, Detection, Evaluated, Judged
from calibrant.predictions.arrays import as_array, as_floats
from calibrant.registry.selective import lacks_score
from calibrant.scores.uncertainty import ROW_SCORES

Score = str | Callable[[Evaluated], Any]
Side = Input | np.ndarray | Iterable[float]
THRESHOLDS = np.arange(20) / 20
"""Confidences from which the accuracy on the mix is told."""


@dataclass(frozen=True)
class Scored:
    """One side: a score a row, and what is known of the rows beside it."""

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
    """AUROC, AUPR, detection accuracy, FPR95 and Wasserstein distance of outside rows against inside rows.

    inside, outside: predictions, streams, or plain scores (N,), of which high means outside; several outsides by name
    or in a list. score: the name of a row uncertainty (entropy, max_probability, mutual_information, energy, …) or of a
    column, a function of predictions that gives (N,) scores, or several of them; by default the entropy of classes, one
    minus the confidence of judged answers, the variance of numbers. Where the inside has labels and both
    sides have confidences, the curve `mix` tells accuracy against confidence on both together, outside rows counting as
    wrong. units: a column of dependent rows; a unit of one name on both sides is one.
    """
    others = _outsides(outside)
    scores = _scores(_default_score(inside) if score is None else score)
    _check_alike(inside, others)
    inputs: list[Detection] = []
    mixes: list[dict[str, list[float]] | None] = []
    hashes: list[dict[str, str | None]] = []
    for one in scores:
        within = _scored(inside, one, "inside", units)
        for name, side in others:
            beyond = _scored(side, one, name, units)
            label = beyond.name + (f" by {_score_name(one)}" if len(scores) > 1 else "")
            inputs.append(_joined(within, beyond, label, one))
            mixes.append(_mix(within, beyond))
            hashes.append({"inside": within.sha256, "outside": beyond.sha256})
    found = evaluate(
        inputs, metrics, units="unit" if units else None,
        level=level, resamples=resamples, seed=seed, intervals=intervals, threads=threads, progress=progress,
    )  # fmt: skip
    return _with_mixes(found, mixes, hashes, [_score_name(one) for one in scores], units)


# ----------------------------------------------------------------------------------------- scores
def _score_name(score: Score) -> str:
    return score if isinstance(score, str) else getattr(score, "__name__", "score")


def _default_score(inside: Side) -> str:
    """The uncertainty that is meant where none is named."""
    task = inside.example.task if isinstance(inside, KINDS) else ""
    return {"judged": "max_probability", "regression": "variance"}.get(task, "entropy")


def _check_alike(inside: Side, others: list[tuple[str, Side]]) -> None:
    """Refuse to compare an uncertainty of predictions with plain numbers."""
    plain = [name for name, side in [("inside", inside), *others] if not isinstance(side, KINDS)]
    if plain and len(plain) <= len(others):
        raise UsageError(
            "detect",
            expected="predictions on both sides, or scores on both",
            came=f"{plain[0]} holds scores, and others are predictions",
            do="score both sides in the same way",
        )


def _scores(score: Any) -> list[Score]:
    """Names and functions, at least one."""
    single = isinstance(score, str) or callable(score)
    scores = [score] if single else list(score) if isinstance(score, Iterable) else [score]
    if not scores or not all(isinstance(one, str) or callable(one) for one in scores):
        raise UsageError(
            "score",
            expected="the name of a row uncertainty or of a column, a function of predictions, or several of them",
            came="none was given" if not scores else f"got {show(str(score))}",
            do=f"choose from {', '.join(ROW_SCORES)}",
        )
    return scores


def _outsides(outside: Any) -> list[tuple[str, Side]]:
    """Every outside with a name."""
    named: list[tuple[str, Any]] = [("outside", outside)]
    if isinstance(outside, Mapping):
        items = [(str(name), side) for name, side in outside.items()]
        named = [(name, side.named(name) if isinstance(side, KINDS) else side) for name, side in items]
    elif isinstance(outside, list | tuple) and any(isinstance(side, (*KINDS, np.ndarray)) for side in outside):
        named = [(f"outside {k + 1}", side) for k, side in enumerate(outside)]
    if not named:
        raise UsageError("outside", expected="at least one", came="none was given", do="give predictions or scores")
    return named


def _scored(side: Side, score: Score, name: str, units: str | None) -> Scored:
    """The scores of one side; what is not predictions is taken to be scores."""
    if not isinstance(side, KINDS):
        if units is not None:
            raise UsageError("units", expected="predictions with columns", came="got plain scores", do="leave it out")
        held = side if hasattr(side, "__len__") or hasattr(side, "__array__") else list(side)
        return Scored(name, as_floats(held, f"{name} scores"))
    parts = [_block_scores(block, score) for block in side.blocks()]
    joined = [None if part[0] is None else np.concatenate(part) for part in zip(*parts, strict=True)]
    values, weights, confidence, hit = joined
    unit = None if units is None else side.column(units)
    return Scored(side.name, values, weights, unit, confidence, hit, side.sha256)  # type: ignore[arg-type]


def _block_scores(block: Evaluated, score: Score) -> tuple[np.ndarray | None, ...]:
    """Scores, weights, confidence and hits of a block, each (N,) or None."""
    known = ROW_SCORES.get(score) if isinstance(score, str) else None
    rows = rows_of(block, known.wanted if known else frozenset())
    if known is not None:
        _check_score(block, str(score))
        values = known.of(rows)
    elif callable(score):
        values = _users(score(block), block, _score_name(score))
    else:
        values = _column(block, score)
    judged = isinstance(block, Classification | Judged)
    confidence, hit = (rows.confidence, rows.hit) if judged else (None, None)
    return np.array(values, np.float64), block.weights, confidence, hit


def _check_score(block: Evaluated, name: str) -> None:
    reason = lacks_score(name, block)
    if reason:
        raise NotApplicable(
            f"{block.name}: score {name}",
            expected="predictions that can give it",
            came=reason,
            do=f"choose another of {', '.join(ROW_SCORES)}",
        )


def _column(block: Evaluated, name: str) -> np.ndarray:
    columns = dict(block.columns)
    if name not in columns:
        raise UsageError(
            f"{block.name}: score",
            expected=f"one of {', '.join(ROW_SCORES)}, or a column",
            came=f"got {show(name)}",
            do=did_you_mean(name, [*ROW_SCORES, *columns]),
        )
    if columns[name].dtype.kind not in "biuf":
        raise UsageError(
            f"{block.name}: score", expected="numbers", came=f"column {show(name)} holds text", do="choose another"
        )
    return columns[name]


def _users(values: Any, block: Evaluated, name: str) -> np.ndarray:
    values = as_array(values, f"score {show(name)}")
    if values.shape != (block.n,) or values.dtype.kind not in "biuf":
        raise UsageError(
            f"score {show(name)}",
            expected=f"numbers of shape ({block.n},), one a row",
            came=f"it gave {values.dtype} of shape {values.shape}",
            do="return one number for each row, high meaning outside",
        )
    return values


# ------------------------------------------------------------------------------------- both sides
def _joined(inside: Scored, outside: Scored, label: str, score: Score) -> Detection:
    pair = _weights(inside, outside)
    weights = None if pair is None else np.concatenate(pair)
    columns = {}
    if inside.units is not None and outside.units is not None:
        columns["unit"] = np.concatenate([inside.units.astype(str), outside.units.astype(str)])
    meta = {"inside": inside.name, "outside": outside.name, "score": _score_name(score)}
    return Detection.from_scores(
        inside.score, outside.score, weights=weights, columns=columns, meta=meta, name=label
    )  # fmt: skip


def _weights(inside: Scored, outside: Scored) -> tuple[np.ndarray, np.ndarray] | None:
    """Weights of both sides; those of one side alone are brought to a mean of one, which the other's rows have."""
    if inside.weights is None and outside.weights is None:
        return None
    alone = inside.weights is None or outside.weights is None
    both = []
    for side in (inside, outside):
        weights = np.ones(len(side.score)) if side.weights is None else side.weights
        mean = float(weights.mean())
        both.append(weights / mean if alone and mean > 0 else weights)
    return both[0], both[1]


def _mix(inside: Scored, outside: Scored) -> dict[str, list[float]] | None:
    """Accuracy against confidence on both sides together, outside rows counting as wrong (Ovadia et al., figure 4)."""
    if inside.hit is None or inside.confidence is None or outside.confidence is None:
        return None
    weights, outside_weights = _weights(inside, outside) or (None, None)
    curve = mixed_accuracy_versus_confidence(
        inside.confidence, inside.hit, outside.confidence, THRESHOLDS, weights=weights, outside_weights=outside_weights
    )
    kept = ~np.isnan(curve.accuracy)
    return {
        "confidence": curve.threshold[kept].tolist(),
        "accuracy": curve.accuracy[kept].tolist(),
        "share": curve.share[kept].tolist(),
        "n": curve.rows[kept].tolist(),
    }


def _with_mixes(
    found: Evaluation,
    mixes: list[dict[str, list[float]] | None],
    hashes: list[dict[str, str | None]],
    scores: list[str],
    units: str | None,
) -> Evaluation:
    """The evaluation with the curves of the mixes, and with what was compared."""
    from dataclasses import replace

    results = tuple(
        result if mix is None else replace(result, curves={**result.curves, "mix": mix})
        for result, mix in zip(found.results, mixes, strict=True)
    )
    inputs = tuple(
        {**facts, "sha256": sides["outside"], "inside_sha256": sides["inside"]}
        for facts, sides in zip(found.inputs, hashes, strict=True)
    )
    settings = {**found.settings, "command": "detect", "scores": scores, "units": units}
    return replace(found, results=results, inputs=inputs, settings=settings)
