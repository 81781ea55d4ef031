"""The one pass: predictions in, a record of each row out. Scores are read once; everything else works on the record.

Per row: predicted class k (first of ties), confidence p[k], p(label) and its log, Σp², entropy, log-sum-exp; with
members, all of these of the averaged prediction, and the mean entropy of the members, the share of members that do not
vote for the modal class, and each member's probability of k. Values are checked here, as they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.errors import ValuesError
from calibrant.kernels.detection_rows import detection_rows
from calibrant.kernels.held import PREDICTIONS, Held
from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops import classes as class_loops
from calibrant.kernels.loops import extras as extra_loops
from calibrant.kernels.loops import members as member_loops
from calibrant.kernels.loops import softmax as loops
from calibrant.kernels.loops import tiles
from calibrant.kernels.pair_rows import BinaryRows, is_binary, judged_rows
from calibrant.kernels.regression_rows import regression_rows
from calibrant.kernels.tables import UnitTable
from calibrant.predictions import Classification, Detection, Evaluated, Judged, Regression
from calibrant.predictions.checking import SUM_TOLERANCE, check_scores

NO_LABELS = np.empty(0, np.int64)
EXTRA_ELEMENTS = 1 << 22
"""Entries of whole predictions that are held at a time where a metric wants more than the record."""
MEAN = "mean"
PROBS = "probs"
MARGIN = "margin"
RANK = "rank"
HITS_ONLY = "hits_only"
PREDICTED_CLASS = ("predicted_class", 0)
LIGHT = "classwise_light"


@dataclass
class Rows:
    """The record of n rows; `extras` holds what single metrics asked for."""

    n: int
    confidence: np.ndarray
    predicted: np.ndarray
    entropy: np.ndarray
    sum_squares: np.ndarray
    lse: np.ndarray | None = None
    label_p: np.ndarray | None = None
    log_label: np.ndarray | None = None
    hit: np.ndarray | None = None
    expected_entropy: np.ndarray | None = None
    variation_ratio: np.ndarray | None = None
    member_p: np.ndarray | None = None
    weights: np.ndarray | None = None
    units: np.ndarray | None = None
    deviation: float = 0.0
    extras: dict[Hashable, Any] = field(default_factory=dict)

    def pairs(self, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(confidence, correct), or (p_k, 1{label = k}) of a class that was wanted; other records leave their type."""
        if k is not None:
            return self.extras["class", k], self.extras["label", k]
        if self.hit is None:
            raise AttributeError("these rows carry no labels")
        return self.confidence, self.hit


def rows_of(
    predictions: Evaluated,
    wanted: frozenset[Hashable] = frozenset(),
    *,
    threads: int | None = None,
    block_rows: int | None = None,
    light: bool = False,
) -> Any:
    """The record of all rows; a light one may lack entropy and Σp² (NaN), or of Gaussians mean and variances.

    wanted: MARGIN, RANK, MEAN (the averaged prediction (N, C) of several members), PROBS (the probabilities (N, C)),
    PREDICTIONS (a `Held` of the rows), ("class", k), which leaves p_k there and 1{label = k} under ("label", k),
    ("top_mass", k) and ("ranked", k), the probability of the k most probable classes and of the k-th, ("above", t),
    entries (E, 3) of class, p and 1{label} with p > t, and tables of sums in units of 2⁻⁴⁰: ("classwise", bins) with
    the layers Σw, Σwp, Σwp², Σwy, Σwpy (C, bins), ("classwise_light", bins) with Σw, Σwp, Σwy, and PREDICTED_CLASS.
    HITS_ONLY: of several members, a record without p(label).
    """
    if isinstance(predictions, Judged):
        return judged_rows(predictions)
    if isinstance(predictions, Detection):
        return detection_rows(predictions)
    if isinstance(predictions, Regression):
        return regression_rows(predictions, wanted, threads=threads, block_rows=block_rows, light=light)
    if light and is_binary(predictions, wanted):
        return _binary_rows(predictions, wanted, threads)
    return _Pass(predictions, wanted, threads, light).run(block_rows)


