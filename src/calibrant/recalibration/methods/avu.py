"""Temperature scaling by accuracy versus uncertainty: the T with the lowest AvUC loss.

For each row, conf is its largest probability and u its entropy in nats; it is certain if u is at most the threshold:
    AC = Σ conf·(1 − tanh u)        over accurate, certain rows,     AU = Σ conf·tanh u        over accurate, uncertain,
    IC = Σ (1 − conf)·(1 − tanh u)  over inaccurate, certain rows, IU = Σ (1 − conf)·tanh u  over inaccurate, uncertain;
loss = log(1 + (AU + IC)/(AC + IU)). `avuc` has one threshold, half-way between the average u of accurate and of
inaccurate rows at T = 1; `auavuc` is −log of the area under (AC + IU)/(AC + AU + IC + IU) over the 21 thresholds
u_min + t(u_max − u_min) of the rows at T.

**Degenerate limit.** As T → 0, conf → 1 and u → 0 in every row whose largest logit is unique: every row is certain, an
error weighs 1 − conf → 0, and AvUC → 0, its lower bound, whatever the labels are. So the loss has no minimum over T > 0
that the rows determine; within [1/64, 64] it usually ends at 1/64, far from calibrated, and warns. AvUC was designed as
an addition to a likelihood, which determines T; as the only loss it is here for comparison.

The loss also jumps where a row becomes uncertain. It is evaluated on a grid of log T, then on finer grids around the
best point: the result is the best T that was evaluated.

Krishnan & Tickoo (2020), Improving model calibration with accuracy versus uncertainty optimization, NeurIPS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.detection.accuracy_uncertainty import SLACK, STEPS, default_threshold
from calibrant.errors import ValuesError
from calibrant.kernels.temperature_sums import sure_rows
from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassRows
from calibrant.recalibration.fit_report import FitReport
from calibrant.recalibration.methods.temperature import TemperatureMap, TemperatureScaling
from calibrant.recalibration.temperature_solver import BOUND, MAX_LOG

POINTS = 129
"""Points of the first grid of log T, which include T = 1."""
REFINEMENT = 8
FINEST = 1e-8
"""The spacing of the last grid."""


@dataclass(eq=False, kw_only=True)
class AvUTemperatureScaling(TemperatureScaling):
    """The temperature with the lowest accuracy-versus-uncertainty loss: not a proper score, and rarely calibrated.

    Parameters
    ----------
    loss : {"avuc", "auavuc"}
        The loss at one threshold, or the area over 21 thresholds.
    """

    name = "avu_temperature"
    title = "Temperature by accuracy vs uncertainty"
    reference = "Krishnan & Tickoo (2020), Improving model calibration with accuracy versus uncertainty optimization"
    loss: str = option("avuc", "what the temperature minimises", choices=("avuc", "auavuc"))

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[TemperatureMap, FitReport]:
        """Find the best temperature on grids of decreasing spacing."""
        loss = AvULoss(rows, self.loss, threads)
        before = loss(0.0)
        x, after, grids = grid_search(loss)
        temperature = {MAX_LOG: BOUND, -MAX_LOG: 1.0 / BOUND}.get(x, math.exp(x))
        fitted = TemperatureMap(temperature)
        bound = "the temperature ended at the bound 64: the loss still falls there"
        if temperature < 1.0:
            bound = "the temperature ended at the bound 1/64: this loss falls to 0 with T, whatever the labels are"
        nll, new_nll = rows.nll(rows.log_probs), rows.nll(fitted.apply(rows.log_probs))
        text = f"nll of the fitted rows rose from {nll:.6g} to {new_nll:.6g}: this loss is not a proper score"
        fit = FitReport(
            n=rows.n, loss=self.loss, before=before, after=after, iterations=grids, passes=loss.passes,
            at_bound=(bound,) if abs(x) == MAX_LOG else (),
            messages=(("likelihood-fell", text),) if new_nll > nll else (),
        )  # fmt: skip
        return fitted, fit


class AvULoss:
    """The loss of some rows as a function of log T."""

    def __init__(self, rows: ClassRows, kind: str, threads: int | None) -> None:
        self.log_probs, self.row_weights, self.threads, self.passes = rows.log_probs, rows.row_weights, threads, 0
        self.right = self.log_probs.argmax(axis=1) == rows.labels
        counted = self.row_weights > 0.0
        if not 0 < int(self.right[counted].sum()) < int(counted.sum()):
            raise ValuesError(
                f"avu_temperature: {rows.predictions.name}",
                expected="both correct and wrong rows",
                got="only correct rows" if self.right[counted].all() else "only wrong rows",
                hint="give more rows, or use temperature scaling",
            )
        self.area = kind == "auavuc"
        _, entropy = self._confidence_and_entropy(0.0)
        self.threshold = default_threshold(entropy, (~self.right).astype(np.float64), self.row_weights)

    def _confidence_and_entropy(self, x: float) -> tuple[np.ndarray, np.ndarray]:
        self.passes += 1
        return sure_rows(self.log_probs, math.exp(-x), self.threads)

    def __call__(self, x: float) -> float:
        confidence, u = self._confidence_and_entropy(x)
        weight, tanh = self.row_weights * np.where(self.right, confidence, 1.0 - confidence), np.tanh(u)
        sure, unsure = weight * (1.0 - tanh), weight * tanh
        if self.area:  # under the soft AvU over the 21 thresholds, by the trapezoidal rule; at least the smallest float
            used, tiny = u[self.row_weights > 0.0], np.finfo(float).tiny
            low, span = used.min(), np.ptp(used)
            first = np.ceil((u - low) / span * STEPS - SLACK) if span > 0.0 else np.zeros(len(u))
            first = np.clip(first, 0, STEPS).astype(np.int64)
            whose = self.right, ~self.right
            below = [np.bincount(first, np.where(who, sure, 0.0), STEPS + 1).cumsum() for who in whose]
            later = [np.bincount(first, np.where(who, unsure, 0.0), STEPS + 1) for who in whose]
            above = [each.sum() - each.cumsum() for each in later]
            good, bad = below[0] + above[1], below[1] + above[0]
            curve = good / np.maximum(good + bad, tiny)
            return -math.log(max(float((curve.sum() - 0.5 * (curve[0] + curve[-1])) / STEPS), tiny))
        certain = u <= self.threshold
        good = float(sure[certain & self.right].sum() + unsure[~certain & ~self.right].sum())
        bad = float(sure[certain & ~self.right].sum() + unsure[~certain & self.right].sum())
        return math.log1p(bad / good) if good > 0.0 else math.inf


def grid_search(loss: Callable[[float], float]) -> tuple[float, float, int]:
    """The best evaluated log T, of equals the nearest to 0; its loss; and the number of grids."""
    grid, spacing, grids = np.linspace(-MAX_LOG, MAX_LOG, POINTS), 2.0 * MAX_LOG / (POINTS - 1), 1
    best = min((loss(x), abs(x), x) for x in grid.tolist())
    while spacing > FINEST:
        near = best[2] + spacing * np.arange(1 - REFINEMENT, REFINEMENT) / REFINEMENT
        near = np.delete(near, REFINEMENT - 1)
        best = min(best, *((loss(x), abs(x), x) for x in np.clip(near, -MAX_LOG, MAX_LOG).tolist()))
        spacing, grids = spacing / REFINEMENT, grids + 1
    return best[2], best[0], grids
