"""Every method in small settings, fitted once: for the contract of methods. A new method needs a line in SMALL."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from training.cases import numbers, table

from calibrant.methods import (
    SWAG,
    BatchEnsemble,
    BayesianRidge,
    CyclicalSGLD,
    DeepEnsemble,
    FastGeometricEnsemble,
    FixedGaussian,
    Laplace,
    LastLayerDropout,
    MCDropout,
    SnapshotEnsemble,
    Training,
    Vanilla,
)
from calibrant.networks import MLP
from calibrant.predictions import Classification

SHORT = Training(epochs=4, batch=16, rate=0.05, precision="float64")
SMALL = {
    "vanilla": lambda: Vanilla(SHORT),
    "mc_dropout": lambda: MCDropout(SHORT, p=0.2),
    "last_layer_dropout": lambda: LastLayerDropout(SHORT, p=0.2),
    "deep_ensemble": lambda: DeepEnsemble(SHORT, members=3),
    "snapshot_ensemble": lambda: SnapshotEnsemble(SHORT, cycles=2),
    "fge": lambda: FastGeometricEnsemble(SHORT, start=1, cycle=2),
    "swag": lambda: SWAG(SHORT, start=1, high=0.5, rank=2, draws=3),
    "csgld": lambda: CyclicalSGLD(SHORT, cycles=2, samples=1),
    "bayesian_ridge": lambda: BayesianRidge(),
    "laplace": lambda: Laplace(SHORT),
    "batch_ensemble": lambda: BatchEnsemble(SHORT, members=2),
}
"""Small settings of each method. A new one needs a line here, and in the sets below what is special about it."""
WITHOUT_NETWORK = {"bayesian_ridge"}
ALIKE = {"vanilla"}
"""Methods of a single member."""
TASKS = {
    "categorical": lambda **known: table(**known),
    "gaussian": lambda **known: numbers(**known),
    "fixed_gaussian": lambda **known: numbers(likelihood=FixedGaussian(0.5), **known),
}
HIDDEN = (24, 24)


def method_of(name):
    if name not in SMALL:
        pytest.fail(f"the method {name!r} has no small settings in SMALL of {__file__}: give it some")
    return SMALL[name]()


def network_of(name, task):
    return None if name in WITHOUT_NETWORK else MLP(4, task.likelihood.outputs, HIDDEN)


@cache
def task_of(kind):
    return TASKS[kind]()


@cache
def fitted(name, kind, seed=0):
    """A posterior, which no test may change."""
    task = task_of(kind)
    return method_of(name).fit(task, network_of(name, task), seed)


def members_of(made, max_members=4):
    return min(max_members, made.max_members or max_members)


def values(predictions):
    """What is predicted, as one array with the members first."""
    if isinstance(predictions, Classification):
        return predictions.scores
    return np.concatenate([predictions.mean, predictions.std], axis=1)
