"""What predictions are, in words for a terminal."""

from __future__ import annotations

import json

import numpy as np

from calibrant.errors import plain
from calibrant.predictions.classification import Classification
from calibrant.predictions.judged import Judged

MOST = 8


def describe(predictions: Classification | Judged) -> str:
    """One fact a line, names first."""
    facts = _classification(predictions) if isinstance(predictions, Classification) else _judged(predictions)
    info = predictions.info
    if info.ids is not None:
        facts["ids"] = f"{len(np.unique(info.ids))} distinct"
    if info.weights is not None:
        n_eff = info.weights.sum() ** 2 / (info.weights**2).sum()
        facts["weights"] = f"{info.weights.min():g} to {info.weights.max():g}, effective rows {n_eff:.1f}"
    for name, column in info.columns.items():
        facts[f"column {name}"] = _column(column)
    if info.meta:
        facts["meta"] = json.dumps(dict(info.meta))
    if info.sha256:
        facts["sha256"] = info.sha256
    for note in predictions.notes():
        facts.setdefault("note", "")
        facts["note"] = f"{facts['note']} {note.message}".strip()
    width = max(len(plain(key, 40)) for key in facts)
    lines = [plain(predictions.name)] + [
        f"  {plain(key, 40):<{width}}  {plain(text, 400)}" for key, text in facts.items()
    ]
    return "\n".join(lines)


def _classification(p: Classification) -> dict[str, str]:
    binary = p.scores.shape[2] == 1
    facts = {
        "task": "classification",
        "scores": f"{p.kind} ({p.scores.dtype}){', one number per row: class 1 of a binary problem' if binary else ''}",
        "rows": str(p.n),
        "classes": str(p.classes) + (f": {_names(p.class_names)}" if p.class_names else ""),
        "members": str(p.members) + (f": {_names(p.member_names)}" if p.member_names else ""),
    }
    low, high, deviation = _extremes(p)
    facts["range"] = f"{low:.6g} to {high:.6g}"
    if p.kind != "logits":
        facts["row sums"] = f"1 within {deviation:.2g}"
    facts["labels"] = _labels(p)
    return facts


def _extremes(p: Classification) -> tuple[float, float, float]:
    """Smallest and largest score, and the largest deviation of a row sum from one; block by block."""
    low, high, deviation = np.inf, -np.inf, 0.0
    for start in range(0, p.n, 1 << 14):
        part = p[start : start + (1 << 14)]
        for _, block in part.score_blocks():
            low, high = min(low, float(block.min())), max(high, float(block.max()))
            if p.kind != "logits":
                values = block.astype(np.float64)
                sums = (values if p.kind == "probs" else np.exp(values)).sum(axis=2)
                deviation = max(deviation, float(np.abs(sums - 1).max()))
    return low, high, deviation


def _labels(p: Classification) -> str:
    if p.labels is not None:
        counts = np.bincount(p.labels, minlength=p.classes)
        text = f"{(counts > 0).sum()} of {p.classes} classes occur, {counts.min()} to {counts.max()} rows each"
        return text + (", soft labels too" if p.label_probs is not None else "")
    return "soft labels" if p.label_probs is not None else "none: what needs labels will be skipped"


def _judged(p: Judged) -> dict[str, str]:
    right = "unknown" if p.correct is None else f"{p.correct.mean():.4f} of the answers"
    return {
        "task": "judged answers",
        "rows": str(p.n),
        "members": str(p.members),
        "confidence": f"{p.confidence.min():.6g} to {p.confidence.max():.6g}",
        "correct": right,
    }


def _column(column: np.ndarray) -> str:
    values = np.unique(column)
    if column.dtype.kind == "f" and len(values) > MOST:
        return f"numbers from {values[0]:g} to {values[-1]:g}"
    return f"{len(values)} values: {_names(values.tolist())}"


def _names(names: object) -> str:
    items = [plain(str(name), 30) for name in list(names)]  # type: ignore[call-overload]
    return ", ".join(items[:MOST]) + (", …" if len(items) > MOST else "")
