"""Workloads of calibration errors, beside pycalib, torchmetrics, netcal, uncertainty-calibration, relplot, probmetrics.

pycalib does not install beside the others: `PYCALIB` may name a folder with its `metrics.py`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

import calibrant as cal
from benchmarks import peers
from benchmarks.data import SIZES, logits_and_labels

CLASSWISE = "cwce(p=1,average=true)"
DEBIASED = "tce(debias=true)"
MMCE, KS, SMOOTH = "mmce", "ks", "smooth_ece"
BINS = peers.BINS
RESAMPLES = 1000

Contestants = dict[str, Callable[[], object]]
Line = tuple[str, Contestants, str, tuple[str, ...]]


def workloads(threads: int, quick: bool) -> Iterator[Line]:
    """Name, contestants, goal, and whom the goal speaks of."""
    for size, goal, against in (("A", "6", "pycalib"), ("B", "20", "pycalib"), ("C", "30", "plain NumPy")):
        if not (quick and size == "C"):
            yield f"class-wise ECE, {size}", _classwise(size, threads), goal, (against,)
    logits, labels = logits_and_labels(*SIZES["A"])
    yield "debiased CE of the top label, A", _debiased(logits, labels, threads), "15", ("uncertainty-calibration",)
    yield "MMCE, A", _mmce(logits, labels, threads), "1000", ("netcal",)
    yield "smooth ECE, A", _smooth(*_top(logits, labels), threads), "", ("relplot",)
    yield "smooth ECE, binary, 100k rows", _smooth(*_binary(100_000), threads), "", ("relplot",)
    if not quick:
        yield "KS calibration error, binary, 10M rows", _ks(10_000_000, threads), "15", ("probmetrics",)
        yield "ECE, judged answers, 10M rows", _judged(10_000_000, threads), "50", ("torchmetrics",)
        yield "ECE of class 1, binary, 10M rows", _class_one(10_000_000, threads), "50", ("torchmetrics",)
    loops = _resampled(logits, labels, threads)
    yield f"ECE with interval and null band, {RESAMPLES} resamples, A", loops, "80", ("torchmetrics, loop",)
    yield "the same beside NumPy", {k: v for k, v in loops.items() if k != "torchmetrics, loop"}, "7", ("NumPy, loop",)


# ------------------------------------------------------------------------------------------ problems
def _binary(n: int) -> tuple[np.ndarray, np.ndarray]:
    """float32 probabilities of an over-confident model, and what came true."""
    rng = np.random.default_rng(0)
    p = rng.random(n, dtype=np.float32) ** np.float32(0.7)
    return p, rng.random(n) < p**1.2


def _top(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p = peers.numpy_probabilities(logits)
    return p.max(axis=1), p.argmax(axis=1) == labels


def _measure(predictions: Any, spec: str, threads: int) -> Contestants:
    return {"calibrant": lambda: cal.measure(predictions, [spec], threads=threads)}


# ---------------------------------------------------------------------------------------- class-wise
def numpy_classwise(logits: np.ndarray, labels: np.ndarray) -> float:
    """Class-wise ECE of logits in good NumPy: one count over class and bin."""
    p = peers.numpy_probabilities(logits)
    n, classes = p.shape
    place = np.clip(np.ceil(p * BINS) - 1, 0, BINS - 1).astype(np.int64)
    place += np.arange(classes) * BINS
    gaps = np.bincount(place.ravel(), p.ravel(), classes * BINS)
    gaps -= np.bincount(place[np.arange(n), labels], minlength=classes * BINS)
    return float(np.abs(gaps).sum() / (n * classes))


def _pycalib() -> Any:
    """pycalib's metrics, installed or from the folder that PYCALIB names; None where there are none."""
    if find_spec("pycalib"):
        return importlib.import_module("pycalib.metrics")
    path = Path(os.environ.get("PYCALIB", "")) / "metrics.py"
    spec = importlib.util.spec_from_file_location("pycalib_metrics", path) if path.exists() else None
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _classwise(size: str, threads: int) -> Contestants:
    logits, labels = logits_and_labels(*SIZES[size])
    tensor, metrics = torch.from_numpy(logits), _pycalib()
    out = _measure(cal.Classification.from_logits(logits, labels), CLASSWISE, threads)
    if metrics is not None and size != "C":
        out["pycalib"] = lambda: metrics.classwise_ECE(labels, torch.softmax(tensor, 1).numpy(), bins=BINS)
    return out | {"plain NumPy": lambda: numpy_classwise(logits, labels)}


