"""Workloads of posterior predictive checks: labels replicated by the members, beside loops over torchmetrics and NumPy.

No library on the list checks a model this way, so the others are what one would write: the members' probabilities once,
and for each replicate a member, its labels and the statistics. Everyone begins with the logits of the members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np
import torch

import calibrant as cal
from benchmarks import peers
from benchmarks.data import SIZES, member_logits
from calibrant.checks.class_replicates import ClassReplicates
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.statistics import statistics_of
from calibrant.kernels.rows import rows_of
from calibrant.results.check import BAYESIAN

Contestants = dict[str, Callable[[], object]]
BINS = peers.BINS
DRAWS = 1000
HITS, SCORES = ["accuracy", "ece"], ["nll", "brier"]
LOOP, NUMPY, HITS_ONLY = "torchmetrics, loop", "NumPy, labels", "NumPy, hits alone"
RECORD = "the pass over the members"
SLOW = (LOOP,)
"""It takes seconds, and has nothing to warm up."""

BUDGET = 5.0
"""Seconds of rounds of one workload."""


def workloads(threads: int, quick: bool) -> Iterator[tuple[str, Contestants, str, tuple[str, ...]]]:
    """Name, contestants, goal, and whom the goal speaks of."""
    for members in (10, 50):
        logits, labels = member_logits(members, *SIZES["A"])
        said = f"{DRAWS} replicates, M = {members}, A"
        ours = {"calibrant": checked(logits, labels, HITS, threads)}
        if threads == 1 and find_spec("torchmetrics"):
            loop = {LOOP: lambda z=logits: torch_hits(z)}
            yield f"check of accuracy and ECE, {said}, beside a library", ours | loop, "200", (LOOP,)
        labelled = {NUMPY: lambda z=logits: numpy_labels(z)}
        yield f"check of accuracy and ECE, {said}", ours | labelled, "20", (NUMPY,)
        hits = {HITS_ONLY: lambda z=logits: numpy_hits(z)}
        yield f"check of accuracy and ECE, {said}, beside hits alone", ours | hits, "", (HITS_ONLY,)
        ours = {"calibrant": checked(logits, labels, SCORES, threads)}
        yield f"check of NLL and Brier, {said}", ours | {NUMPY: lambda z=logits: numpy_scores(z)}, "4", (NUMPY,)
    if not quick:
        logits, labels = member_logits(10, *SIZES["C"])
        predictions = cal.Classification.from_logits(logits, labels)
        ours = {"calibrant": checked(logits, labels, [*HITS, *SCORES], threads)}
        one = {RECORD: lambda: rows_of(predictions, threads=threads)}
        yield f"check of all four, {DRAWS} replicates, M = 10, C", ours | one, "at most 10x the pass", (RECORD,)


def checked(logits: np.ndarray, labels: np.ndarray, wanted: list[str], threads: int) -> Callable[[], object]:
    """The replicates and the observed values of these statistics, from the logits."""
    predictions = cal.Classification.from_logits(logits, labels)
    statistics = statistics_of(wanted, predictions)

    def run() -> object:
        plan = Plan(BAYESIAN, DRAWS, 0, predictions.members, threads)
        engine = ClassReplicates(statistics, predictions, plan, Targets())
        rows = rows_of(predictions, engine.required_columns, threads=threads)
        engine.add(predictions, rows, np.zeros(rows.n, np.int64), 0)
        return engine.laws()

    return run


# ------------------------------------------------------------------------------------------------ others
def _drawn(p: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Replicated labels (N,): those of the member p[m] whose running sum is the first above a uniform number."""
    sums = p.cumsum(axis=2)
    for member in rng.integers(0, len(p), DRAWS):
        above = rng.random((p.shape[1], 1), np.float32) < sums[member]
        yield np.where(above.any(axis=1), above.argmax(axis=1), p.shape[2] - 1)


def torch_hits(logits: np.ndarray) -> object:
    """Accuracy and ECE of each replicate by torchmetrics."""
    from torchmetrics.functional.classification import multiclass_accuracy, multiclass_calibration_error

    p = torch.softmax(torch.from_numpy(logits), 2)
    mean, classes = p.mean(dim=0), p.shape[2]
    known = {"num_classes": classes}
    values = []
    for labels in _drawn(p.numpy(), np.random.default_rng(0)):
        target = torch.from_numpy(labels)
        error = multiclass_calibration_error(mean, target, n_bins=BINS, **known)
        values.append((float(multiclass_accuracy(mean, target, average="micro", **known)), float(error)))
    return values


def numpy_labels(logits: np.ndarray) -> object:
    """The same in NumPy: bins once, labels of each replicate, one count of hits."""
    p = peers.numpy_probabilities(logits)
    mean = p.mean(axis=0)
    n, predicted, confidence = len(mean), mean.argmax(axis=1), mean.max(axis=1).astype(np.float64)
    bins = np.clip(np.ceil(confidence * BINS) - 1, 0, BINS - 1).astype(np.int64)
    expected, values = np.bincount(bins, confidence, BINS), []
    for labels in _drawn(p, np.random.default_rng(0)):
        hit = labels == predicted
        values.append((hit.mean(), np.abs(np.bincount(bins, hit, BINS) - expected).sum() / n))
    return values


def numpy_hits(logits: np.ndarray) -> object:
    """The same where one has seen that no label is needed: the predicted class of each row comes or it does not."""
    p = peers.numpy_probabilities(logits)
    mean, rng = p.mean(axis=0), np.random.default_rng(0)
    n, predicted = len(mean), mean.argmax(axis=1)
    confidence, chance = mean.max(axis=1).astype(np.float64), p[:, np.arange(n), predicted]
    bins = np.clip(np.ceil(confidence * BINS) - 1, 0, BINS - 1).astype(np.int64)
    expected, values = np.bincount(bins, confidence, BINS), []
    for member in rng.integers(0, len(p), DRAWS):
        hit = rng.random(n, np.float32) < chance[member]
        values.append((hit.mean(), np.abs(np.bincount(bins, hit, BINS) - expected).sum() / n))
    return values


def numpy_scores(logits: np.ndarray) -> object:
    """NLL and Brier score of each replicate in good NumPy: scores of all classes once, then one entry of each row."""
    p = peers.numpy_probabilities(logits)
    mean = p.mean(axis=0)
    rows = np.arange(len(mean))
    nll, brier = -np.log(mean), (mean**2).sum(axis=1, keepdims=True) - 2 * mean + 1
    drawn = _drawn(p, np.random.default_rng(0))
    return [(nll[rows, labels].mean(), brier[rows, labels].mean()) for labels in drawn]
