"""Workloads of posterior predictive checks whose laws are computed, beside labels drawn in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import calibrant as cal
from benchmarks import peers
from benchmarks.data import SIZES, member_logits
from calibrant.checks.exact_classes import ExactClasses
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.statistics import statistics_of
from calibrant.kernels.rows import rows_of
from calibrant.results.check import BAYESIAN

Contestants = dict[str, Callable[[], object]]
DRAWS = 1000
SCORES, COUNTS = ["nll", "brier"], ["accuracy", "ece"]
NUMPY = f"NumPy, {DRAWS} draws"


def workloads(threads: int, quick: bool) -> Iterator[tuple[str, Contestants, str, tuple[str, ...]]]:
    """Name, contestants, goal, and whom the goal speaks of."""
    for members in (10, 50):
        logits, labels = member_logits(members, *SIZES["A"])
        predictions = cal.Classification.from_logits(logits, labels)
        p = np.stack([peers.numpy_probabilities(z) for z in logits])
        yield f"Laws of NLL + Brier, M = {members}, A", _scores(predictions, p, threads), "30", (NUMPY,)
        yield f"Laws of accuracy + ECE, M = {members}, A", _counts(predictions, p, threads), "", (NUMPY,)
    if not quick:
        logits, labels = member_logits(10, *SIZES["C"])
        predictions = cal.Classification.from_logits(logits, labels)
        yield "Laws of four statistics beside the one pass, M = 10, C", _four(predictions, threads), "at most 4x", ()


def exact_laws(predictions: Any, specs: list[str], threads: int, rows: Any = None) -> Any:
    """The laws of some statistics; from predictions, or from their record where that is known."""
    statistics = statistics_of(specs, predictions)
    engine = ExactClasses(statistics, predictions, Plan(BAYESIAN, 0, 0, predictions.members, threads), Targets())
    rows = rows_of(predictions, engine.required_columns, threads=threads) if rows is None else rows
    engine.add(predictions, rows, np.zeros(predictions.n, np.int64), 0)
    return engine.laws()[0]


def _scores(predictions: Any, p: np.ndarray, threads: int) -> Contestants:
    """After the one pass, as the draws are after the softmax."""
    rows = rows_of(predictions, threads=threads)
    return {
        "calibrant": lambda: exact_laws(predictions, SCORES, threads, rows),
        NUMPY: lambda: numpy_scores(p),
    }


def numpy_scores(p: np.ndarray) -> np.ndarray:
    """NLL and Brier score (R, 2) of labels drawn from members, in good NumPy: cumulated once, tables of scores."""
    rng = np.random.default_rng(0)
    mean = p.mean(axis=0)
    log_score, brier = -np.log(mean), (mean**2).sum(axis=1, keepdims=True) + 1 - 2 * mean
    below, rows = p.cumsum(axis=2), np.arange(len(mean))
    last = p.shape[2] - 1
    out = np.empty((DRAWS, 2))
    for r, m in enumerate(rng.integers(0, len(p), DRAWS)):
        label = np.minimum((below[m] < rng.random((len(mean), 1), dtype=np.float32)).sum(axis=1), last)
        out[r] = log_score[rows, label].mean(), brier[rows, label].mean()
    return out


def _counts(predictions: Any, p: np.ndarray, threads: int) -> Contestants:
    rows = rows_of(predictions, threads=threads)
    return {
        "calibrant": lambda: exact_laws(predictions, COUNTS, threads, rows),
        NUMPY: lambda: numpy_counts(p),
    }


def numpy_counts(p: np.ndarray) -> np.ndarray:
    """Accuracy and ECE (R, 2) of hits drawn from members, in good NumPy: only hits of the predicted class matter."""
    rng = np.random.default_rng(0)
    mean = p.mean(axis=0)
    chosen, confidence = p[:, np.arange(len(mean)), mean.argmax(axis=1)], mean.max(axis=1)
    place = np.clip(np.ceil(confidence * peers.BINS) - 1, 0, peers.BINS - 1).astype(np.int64)
    expected = np.bincount(place, confidence, peers.BINS)
    out = np.empty((DRAWS, 2))
    for r, m in enumerate(rng.integers(0, len(p), DRAWS)):
        hit = rng.random(len(mean), dtype=np.float32) < chosen[m]
        out[r] = hit.mean(), np.abs(np.bincount(place[hit], minlength=peers.BINS) - expected).sum() / len(mean)
    return out


def _four(predictions: Any, threads: int) -> Contestants:
    return {
        "calibrant": lambda: exact_laws(predictions, COUNTS + SCORES, threads),
        "the one pass": lambda: rows_of(predictions, threads=threads),
    }
