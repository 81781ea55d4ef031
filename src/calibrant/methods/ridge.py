"""Bayesian ridge regression: a linear function with a normal prior; both precisions maximise the evidence.

u = w·z + b + ε, w ~ N(0, I/α), ε ~ N(0, 1/β), b with a flat prior, z and u standardised. Given α and β the posterior of
w is normal, with precision αI + βZᵀZ; α ← γ/|m|² and β ← (n − γ)/|u − Zm|², γ = Σ βλ/(α + βλ) over the eigenvalues λ
of ZᵀZ, are iterated until convergence. A member is one linear function, drawn from the posterior.

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
from calibrant.methods.base import TIMED_ROWS, Method, TrainingResult
from calibrant.methods.costs import with_cost
from calibrant.methods.posterior import About, WeightPosterior
from calibrant.networks.mlp import MLP
from calibrant.networks.recipe import Recipe
from calibrant.networks.stack import State
from calibrant.predictions import Regression
from calibrant.training.likelihoods import MIN_STD, FixedGaussian
from calibrant.training.seeds import stream
from calibrant.training.settings import check_count
from calibrant.training.task import Task

MAX_ITERATIONS, TOLERANCE = 500, 1e-10
WEIGHT, BIAS = "inner.output.weight", "inner.output.bias"


@dataclass(frozen=True)
class BayesianRidge(Method):
    """A linear function of the columns of a table; no network.

    Examples
    --------
    >>> from calibrant.methods import BayesianRidge, Task
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> BayesianRidge().fit(task)
    LinearPosterior('bayesian_ridge', any number of members, 'task', seed=0)
    """

    name: ClassVar[str] = "bayesian_ridge"
    trains_networks: ClassVar[bool] = False
    reference: ClassVar[str] = "MacKay (1992), Bayesian interpolation; Tipping (2001)"
    tasks: ClassVar[tuple[str, ...]] = ("gaussian", "fixed_gaussian")

    def fit(self, task: Task, network: Any = None, seed: int = 0, **ignored: Any) -> LinearPosterior:
        """Fit to a table; other arguments of `fit` have no effect."""
        unexpected = set(ignored) - {"device", "progress", "checkpoint", "together", "start", "train"}
        if network is not None or unexpected:
            got = ", ".join(sorted(unexpected)) or "a network"
            raise UsageError(
                self.name, expected="a task and a seed", got=got, hint="write BayesianRidge().fit(task, seed=0)"
            )
        if task.likelihood.name not in self.tasks:
            raise UsageError(self.name, expected="a regression task", got="classes", hint="use Task.regression(x, y)")
        if task.fields:
            hint = "pass one table as x"
            raise ShapeError(self.name, expected="x of shape (N, d)", got="a mapping", hint=hint)
        if task.x.dim() != 2:
            got, hint = f"shape {tuple(task.x.shape)}", "use x.reshape(len(x), -1)"
            raise ShapeError(self.name, expected="x of shape (N, d)", got=got, hint=hint)
        seed = check_count("seed", seed, least=0)
        begun = perf_counter()
        standardisation = replace(task, standardises=True).standardisation(torch.float64)
        rows = task.train.to(task.x.device)
        z = (task.x[rows].double().cpu() - standardisation["x_mean"]) / standardisation["x_std"]
        u = (task.y[rows].double().cpu() - standardisation["y_mean"]) / standardisation["y_std"]
        mean, covariance, noise = posterior_of(z.numpy(), u.numpy())
        recipe = Recipe(MLP(z.shape[1], 1, hidden=()), 1, task.shape, task.x.dtype)
        about = About(self.name, {}, task.name, task.n, (), perf_counter() - begun)
        posterior = LinearPosterior(
            torch.from_numpy(mean),
            torch.from_numpy(np.linalg.cholesky(covariance)),
            standardisation,
            recipe=recipe,
            likelihood=FixedGaussian(noise),
            seed=seed,
            about=about,
        )
        return with_cost(posterior, task.x[rows[:TIMED_ROWS]].cpu(), torch.device("cpu"), task.n)

    def posterior(self, trained: TrainingResult) -> LinearPosterior:
        """Not used: nothing is trained."""
        raise NotImplementedError


def posterior_of(z: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean (d + 1,) and covariance of the weights and the intercept, and the standard deviation of the noise."""
    n, d = z.shape
    values, vectors = np.linalg.eigh(z.T @ z)
    values = values.clip(min=0.0)
    projected = vectors.T @ (z.T @ u)
    alpha, beta = 1.0, 1.0 / max(float(u.var()), MIN_STD**2)
    for _ in range(MAX_ITERATIONS):
        m = beta * projected / (alpha + beta * values)
        gamma = float((beta * values / (alpha + beta * values)).sum())
        rest = float(np.square(u - z @ (vectors @ m)).sum())
        new = (
            float(np.clip(gamma / max(float(m @ m), 1e-300), 1e-12, 1e12)),
            float(np.clip(max(n - gamma, 1e-9) / max(rest, 1e-300), 0.0, MIN_STD**-2)),
        )
        converged = abs(new[0] - alpha) <= TOLERANCE * alpha and abs(new[1] - beta) <= TOLERANCE * beta
        alpha, beta = new
        if converged:
            break
    mean = vectors @ (beta * projected / (alpha + beta * values))
    covariance = np.zeros((d + 1, d + 1))
    covariance[:d, :d] = (vectors / (alpha + beta * values)) @ vectors.T
    covariance[d, d] = 1.0 / (beta * n)
    return np.append(mean, 0.0), covariance, float(beta**-0.5)


class LinearPosterior(WeightPosterior):
    """A normal distribution of the weights and the intercept of a linear function, with known noise."""

    kind: ClassVar[str] = "linear"

    def __init__(self, mean: Tensor, root: Tensor, standardisation: State, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mean, self.root, self.standardisation = mean, root, standardisation

    def tensors(self, k: int) -> State:
        """The k-th draw of the function."""
        weights = self.mean + self.root @ torch.randn(
            len(self.mean), generator=stream(self.seed, k, "ridge"), dtype=self.mean.dtype
        )
        return {**self.standardisation, WEIGHT: weights[None, :-1], BIAS: weights[-1:]}

    @property
    def max_members(self) -> None:
        """Any number."""

    def marginal(self, x: Any, y: Any = None, **kwargs: Any) -> Regression:
        """The exact predictive distribution: mean m·φ, variance σ² + φᵀΣφ."""
        rows = self._rows(x).double()
        z = (rows - self.standardisation["x_mean"]) / self.standardisation["x_std"]
        phi = torch.cat((z, torch.ones(len(z), 1, dtype=z.dtype)), dim=1)
        noise = self.likelihood.noise  # type: ignore[attr-defined]
        std = ((phi @ self.root).square().sum(1) + noise**2).sqrt() * self.standardisation["y_std"]
        mean = phi @ self.mean * self.standardisation["y_std"] + self.standardisation["y_mean"]
        kwargs.setdefault("name", self.about.method)
        return Regression.from_gaussian(mean.numpy(), std.numpy(), y, **kwargs)

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Mean, Cholesky factor of the covariance, and scales."""
        return {"mean": self.mean, "root": self.root, **self.standardisation}, {}

    @classmethod
    def from_state_dict(
        cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **kwargs: Any
    ) -> LinearPosterior:
        """The inverse of `state_dict`."""
        rest = dict(tensors)
        return cls(rest.pop("mean"), rest.pop("root"), rest, **kwargs)