class _Pass:
    """Arrays for the whole record, filled block by block."""

    def __init__(self, p: Classification, wanted: frozenset[Hashable], threads: int | None, light: bool) -> None:
        self.p, self.wanted, self.threads = p, wanted - {HITS_ONLY}, threads
        self.hits_only = HITS_ONLY in wanted and p.members > 1
        self.light = light
        self.out = np.empty((member_loops.MEMBER_FIELDS if p.members > 1 else loops.FIELDS, p.n))
        if self.hits_only:
            self.out[[loops.LABEL, loops.LOG_LABEL]] = np.nan
        self.predicted = np.empty(p.n, np.int32)
        self.hit = np.empty(p.n)
        wide = p.scores.dtype.itemsize == 8
        shape = (p.members, p.n) if p.members > 1 else (0, 0)
        self.member_p = np.empty(shape, np.float64 if wide else np.float32)
        self.extras: dict[Hashable, Any] = {}
        self.weights = None if p.weights is None else p.weights / p.info.weight_unit
        self.deviation = 0.0
        alone = light and p.members == 1 and p.classes >= loops.PAD_BELOW
        self.fused: Any = next((want for want in sorted(wanted, key=str) if alone and _is_classwise(want)), None)

    def run(self, block_rows: int | None) -> Rows:
        p = self.p
        extra = bool(self.wanted) or p.soft
        if block_rows is None and ((extra and p.members > 1) or p.soft or PREDICTED_CLASS in self.wanted):
            block_rows = max(1, EXTRA_ELEMENTS // p.classes)
        for start, block in p.score_blocks(block_rows):
            mean = self._record(start, block, extra)
            if p.soft:
                self._soft(start, mean)
            self._extra(start, mean)
        return self._rows()

    def _record(self, start: int, block: np.ndarray, extra: bool) -> np.ndarray:
        """Fill the record of one block; returns the single (n, C) prediction that extras are taken from."""
        p, (members, n, classes) = self.p, block.shape
        stop = start + n
        labels = self._labels(start, stop)
        whole = n == p.n
        out, pred = self.out if whole else np.empty((len(self.out), n)), self.predicted[start:stop]
        fault, is_probs = np.zeros(n, np.uint8), p.kind == "probs"
        mean = block[0]
        if members == 1:
            self._single(start, mean, labels, out, pred, fault)
        else:
            mean = np.empty((n, classes) if extra else (0, 0), block.dtype)
            member_p = self.member_p if whole else np.empty((members, n), block.dtype)
            known = NO_LABELS if self.hits_only else labels
            many = (block, known, is_probs, out, pred, fault, member_p, mean)
            average = member_loops.narrow_rows if classes < loops.NARROW else member_loops.long_rows
            over_rows(lambda a, b: average(*many, a, b), n, block.size, self.threads)
        self._check(start, block, out, fault)
        if not whole:
            self.out[:, start:stop] = out
            if members > 1:
                self.member_p[:, start:stop] = member_p
        if p.labels is not None:
            self.hit[start:stop] = pred == labels
        return mean

    def _single(self, start: int, scores: np.ndarray, labels: np.ndarray, *out: np.ndarray) -> None:
        """The record of a block of one model; the class-wise table with it, in a light pass of very many classes."""
        (n, classes), is_probs = scores.shape, self.p.kind == "probs"
        if self.fused is None:
            single = tiles.narrow_rows if classes < loops.NARROW else loops.long_rows
            run = (scores, labels, is_probs, self.light, *out)
            over_rows(lambda a, b: single(*run, a, b), n, scores.size, self.threads)
            return
        bins, weights = self.fused[1], self._weights(start, start + n)
        table = self._summed(
            (len(extra_loops.LIGHT_LAYERS) if self.fused[0] == LIGHT else extra_loops.LAYERS, classes, bins),
            n,
            scores.size,
            lambda table, a, b: class_loops.class_rows(scores, labels, is_probs, weights, bins, table, *out, a, b),
        )
        self._add_table(self.fused, table)

    def _check(self, start: int, block: np.ndarray, out: np.ndarray, fault: np.ndarray) -> None:
        """Refuse what the kind forbids, in the words of `predictions.checking`."""
        off = np.zeros(1)
        if self.p.kind != "logits" and not fault.any():
            off = np.abs(np.expm1(out[-1] if self.p.members > 1 else out[loops.LSE]))
        self.deviation = max(self.deviation, float(off.max()))
        if fault.any() or self.deviation > SUM_TOLERANCE:
            row = int(np.argmax(fault)) if fault.any() else int(np.argmax(off))
            check_scores(block[:, row : row + 1], self.p.kind, start + row)
            raise ValuesError(
                self.p.kind,
                expected="finite scores",
                came=f"row {start + row} cannot be normalised",
                do="drop or repair the row",
            )

    def _soft(self, start: int, scores: np.ndarray) -> None:
        """Expected scores under soft labels q: Σ q·log p, Σ q·p and q[k]."""
        stop = start + len(scores)
        q = self.p.label_probs[start:stop]  # type: ignore[index]
        with np.errstate(divide="ignore"):
            log_p = self._log_probs(start, scores)
            cross = np.where(q > 0, q * np.where(q > 0, log_p, 0.0), 0.0).sum(axis=1)
        self.out[loops.LOG_LABEL, start:stop] = cross
        self.out[loops.LABEL, start:stop] = (q * np.exp(log_p)).sum(axis=1)
        self.hit[start:stop] = q[np.arange(len(q)), self.predicted[start:stop]]

    def _probs(self, start: int, scores: np.ndarray) -> np.ndarray:
        """Probabilities (n, C), as they were given: exp(log p) may lie on the other side of a threshold."""
        if self._is_probs:
            scores = scores.astype(np.float64)
            return scores / _sums(scores)[:, None]
        return np.exp(self._log_probs(start, scores))

    def _log_probs(self, start: int, scores: np.ndarray) -> np.ndarray:
        if self._is_probs:
            return np.log(self._probs(start, scores))
        return scores.astype(np.float64) - self.out[loops.LSE, start : start + len(scores), None]

    @property
    def _is_probs(self) -> bool:
        """What extras are taken from are probabilities: as given, or averaged over members."""
        return self.p.members > 1 or self.p.kind == "probs"

    def _extra(self, start: int, scores: np.ndarray) -> None:
        for want in self.wanted - {self.fused}:
            if want == PREDICTED_CLASS:
                self._by_predicted_class(start, scores)
            elif isinstance(want, tuple) and want[0] == "clip":
                self._clipped(want, start, scores)
            elif isinstance(want, tuple) and want[0] == "class":
                self._class_probability(want, start, scores)
            elif isinstance(want, tuple) and want[0] in ("top_mass", "ranked"):
                self._top(want, start, scores)
            elif isinstance(want, tuple) and want[0] == "above":
                self._above(want, start, scores)
            elif isinstance(want, tuple):
                self._classwise(want, start, scores)
        if MEAN in self.wanted:
            self._keep(MEAN, start, scores)
        if PROBS in self.wanted:
            self._keep(PROBS, start, self._probs(start, scores))
        if MARGIN in self.wanted or RANK in self.wanted:
            self._runner_up(start, scores)

    def _clipped(self, want: tuple[str, float], start: int, scores: np.ndarray) -> None:
        """Σ q·log max(p, clip) under soft labels q."""
        rows = slice(start, start + len(scores))
        with np.errstate(divide="ignore"):
            log_p = np.maximum(self._log_probs(start, scores), np.log(want[1]))
        self.extras.setdefault(want, np.empty(self.p.n))[rows] = (self.p.label_probs[rows] * log_p).sum(axis=1)  # type: ignore[index]

    def _class_probability(self, want: tuple[str, int], start: int, scores: np.ndarray) -> None:
        column = scores[:, want[1]].astype(np.float64)
        if self.p.scores.shape[2] == 1 and self.p.kind == "probs" and self.p.members == 1:
            one = self.p.scores[0, start : start + len(scores), 0].astype(np.float64)
            value = one if want[1] == 1 else 1.0 - one
        elif self._is_probs:
            value = column / _sums(scores)
        else:
            value = np.exp(column - self.out[loops.LSE, start : start + len(scores)])
        rows = slice(start, start + len(scores))
        self.extras.setdefault(want, np.empty(self.p.n))[rows] = value
        if self.p.has_labels:
            y = self.p.label_probs[rows, want[1]] if self.p.soft else self.p.labels[rows] == want[1]  # type: ignore[index]
            self.extras.setdefault(("label", want[1]), np.empty(self.p.n))[rows] = y

    def _top(self, want: tuple[str, int], start: int, scores: np.ndarray) -> None:
        """The probability of the k most probable classes together, or of the k-th."""
        rows, last = slice(start, start + len(scores)), scores.shape[1] - want[1]
        top = np.sort(np.partition(scores, last, axis=1)[:, last:], axis=1).astype(np.float64)
        if self._is_probs:
            top /= _sums(scores)[:, None]
        else:
            top = np.exp(top - self.out[loops.LSE, rows, None])
        value = np.minimum(top.sum(axis=1), 1.0) if want[0] == "top_mass" else top[:, 0]
        self.extras.setdefault(want, np.empty(self.p.n))[rows] = value

    def _above(self, want: tuple[str, float], start: int, scores: np.ndarray) -> None:
        """Class, probability and whether it is the label, (E, 3), of every entry above a threshold."""
        p = self._probs(start, scores)
        row, k = np.nonzero(p > want[1])
        is_label = self.p.labels[start + row] == k  # type: ignore[index]
        entries = np.stack([k, p[row, k], is_label], axis=1)
        self.extras[want] = np.concatenate([self.extras[want], entries]) if want in self.extras else entries

    def _keep(self, want: str, start: int, block: np.ndarray) -> None:
        if len(block) == self.p.n:
            self.extras[want] = block
        else:
            kept = self.extras.setdefault(want, np.empty((self.p.n, self.p.classes), block.dtype))
            kept[start : start + len(block)] = block

    def _by_predicted_class(self, start: int, scores: np.ndarray) -> None:
        rows = slice(start, start + len(scores))
        p = self._probs(start, scores)
        w = np.ones(len(p)) if self.weights is None else self.weights[rows]
        pred, label = self.predicted[rows], self.p.labels[rows]  # type: ignore[index]
        for first in range(0, len(p), 1 << 21):  # integers of 2⁻⁴⁰ would overflow beyond
            part = slice(first, first + (1 << 21))
            table = np.zeros((2, self.p.classes, self.p.classes), np.int64)
            units = np.rint(p[part] * w[part, None] * extra_loops.FIXED).astype(np.int64)
            np.add.at(table[0], pred[part], units)
            np.add.at(table[1], (pred[part], label[part]), np.rint(w[part] * extra_loops.FIXED).astype(np.int64))
            self._add_table(PREDICTED_CLASS, table.astype(object))

    def _add_table(self, want: Hashable, table: np.ndarray | UnitTable) -> None:
        held: Any = self.extras.get(want, 0)
        self.extras[want] = held + table

    def _runner_up(self, start: int, scores: np.ndarray) -> None:
        n = len(scores)
        stop = start + n
        labels = self._labels(start, stop)
        second, rank = np.empty(n), np.zeros(n, np.int64)
        run = (scores, self.predicted[start:stop], labels, second, rank)
        over_rows(lambda a, b: extra_loops.runner_up_and_rank(*run, a, b), n, scores.size, self.threads)
        confidence = self.out[loops.CONFIDENCE, start:stop]
        top = scores[np.arange(n), self.predicted[start:stop]].astype(np.float64)
        ratio = second / top if self._is_probs else np.exp(second - top)
        self.extras.setdefault(MARGIN, np.empty(self.p.n))[start:stop] = confidence * (1.0 - ratio)
        self.extras.setdefault(RANK, np.empty(self.p.n, np.int64))[start:stop] = rank

    def _classwise(self, want: tuple[str, int], start: int, scores: np.ndarray) -> None:
        """The table of a block, from its scores and its record; a light one is part of the other."""
        n, classes = scores.shape
        stop, bins = start + n, want[1]
        sums = extra_loops.narrow_classwise if classes < loops.NARROW else extra_loops.classwise
        run = (scores, self._is_probs, self.predicted[start:stop], self.out[loops.CONFIDENCE, start:stop])
        labels, weights = self._labels(start, stop), self._weights(start, stop)
        table = self._summed(
            (extra_loops.LAYERS, classes, bins),
            n,
            scores.size,
            lambda table, a, b: sums(*run, labels, weights, bins, table, a, b),
        )
        self._add_table(want, table[extra_loops.LIGHT_LAYERS] if want[0] == LIGHT else table)

    def _summed(self, shape: tuple[int, ...], n: int, elements: int, add: Callable[..., None]) -> UnitTable:
        """The sum of tables that `add(table, start, stop)` fills."""
        tables: list[np.ndarray] = []

        def work(a: int, b: int) -> None:
            for first in range(a, b, 1 << 21):  # integers of 2⁻⁴⁰ would overflow beyond
                table = np.zeros(shape, np.int64)  # tables[-1] may be another thread's
                tables.append(table)
                add(table, first, min(b, first + (1 << 21)))

        over_rows(work, n, elements, self.threads)
        return sum(map(UnitTable.of, tables), start=0)  # type: ignore[return-value]

    def _labels(self, start: int, stop: int) -> np.ndarray:
        return NO_LABELS if self.p.labels is None else self.p.labels[start:stop]

    def _weights(self, start: int, stop: int) -> np.ndarray:
        return np.empty(0) if self.weights is None else self.weights[start:stop]

    def _rows(self) -> Rows:
        p, out = self.p, self.out
        if PREDICTIONS in self.wanted:
            self.extras[PREDICTIONS] = Held(p, np.arange(p.n))
        many, known = p.members > 1, p.has_labels
        return Rows(
            n=p.n,
            confidence=out[loops.CONFIDENCE],
            predicted=self.predicted,
            entropy=out[loops.ENTROPY],
            sum_squares=out[loops.SUM_SQUARES],
            lse=out[loops.LSE] if p.kind == "logits" else None,
            label_p=out[loops.LABEL] if known else None,
            log_label=out[loops.LOG_LABEL] if known else None,
            hit=self.hit if known else None,
            expected_entropy=out[member_loops.EXPECTED_ENTROPY] if many else None,
            variation_ratio=out[member_loops.VARIATION_RATIO] if many else None,
            member_p=self.member_p if many else None,
            weights=self.weights,
            deviation=self.deviation,
            extras=self.extras,
        )


def _is_classwise(want: Hashable) -> bool:
    return isinstance(want, tuple) and want[0] in ("classwise", LIGHT)


def _binary_rows(p: Classification, wanted: frozenset[Hashable], threads: int | None) -> BinaryRows:
    def whole(scores: np.ndarray, labels: np.ndarray | None) -> Rows:
        part = Classification.build(p.kind, scores, labels, check=False)
        return _Pass(part, wanted, threads, light=True).run(None)

    weights = None if p.weights is None else p.weights / p.info.weight_unit
    return BinaryRows(p.n, np.ascontiguousarray(p.scores.reshape(-1)), p.labels, whole, weights)


def _sums(scores: np.ndarray) -> np.ndarray:
    """What probabilities (n, C) are divided by: their sum, or one where it is that to rounding."""
    sums = scores.sum(axis=1, dtype=np.float64)
    return np.where(np.abs(sums - 1.0) <= loops.ONE_TO_ROUNDING, 1.0, sums)
