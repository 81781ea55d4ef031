"""Shares of the exact variance that Kronecker-factored Laplace approximations keep: `python -m evidence.kfac_damping`.

The total variance of each layer's weights by eigenvalue damping and by factored damping, over that of the layer's exact
block of the generalised Gauss-Newton matrix plus τI, in a network of three classes trained on 600 rows.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from calibrant.methods import Task, Training, Vanilla
from calibrant.methods.laplace_curvature import Curvature, curvature_of
from calibrant.methods.laplace_layers import drawn_layers
from calibrant.networks import MLP


def total_variance(curvature: Curvature, prior: float, n: int, name: str) -> float:
    """The trace of the covariance of one layer's weights."""
    root = curvature.covariance_root(prior, n)
    shape = curvature.shapes[name]
    zeros = {other: torch.zeros(size, dtype=torch.float64) for other, size in curvature.shapes.items()}
    units = torch.eye(math.prod(shape), dtype=torch.float64).view(-1, *shape)
    return sum(float(curvature.deviations(root, {**zeros, name: z})[name].square().sum()) for z in units)


def main() -> None:
    """Print a table."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 5))
    y = (x[:, 0] * x[:, 1] > 0).astype(int) + (x[:, 2] > 0.5)
    task = Task.classification(x, y, classes=3)
    training = Training(epochs=60, batch=64, rate=0.05, decay=1e-3, precision="float64")
    posterior = Vanilla(training).fit(task, MLP(5, 3, (16, 12)), device="cpu")
    template, state, prior = posterior.template, posterior.tensors(0), task.n * training.decay
    names, cpu = drawn_layers(template, "all", "full"), torch.device("cpu")
    full, kfac, factored = (
        curvature_of(structure, names, template, state, task, task.train, cpu)
        for structure in ("full", "kfac", "kfac_factored")
    )
    offset = 0
    print("| layer | eigenvalue damping | factored damping |\n| --- | ---: | ---: |")
    for name in names:
        size = math.prod(full.shapes[name])
        block = full.matrix[offset : offset + size, offset : offset + size]
        exact = float((block + prior * torch.eye(size, dtype=torch.float64)).inverse().trace())
        shares = [total_variance(each, prior, task.n, name) / exact for each in (kfac, factored)]
        print(f"| {name.removeprefix('inner.')} | {shares[0]:.2f} | {shares[1]:.2f} |")
        offset += size


if __name__ == "__main__":
    main()
