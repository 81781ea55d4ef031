"""Temperatures of members, beside the same objective given to torch's and SciPy's L-BFGS.

Ours looks for the best of several optima and settles to a gradient of 1e-8; theirs go downhill once from τ = 1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp

import calibrant as cal
from benchmarks.calibration import Contestants, Line
from benchmarks.data import member_logits
from calibrant.recalibration.methods.member_temperatures import MemberTemperatureScaling

STEPS = 200
BOUND = float(np.log(64.0))


def workloads(threads: int, quick: bool) -> Iterator[Line]:
    """Name, contestants, goal, and whom the goal speaks of."""
    sizes = ((10, 2000, 10), (50, 2000, 10)) if quick else ((10, 2000, 10), (50, 2000, 10), (50, 2000, 100))
    for members, n, classes in sizes:
        logits, labels = member_logits(members, n, classes)
        contestants = _contestants(logits, labels, threads)
        yield f"temperatures of {members} members, {n} x {classes}", contestants, "", ("torch L-BFGS", "SciPy L-BFGS-B")


def _contestants(logits: np.ndarray, labels: np.ndarray, threads: int) -> Contestants:
    predictions = cal.Classification.from_logits(logits, labels)
    return {
        "calibrant": lambda: MemberTemperatureScaling().fit(predictions, threads=threads),
        "torch L-BFGS": lambda: torch_fit(logits, labels),
        "SciPy L-BFGS-B": lambda: scipy_fit(logits, labels),
    }


def torch_fit(logits: np.ndarray, labels: np.ndarray) -> float:
    """The loss that L-BFGS with line search reaches in float32, the precision of the logits."""
    z, rows, y = torch.from_numpy(logits), torch.arange(len(labels)), torch.from_numpy(labels)
    theta = torch.zeros(len(logits), requires_grad=True)
    optimiser = torch.optim.LBFGS([theta], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        log_p = torch.log_softmax(z * theta.exp()[:, None, None], 2)[:, rows, y]
        value = float(np.log(len(z))) - torch.logsumexp(log_p, 0).mean()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return float(loss().detach())


def scipy_fit(logits: np.ndarray, labels: np.ndarray) -> float:
    """The loss that L-BFGS-B reaches with gradients in float64."""
    z, rows = logits.astype(np.float64), np.arange(len(labels))
    at_label = z[:, rows, labels]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        beta = np.exp(theta)
        scaled = beta[:, None, None] * z
        scaled -= scaled.max(axis=2, keepdims=True)
        log_p = scaled[:, rows, labels]
        e = np.exp(scaled, out=scaled)
        total = e.sum(axis=2)
        log_p -= np.log(total)
        mean = np.einsum("mnc,mnc->mn", e, z) / total
        top = logsumexp(log_p, axis=0)
        slope = (np.exp(log_p - top) * (at_label - mean)).mean(axis=1)
        return float(np.log(len(z)) - top.mean()), -beta * slope

    bounds = [(-BOUND, BOUND)] * len(z)
    options = {"maxiter": STEPS, "ftol": 1e-12, "gtol": 1e-8}
    return float(minimize(loss, np.zeros(len(z)), jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun)
