"""Temperature scaling by accuracy versus uncertainty: the T of the least AvUC loss.

Of each row: conf its largest probability, u its entropy in nats; it is certain where u is at most the threshold. Cells:
    AC = Σ conf·(1 − tanh u)        of accurate, certain rows,      AU = Σ conf·tanh u         of accurate, uncertain,
    IC = Σ (1 − conf)·(1 − tanh u)  of inaccurate, certain rows,    IU = Σ (1 − conf)·tanh u   of inaccurate, uncertain;
loss = log(1 + (AU + IC)/(AC + IU)). `avuc` has one threshold, half-way between the average u of accurate and of
inaccurate rows at T = 1; `auavuc` is −log of the area under (AC + IU)/(AC + AU + IC + IU) over the 21 thresholds
u_min + t(u_max − u_min) of the rows at T.

**What the loss wants.** As T → 0, conf → 1 and u → 0 in every row whose largest logit is unique: every row is certain,
an error weighs 1 − conf → 0, and AvUC → 0, its lower bound, whatever the labels of the rows are. So the loss has no
minimum over T > 0 that rows decide on; within [1/64, 64] it usually ends at 1/64, far from what is calibrated, and says
so. AvUC was made to stand beside a likelihood, which holds T; as the only loss it is here for comparison.

The loss also jumps where a row becomes uncertain. It is read over a grid of log T, then over finer ones around the best
point: what is returned is the best T that was read.

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
from calibrant.recalibration.one_temperature import BOUND, WIDEST
from calibrant.recalibration.report import Fit
from calibrant.recalibration.temperature import TemperatureMap, TemperatureScaling

POINTS = 129
"""Of the first grid of log T; T = 1 is among them."""
FINER = 8
FINEST = 1e-8
"""The distance of points in the last grid."""
SHARP = (
    "the loss falls towards 0 with T, whatever the labels are, since what is wrong with certainty weighs nothing in it"
)


@dataclass(eq=False, kw_only=True)
class AvUTemperatureScaling(TemperatureScaling):
    """The temperature of the least accuracy-versus-uncertainty loss; no proper score, and rarely what calibrates."""

    name = "avu_temperature"
    title = "Temperature by accuracy vs uncertainty"
    reference = "Krishnan & Tickoo (2020), Improving model calibration with accuracy versus uncertainty optimization"
    loss: str = option("avuc", "what the temperature minimises", choices=("avuc", "auavuc"))

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[TemperatureMap, Fit]:
        """The best temperature of a grid that becomes finer around it."""
        loss = _Loss(rows, self.loss, threads)
        before = loss(0.0)
        x, after, levels = _search(loss)
        temperature = {WIDEST: BOUND, -WIDEST: 1.0 / BOUND}.get(x, math.exp(x))
        made = TemperatureMap(temperature)
        fit = Fit(
            n=rows.n,
            loss=self.loss,
            before=before,
            after=after,
            iterations=levels,
            passes=loss.passes,
            at_bound=(_said(temperature),) if abs(x) == WIDEST else (),
            said=_likelihood(rows, made),
        )
        return made, fit


# ------------------------------------------------------------------------------------------------ the loss
class _Loss:
    """The loss of some rows as a function of log T."""

    def __init__(self, rows: ClassRows, kind: str, threads: int | None) -> None:
        self.logs, self.shares, self.threads, self.passes = rows.logs, rows.shares, threads, 0
        self.right = self.logs.argmax(axis=1) == rows.labels
        counts = self.shares > 0.0
        if not 0 < int(self.right[counts].sum()) < int(counts.sum()):
            raise ValuesError(
                f"avu_temperature: {rows.predictions.name}",
                expected="rows that are right and rows that are wrong",
                came=f"all are {'right' if self.right[counts].all() else 'wrong'}",
                do="give more rows, or use temperature scaling",
            )
        self.area = kind == "auavuc"
        _, entropy = self._rows(0.0)
        self.threshold = default_threshold(entropy, (~self.right).astype(np.float64), self.shares)

    def _rows(self, x: float) -> tuple[np.ndarray, np.ndarray]:
        self.passes += 1
        return sure_rows(self.logs, math.exp(-x), self.threads)

    def __call__(self, x: float) -> float:
        confidence, u = self._rows(x)
        weight, tanh = self.shares * np.where(self.right, confidence, 1.0 - confidence), np.tanh(u)
        sure, unsure = weight * (1.0 - tanh), weight * tanh
        if self.area:
            return -math.log(_area(self.right, u, sure, unsure, self.shares > 0.0))
        certain = u <= self.threshold
        good = float(sure[certain & self.right].sum() + unsure[~certain & ~self.right].sum())
        bad = float(sure[certain & ~self.right].sum() + unsure[~certain & self.right].sum())
        return math.log1p(bad / good) if good > 0.0 else math.inf


def _area(right: np.ndarray, u: np.ndarray, sure: np.ndarray, unsure: np.ndarray, counts: np.ndarray) -> float:
    """The area under the soft AvU over the 21 thresholds, by the trapezoidal rule; at least the smallest number."""
    low, span = u[counts].min(), np.ptp(u[counts])
    place = np.ceil((u - low) / span * STEPS - SLACK) if span > 0.0 else np.zeros(len(u))
    first = np.clip(place, 0, STEPS).astype(np.int64)
    certain = [np.bincount(first, np.where(who, sure, 0.0), STEPS + 1).cumsum() for who in (right, ~right)]
    later = [np.bincount(first, np.where(who, unsure, 0.0), STEPS + 1) for who in (right, ~right)]
    uncertain = [each.sum() - each.cumsum() for each in later]
    good, bad = certain[0] + uncertain[1], certain[1] + uncertain[0]
    curve = good / np.maximum(good + bad, np.finfo(float).tiny)
    return max(float((curve.sum() - 0.5 * (curve[0] + curve[-1])) / STEPS), np.finfo(float).tiny)


# ---------------------------------------------------------------------------------------------- the search
def _search(loss: Callable[[float], float]) -> tuple[float, float, int]:
    """The best log T that was read, of equals the nearest to 0; its loss; how many grids were read."""
    grid, cell, levels = np.linspace(-WIDEST, WIDEST, POINTS), 2.0 * WIDEST / (POINTS - 1), 1
    best = min((loss(x), abs(x), x) for x in grid.tolist())
    while cell > FINEST:
        near = best[2] + cell * np.arange(1 - FINER, FINER) / FINER
        near = np.delete(near, FINER - 1)
        best = min(best, *((loss(x), abs(x), x) for x in np.clip(near, -WIDEST, WIDEST).tolist()))
        cell, levels = cell / FINER, levels + 1
    return best[2], best[0], levels


# --------------------------------------------------------------------------------------------- what is said
def _said(temperature: float) -> str:
    if temperature < 1.0:
        return f"the temperature ended at the bound 1/64: {SHARP}"
    return "the temperature ended at the bound 64: the loss still falls there"


def _likelihood(rows: ClassRows, made: TemperatureMap) -> tuple[tuple[str, str], ...]:
    """A sentence where the fitted rows have become less likely."""
    before, after = rows.nll(rows.logs), rows.nll(made.apply(rows.logs))
    if after <= before:
        return ()
    said = f"nll of the fitted rows rose from {before:.6g} to {after:.6g}: this loss is no proper score"
    return (("likelihood-fell", said),)
