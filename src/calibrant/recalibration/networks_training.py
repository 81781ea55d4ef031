"""How small networks are fitted to rows: all rows at once, by L-BFGS, with derivatives from PyTorch.

The loss is Σ share · nll of the row + decay · |θ − θ₀|², where θ₀ makes the map temperature scaling: what is found is
never worse on the rows than the best temperature, and no row is held back, so that the order of rows does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from calibrant.errors import MissingExtra
from calibrant.kernels.temperature_sums import TemperatureSums
from calibrant.recalibration.class_rows import ClassRows
from calibrant.recalibration.one_temperature import best_inverse
from calibrant.recalibration.report import Fit

BLOCK = 1 << 18
"""Scores whose derivatives are kept at a time."""
HELD = 1 << 20
"""Scores of which what the network sees is kept between passes; of more, it is made again in each."""
KEYS = 16
"""Classes by whose scores rows are put in order."""
MOST_STEPS = 1000
FALLS = 1e-12
"""A step that lowers the loss by less than this share of it is the last."""
FLAT = 1e-7

LEAST = 1e-3
"""The share of β under which no derivative and no scale of a gap falls: gaps then outlive rounding."""
ONE = float(np.log(np.expm1(1.0)))
"""softplus(ONE) = 1."""

Weights = dict[str, np.ndarray]
Scores = Callable[[dict[str, Any], Any], Any]
"""Unnormalised scores (n, C) of named tensors and of some rows, as `prepare` made them of ℓ."""
ONE_THREAD = 1 << 20
"""Scores below which threads of PyTorch wait for each other more than they work."""


def need_torch(subject: str) -> Any:
    """PyTorch; refuse, with what to install, if it is not there."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(
            subject, expected="PyTorch", came="it is not installed", do="pip install 'calibrant[torch]'"
        ) from error
    return torch


@dataclass(frozen=True)
class Trained:
    """What training left: weights by name, and how it went."""

    weights: Weights
    after: float
    converged: bool
    iterations: int
    passes: int
    gradient: float

    def fit(self, rows: ClassRows, at_bound: tuple[str, ...], said: tuple[tuple[str, str], ...]) -> Fit:
        """The report of a map with these weights."""
        before, numbers = rows.nll(rows.logs), sum(array.size for array in self.weights.values())
        counted = int(np.count_nonzero(rows.shares))
        if counted < numbers:
            few = (
                f"{numbers} numbers were fitted to {counted} rows: only the decay keeps them from being learnt by heart"
            )
            said = (*said, ("few-rows", few))
        return Fit(
            n=rows.n,
            loss="nll",
            before=before,
            after=self.after,
            converged=self.converged,
            iterations=self.iterations,
            passes=self.passes,
            gradient=self.gradient,
            at_bound=at_bound,
            said=said,
        )


# ---------------------------------------------------------------------------------------- the start
def slope_of(rows: ClassRows) -> tuple[float, tuple[str, ...]]:
    """β = 1/T of the largest likelihood of ℓ, where networks start, and what is to be said of it."""
    sums = TemperatureSums(rows.logs, rows.labels, rows.shares.copy(), None)
    found = best_inverse(sums, sums.at(1.0))
    if found.after >= found.before:
        return 1.0, ()
    if not found.at_bound:
        return found.beta, ()
    side = "1/64: the rows seem too right to doubt" if found.beta > 1 else "64: the rows seem to say nothing of labels"
    return found.beta, (f"the temperature that the network starts from ended at {side}",)


