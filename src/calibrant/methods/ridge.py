"""Bayesian ridge regression: a linear function with a normal prior, its two precisions by the largest evidence.

u = w·z + b + ε, w ~ N(0, I/α), ε ~ N(0, 1/β), b with a flat prior, z and u standardised. Given α and β the posterior of
w is normal, with precision αI + βZᵀZ; α ← γ/|m|² and β ← (n − γ)/|u − Zm|², γ = Σ βλ/(α + βλ) over the eigenvalues λ
of ZᵀZ, are repeated until they settle. A member is one linear function, drawn from the posterior.

References: MacKay (1992), Neural Computation 4: 415-447; Tipping (2001), JMLR 1: 211-244.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from calibrant.errors import ShapeError, UsageError
from calibrant.methods.base import TIMED_ROWS, Method, Trained
from calibrant.methods.costs import measured
from calibrant.methods.posterior import About, Posterior
from calibrant.networks.mlp import MLP
from calibrant.networks.recipe import Recipe
from calibrant.networks.stack import State
from calibrant.predictions import Regression
from calibrant.training.likelihoods import LEAST_STD, FixedGaussian
from calibrant.training.seeds import stream
from calibrant.training.settings import counted
from calibrant.training.task import Task

MOST_TURNS, SETTLED = 500, 1e-10
WEIGHT, BIAS = "inner.output.weight", "inner.output.bias"


@dataclass(frozen=True)
class BayesianRidge(Method):
    """A linear function of the columns of a table; no network, and nothing to train."""

    name: ClassVar[str] = "bayesian_ridge"
    trains_networks: ClassVar[bool] = False
    reference: ClassVar[str] = "MacKay (1992), Bayesian interpolation; Tipping (2001)"
    tasks: ClassVar[tuple[str, ...]] = ("gaussian", "fixed_gaussian")

    def fit(self, task: Task, network: Any = None, seed: int = 0, **ignored: Any) -> LinearPosterior:
        """The posterior of a table of numbers. network: None, there is no choice; where it runs does not matter."""
        _check(self, task, network, ignored)
        seed = counted("seed", seed, least=0)
        begun = perf_counter()
        scales = replace(task, standardises=True).scales(torch.float64)
        rows = task.train.to(task.x.device)
        z = (task.x[rows].double().cpu() - scales["x_mean"]) / scales["x_std"]
        u = (task.y[rows].double().cpu() - scales["y_mean"]) / scales["y_std"]
        mean, covariance, noise = posterior_of(z.numpy(), u.numpy())
        recipe = Recipe(MLP(z.shape[1], 1, hidden=()), 1, task.shape, task.x.dtype)
        about = About(self.name, {}, task.name, task.n, (), perf_counter() - begun)
        made = LinearPosterior(
            torch.from_numpy(mean),
            torch.from_numpy(np.linalg.cholesky(covariance)),
            scales,
            recipe=recipe,
            likelihood=FixedGaussian(noise),
            seed=seed,
            about=about,
        )
        return measured(made, task.x[rows[:TIMED_ROWS]].cpu(), torch.device("cpu"), task.n)

    def posterior(self, trained: Trained) -> LinearPosterior:
        """Never asked for: nothing is trained."""
        raise NotImplementedError


def _check(method: BayesianRidge, task: Task, network: Any, ignored: Mapping[str, Any]) -> None:
    odd = set(ignored) - {"device", "progress", "checkpoint", "together"}
    if network is not None or odd:
        raise UsageError(
            method.name,
            expected="a task and a seed",
            came=f"got {', '.join(sorted(odd)) or 'a network'} too",
            do="leave it out: the function is linear",
        )
    if task.likelihood.name not in method.tasks:
        raise UsageError(method.name, expected="numbers y", came="classes", do="use a network for classes")
    if task.x.dim() != 2:
        raise ShapeError(method.name, expected="x (N, d)", came=f"{tuple(task.x.shape)}", do="flatten rows to columns")


def posterior_of(z: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean (d + 1,) and covariance of the weights and the intercept, and the standard deviation of the noise."""
    n, d = z.shape
    values, vectors = np.linalg.eigh(z.T @ z)
    values = values.clip(min=0.0)
    turned = vectors.T @ (z.T @ u)
    alpha, beta = 1.0, 1.0 / max(float(u.var()), LEAST_STD**2)
    for _ in range(MOST_TURNS):
        m = beta * turned / (alpha + beta * values)
        gamma = float((beta * values / (alpha + beta * values)).sum())
        rest = float(np.square(u - z @ (vectors @ m)).sum())
        new = (
            float(np.clip(gamma / max(float(m @ m), 1e-300), 1e-12, 1e12)),
            float(np.clip(max(n - gamma, 1e-9) / max(rest, 1e-300), 0.0, LEAST_STD**-2)),
        )
        settled = abs(new[0] - alpha) <= SETTLED * alpha and abs(new[1] - beta) <= SETTLED * beta
        alpha, beta = new
        if settled:
            break
    mean = vectors @ (beta * turned / (alpha + beta * values))
    covariance = np.zeros((d + 1, d + 1))
    covariance[:d, :d] = (vectors / (alpha + beta * values)) @ vectors.T
    covariance[d, d] = 1.0 / (beta * n)
    return np.append(mean, 0.0), covariance, float(beta**-0.5)


class LinearPosterior(Posterior):
    """A normal law of the weights and the intercept of a linear function, and noise that is known."""

    kind: ClassVar[str] = "linear"

    def __init__(self, mean: Tensor, root: Tensor, scales: State, **known: Any) -> None:
        super().__init__(**known)
        self.mean, self.root, self.scales = mean, root, scales

    def tensors(self, k: int) -> State:
        """The k-th draw of the function."""
        drawn = self.mean + self.root @ torch.randn(
            len(self.mean), generator=stream(self.seed, k, "ridge"), dtype=self.mean.dtype
        )
        return {**self.scales, WEIGHT: drawn[None, :-1], BIAS: drawn[-1:]}

    @property
    def most(self) -> None:
        """As many as one likes."""

    def marginal(self, x: Any, y: Any = None, **known: Any) -> Regression:
        """The exact prediction, all functions together: mean m·φ, variance σ² + φᵀΣφ."""
        rows = self._rows(x).double()
        z = (rows - self.scales["x_mean"]) / self.scales["x_std"]
        phi = torch.cat((z, torch.ones(len(z), 1, dtype=z.dtype)), dim=1)
        noise = self.likelihood.noise  # type: ignore[attr-defined]
        std = ((phi @ self.root).square().sum(1) + noise**2).sqrt() * self.scales["y_std"]
        mean = phi @ self.mean * self.scales["y_std"] + self.scales["y_mean"]
        known.setdefault("name", self.about.method)
        return Regression.from_gaussian(mean.numpy(), std.numpy(), y, **known)

    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Mean, root of the covariance, and scales."""
        return {"mean": self.mean, "root": self.root, **self.scales}, {}

    @classmethod
    def of_kept(cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **known: Any) -> LinearPosterior:
        """As a file held it."""
        rest = dict(tensors)
        return cls(rest.pop("mean"), rest.pop("root"), rest, **known)
