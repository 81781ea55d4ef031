"""Ensembles of last layers on one frozen backbone: the cheapest ensemble of a network that is already trained.

The last layer of each member is reinitialised and trained in its own order of rows; all others are shared, so that
they are computed once for all members. The members know nothing of the uncertainty of the features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant.errors import UsageError
from calibrant.methods.base import TIMED_ROWS
from calibrant.methods.costs import with_cost
from calibrant.methods.ensemble import DeepEnsemble
from calibrant.methods.posterior import Posterior, TensorGroups, WeightPosterior, WeightSamples
from calibrant.networks.stack import Stack, State
from calibrant.training.loop import Progress, TrainingLoop
from calibrant.training.seeds import seeded
from calibrant.training.settings import Training, resolve_device
from calibrant.training.task import Run, Task


def last_layer_ensemble(
    posterior: Posterior,
    task: Task,
    training: Training | None = None,
    members: int = 5,
    seed: int = 0,
    *,
    device: str | torch.device = "auto",
    progress: Progress | None = None,
) -> LastLayerPosterior:
    """Train several last layers on the frozen layers of one network.

    Parameters
    ----------
    posterior : Posterior
        One trained network: of `Vanilla().fit(…)` or of `posterior_of(…)`.
    task : Task
        The data to train the last layers on.
    training : Training, optional
        Epochs, optimiser and learning rate.
    members : int
        The number of last layers.
    seed : int
        Seed of their initial weights and orders of rows.
    device : str or torch.device
        "auto" uses a GPU if there is one.
    progress : callable, optional
        As in `Method.fit`.

    Returns
    -------
    LastLayerPosterior

    Examples
    --------
    >>> from calibrant.methods import Task, Training, Vanilla, last_layer_ensemble
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> training = Training(epochs=2, optimiser="adam", rate=0.01)
    >>> network = Vanilla(training).fit(task, MLP(1, 2, (4,)), device="cpu")
    >>> last_layer_ensemble(network, task, training, members=3, device="cpu")
    LastLayerPosterior('last_layer_ensemble', 3 members, 'task', seed=0)
    """
    if not isinstance(posterior, WeightSamples) or posterior.max_members != 1:
        hint = "pass the posterior of Vanilla(…).fit(…) or of posterior_of(module, task)"
        expected, got = "the posterior of one trained network", repr(posterior)
        raise UsageError("last_layer_ensemble", expected=expected, got=got, hint=hint)
    if (task.likelihood, task.shape, task.standardises) != (
        posterior.likelihood, posterior.recipe.shape, posterior.recipe.standardises,
    ):  # fmt: skip
        expected = f"a task like that of training: {posterior.likelihood}, rows of shape {posterior.recipe.shape}"
        got, hint = repr(task), "pass the task that the network was trained on"
        raise UsageError("last_layer_ensemble", expected=expected, got=got, hint=hint)
    method = DeepEnsemble(training or Training(epochs=20), members=members)
    where = resolve_device(device)
    recipe = replace(posterior.recipe, train="last")
    template = recipe.template()
    dtype = method.training.dtype
    runs = [Run(seed, k, task, method.training.rate, method.training.decay) for k in range(method.members)]
    states = []
    for run in runs:
        with seeded(run.seed, run.member, "last layer"):
            module = recipe.network().get_submodule(str(template.last))
            module.reset_parameters()
        fresh = {f"{template.last}.{name}": value.detach().clone() for name, value in module.named_parameters()}
        states.append({**posterior.tensors(0), **fresh})
    stack = Stack.of(template, states, where, dtype)
    identity = {"method": "last_layer_ensemble", "network": recipe.content(template)}
    history = TrainingLoop(stack, runs, method.training, method=identity).run(progress, None, "last_layer_ensemble")
    about = replace(
        posterior.about,
        method="last_layer_ensemble",
        settings={"training": method.training.settings(), "members": method.members, "network": posterior.about.method},
        history=tuple(history.of(k) for k in range(len(runs))),
        seconds=history.seconds,
        device=str(where),
        cost=None,
    )
    trained = [stack.state(k) for k in range(len(runs))]
    heads = [{name: state[name] for name in template.trained} for state in trained]
    shared = {name: value for name, value in trained[0].items() if name not in template.trained}
    made = LastLayerPosterior(
        shared, heads, recipe=posterior.recipe, likelihood=posterior.likelihood, seed=seed, about=about
    )
    rows = task.x[task.train[:TIMED_ROWS].to(task.x.device)].cpu()
    return with_cost(made, rows, where, sum(run["epochs"] for run in about.history) * task.n)


class LastLayerPosterior(WeightPosterior):
    """A network with several last layers."""

    kind: ClassVar[str] = "last_layers"
    shares_features = True

    def __init__(self, shared: State, heads: list[State], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shared, self.heads = shared, heads

    def tensors(self, k: int) -> State:
        """The network with the k-th last layer."""
        return {**self.shared, **self.heads[k]}

    @property
    def max_members(self) -> int:
        """The number of last layers."""
        return len(self.heads)

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The shared tensors, and each last layer."""
        groups = {"shared": self.shared} | {f"head{k}": each for k, each in enumerate(self.heads)}
        return TensorGroups(groups).flat(), {}

    @classmethod
    def from_state_dict(
        cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **kwargs: Any
    ) -> LastLayerPosterior:
        """The inverse of `state_dict`."""
        groups = TensorGroups.of(tensors)
        return cls(groups.groups["shared"], groups.numbered("head"), **kwargs)
