"""The one pass: it reads the scores once and makes a record of each row, from which everything else is computed.

Per row: predicted class k (first of ties), confidence p[k], p(label) and its log, Σp², entropy, log-sum-exp; with
members, all of these of the averaged prediction, and the mean entropy of the members, the share of members that do not
vote for the modal class, and each member's probability of k. Values are checked here, as they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import ValuesError
from calibrant.kernels.binary_rows import BinaryRows, DetectionRows, JudgedRows, is_binary
from calibrant.kernels.exact import UnitTable
from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops import classes as class_loops
from calibrant.kernels.loops import members as member_loops
from calibrant.kernels.loops import optional_columns as extra_loops
from calibrant.kernels.loops import softmax as loops
from calibrant.kernels.loops import tiles
from calibrant.kernels.records import PREDICTIONS, LazyRows, Record
from calibrant.kernels.regression_rows import regression_rows
from calibrant.predictions import Classification, Detection, Evaluable, Judged, Regression
from calibrant.predictions.arrays import SUM_TOLERANCE, check_scores, tie_tolerance

NO_LABELS = np.empty(0, np.int64)
EXTRA_ELEMENTS = 1 << 22
"""Entries of full predictions in memory at a time, for metrics that need more than the record."""
MEAN = "mean"
PROBS = "probs"
MARGIN = "margin"
RANK = "rank"
HITS_ONLY = "hits_only"
PREDICTED_CLASS = ("predicted_class", 0)
LOG_MOMENTS = "log_moments"
LIGHT = "classwise_light"
CLASSWISE = ("classwise", LIGHT)
JOINT = "classwise_joint"


@dataclass
class Rows(Record):
    """The record of rows with several classes."""

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
    soft: bool = False
    """Whether the label of some row is spread over several classes."""

    def pairs(self, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(confidence, correct), or (p_k, 1{label = k}) of a requested class."""
        if k is not None:
            return self.extras["class", k], self.extras["label", k]
        if self.hit is None:
            raise AttributeError("these rows carry no labels")
        return self.confidence, self.hit


def rows_of(
    predictions: Evaluable,
    columns: frozenset[Hashable] = frozenset(),
    *,
    threads: int | None = None,
    block_rows: int | None = None,
    light: bool = False,
) -> Any:
    """The record of all rows; a light one may lack entropy and Σp² (NaN), or of Gaussians mean and variances.

    columns: MARGIN, RANK, MEAN (the averaged prediction (N, C) of several members), PROBS (the probabilities (N, C)),
    PREDICTIONS (a `LazyRows`), ("class", k) (p_k, and 1{label = k} under ("label", k)), ("top_mass", k) and
    ("ranked", k) (the probability of the k most probable classes, and of the k-th), (LOG_MOMENTS, k)
    (Σ p·(log p)^k), ("above", t) (entries (E, 4) of
    class, p, 1{label} and row with p > t, row by row), and tables of sums in units of 2⁻⁴⁰: ("classwise", bins) with
    the layers Σw, Σwp, Σwp², Σwy, Σwpy (C, bins), ("classwise_light", bins) with Σw, Σwp, Σwy, PREDICTED_CLASS, and
    (JOINT, bins) with Σ p_c·p_d and Σ (y_c·p_d + p_c·y_d) (C·bins, C·bins) of the cells of classes c < d.
    HITS_ONLY: a record of several members without p(label).
    """
    p = predictions
    if isinstance(p, Judged):
        return JudgedRows(p.confidence, p.correct, n=p.n, weights=_weights_of(p))
    if isinstance(p, Detection):
        return DetectionRows(p.score, p.outside.astype(np.float64), n=p.n, weights=_weights_of(p))
    if isinstance(p, Regression):
        record = regression_rows(p, columns, threads=threads, block_rows=block_rows, light=light)
        record.weights = _weights_of(p)
        return record
    if not (light and p.scores.shape[2] == 1 and is_binary(p, columns)):
        return _Pass(p, columns, threads, light).run(block_rows)

    def whole_pass(scores: np.ndarray, labels: np.ndarray | None) -> Rows:
        part = Classification.build(p.kind, scores, labels, check=False)
        return _Pass(part, columns, threads, light=True).run(None)

    return BinaryRows(np.ascontiguousarray(p.scores.reshape(-1)), p.labels, whole_pass, n=p.n, weights=_weights_of(p))