# ------------------------------------------------------------------------------------------- steps
def train(
    rows: ClassRows,
    start: Weights,
    scores: Scores,
    prepare: Callable[[np.ndarray], Any],
    *,
    decay: float,
    threads: int | None,
) -> Trained:
    """The weights near `start` that make the rows likeliest."""
    torch = need_torch("order-preserving networks")
    origin = np.concatenate([array.ravel() for array in start.values()])
    blocks = _Blocks(rows, prepare, torch)
    seen: dict[str, float] = {}

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        tensors = {
            name: torch.tensor(array, dtype=torch.float64, requires_grad=True)
            for name, array in _unpacked(theta, start).items()
        }
        total = 0.0
        for inputs, labels, shares in blocks:
            logs = torch.log_softmax(scores(tensors, inputs), dim=-1)
            part = -(shares * logs.gather(1, labels)[:, 0]).sum()
            part.backward()
            total += float(part.detach())
        seen["nll"] = total
        slope = np.concatenate([_slope(tensor) for tensor in tensors.values()])
        away = theta - origin
        return total + decay * float(away @ away), slope + 2.0 * decay * away

    with _threads(torch, 1 if threads is None and rows.n * rows.classes < ONE_THREAD else threads):
        settings = {"maxiter": MOST_STEPS, "maxfun": 4 * MOST_STEPS, "ftol": FALLS, "gtol": FLAT, "maxcor": 30}
        found = minimize(loss, origin, jac=True, method="L-BFGS-B", options=settings)
        loss(found.x)
    return Trained(
        weights=_unpacked(found.x, start),
        after=seen["nll"],
        converged=bool(found.success),
        iterations=int(found.nit),
        passes=int(found.nfev) + 1,
        gradient=float(np.abs(found.jac).max(initial=0.0)),
    )


class _Blocks:
    """The rows that count, in an order of their own: that in which they came leaves no trace, not even in rounding."""

    def __init__(self, rows: ClassRows, prepare: Callable[[np.ndarray], Any], torch: Any) -> None:
        counts = np.flatnonzero(rows.shares)
        logs, labels, shares = rows.logs[counts], rows.labels[counts], rows.shares[counts]
        order = np.lexsort((shares, labels, *logs[:, :KEYS].T))
        self.prepare, self.step = prepare, max(1, BLOCK // rows.classes)
        self.logs = logs[order]
        self.labels, self.shares = torch.from_numpy(labels[order])[:, None], torch.from_numpy(shares[order])
        self.held = list(self._made()) if logs.size <= HELD else None

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        return self._made() if self.held is None else iter(self.held)

    def _made(self) -> Iterator[tuple[Any, Any, Any]]:
        for first in range(0, len(self.logs), self.step):
            part = slice(first, first + self.step)
            yield self.prepare(self.logs[part]), self.labels[part], self.shares[part]


def _unpacked(theta: np.ndarray, like: Weights) -> Weights:
    ends = np.cumsum([array.size for array in like.values()])[:-1]
    parts = zip(like.items(), np.split(theta, ends), strict=True)
    return {name: part.reshape(array.shape) for (name, array), part in parts}


def _slope(tensor: Any) -> np.ndarray:
    return np.zeros(tensor.numel()) if tensor.grad is None else tensor.grad.numpy().ravel()


@contextmanager
def _threads(torch: Any, threads: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------------------------- positive numbers
def positive(outputs: np.ndarray) -> np.ndarray:
    """What a network gives, as numbers above LEAST; 0 becomes 1."""
    return LEAST + (1.0 - LEAST) * np.logaddexp(0.0, outputs + ONE)


def softplus_tensor(outputs: Any) -> Any:
    """log(1 + exp x) to the last digit; that of PyTorch is x from 20 on."""
    return outputs.clamp(min=0.0) + (-outputs.abs()).exp().log1p()


def positive_tensor(outputs: Any) -> Any:
    """`positive` of a tensor."""
    return LEAST + (1.0 - LEAST) * softplus_tensor(outputs + ONE)


# ------------------------------------------------------------------------------------------ ordering
def in_order(scores: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Scores (n, C) whose rows have the order of `like` but for rounding, mended so that they have it exactly.

    What is equal there is equal here; what is less is less by a float at least.
    """
    order = np.argsort(-like, axis=1, kind="stable")
    known, out = (np.ascontiguousarray(np.take_along_axis(a, order, axis=1).T) for a in (like, scores))
    same = known[1:] == known[:-1]
    if np.where(same, out[1:] != out[:-1], out[1:] >= out[:-1]).any():
        for k in range(1, len(out)):
            below = np.minimum(out[k], np.nextafter(out[k - 1], -np.inf))
            out[k] = np.where(same[k - 1], out[k - 1], below)
        mended = np.empty_like(scores)
        np.put_along_axis(mended, order, np.ascontiguousarray(out.T), axis=1)
        return mended
    return scores
