"""The two models of the experiment: an ensemble of conditional Gaussians, and one network with dropout.

All seeds of a model are trained as one computation. PyTorch is loaded when a function is called.

References: Gopal (2021), appendix F; Lakshminarayanan et al. (2017); Gal & Ghahramani (2016).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.bench.gopal.data import ALONG, GRID, IN, TRAIN, draw
from calibrant.bench.gopal.plan import Plan
from calibrant.bench.gopal.readings import ENSEMBLE
from calibrant.bench.recipes import Progress
from calibrant.predictions.regression import Regression

if TYPE_CHECKING:
    from calibrant.methods import Method, Posterior


def trained(
    plan: Plan, model: str, *, device: str = "auto", progress: Progress | None = None, checkpoint: Path | None = None
) -> list[Posterior]:
    """The posterior of each seed. checkpoint: a folder from which training goes on after a stop."""
    from calibrant.methods import Cell, Task, fit_together
    from calibrant.networks import MLP

    parts = [draw(seed, TRAIN, plan.rows) for seed in range(plan.seeds)]
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
    every = Task.regression(as_rows(x), y, name="gopal-table1")
    tasks = [every.with_rows(np.arange(seed * plan.rows, (seed + 1) * plan.rows)) for seed in range(plan.seeds)]
    method, network = method_of(plan, model), MLP(1, 2, plan.hidden, plan.activation)
    cells = [Cell(method, task, network, seed) for seed, task in enumerate(tasks)]
    return fit_together(cells, device=device, progress=progress, checkpoint=checkpoint)


def method_of(plan: Plan, model: str) -> Method:
    """How a model is trained: Adam, a rate that is halved, no decay."""
    from calibrant.methods import DeepEnsemble, MCDropout, Training
    from calibrant.training.schedules import Halving

    training = Training(
        epochs=plan.epochs, batch=plan.batch, optimiser="adam", rate=plan.rate, decay=0.0,
        schedule=Halving(plan.halved_every), clip=plan.clip,
    )  # fmt: skip
    if model == ENSEMBLE:
        return DeepEnsemble(training, members=plan.members)
    return MCDropout(training, rate=plan.dropout, where="dense")


def predicted(plan: Plan, posterior: Any, purpose: str, seed: int, *, model: str, device: str = "auto") -> Regression:
    """A Gaussian of each member for the rows of a purpose, or without outcomes along the grid."""
    x, y = (GRID, None) if purpose == ALONG else rows_of(plan, purpose, seed)
    count = plan.members if model == ENSEMBLE else plan.masks
    made: Regression = posterior.predict(as_rows(x), count, y=y, device=device, columns={"x": x})
    return made


def rows_of(plan: Plan, purpose: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """x and y that predictions are checked on."""
    rows = draw(seed, purpose, plan.rows_in if purpose == IN else plan.rows_out)
    return rows.x, rows.y


def as_rows(x: np.ndarray) -> np.ndarray:
    """x (n,) as rows (n, 1) of a network."""
    return x[:, None].astype(np.float32)
