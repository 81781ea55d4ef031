"""Methods: how networks are trained, what is recorded meanwhile, and the posterior of the result.

`fit` trains one cell. `fit_together` trains many, such as seeds, splits or a hyper-parameter grid, as one computation
if they differ only in seeds, rows, learning rates, weight decays and dropout probabilities.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from calibrant.errors import UsageError, check_choice, show
from calibrant.methods.costs import with_cost
from calibrant.methods.posterior import About, Posterior
from calibrant.networks.architecture import Architecture
from calibrant.networks.content import content
from calibrant.networks.dropout import Dropout
from calibrant.networks.recipe import Recipe, Template
from calibrant.networks.stack import Stack, State, initial_state
from calibrant.networks.user_module import as_architecture
from calibrant.training.callbacks import Callback
from calibrant.training.loop import Noise, Progress, TrainingLoop, explain_out_of_memory
from calibrant.training.objectives import NegativeLogLikelihood, Objective
from calibrant.training.optimisers import ParameterGroup
from calibrant.training.seeds import seeded
from calibrant.training.settings import Training, check_count, resolve_device
from calibrant.training.task import Run, Task, same_data

TIMED_ROWS = 256
STORED_NAMES = {"p": "rate", "prior_precision": "prior"}
"""Fields of methods that have another name in posteriors and checkpoints."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of training one cell: network states, callback results of each network, and the training history."""

    recipe: Recipe
    template: Template
    task: Task
    seed: int
    states: list[State]
    callback_results: list[list[Any]]
    about: About
    device: torch.device

    @property
    def posterior_arguments(self) -> dict[str, Any]:
        """The arguments of every posterior."""
        return {
            "recipe": self.recipe, "likelihood": self.task.likelihood, "seed": self.seed, "about": self.about,
            "template": self.template,
        }  # fmt: skip


@dataclass(frozen=True)
class Method(ABC):
    """Base class of methods. Fields are the settings; `training` says how the networks are trained."""

    name: ClassVar[str]
    reference: ClassVar[str]
    version: ClassVar[int] = 1
    """Increased if a default or the meaning of a setting changes, so that checkpoints and stored results differ."""
    tasks: ClassVar[tuple[str, ...]] = ("categorical", "gaussian", "fixed_gaussian")
    """The supported likelihoods."""
    trains_networks: ClassVar[bool] = True
    """Whether networks are trained; other methods override `fit`."""
    needs_all_epochs: ClassVar[bool] = False
    """Whether members are recorded during training, so that no network may stop early."""

    training: Training = Training()  # noqa: RUF009 — frozen

    # ----------------------------------------------------------------------------- for subclasses
    @property
    def networks(self) -> int:
        """The number of networks to train."""
        return 1

    @property
    def dropout(self) -> Dropout | None:
        """The dropout of the networks."""
        return None

    def callbacks(self) -> list[Callback]:
        """Callbacks of the training loop."""
        return []

    def noise(self, n: int) -> Noise | None:
        """The Langevin noise of each epoch, for n training rows."""
        return None

    def objective(self, task: Task) -> Objective:
        """What a step minimises."""
        return NegativeLogLikelihood()

    def initial(self, recipe: Recipe, run: Run) -> torch.nn.Module:
        """A network of a run before training, from PyTorch's global random generator, which is seeded for it."""
        return recipe.network()

    def parameter_groups(self, template: Template) -> Sequence[ParameterGroup]:
        """Parameters with a learning rate or a weight decay of their own."""
        return ()

    @abstractmethod
    def posterior(self, trained: TrainingResult) -> Posterior:
        """The posterior of the trained networks."""

    # ------------------------------------------------------------------------------------- fitting
    def fit(
        self,
        task: Task,
        network: Any,
        seed: int = 0,
        *,
        start: str | None = None,
        train: str | Sequence[str] = "all",
        device: str | torch.device = "auto",
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        together: int | None = None,
    ) -> Posterior:
        """Train on a task.

        Parameters
        ----------
        task : Task
            The data and the likelihood.
        network : Architecture, nn.Module or callable
            An architecture, your own module with `start`, or a function that returns a new one.
        seed : int
            Seed of all random numbers.
        start : {"given", "fresh"}, optional
            "given" continues from the weights of an `nn.Module`, "fresh" reinitialises them; a module needs one of
            the two. Architectures and functions start fresh.
        train : {"all", "last"} or patterns
            Of a given network, the parameters to train: all that are not frozen, those of the last layer, or those
            whose names match patterns such as "head.*".
        device : str or torch.device
            "auto" uses a GPU if there is one.
        progress : callable, optional
            Called with (description, epochs done, epochs in total).
        checkpoint : str or Path, optional
            A folder for checkpoints, from which an interrupted training continues. Writing takes at most a twentieth of
            the training time.
        together : int, optional
            The number of networks trained at the same time; by default all. Lower it if memory is short.

        Returns
        -------
        Posterior
        """
        cell = Cell(self, task, network, seed, start, train if isinstance(train, str) else tuple(train))
        return fit_together([cell], device=device, progress=progress, checkpoint=checkpoint, together=together)[0]

    def recipe(
        self, task: Task, network: Any, start: str | None = None, train: str | tuple[str, ...] = "all"
    ) -> Recipe:
        """The construction of the networks; raises `UsageError` if the method cannot handle the task."""
        if self.needs_all_epochs and self.training.patience is not None:
            got, hint = f"patience={self.training.patience}", "use Training(patience=None)"
            raise UsageError(self.name, expected="training without early stopping", got=got, hint=hint)
        if task.likelihood.name not in self.tasks:
            expected, hint = f"a likelihood among {', '.join(self.tasks)}", "use another method for this task"
            raise UsageError(self.name, expected=expected, got=task.likelihood.name, hint=hint)
        recipe = Recipe(
            as_architecture(network, start),
            task.likelihood.outputs,
            task.shape,
            task.x.dtype,
            task.standardises,
            self.dropout,
            train,
            task.fields,
        )
        if recipe.given and task.standardises:
            expected = "a task with standardise=False, because the network takes x as it was trained"
            hint = "preprocess x as in the training of the network, and write standardise=False"
            raise UsageError("start='given'", expected=expected, got="one that standardises x", hint=hint)
        if train != "all" and not recipe.given:
            hint = "write start='given'"
            raise UsageError("train", expected="'all' for a network that starts fresh", got=repr(train), hint=hint)
        return recipe

    def runs(self, task: Task, seed: int) -> list[Run]:
        """One run per network."""
        p = 0.0 if self.dropout is None else self.dropout.p
        return [Run(seed, member, task, self.training.rate, self.training.decay, p) for member in range(self.networks)]

    def settings(self) -> dict[str, Any]:
        """The settings as JSON values, under the names of stored files."""
        values = {}
        for field in fields(self):
            value = getattr(self, field.name)
            value = value.settings() if hasattr(value, "settings") else value
            values[STORED_NAMES.get(field.name, field.name)] = list(value) if isinstance(value, tuple) else value
        return values

    def content(self) -> dict[str, Any]:
        """What identifies the method: name, version, and the settings that differ from their defaults.

        The training is not part of it.
        """
        found: dict[str, Any] = content(self, without=("training",))
        return found

    def common(self) -> str:
        """The settings that cells must share to be trained together, as text."""
        settings = replace(self, training=replace(self.training, rate=0.0, decay=0.0)).settings()
        if self.dropout is not None:
            settings.pop("rate", None)
        return json.dumps([self.name, settings], sort_keys=True)


