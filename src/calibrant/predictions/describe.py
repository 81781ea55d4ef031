"""The text of `calibrant describe`: what predictions hold, computed block by block."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from calibrant.errors import plain
from calibrant.predictions import Classification, InMemory, Judged, Note, Regression
from calibrant.predictions.classification import plausibility_notes
from calibrant.predictions.files.stream import Stream
from calibrant.predictions.regression import crossing_notes, format_levels

MAX_LISTED = 8


def describe(predictions: InMemory | Stream) -> str:
    """Describe predictions in text, one fact per line."""
    return describe_with_notes(predictions)[0]


def describe_with_notes(predictions: InMemory | Stream) -> tuple[str, list[Note]]:
    """The text of `describe`, and the notes in it."""
    example, statistics = predictions.example, _Statistics()
    for block in predictions.blocks():
        statistics.update(block)
    facts = statistics.facts(example)
    if isinstance(predictions, Stream):
        if len(predictions.plans) > 1:
            first, last = predictions.plans[0].path.name, predictions.plans[-1].path.name
            facts["shards"] = f"{len(predictions.plans)}, from {first} to {last}"
        facts["size"] = f"{predictions.nbytes / 2**20:.1f} MiB, read block by block"
        has_ids = "ids" in predictions.plans[0].known
        ids, weights = predictions.column("ids") if has_ids else None, predictions.weights()
    else:
        ids, weights = predictions.info.ids, predictions.info.weights
    if ids is not None:
        facts["ids"] = f"{len(np.unique(ids))} distinct"
    if weights is not None:
        n_eff = weights.sum() ** 2 / (weights**2).sum()
        facts["weights"] = f"{weights.min():g} to {weights.max():g}, effective rows {n_eff:.1f}"
    for name in predictions.columns:
        column = predictions.column(name)
        values = np.unique(column)
        if column.dtype.kind == "f" and len(values) > MAX_LISTED:
            facts[f"column {name}"] = f"numbers from {values[0]:g} to {values[-1]:g}"
        else:
            facts[f"column {name}"] = f"{len(values)} values: {_names(values.tolist())}"
    if example.info.meta:
        facts["meta"] = json.dumps(dict(example.info.meta))
    if predictions.sha256:
        facts["sha256"] = predictions.sha256
    notes = list(predictions.notes())
    if isinstance(predictions, Stream):
        notes += crossing_notes(predictions.name, statistics.crossing, statistics.n)
        if isinstance(example, Classification):
            notes += plausibility_notes(
                predictions.name, statistics.looks_like_probs, statistics.lowest_label, statistics.n, example.classes
            )
    if notes:
        facts["note"] = "; ".join(note.message for note in notes)
    width = max(len(plain(key, 40)) for key in facts)
    lines = [f"  {plain(key, 40):<{width}}  {plain(text, 400)}" for key, text in facts.items()]
    return "\n".join([plain(predictions.name), *lines]), notes


class _Statistics:
    """Ranges and counts, updated block by block."""

    def __init__(self) -> None:
        self.n, self.crossing, self.correct = 0, 0, 0
        self.deviation = 0.0
        self.ranges: dict[str, tuple[float, float]] = {}
        self.counts: Any = 0
        self.looks_like_probs, self.lowest_label = True, 1 << 62

    def update(self, p: InMemory) -> None:
        """Add one block."""
        self.n += p.n
        if isinstance(p, Classification):
            for start in range(0, p.n, 1 << 14):
                for _, block in p[start : start + (1 << 14)].score_blocks():
                    self._extend_range("range", block[..., -p.scores.shape[2] :])
                    if p.kind != "logits" and p.scores.shape[2] > 1:
                        values = block.astype(np.float64)
                        sums = (values if p.kind == "probs" else np.exp(values)).sum(axis=2)
                        self.deviation = max(self.deviation, float(np.abs(sums - 1).max()))
            self.looks_like_probs = self.looks_like_probs and p.looks_like_probs()
            self.lowest_label = min(self.lowest_label, 0 if p.labels is None else int(p.labels.min()))
            if p.labels is not None:
                self.counts = self.counts + np.bincount(p.labels, minlength=p.classes)
        elif isinstance(p, Judged):
            self._extend_range("confidence", p.confidence)
            self.correct += 0 if p.correct is None else int(p.correct.sum())
        else:
            self.crossing += p.count_crossing()
            for key in ("y", "mean", "std", "samples", "quantiles"):
                if getattr(p, key) is not None:
                    self._extend_range(key, getattr(p, key))

    def _extend_range(self, key: str, values: np.ndarray) -> None:
        low, high = self.ranges.get(key, (np.inf, -np.inf))
        self.ranges[key] = min(low, float(values.min())), max(high, float(values.max()))

    def facts(self, p: InMemory) -> dict[str, str]:
        """The facts by name; `p` has the kind of the predictions."""
        ranges = {key: f"{low:.6g} to {high:.6g}" for key, (low, high) in self.ranges.items()}
        if isinstance(p, Judged):
            facts = {"task": "confidence and correctness", "rows": str(self.n), "members": str(p.members), **ranges}
            return facts | {
                "correct": "unknown" if p.correct is None else f"{self.correct / self.n:.4f} of the answers"
            }
        if isinstance(p, Regression):
            facts = {"task": "regression", "predictions": _regression_kind(p), "rows": str(self.n)}
            if p.members > 1:
                facts["members"] = _count(p.members, p.member_names)
            return facts | ranges | ({} if p.has_labels else {"y": "none; metrics that need outcomes will be skipped"})
        binary = ", one number per row: class 1 of a binary problem" if p.scores.shape[2] == 1 else ""
        facts = {
            "task": "classification",
            "scores": f"{p.kind} ({p.scores.dtype}){binary}",
            "rows": str(self.n),
            "classes": _count(p.classes, p.class_names),
            "members": _count(p.members, p.member_names),
            **ranges,
        }
        if p.kind != "logits" and not binary:
            facts["row sums"] = f"1 within {self.deviation:.2g}"
        if p.labels is None:
            soft = p.label_probs is not None
            return facts | {"labels": "soft labels" if soft else "none; metrics that need labels will be skipped"}
        counts = self.counts
        occurring = f"{(counts > 0).sum()} of {p.classes} classes occur"
        if p.classes <= MAX_LISTED:
            names = p.class_names or tuple(str(k) for k in range(p.classes))
            noun = "" if p.class_names else "class "
            each = (f"{noun}{plain(str(name), 30)}: {k}" for name, k in zip(names, counts, strict=True))
            occurring += f" ({', '.join(each)})"
        else:
            occurring += f", {counts.min()} to {counts.max()} rows each"
        return facts | {"labels": occurring + (", and soft labels" if p.label_probs is not None else "")}


def _regression_kind(p: Regression) -> str:
    if p.samples is not None:
        return f"{len(p.samples)} samples per row ({p.samples.dtype})"
    if p.levels is not None and p.quantiles is not None:
        return f"quantiles ({p.quantiles.dtype}) at {len(p.levels)} levels: {format_levels(p.levels)}"
    mixture = "mixtures of Gaussians, one per member" if p.members > 1 else "Gaussian"
    return f"{mixture} ({p.mean.dtype})"  # type: ignore[union-attr]


def _count(count: int, names: tuple[str, ...] | None) -> str:
    return str(count) + (f": {_names(names)}" if names else "")


def _names(names: Iterable[object]) -> str:
    items = [plain(str(name), 30) for name in names]
    return ", ".join(items[:MAX_LISTED]) + (", …" if len(items) > MAX_LISTED else "")
