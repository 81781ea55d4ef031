"""What predictions are, in words for a terminal; of those that stay in their files, block by block."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from calibrant.errors import plain
from calibrant.predictions import Classification, InMemory, Judged, Note, Regression
from calibrant.predictions.classification import doubts
from calibrant.predictions.files.stream import Stream
from calibrant.predictions.regression import crossing_notes, levels_text

MOST = 8


def describe(predictions: InMemory | Stream) -> str:
    """One fact a line, names first."""
    return described(predictions)[0]


def described(predictions: InMemory | Stream) -> tuple[str, list[Note]]:
    """The same, and what was noted."""
    example, seen = predictions.example, _Seen()
    for block in predictions.blocks():
        seen.add(block)
    facts = seen.facts(example)
    facts |= _rows(predictions)
    if example.info.meta:
        facts["meta"] = json.dumps(dict(example.info.meta))
    if predictions.sha256:
        facts["sha256"] = predictions.sha256
    notes = list(predictions.notes())
    if isinstance(predictions, Stream):
        notes += crossing_notes(predictions.name, seen.crossing, seen.n)
        if isinstance(example, Classification):
            notes += doubts(predictions.name, seen.like_probs, seen.lowest_label, seen.n, example.classes)
    if notes:
        facts["note"] = "; ".join(note.message for note in notes)
    width = max(len(plain(key, 40)) for key in facts)
    lines = [plain(predictions.name)] + [
        f"  {plain(key, 40):<{width}}  {plain(text, 400)}" for key, text in facts.items()
    ]
    return "\n".join(lines), notes


def _rows(predictions: InMemory | Stream) -> dict[str, str]:
    """What is known of the rows beside the predictions."""
    facts = {}
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
    return facts | {f"column {name}": _column(predictions.column(name)) for name in predictions.columns}


class _Seen:
    """Ranges and counts over the blocks seen so far."""

    def __init__(self) -> None:
        self.n, self.crossing, self.right = 0, 0, 0
        self.deviation = 0.0
        self.ranges: dict[str, tuple[float, float]] = {}
        self.counts: Any = 0
        self.like_probs, self.lowest_label = True, 1 << 62

    def add(self, p: InMemory) -> None:
        """Take in one block."""
        self.n += p.n
        if isinstance(p, Classification):
            self._scores(p)
            self.like_probs = self.like_probs and p.like_probs()
            self.lowest_label = min(self.lowest_label, 0 if p.labels is None else int(p.labels.min()))
            if p.labels is not None:
                self.counts = self.counts + np.bincount(p.labels, minlength=p.classes)
        elif isinstance(p, Judged):
            self._range("confidence", p.confidence)
            self.right += 0 if p.correct is None else int(p.correct.sum())
        else:
            self.crossing += p.crossing()
            for key in ("y", "mean", "std", "samples", "quantiles"):
                if getattr(p, key) is not None:
                    self._range(key, getattr(p, key))

    def _range(self, key: str, values: np.ndarray) -> None:
        low, high = self.ranges.get(key, (np.inf, -np.inf))
        self.ranges[key] = min(low, float(values.min())), max(high, float(values.max()))

    def _scores(self, p: Classification) -> None:
        """Smallest and largest score, and the largest deviation of a row sum from one."""
        for start in range(0, p.n, 1 << 14):
            for _, block in p[start : start + (1 << 14)].score_blocks():
                self._range("range", block)
                if p.kind != "logits":
                    values = block.astype(np.float64)
                    sums = (values if p.kind == "probs" else np.exp(values)).sum(axis=2)
                    self.deviation = max(self.deviation, float(np.abs(sums - 1).max()))

    def facts(self, example: InMemory) -> dict[str, str]:
        """All of it in words; the example says what kind of predictions they are."""
        if isinstance(example, Classification):
            return self._classification(example)
        if isinstance(example, Judged):
            right = "unknown" if example.correct is None else f"{self.right / self.n:.4f} of the answers"
            facts = {"task": "judged answers", "rows": str(self.n), "members": str(example.members)}
            return facts | self._ranges() | {"correct": right}
        facts = {"task": "regression", "predictions": _kind(example), "rows": str(self.n)}
        if example.members > 1:
            facts["members"] = _named(example.members, example.member_names)
        return facts | self._ranges() | ({} if example.has_labels else {"y": "none: what needs it will be skipped"})

    def _ranges(self) -> dict[str, str]:
        return {key: f"{low:.6g} to {high:.6g}" for key, (low, high) in self.ranges.items()}

    def _classification(self, p: Classification) -> dict[str, str]:
        binary = ", one number per row: class 1 of a binary problem" if p.scores.shape[2] == 1 else ""
        facts = {
            "task": "classification",
            "scores": f"{p.kind} ({p.scores.dtype}){binary}",
            "rows": str(self.n),
            "classes": _named(p.classes, p.class_names),
            "members": _named(p.members, p.member_names),
            **self._ranges(),
        }
        if p.kind != "logits":
            facts["row sums"] = f"1 within {self.deviation:.2g}"
        facts["labels"] = self._labels(p)
        return facts

    def _labels(self, p: Classification) -> str:
        if p.labels is None:
            return "soft labels" if p.label_probs is not None else "none: what needs labels will be skipped"
        counts = self.counts
        text = f"{(counts > 0).sum()} of {p.classes} classes occur, {counts.min()} to {counts.max()} rows each"
        return text + (", soft labels too" if p.label_probs is not None else "")


def _kind(p: Regression) -> str:
    if p.samples is not None:
        return f"{len(p.samples)} samples a row ({p.samples.dtype})"
    if p.levels is not None and p.quantiles is not None:
        return f"quantiles ({p.quantiles.dtype}) at {len(p.levels)} levels: {levels_text(p.levels)}"
    mixture = "mixtures of Gaussians, one from each member" if p.members > 1 else "Gaussian"
    return f"{mixture} ({p.mean.dtype})"  # type: ignore[union-attr]


def _named(count: int, names: tuple[str, ...] | None) -> str:
    return str(count) + (f": {_names(names)}" if names else "")


def _column(column: np.ndarray) -> str:
    values = np.unique(column)
    if column.dtype.kind == "f" and len(values) > MOST:
        return f"numbers from {values[0]:g} to {values[-1]:g}"
    return f"{len(values)} values: {_names(values.tolist())}"


def _names(names: Iterable[object]) -> str:
    items = [plain(str(name), 30) for name in names]
    return ", ".join(items[:MOST]) + (", …" if len(items) > MOST else "")