@dataclass(frozen=True, eq=False)
class Cell:
    """One fit of `fit_together`: a method, a task, a network and a seed.

    Examples
    --------
    >>> from calibrant.methods import Cell, Task, Training, Vanilla
    >>> from calibrant.networks import MLP
    >>> task = Task.classification([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], classes=2)
    >>> cells = [Cell(Vanilla(Training(epochs=1)), task, MLP(1, 2, ()), seed) for seed in (0, 1)]
    """

    method: Method
    task: Task
    network: Any = None
    seed: int = 0
    start: str | None = None
    train: str | tuple[str, ...] = "all"

    def __post_init__(self) -> None:
        if not isinstance(self.train, str):
            object.__setattr__(self, "train", tuple(self.train))
        if not isinstance(self.method, Method) or not isinstance(self.method.training, Training):
            expected, hint = "a method with a Training", "write DeepEnsemble(Training(epochs=30), members=5)"
            raise UsageError("method", expected=expected, got=show(self.method), hint=hint)
        if not isinstance(self.task, Task):
            hint = "use Task.classification(x, y, classes=…) or Task.regression(x, y)"
            raise UsageError("task", expected="a Task", got=type(self.task).__name__, hint=hint)
        object.__setattr__(self, "seed", check_count("seed", self.seed, least=0))


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
    """Fit many cells, training similar ones as one computation.

    Parameters
    ----------
    cells : sequence of Cell
        Methods, tasks, networks and seeds.
    device, progress, checkpoint, together
        As in `Method.fit`.
    diverged : {"raise", "keep"}
        Raise `TrainingError` for a loss that is not finite, or continue with the other networks; then
        `posterior.about.history` shows which ones diverged.

    Returns
    -------
    list of Posterior
        One per cell, in their order.

    Examples
    --------
    >>> from calibrant.methods import Cell, Task, Training, Vanilla, fit_together
    >>> from calibrant.networks import MLP
    >>> task = Task.classification([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], classes=2)
    >>> fit_together([Cell(Vanilla(Training(epochs=1)), task, MLP(1, 2, ()), seed) for seed in (0, 1)], device="cpu")
    [WeightSamples('vanilla', 1 member, 'task', seed=0), WeightSamples('vanilla', 1 member, 'task', seed=1)]
    """
    check_choice("diverged", diverged, ("raise", "keep"))
    together = None if together is None else check_count("together", together)
    if not all(isinstance(cell, Cell) for cell in cells):
        hint = "write Cell(method, task, network, seed)"
        raise UsageError("cells", expected="a list of Cell", got="other objects", hint=hint)
    if progress is not None and not callable(progress):
        expected, hint = "a function of (description, done, total)", "use progress=None for none"
        raise UsageError("progress", expected=expected, got=show(progress), hint=hint)
    where = resolve_device(device)
    posteriors: dict[int, Posterior] = {}
    groups: list[list[int]] = []  # cells that one computation can train
    for k, cell in enumerate(cells):
        if not cell.method.trains_networks:
            posteriors[k] = cell.method.fit(cell.task, cell.network, cell.seed)
            continue
        for group in groups:
            first = cells[group[0]]
            same_method = cell.method.common() == first.method.common()
            equal = isinstance(cell.network, Architecture) and cell.network == first.network
            same_start = (cell.start, cell.train) == (first.start, first.train)
            if (
                same_method
                and same_start
                and (cell.network is first.network or equal)
                and same_data([first.task, cell.task])
            ):
                group.append(k)
                break
        else:
            groups.append([k])
    for number, group in enumerate(groups):
        folder = None if checkpoint is None else Path(checkpoint) / f"group{number}"
        members = [cells[k] for k in group]
        trained = _train(members, where, progress, folder, together, diverged == "keep")
        with explain_out_of_memory(len(group), members[0].method.training, where):
            fitted = [cell.method.posterior(each) for cell, each in zip(members, trained, strict=True)]
            examples = [sum(run["epochs"] for run in each.about.history) * each.about.n for each in trained]
            task = members[0].task
            rows = task.x[task.train[:TIMED_ROWS].to(task.x.device)].cpu()
            cost = with_cost(fitted[0], rows, where, examples[0]).about.cost  # the same for all cells of a group
            for posterior, count in zip(fitted[1:], examples[1:], strict=True):
                own = None if cost is None else replace(cost, training=posterior.about.seconds, examples=count)
                posterior.about = replace(posterior.about, cost=own)
        posteriors |= dict(zip(group, fitted, strict=True))
    return [posteriors[k] for k in range(len(cells))]