# ----------------------------------------------------------------------------- debiased, kernel, smooth
def _debiased(logits: np.ndarray, labels: np.ndarray, threads: int) -> Contestants:
    tensor = torch.from_numpy(logits)
    out = _measure(cal.Classification.from_logits(logits, labels), DEBIASED, threads)
    if find_spec("calibration"):
        import calibration

        out["uncertainty-calibration"] = lambda: calibration.get_calibration_error(
            torch.softmax(tensor, 1).numpy(), labels, p=2, debias=True, mode="top-label"
        )
    return out


def _mmce(logits: np.ndarray, labels: np.ndarray, threads: int) -> Contestants:
    tensor = torch.from_numpy(logits)
    out = _measure(cal.Classification.from_logits(logits, labels), MMCE, threads)
    if find_spec("netcal"):
        from netcal.metrics import MMCE as theirs

        out["netcal"] = lambda: theirs().measure(torch.softmax(tensor, 1).numpy(), labels)
    return out


def _smooth(p: np.ndarray, y: np.ndarray, threads: int) -> Contestants:
    out = _measure(cal.Judged.from_confidence(p, y), SMOOTH, threads)
    if find_spec("relplot"):
        import relplot

        out["relplot"] = lambda: relplot.smECE(p, y)
    return out


# --------------------------------------------------------------------------------------- ten million
def _ks(n: int, threads: int) -> Contestants:
    p, y = _binary(n)
    out = _measure(cal.Judged.from_confidence(p, y), KS, threads)
    if find_spec("probmetrics"):
        from probmetrics.distributions import CategoricalDirac, CategoricalProbs
        from probmetrics.metrics import KolmogorovSmirnovCalibrationMetric

        both = CategoricalProbs(torch.from_numpy(np.stack([1 - p, p], axis=1)))
        target = CategoricalDirac(torch.from_numpy(y.astype(np.int64)), 2)
        metric = KolmogorovSmirnovCalibrationMetric()
        out["probmetrics"] = lambda: metric.compute(target, both)
    return out


def _torchmetrics_binary(p: np.ndarray, y: np.ndarray) -> Contestants:
    if not find_spec("torchmetrics"):
        return {}
    from torchmetrics.functional.classification import binary_calibration_error

    tensor, target = torch.from_numpy(p), torch.from_numpy(y.astype(np.int64))
    return {"torchmetrics": lambda: binary_calibration_error(tensor, target, n_bins=BINS)}


def numpy_binary(p: np.ndarray, y: np.ndarray) -> float:
    """ECE of pairs in good NumPy."""
    place = np.clip(np.ceil(p * BINS) - 1, 0, BINS - 1).astype(np.int64)
    return float(np.abs(np.bincount(place, y - p.astype(np.float64), BINS)).sum() / len(p))


def _judged(n: int, threads: int) -> Contestants:
    p, y = _binary(n)
    ours = _measure(cal.Judged.from_confidence(p, y), "ece", threads)
    return ours | _torchmetrics_binary(p, y) | {"plain NumPy": lambda: numpy_binary(p, y)}


def _class_one(n: int, threads: int) -> Contestants:
    p, y = _binary(n)
    ours = _measure(cal.Classification.from_probs(p, y.astype(np.int64)), "ece(of=1)", threads)
    return ours | _torchmetrics_binary(p, y) | {"plain NumPy": lambda: numpy_binary(p, y)}


# ----------------------------------------------------------------------------------------- resamples
def _looped(once: Callable[[np.ndarray], object], n: int) -> Callable[[], object]:
    """The central 95 % of a statistic over resampled rows, as one writes it."""

    def loop() -> object:
        rng = np.random.default_rng(0)
        values = [float(once(rng.integers(0, n, n))) for _ in range(RESAMPLES)]  # type: ignore[arg-type]
        return np.quantile(values, [0.025, 0.975])

    return loop


def _resampled(logits: np.ndarray, labels: np.ndarray, threads: int) -> Contestants:
    """Ours gives interval, null band and p-value; the loops give an interval."""
    predictions = cal.Classification.from_logits(logits, labels)
    out: Contestants = {
        "calibrant": lambda: cal.evaluate(predictions, ["ece"], resamples=RESAMPLES, threads=threads, curves=False),
    }
    if find_spec("torchmetrics"):
        from torchmetrics.functional.classification import multiclass_calibration_error

        probs, target = torch.softmax(torch.from_numpy(logits), 1), torch.from_numpy(labels)

        def torch_once(rows: np.ndarray) -> object:
            chosen = torch.from_numpy(rows)
            return multiclass_calibration_error(probs[chosen], target[chosen], num_classes=probs.shape[1], n_bins=BINS)

        out["torchmetrics, loop"] = _looped(torch_once, len(labels))
    confidence, hit = _top(logits, labels)
    out["NumPy, loop"] = _looped(lambda rows: numpy_binary(confidence[rows], hit[rows]), len(labels))
    return out
