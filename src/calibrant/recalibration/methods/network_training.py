"""Fit small networks to all rows at once, by L-BFGS with gradients from PyTorch.

The loss is Σ weight · nll of the row + decay · |θ − θ₀|², where θ₀ makes the map temperature scaling: the result is
never worse on the fitted rows than the best temperature, and no row is held out, so the order of rows does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from calibrant.kernels.temperature_sums import TemperatureSums
from calibrant.recalibration.base import need_torch
from calibrant.recalibration.class_rows import ClassRows
from calibrant.recalibration.fit_report import FitReport, Messages
from calibrant.recalibration.temperature_solver import best_inverse

BLOCK = 1 << 18
"""Scores whose gradients are in memory at a time."""
CACHE = 1 << 20
"""Scores up to which the inputs of the network are cached between passes."""
SORT_KEYS = 16
"""Classes by whose scores rows are sorted."""
MAX_STEPS = 1000
RELATIVE_DECREASE = 1e-12
"""A step that lowers the loss by less than this share of it is the last."""
TOLERANCE = 1e-7

MIN_SCALE = 1e-3
"""The share of β that no derivative and no scale of a gap falls below: gaps then survive rounding."""
SOFTPLUS_INVERSE_OF_ONE = float(np.log(np.expm1(1.0)))
"""softplus of this is 1."""

Weights = dict[str, np.ndarray]
Scores = Callable[[dict[str, Any], Any], Any]
"""Unnormalised scores (n, C) from named tensors and the output of `prepare` for some rows."""
SINGLE_THREAD = 1 << 20
"""Scores below which one PyTorch thread is faster than several."""


@dataclass(frozen=True)
class Trained:
    """Trained weights by name, and how the training went."""

    weights: Weights
    after: float
    converged: bool
    iterations: int
    passes: int
    gradient: float

    def report(self, rows: ClassRows, at_bound: tuple[str, ...], messages: Messages = ()) -> FitReport:
        """The report of a map with these weights."""
        n_parameters = sum(array.size for array in self.weights.values())
        counted = int(np.count_nonzero(rows.row_weights))
        if counted < n_parameters:
            text = f"{n_parameters} parameters for {counted} rows: only the decay limits overfitting"
            messages = (*messages, ("few-rows", text))
        return FitReport(
            n=rows.n, loss="nll", before=rows.nll(rows.log_probs), after=self.after, converged=self.converged,
            iterations=self.iterations, passes=self.passes, gradient=self.gradient, at_bound=at_bound,
            messages=messages,
        )  # fmt: skip


# ---------------------------------------------------------------------------------------- the start
def start_scale(rows: ClassRows) -> tuple[float, tuple[str, ...]]:
    """β = 1/T of maximum likelihood, where networks start, and a sentence if it ended at a bound."""
    sums = TemperatureSums(rows.log_probs, rows.labels, rows.row_weights.copy(), None)
    optimum = best_inverse(sums, sums.at(1.0))
    if optimum.after >= optimum.before:
        return 1.0, ()
    if not optimum.at_bound:
        return optimum.beta, ()
    side = "1/64: every row seems certain" if optimum.beta > 1 else "64: predictions seem unrelated to the labels"
    return optimum.beta, (f"the initial temperature of the network ended at {side}",)


# ------------------------------------------------------------------------------------------- steps
def train(
    rows: ClassRows, start: Weights, scores: Scores, prepare: Callable[[np.ndarray], Any], *, decay: float,
    threads: int | None,
) -> Trained:  # fmt: skip
    """Fit weights near `start` by penalised maximum likelihood."""
    torch = need_torch("order-preserving networks")
    origin = np.concatenate([array.ravel() for array in start.values()])
    counted = np.flatnonzero(rows.row_weights)
    log_probs, labels, row_weights = rows.log_probs[counted], rows.labels[counted], rows.row_weights[counted]
    # Sorted, so that the order of rows has no effect, not even on rounding.
    order = np.lexsort((row_weights, labels, *log_probs[:, :SORT_KEYS].T))
    log_probs, step = log_probs[order], max(1, BLOCK // rows.classes)
    label_tensor, weight_tensor = torch.from_numpy(labels[order])[:, None], torch.from_numpy(row_weights[order])
    blocks = [slice(first, first + step) for first in range(0, len(log_probs), step)]
    cache = [prepare(log_probs[block]) for block in blocks] if log_probs.size <= CACHE else None
    nll = math.inf

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal nll
        arrays = _unpack(theta, start).items()
        tensors = {name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in arrays}
        total = 0.0
        for k, block in enumerate(blocks):
            inputs = prepare(log_probs[block]) if cache is None else cache[k]
            after = torch.log_softmax(scores(tensors, inputs), dim=-1)
            part = -(weight_tensor[block] * after.gather(1, label_tensor[block])[:, 0]).sum()
            part.backward()
            total += float(part.detach())
        nll = total
        pairs = [(each.numel(), each.grad) for each in tensors.values()]
        gradients = [np.zeros(size) if gradient is None else gradient.numpy().ravel() for size, gradient in pairs]
        offset = theta - origin
        return total + decay * float(offset @ offset), np.concatenate(gradients) + 2.0 * decay * offset

    settings = {"maxiter": MAX_STEPS, "maxfun": 4 * MAX_STEPS, "maxcor": 30, "gtol": TOLERANCE}
    settings["ftol"] = RELATIVE_DECREASE
    threads_before = torch.get_num_threads()
    if threads is None:
        threads = 1 if rows.n * rows.classes < SINGLE_THREAD else threads_before
    try:
        torch.set_num_threads(threads)
        result = minimize(loss, origin, jac=True, method="L-BFGS-B", options=settings)
        loss(result.x)
    finally:
        torch.set_num_threads(threads_before)
    return Trained(
        weights=_unpack(result.x, start), after=nll, converged=bool(result.success), iterations=int(result.nit),
        passes=int(result.nfev) + 1, gradient=float(np.abs(result.jac).max(initial=0.0)),
    )  # fmt: skip


def _unpack(theta: np.ndarray, like: Weights) -> Weights:
    ends = np.cumsum([array.size for array in like.values()])[:-1]
    parts = zip(like.items(), np.split(theta, ends), strict=True)
    return {name: part.reshape(array.shape) for (name, array), part in parts}


# ---------------------------------------------------------------------------------- positive numbers
def positive(outputs: np.ndarray) -> np.ndarray:
    """Outputs of a network as positive numbers above MIN_SCALE; 0 becomes 1."""
    return MIN_SCALE + (1.0 - MIN_SCALE) * np.logaddexp(0.0, outputs + SOFTPLUS_INVERSE_OF_ONE)


def softplus_tensor(outputs: Any) -> Any:
    """log(1 + exp x) to full precision; that of PyTorch is x from 20 on."""
    return outputs.clamp(min=0.0) + (-outputs.abs()).exp().log1p()


def positive_tensor(outputs: Any) -> Any:
    """`positive` of a tensor."""
    return MIN_SCALE + (1.0 - MIN_SCALE) * softplus_tensor(outputs + SOFTPLUS_INVERSE_OF_ONE)


# ------------------------------------------------------------------------------------------ ordering
def restore_order(scores: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Scores (n, C) whose rows have the ranking of `like` up to rounding, corrected to have it exactly.

    Ties of `like` are ties of the result; what is lower is lower by at least one float.
    """
    order = np.argsort(-like, axis=1, kind="stable")
    reference, out = (np.ascontiguousarray(np.take_along_axis(a, order, axis=1).T) for a in (like, scores))
    same = reference[1:] == reference[:-1]
    if np.where(same, out[1:] != out[:-1], out[1:] >= out[:-1]).any():
        for k in range(1, len(out)):
            below = np.minimum(out[k], np.nextafter(out[k - 1], -np.inf))
            out[k] = np.where(same[k - 1], out[k - 1], below)
        corrected = np.empty_like(scores)
        np.put_along_axis(corrected, order, np.ascontiguousarray(out.T), axis=1)
        return corrected
    return scores