def scales_of(recipe: Recipe, task: Task, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The standardisation of x and y; none for a network that was given, which has its own units."""
    if not recipe.given:
        return task.standardisation(dtype)
    zero, one = torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)
    return {"x_mean": zero, "x_std": one, "y_mean": zero.double(), "y_std": one}


def _train(
    cells: list[Cell],
    device: torch.device,
    progress: Progress | None,
    folder: Path | None,
    together: int | None,
    tolerant: bool,
) -> list[TrainingResult]:
    """Train the networks of similar cells; the time is divided evenly among them."""
    method = cells[0].method
    recipe = method.recipe(cells[0].task, cells[0].network, cells[0].start, cells[0].train)
    template = recipe.template()
    runs = [run for cell in cells for run in cell.method.runs(cell.task, cell.seed)]
    size = len(runs) if together is None else together
    states: list[State] = []
    callback_results: list[list[Any]] = []
    histories: list[dict[str, Any]] = []
    seconds = 0.0
    for number, first in enumerate(range(0, len(runs), size)):
        part, callbacks = runs[first : first + size], method.callbacks()
        path = None if folder is None else folder / f"part{number}.safetensors"
        with explain_out_of_memory(len(part), method.training, device):
            initial = []
            for run in part:
                with seeded(run.seed, run.member, "initial weights"):
                    network = method.initial(recipe, run)
                initial.append(initial_state(network, scales_of(recipe, run.task, method.training.dtype)))
            stack = Stack.of(template, initial, device, method.training.dtype)
            loop = TrainingLoop(
                stack,
                part,
                method.training,
                callbacks=callbacks,
                noise=method.noise(part[0].task.n),
                objective=method.objective(part[0].task),
                groups=method.parameter_groups(template),
                tolerant=tolerant,
                method={"method": method.content(), "network": recipe.content(template)},
            )
            history = loop.run(progress, path, f"{method.name}, {len(part)} at once" if len(part) > 1 else method.name)
        states += [stack.state(k) for k in range(len(part))]
        callback_results += [[callback.of(k) for callback in callbacks] for k in range(len(part))]
        histories += [history.of(k) for k in range(len(part))]
        seconds += history.seconds
    results, at = [], 0
    for cell in cells:
        count = cell.method.networks
        part_of_cell = slice(at, at + count)
        about = About(
            cell.method.name,
            cell.method.settings(),
            cell.task.name,
            cell.task.n,
            tuple(histories[part_of_cell]),
            seconds * count / len(states),
            str(device),
        )
        own = cell.method.recipe(cell.task, cell.network, cell.start, cell.train)  # dropout probabilities may differ
        result = (states[part_of_cell], callback_results[part_of_cell])
        results.append(TrainingResult(own, template, cell.task, cell.seed, *result, about, device))
        at += count
    return results
