"""Posteriors of networks that were trained elsewhere: one network, or several as an ensemble.

Nothing is trained and no weight is changed. The networks take x as they did in their training and predict y in its own
units, so that the task must not standardise x.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.errors import UsageError, show
from calibrant.methods.base import TIMED_ROWS, scales_of
from calibrant.methods.costs import with_cost
from calibrant.methods.ensemble import Vanilla
from calibrant.methods.posterior import About, WeightSamples
from calibrant.networks.architecture import Architecture
from calibrant.networks.stack import State, initial_state
from calibrant.networks.user_module import UserModule
from calibrant.training.task import Task


def posterior_of(
    networks: Any, task: Task, states: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]] | None = None
) -> WeightSamples:
    """The posterior of trained networks: a single one, or an ensemble.

    Parameters
    ----------
    networks : nn.Module, sequence of nn.Module, callable or Architecture
        Trained modules of one kind; or, with `states`, how to build one.
    task : Task
        The task of their training, with standardise=False: modules take x as it is, and predict y in its units.
    states : mapping or sequence of mappings, optional
        State dicts of the networks, as `torch.load(path, weights_only=True)` reads them.

    Returns
    -------
    WeightSamples
        For `predict`, and for `Laplace(...).around`, `augmented` and `mixture`.

    Examples
    --------
    >>> import torch
    >>> from calibrant.methods import Laplace, Task, posterior_of
    >>> x, y = torch.randn(20, 3), torch.arange(20) % 2
    >>> task = Task.classification(x, y, classes=2, standardise=False)
    >>> trained = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> posterior_of(trained, task)
    WeightSamples('given', 1 member, 'task', seed=0)
    >>> Laplace(prior_precision=1.0).around(posterior_of(trained, task), task, device="cpu")
    LaplacePosterior('laplace', any number of members, 'task', seed=0)
    """
    if not isinstance(task, Task):
        hint = "use Task.classification(x, y, classes=…, standardise=False)"
        raise UsageError("posterior_of", expected="a task", got=show(task), hint=hint)
    modules = _modules(networks, states)
    recipe = Vanilla().recipe(task, modules[0], "given")
    template = recipe.template()
    tensors: list[State] = []
    for k, module in enumerate(modules):
        own = replace(recipe, architecture=UserModule(module, "given")).network()
        dtype = next((value.dtype for value in own.parameters() if value.is_floating_point()), torch.float32)
        state = initial_state(own, scales_of(recipe, task, dtype))
        _check_same(k, state, tensors[0] if tensors else state)
        tensors.append(state)
    name = "given" if len(tensors) == 1 else "given_ensemble"
    about = About(name, {}, task.name, task.n)
    posterior = WeightSamples(
        tensors, recipe=recipe, likelihood=task.likelihood, seed=0, about=about, template=template
    )
    rows = task.x[task.train[:TIMED_ROWS].to(task.x.device)].cpu()
    return with_cost(posterior, rows, torch.device("cpu"), 0)


def _modules(networks: Any, states: Any) -> list[nn.Module]:
    """The trained modules, with the weights of `states` if there are any."""
    if states is None:
        modules = list(networks) if isinstance(networks, list | tuple) else [networks]
        if not modules or not all(isinstance(each, nn.Module) for each in modules):
            expected = "a trained nn.Module, several in a list, or states= with the weights"
            hint = "write posterior_of(module, task), or posterior_of(build, task, states=[…])"
            raise UsageError("posterior_of", expected=expected, got=show(networks), hint=hint)
        return modules
    found = []
    for state in [states] if isinstance(states, Mapping) else list(states):
        if isinstance(networks, Architecture):
            module = networks.build()
        else:
            module = copy.deepcopy(networks) if isinstance(networks, nn.Module) else networks()
        try:
            module.load_state_dict(state)
        except (RuntimeError, AttributeError, TypeError) as error:
            text = " ".join(str(error).split())[:160]
            hint = "pass the network that these weights were trained in"
            expected = f"the weights of {type(module).__name__}"
            raise UsageError("states", expected=expected, got=f"others: {text}", hint=hint) from error
        found.append(module)
    if not found:
        hint = "pass at least one state dict"
        raise UsageError("states", expected="state dicts", got="none", hint=hint)
    return found


def _check_same(k: int, state: State, first: State) -> None:
    """Raise `UsageError` for networks of another kind than the first."""
    for name in sorted(state.keys() | first.keys()):
        shapes = [tuple(each[name].shape) if name in each else None for each in (first, state)]
        if shapes[0] != shapes[1]:
            got = f"{name.removeprefix('inner.')} of shape {shapes[1]} in network {k}, {shapes[0]} in the first"
            hint = "mix posteriors of different networks with methods.mixture"
            raise UsageError("posterior_of", expected="networks of one kind", got=got, hint=hint)
