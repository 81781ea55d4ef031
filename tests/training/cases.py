"""Small tasks, networks and settings for the tests of training and of methods; and how far posteriors lie apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from calibrant.methods import DeepEnsemble, Task, Training
from calibrant.networks import MLP
from calibrant.networks.recipe import Recipe
from calibrant.networks.stack import Stack, initial_state
from calibrant.training.objectives import Objective
from calibrant.training.optimisers import ParameterGroup
from calibrant.training.schedules import Constant
from calibrant.training.seeds import seeded
from calibrant.training.task import Run

QUICK = Training(epochs=3, batch=16, rate=0.05, schedule=Constant(), precision="float64")
SMALL = MLP(4, 3, (6, 5))
CPU = torch.device("cpu")


def rows_of(*shape, seed=0):
    """Standard normal numbers in double precision."""
    return np.random.default_rng(seed).normal(size=shape)


def table(n=40, columns=4, classes=3, seed=0, **known):
    """Rows of a table whose class depends on the first columns."""
    x = rows_of(n, columns, seed=seed)
    y = (x[:, 0] > 0.3).astype(int) + (x[:, 1] > 0.2).astype(int)
    return Task.classification(torch.from_numpy(x), y % classes, classes=classes, **known)


def numbers(n=40, columns=4, seed=0, factor=1.0, shift=0.0, **known):
    """Rows of a table with a number each, far from zero."""
    x, noise = rows_of(n, columns, seed=seed), rows_of(n, seed=seed + 1)
    y = 3.0 * x[:, 0] - 2.0 * x[:, 1] ** 2 + 0.5 * noise + 10.0
    return Task.regression(torch.from_numpy(x), factor * y + shift, **known)


def images(n=24, channels=2, size=8, classes=3, seed=0, **known):
    """Images of bytes, brighter by their class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    x = rng.integers(0, 120, (n, channels, size, size)) + 40 * y[:, None, None, None]
    return Task.classification(x.astype(np.uint8), y, classes=classes, **known)


class Normalised(nn.Module):
    """A user's own network: a dense layer, batch normalisation, and the outputs."""

    def __init__(self, inputs=4, outputs=3, width=6):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.Linear(width, outputs)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


class Dropping(nn.Module):
    """A user's own network with dropout of its own, which does not stand before the last layer."""

    def __init__(self, inputs=4, outputs=3, rate=0.5, width=6):
        super().__init__()
        self.first, self.drop = nn.Linear(inputs, width), nn.Dropout(rate)
        self.second, self.last = nn.Linear(width, width), nn.Linear(width, outputs)

    def forward(self, x):
        return self.last(torch.relu(self.second(self.drop(torch.relu(self.first(x))))))


class Recurrent(nn.Module):
    """A user's own network with a layer that `torch.vmap` does not know."""

    def __init__(self, outputs=3):
        super().__init__()
        self.inner, self.last = nn.LSTM(1, 4, batch_first=True), nn.Linear(4, outputs)

    def forward(self, x):
        return self.last(self.inner(x[..., None])[0][:, -1])


class Tied(nn.Module):
    """A user's own network with two layers that share their weights."""

    def __init__(self, outputs=3):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, outputs)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))


class AdaptivePrior(Objective):
    """−log p plus w·½τ|θ|² with a weight w that rises, and a precision τ of each network that follows its weights."""

    scalars = ("weight",)

    def scalar_values(self, t, epochs):
        return {"weight": 0.02 * min(1.0, 2.0 * t)}

    def tensors(self, networks, dtype):
        return {"precision": torch.ones(networks, dtype=dtype), "squares": torch.zeros(networks, dtype=dtype)}

    def loss(self, step):
        squares = sum(value.flatten(1).square().sum(1) for value in step.parameters.values())
        step.tensors["squares"].copy_(squares.detach())
        return step.nll + 0.5 * step.scalars["weight"] * step.tensors["precision"] * squares

    def after_epoch(self, look, epoch, tensors):
        losses = torch.tensor(look.validate(), dtype=torch.float64) if epoch % 2 else torch.ones(look.networks)
        squares = tensors["squares"]
        tensors["precision"].copy_(losses.to(squares.device) * 10.0 / (1.0 + squares))


@dataclass(frozen=True)
class AdaptiveEnsemble(DeepEnsemble):
    """An ensemble with an objective that has a state of its own, and a slower last layer without decay."""

    name = "adaptive_ensemble"

    def objective(self, task):
        return AdaptivePrior()

    def parameter_groups(self, template):
        return [ParameterGroup("output.*", rate=0.5, decay=0.0)]


# -------------------------------------------------------------------------------------------- loops by hand
def stacked(task, architecture, runs, dropout=None, dtype=torch.float64):
    """A stack of fresh networks, one for each run."""
    recipe = Recipe(architecture, task.likelihood.outputs, task.shape, task.x.dtype, task.standardises, dropout)
    states = []
    for run in runs:
        with seeded(run.seed, run.member, "initial weights"):
            states.append(initial_state(recipe.network(), run.task.standardisation(dtype)))
    return Stack.of(recipe.template(), states, CPU, dtype), recipe


def runs_of(task, count=1, rate=0.05, decay=0.0, dropout=0.0, seed=0):
    """Runs that differ in their member alone."""
    return [Run(seed, member, task, rate, decay, dropout) for member in range(count)]


# ----------------------------------------------------------------------------------------------- distances
def apart(one, other):
    """The largest difference between what two posteriors keep; names and shapes must agree."""
    (a, _), (b, _) = one.state_dict(), other.state_dict()
    assert a.keys() == b.keys()
    assert all(a[name].shape == b[name].shape and a[name].dtype == b[name].dtype for name in a)
    gaps = [(a[name].double() - b[name].double()).abs().max().item() for name in a if a[name].numel()]
    return max(gaps)


def same_bits(one, other):
    """Whether two posteriors keep the same, to the last bit."""
    (a, _), (b, _) = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def nll(outputs, y):
    """The mean negative log-likelihood of logits (n, C)."""
    return nn.functional.cross_entropy(outputs.double(), torch.as_tensor(y)).item()
