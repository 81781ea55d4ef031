"""One temperature, beside netcal, probmetrics, scikit-learn, and SciPy's Brent over a loss in torch.

netcal gets probabilities in float64: of float32 ones it returns T = 1, for its derivatives are differences that float32
does not resolve. The others take float32 logits as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import torch
from scipy.optimize import minimize_scalar

import calibrant as cal
from benchmarks.calibration import Contestants, Line
from benchmarks.data import SIZES, logits_and_labels
from calibrant.recalibration import TemperatureScaling

GOALS = {"A": "20", "B": "8", "C": "100"}
PEERS = ("netcal", "probmetrics")
BUDGET = 8.0
SLOW = ("netcal", "probmetrics", "scikit-learn", "torch + Brent")
"""At C they take seconds to minutes; imported beforehand, they have nothing to warm up."""


def workloads(threads: int, quick: bool) -> Iterator[Line]:
    """Name, contestants, goal, and whom the goal speaks of."""
    for size, goal in GOALS.items():
        if quick and size == "C":
            continue
        logits, labels = logits_and_labels(*SIZES[size])
        contestants: Contestants = {"calibrant": _ours(logits, labels, threads), **_others(logits, labels)}
        yield f"temperature scaling, {size}", contestants, goal, tuple(name for name in PEERS if name in contestants)


def _ours(logits: np.ndarray, labels: np.ndarray, threads: int) -> Callable[[], object]:
    predictions = cal.Classification.from_logits(logits, labels)
    return lambda: TemperatureScaling().fit(predictions, threads=threads)


def _others(logits: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[], float]]:
    """A function of each that is installed; it returns T."""
    out: dict[str, Callable[[], float]] = {}
    for module in ("netcal.scaling", "probmetrics.calibrators", "sklearn.calibration"):
        if find_spec(module.partition(".")[0]):
            import_module(module)
    if find_spec("netcal"):
        out["netcal"] = lambda: netcal_fit(logits, labels)
    if find_spec("probmetrics"):
        out["probmetrics"] = lambda: probmetrics_fit(logits, labels)
    out["scikit-learn"] = lambda: sklearn_fit(logits, labels)
    out["torch + Brent"] = lambda: brent_fit(logits, labels)
    return out


def netcal_fit(logits: np.ndarray, labels: np.ndarray) -> float:
    """netcal's maximum-likelihood fit of probabilities."""
    from netcal.scaling import TemperatureScaling as Scaling

    made = Scaling()
    made.fit(torch.softmax(torch.from_numpy(logits).double(), 1).numpy(), labels)
    return 1.0 / float(made.temperature[0])


def probmetrics_fit(logits: np.ndarray, labels: np.ndarray) -> float:
    """probmetrics' fit by bisection, its default."""
    from probmetrics.calibrators import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits

    made = TemperatureScalingCalibrator()
    made.fit_torch(CategoricalLogits(torch.from_numpy(logits)), torch.from_numpy(labels))
    return 1.0 / float(made.invtemp_)


def sklearn_fit(logits: np.ndarray, labels: np.ndarray) -> float:
    """What CalibratedClassifierCV(method="temperature") does with the scores of its classifier."""
    from sklearn.calibration import _TemperatureScaling

    return 1.0 / float(_TemperatureScaling().fit(logits, labels).beta_)


def brent_fit(logits: np.ndarray, labels: np.ndarray) -> float:
    """Brent's method over the loss as torch computes it."""
    z, y = torch.from_numpy(logits), torch.from_numpy(labels)

    def loss(x: float) -> float:
        return float(torch.nn.functional.cross_entropy(z * float(np.exp(x)), y))

    bound = float(np.log(64.0))
    return float(np.exp(-minimize_scalar(loss, bounds=(-bound, bound), method="bounded").x))