class _Pass:
    """The arrays of the record, filled block by block."""

    def __init__(self, p: Classification, columns: frozenset[Hashable], threads: int | None, light: bool) -> None:
        self.p, self.columns, self.threads = p, columns - {HITS_ONLY}, threads
        self.hits_only = HITS_ONLY in columns and p.members > 1
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
        self.weights = _weights_of(p)
        self.deviation = 0.0
        self.moments_until = 0
        self.spread_labels = False
        alone = light and p.members == 1 and p.classes >= loops.PAD_BELOW
        classwise = (key for key in sorted(columns, key=str) if isinstance(key, tuple) and key[0] in CLASSWISE)
        self.fused: Any = next(classwise, None) if alone else None

    def run(self, block_rows: int | None) -> Rows:
        p = self.p
        extra = bool(self.columns) or p.soft
        if block_rows is None and ((extra and p.members > 1) or p.soft or PREDICTED_CLASS in self.columns):
            block_rows = max(1, EXTRA_ELEMENTS // p.classes)
        for start, block in p.score_blocks(block_rows):
            mean = self._record(start, block, extra)
            if p.soft:
                self._soft(start, mean)
            self._extra(start, mean)
        return self._rows()

    def _record(self, start: int, block: np.ndarray, extra: bool) -> np.ndarray:
        """Fill the record of one block; returns the (n, C) prediction that extras are computed from."""
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
            nearly = 1.0 - tie_tolerance(members, block.dtype)
            many = (block, known, is_probs, nearly, out, pred, fault, member_p, mean)
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
        """The record of a block of one model; with the class-wise table in a light pass over very many classes."""
        (n, classes), is_probs = scores.shape, self.p.kind == "probs"
        finish = loops.finish_probs if is_probs else loops.finish_logits
        if self.fused is None:
            single = tiles.narrow_rows if classes < loops.NARROW else loops.long_rows
            run = (scores, labels, is_probs, self.light, *out)

            def work(a: int, b: int) -> None:
                single(*run, a, b)
                finish(out[0], a, b)

            over_rows(work, n, scores.size, self.threads)
            return
        bins, weights = self.fused[1], self._weights(start, start + n)
        layers = len(extra_loops.LIGHT_LAYERS) if self.fused[0] == LIGHT else extra_loops.LAYERS

        def add(table: np.ndarray, a: int, b: int) -> None:
            class_loops.class_rows(scores, labels, is_probs, weights, bins, table, *out, a, b)
            finish(out[0], a, b)

        self._add_table(self.fused, self._summed((layers, classes, bins), scores, add))

    def _check(self, start: int, block: np.ndarray, out: np.ndarray, fault: np.ndarray) -> None:
        """Refuse invalid scores, with the messages of `predictions.validation`."""
        faulty = bool(fault.any())
        if self.p.kind != "logits" and not faulty:
            log_sums = out[-1] if self.p.members > 1 else out[loops.LSE]
            ends = np.array([log_sums.min(), log_sums.max()])
            self.deviation = max(self.deviation, float(np.abs(np.expm1(ends)).max()))
        if faulty or self.deviation > SUM_TOLERANCE:
            row = int(np.argmax(fault if faulty else np.abs(np.expm1(log_sums))))
            check_scores(block[:, row : row + 1], self.p.kind, start + row)
            raise ValuesError(
                self.p.kind,
                expected="finite scores",
                got=f"row {start + row} cannot be normalised",
                hint="drop or repair the row",
            )

    def _soft(self, start: int, scores: np.ndarray) -> None:
        """Expected scores under soft labels q: Σ q·log p, Σ q·p and q[k]."""
        stop = start + len(scores)
        q = self.p.label_probs[start:stop]  # type: ignore[index]
        with np.errstate(divide="ignore"):
            log_p = self._log_probs(start, scores)
            cross = np.where(q > 0, q * np.where(q > 0, log_p, 0.0), 0.0).sum(axis=1)
        self.spread_labels |= bool((q.max(axis=1) < 1.0).any())
        self.out[loops.LOG_LABEL, start:stop] = cross
        self.out[loops.LABEL, start:stop] = (q * np.exp(log_p)).sum(axis=1)
        self.hit[start:stop] = q[np.arange(len(q)), self.predicted[start:stop]]

    def _probs(self, start: int, scores: np.ndarray) -> np.ndarray:
        """Probabilities (n, C) as given: exp(log p) could fall on the other side of a threshold."""
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
        """Whether extras are computed from probabilities: given ones, or averages over members."""
        return self.p.members > 1 or self.p.kind == "probs"

    def _extra(self, start: int, scores: np.ndarray) -> None:
        add: dict[str, Callable[[Any, int, np.ndarray], None]] = {
            "clip": self._clipped, "class": self._class_probability, "top_mass": self._top, "ranked": self._top,
            "above": self._above, "predicted_class": self._by_predicted_class, LOG_MOMENTS: self._log_moments,
            JOINT: self._joint, **dict.fromkeys(CLASSWISE, self._classwise),
        }  # fmt: skip
        for key in self.columns - {self.fused}:
            if isinstance(key, tuple):
                add[key[0]](key, start, scores)
        if MEAN in self.columns:
            self._store(MEAN, start, scores)
        if PROBS in self.columns:
            self._store(PROBS, start, self._probs(start, scores))
        if MARGIN in self.columns or RANK in self.columns:
            self._runner_up(start, scores)

    def _clipped(self, key: tuple[str, float], start: int, scores: np.ndarray) -> None:
        """Σ q·log max(p, clip) under soft labels q."""
        rows = slice(start, start + len(scores))
        with np.errstate(divide="ignore"):
            log_p = np.maximum(self._log_probs(start, scores), np.log(key[1]))
        self.extras.setdefault(key, np.empty(self.p.n))[rows] = (self.p.label_probs[rows] * log_p).sum(axis=1)  # type: ignore[index]

    def _class_probability(self, key: tuple[str, int], start: int, scores: np.ndarray) -> None:
        column = scores[:, key[1]].astype(np.float64)
        if self.p.scores.shape[2] == 1 and self.p.kind == "probs" and self.p.members == 1:
            one = self.p.scores[0, start : start + len(scores), 0].astype(np.float64)
            value = one if key[1] == 1 else 1.0 - one
        elif self._is_probs:
            value = column / _sums(scores)
        else:
            value = np.exp(column - self.out[loops.LSE, start : start + len(scores)])
        rows = slice(start, start + len(scores))
        self.extras.setdefault(key, np.empty(self.p.n))[rows] = value
        if self.p.has_labels:
            y = self.p.label_probs[rows, key[1]] if self.p.soft else self.p.labels[rows] == key[1]  # type: ignore[index]
            self.extras.setdefault(("label", key[1]), np.empty(self.p.n))[rows] = y

    def _top(self, key: tuple[str, int], start: int, scores: np.ndarray) -> None:
        """The total probability of the k most probable classes, or the probability of the k-th."""
        rows, last = slice(start, start + len(scores)), scores.shape[1] - key[1]
        top = np.sort(np.partition(scores, last, axis=1)[:, last:], axis=1).astype(np.float64)
        if self._is_probs:
            top /= _sums(scores)[:, None]
        else:
            top = np.exp(top - self.out[loops.LSE, rows, None])
        value = np.minimum(top.sum(axis=1), 1.0) if key[0] == "top_mass" else top[:, 0]
        self.extras.setdefault(key, np.empty(self.p.n))[rows] = value

    def _log_moments(self, key: tuple[str, int], start: int, scores: np.ndarray) -> None:
        """Σ p·(log p)² and Σ p·(log p)³, which one loop computes: the second call finds them."""
        if key in self.extras and start + len(scores) <= self.moments_until:
            return
        rows, n = slice(start, start + len(scores)), len(scores)
        second, third = (self.extras.setdefault((LOG_MOMENTS, k), np.empty(self.p.n))[rows] for k in (2, 3))
        lse = np.empty(0) if self._is_probs else self.out[loops.LSE, rows]
        sums = _sums(scores) if self._is_probs else np.empty(0)
        run = (scores, self._is_probs, lse, sums, second, third)
        over_rows(lambda a, b: extra_loops.log_moments(*run, a, b), n, scores.size, self.threads)
        self.moments_until = start + n

    def _above(self, key: tuple[str, float], start: int, scores: np.ndarray) -> None:
        """Class, probability, whether it is the label, and row, (E, 4), of every entry above a threshold."""
        p = self._probs(start, scores)
        row, k = np.nonzero(p > key[1])
        is_label = self.p.labels[start + row] == k  # type: ignore[index]
        entries = np.stack([k, p[row, k], is_label, start + row], axis=1)
        self.extras[key] = np.concatenate([self.extras[key], entries]) if key in self.extras else entries

    def _store(self, key: str, start: int, block: np.ndarray) -> None:
        if len(block) == self.p.n:
            self.extras[key] = block
        else:
            column = self.extras.setdefault(key, np.empty((self.p.n, self.p.classes), block.dtype))
            column[start : start + len(block)] = block

    def _by_predicted_class(self, key: Hashable, start: int, scores: np.ndarray) -> None:
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
            self._add_table(key, table.astype(object))

    def _add_table(self, key: Hashable, table: np.ndarray | UnitTable) -> None:
        total: Any = self.extras.get(key, 0)
        self.extras[key] = total + table

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

    def _classwise(self, key: tuple[str, int], start: int, scores: np.ndarray) -> None:
        """The table of a block, from its scores and its record; a light one is part of the other."""
        n, classes = scores.shape
        stop, bins = start + n, key[1]
        sums = extra_loops.narrow_classwise if classes < loops.NARROW else extra_loops.classwise
        run = (scores, self._is_probs, self.predicted[start:stop], self.out[loops.CONFIDENCE, start:stop])
        labels, weights = self._labels(start, stop), self._weights(start, stop)
        shape, others = (extra_loops.LAYERS, classes, bins), (labels, weights, bins)
        table = self._summed(shape, scores, lambda table, a, b: sums(*run, *others, table, a, b))
        self._add_table(key, table[extra_loops.LIGHT_LAYERS] if key[0] == LIGHT else table)

    def _joint(self, key: tuple[str, int], start: int, scores: np.ndarray) -> None:
        """The sums of products of each two classes of a block, by the bins of both."""
        (n, classes), bins = scores.shape, key[1]
        record = (self.predicted[start : start + n], self.out[loops.CONFIDENCE, start : start + n])
        run = (scores, self._is_probs, *record, self._labels(start, start + n), bins)
        shape = (2, classes * bins, classes * bins)
        table = self._summed(shape, scores, lambda table, a, b: extra_loops.joint_cells(*run, table, a, b))
        self._add_table(key, table)

    def _summed(self, shape: tuple[int, ...], scores: np.ndarray, add: Callable[..., None]) -> UnitTable:
        """The sum of tables that `add(table, start, stop)` fills from spans of the rows of scores."""
        tables: list[np.ndarray] = []

        def work(a: int, b: int) -> None:
            for first in range(a, b, 1 << 21):  # integers of 2⁻⁴⁰ would overflow beyond
                table = np.zeros(shape, np.int64)  # tables[-1] may be another thread's
                tables.append(table)
                add(table, first, min(b, first + (1 << 21)))

        over_rows(work, len(scores), scores.size, self.threads)
        return sum(map(UnitTable.of, tables), start=0)  # type: ignore[return-value]

    def _labels(self, start: int, stop: int) -> np.ndarray:
        return NO_LABELS if self.p.labels is None else self.p.labels[start:stop]

    def _weights(self, start: int, stop: int) -> np.ndarray:
        return np.empty(0) if self.weights is None else self.weights[start:stop]

    def _rows(self) -> Rows:
        p, out = self.p, self.out
        if PREDICTIONS in self.columns:
            self.extras[PREDICTIONS] = LazyRows(p, np.arange(p.n))
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
            soft=self.spread_labels,
            weights=self.weights,
            deviation=self.deviation,
            extras=self.extras,
        )


def _weights_of(predictions: Evaluable) -> np.ndarray | None:
    """The weights in their unit, a power of two under which all are below 2."""
    return None if predictions.weights is None else predictions.weights / predictions.info.weight_unit


def _sums(scores: np.ndarray) -> np.ndarray:
    """The divisors of probabilities (n, C): their sums, or 1 where the sum is 1 up to rounding."""
    sums = scores.sum(axis=1, dtype=np.float64)
    return np.where(np.abs(sums - 1.0) <= loops.ONE_TO_ROUNDING, 1.0, sums)
