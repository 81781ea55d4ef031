"""Calibrated log-likelihood of the first k members of an ensemble, beside torch with SciPy's Brent.

The other is written as one would who cares for speed: the mean of probabilities is kept from member to member, its
logarithm is taken once for each k, and each of the ten halves is fitted by Brent's method between bounds over
log-softmax in float32. Its temperatures are those of float32; ours have a gradient of 1e-8 in float64.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from scipy.optimize import minimize_scalar

import calibrant as cal
from benchmarks.calibration import Line
from benchmarks.data import SIZES, member_logits
from calibrant.comparison.split_temperatures import splits_of

MEMBERS, REPEATS = 50, 5
BUDGET = 30.0
SLOW = ("torch + Brent",)
BOUND = float(np.log(64.0))


def workloads(threads: int, quick: bool) -> Iterator[Line]:
    """Name, contestants, goal, and whom the goal speaks of."""
    members = 10 if quick else MEMBERS
    logits, labels = member_logits(members, *SIZES["B"])
    predictions = cal.Classification.from_logits(logits, labels)
    half = splits_of(len(labels), repeats=REPEATS).half
    contestants = {
        "calibrant": lambda: cal.comparison.cll_curve(predictions, repeats=REPEATS, threads=threads),
        "torch + Brent": lambda: brent_curve(logits, labels, half),
    }
    yield f"CLL of the first k = 1 … {members} members, B", contestants, "12", ("torch + Brent",)


def brent_curve(logits: np.ndarray, labels: np.ndarray, half: np.ndarray) -> list[float]:
    """CLL of the first k members, for every k."""
    z, y = torch.from_numpy(logits), torch.from_numpy(labels)
    sides = [(torch.from_numpy(np.flatnonzero(h == 0)), torch.from_numpy(np.flatnonzero(h == 1))) for h in half]
    total, out = torch.zeros_like(z[0]), []
    for k in range(len(z)):
        total += torch.softmax(z[k], 1)
        logs = torch.log(total / (k + 1) + 1e-37)
        out.append(float(np.mean([_both_ways(logs, y, *side) for side in sides])))
    return out


def _both_ways(logs: torch.Tensor, y: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> float:
    halves = [(logs[rows], y[rows]) for rows in (first, second)]
    losses = [_loss(*halves[1 - h], _best(*halves[h])) * len(halves[1 - h][1]) for h in (0, 1)]
    return -sum(losses) / len(y)


def _loss(logs: torch.Tensor, y: torch.Tensor, x: float) -> float:
    return float(torch.nn.functional.nll_loss(torch.log_softmax(logs * float(np.exp(x)), 1), y))


def _best(logs: torch.Tensor, y: torch.Tensor) -> float:
    return float(minimize_scalar(lambda x: _loss(logs, y, x), bounds=(-BOUND, BOUND), method="bounded").x)
