"""What a method is: how its networks are trained, what is kept on the way, and the posterior that comes of it.

`fit` trains one cell. `fit_together` trains many, such as seeds, splits or a grid of hyper-parameters, as one
computation wherever they differ in nothing but seeds, rows, learning rates, decays and rates of dropout.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from calibrant.errors import UsageError, show
from calibrant.methods.costs import measured
from calibrant.methods.posterior import About, Posterior
from calibrant.networks.architecture import Architecture
from calibrant.networks.dropping import Dropout
from calibrant.networks.own import as_architecture
from calibrant.networks.recipe import Recipe, Template
from calibrant.networks.stack import Stack, State, fresh_state
from calibrant.training.loop import Loop, Noise, Progress, explaining
from calibrant.training.runs import Run
from calibrant.training.seeds import seeded
from calibrant.training.settings import Training, counted, device_of
from calibrant.training.task import Task, same_data
from calibrant.training.watching import Watcher

TIMED_ROWS = 256


@dataclass(frozen=True)
class Trained:
    """What training left of one cell: the states of its networks, what watchers kept of each, and how it went."""

    recipe: Recipe
    template: Template
    task: Task
    seed: int
    states: list[State]
    watched: list[list[Any]]
    about: About
    device: torch.device

    @property
    def known(self) -> dict[str, Any]:
        """The arguments that every posterior takes."""
        return {
            "recipe": self.recipe, "likelihood": self.task.likelihood, "seed": self.seed, "about": self.about,
            "template": self.template,
        }  # fmt: skip


@dataclass(frozen=True)
class Method(ABC):
    """A way to uncertainty. Fields are its settings; `training` says how its networks are trained."""

    name: ClassVar[str]
    reference: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]] = ("categorical", "gaussian", "fixed_gaussian")
    """The likelihoods that it knows."""
    trains_networks: ClassVar[bool] = True
    """Whether there is a network to be trained; a method without one overrides `fit`."""
    needs_all_epochs: ClassVar[bool] = False
    """Whether members come from along the way, so that no network may stop before its end."""

    training: Training = Training()  # noqa: RUF009 — frozen

    # ----------------------------------------------------------------------------- what methods say
    @property
    def networks(self) -> int:
        """How many networks are trained."""
        return 1

    @property
    def dropout(self) -> Dropout | None:
        """Where dropout stands, and how much."""
        return None

    def watchers(self) -> list[Watcher]:
        """Who looks at the networks while they are trained."""
        return []

    def noise(self, n: int) -> Noise | None:
        """Langevin noise of each epoch, for n training rows."""
        return None

    @abstractmethod
    def posterior(self, trained: Trained) -> Posterior:
        """What was trained, as a posterior."""

    # ------------------------------------------------------------------------------------- fitting
    def fit(
        self,
        task: Task,
        network: Any,
        seed: int = 0,
        *,
        device: str | torch.device = "auto",
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        together: int | None = None,
    ) -> Posterior:
        """Train on a task. network: an architecture, an `nn.Module` of your own, or a function that makes one.

        progress: a function that is told (what, epochs done, of how many).
        checkpoint: a folder in which training is kept after an epoch, unless that would take a twentieth of the time
        or more, and from which it goes on after a stop.
        together: how many networks are trained at a time; all of them unless memory is short.
        """
        cell = Cell(self, task, network, seed)
        return fit_together([cell], device=device, progress=progress, checkpoint=checkpoint, together=together)[0]

    def recipe(self, task: Task, network: Any) -> Recipe:
        """How its networks are made."""
        if self.needs_all_epochs and self.training.patience is not None:
            raise UsageError(
                self.name,
                expected="training to its end",
                came="it has patience",
                do="leave patience out of its training",
            )
        if task.likelihood.name not in self.tasks:
            raise UsageError(
                self.name,
                expected=f"a task with a likelihood among {', '.join(self.tasks)}",
                came=f"it is {task.likelihood.name}",
                do="choose another method",
            )
        return Recipe(
            as_architecture(network), task.likelihood.outputs, task.shape, task.x.dtype, task.standardises, self.dropout
        )

    def runs(self, task: Task, seed: int) -> list[Run]:
        """The trainings of its networks."""
        rate = 0.0 if self.dropout is None else self.dropout.rate
        return [
            Run(seed, member, task, self.training.rate, self.training.decay, rate) for member in range(self.networks)
        ]

    def settings(self) -> dict[str, Any]:
        """Its settings as JSON has them."""
        made = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _told(value) for name, value in made.items()}

    def common(self) -> str:
        """What cells that are trained together must agree on."""
        alike = replace(self, training=replace(self.training, rate=0.0, decay=0.0))
        told = alike.settings()
        if self.dropout is not None:
            told.pop("rate", None)
        return json.dumps([self.name, told], sort_keys=True)


def _told(value: Any) -> Any:
    if hasattr(value, "settings"):
        return value.settings()
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, eq=False)
class Cell:
    """One thing to be fitted: a method, a task, a network and a seed."""

    method: Method
    task: Task
    network: Any = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method) or not isinstance(self.method.training, Training):
            raise UsageError(
                "method",
                expected="a method, whose first argument is its training",
                came=f"got {show(self.method)}",
                do="DeepEnsemble(Training(epochs=30), members=5), for example",
            )
        if not isinstance(self.task, Task):
            raise UsageError(
                "task",
                expected="a Task, and a network",
                came=f"got {type(self.task).__name__}",
                do="Task.classification(x, y, classes=…) or Task.regression(x, y)",
            )
        object.__setattr__(self, "seed", counted("seed", self.seed, least=0))


# ------------------------------------------------------------------------------------------- many at once
def fit_together(
    cells: Sequence[Cell],
    *,
    device: str | torch.device = "auto",
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
    together: int | None = None,
    diverged: str = "raise",
) -> list[Posterior]:
    """A posterior for each cell, in their order.

    diverged: "raise" at a loss that is no number, or "keep" going with the others: `about.history` tells.
    """
    if diverged not in ("raise", "keep"):
        raise UsageError("diverged", expected="'raise' or 'keep'", came=f"got {show(diverged)}", do="choose one")
    together = None if together is None else counted("together", together)
    if not all(isinstance(cell, Cell) for cell in cells):
        raise UsageError(
            "cells", expected="a list of Cell", came="other things", do="Cell(method, task, network, seed)"
        )
    if progress is not None and not callable(progress):
        raise UsageError(
            "progress", expected="a function of what, done and total", came=f"got {show(progress)}", do="leave it out"
        )
    where = device_of(device)
    folder = None if checkpoint is None else Path(checkpoint)
    made: dict[int, Posterior] = {
        k: cell.method.fit(cell.task, cell.network, cell.seed)
        for k, cell in enumerate(cells)
        if not cell.method.trains_networks
    }
    for number, group in enumerate(_groups(cells)):
        place = None if folder is None else folder / f"group{number}"
        trained = _train([cells[k] for k in group], where, progress, place, together, diverged == "keep")
        with explaining(len(group), cells[group[0]].method.training, where):
            made |= dict(zip(group, _measured([cells[k] for k in group], trained), strict=True))
    return [made[k] for k in range(len(cells))]


def _groups(cells: Sequence[Cell]) -> Iterable[list[int]]:
    """Numbers of cells that one computation can serve."""
    groups: list[list[int]] = []
    for k, cell in enumerate(cells):
        if not cell.method.trains_networks:
            continue
        for group in groups:
            first = cells[group[0]]
            alike = cell.method.common() == first.method.common() and _same(cell.network, first.network)
            if alike and same_data([first.task, cell.task]):
                group.append(k)
                break
        else:
            groups.append([k])
    return groups


def _same(one: Any, other: Any) -> bool:
    """Whether two networks are one, or named alike."""
    return one is other or (isinstance(one, Architecture) and one == other)


def _train(
    cells: list[Cell],
    device: torch.device,
    progress: Progress | None,
    place: Path | None,
    together: int | None,
    tolerant: bool,
) -> list[Trained]:
    method = cells[0].method
    recipe = method.recipe(cells[0].task, cells[0].network)
    template = recipe.template()
    runs = [run for cell in cells for run in cell.method.runs(cell.task, cell.seed)]
    size = len(runs) if together is None else together
    states: list[State] = []
    watched: list[list[Any]] = []
    told: list[dict[str, Any]] = []
    seconds = 0.0
    for number, first in enumerate(range(0, len(runs), size)):
        part, watchers = runs[first : first + size], method.watchers()
        path = None if place is None else place / f"part{number}.safetensors"
        with explaining(len(part), method.training, device):
            fresh = [_fresh(recipe, run, method.training) for run in part]
            stack = Stack.of(template, fresh, device, method.training.dtype)
            noise = method.noise(part[0].task.n)
            told_of = {"name": method.name, **method.settings()}
            loop = Loop(stack, part, method.training, watchers=watchers, noise=noise, tolerant=tolerant, method=told_of)
            history = loop.run(progress, path, f"{method.name}, {len(part)} at once" if len(part) > 1 else method.name)
        states += [stack.state(k) for k in range(len(part))]
        watched += [[watcher.of(k) for watcher in watchers] for k in range(len(part))]
        told += [history.of(k) for k in range(len(part))]
        seconds += history.seconds
    return _parted(cells, template, states, watched, told, seconds, device)


def _fresh(recipe: Recipe, run: Run, training: Training) -> State:
    """A network as it is before training: drawn from its own stream, standardised by its own rows."""
    with seeded(run.seed, run.member, "initial weights"):
        network = recipe.network()
    return fresh_state(network, run.task.scales(training.dtype))


def _parted(
    cells: list[Cell],
    template: Template,
    states: list[State],
    watched: list[list[Any]],
    told: list[dict[str, Any]],
    seconds: float,
    device: torch.device,
) -> list[Trained]:
    """What belongs to each cell; seconds are shared out evenly."""
    made, at = [], 0
    for cell in cells:
        count = cell.method.networks
        part = slice(at, at + count)
        about = About(
            cell.method.name,
            cell.method.settings(),
            cell.task.name,
            cell.task.n,
            tuple(told[part]),
            seconds * count / len(states),
            str(device),
        )
        recipe = cell.method.recipe(cell.task, cell.network)  # rates of dropout may differ
        made.append(Trained(recipe, template, cell.task, cell.seed, states[part], watched[part], about, device))
        at += count
    return made


def _measured(cells: list[Cell], trained: list[Trained]) -> list[Posterior]:
    """The posteriors with their costs, measured on the first: cells of a group differ in nothing that costs."""
    made = [cell.method.posterior(each) for cell, each in zip(cells, trained, strict=True)]
    examples = [sum(run["epochs"] for run in each.about.history) * each.about.n for each in trained]
    task = cells[0].task
    rows = task.x[task.train[:TIMED_ROWS].to(task.x.device)].cpu()
    cost = measured(made[0], rows, trained[0].device, examples[0]).about.cost
    for posterior, count in zip(made[1:], examples[1:], strict=True):
        own = None if cost is None else replace(cost, training=posterior.about.seconds, examples=count)
        posterior.about = replace(posterior.about, cost=own)
    return made
