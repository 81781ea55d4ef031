"""Posteriors in safetensors files, with settings and metadata as JSON. Loading executes nothing from the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from calibrant.errors import CalibrantError, FileError, UsageError, plain, show
from calibrant.methods.posterior import About, Posterior, WeightPosterior
from calibrant.networks.architecture import Architecture, architecture_from
from calibrant.networks.dropout import Dropout
from calibrant.networks.fields import Field
from calibrant.networks.recipe import Recipe
from calibrant.networks.user_module import UserModule, as_architecture
from calibrant.training.files import read_tensors, write_tensors
from calibrant.training.likelihoods import likelihood_from

KIND = "posterior"
DTYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.uint8, torch.int8, torch.int16,
        torch.int32, torch.int64,
    )
}  # fmt: skip
"""Possible dtypes of x."""


def save(posterior: Posterior, path: Path) -> Path:
    """Write a posterior atomically."""
    tensors, stored = describe(posterior)
    write_tensors(path, KIND, tensors, stored)
    return path


def describe(posterior: Posterior) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors of a posterior, and everything else as JSON values."""
    tensors, settings = posterior.state_dict()
    recipe, dropout = posterior.recipe, posterior.recipe.dropout
    return tensors, {
        "kind": posterior.kind,
        "settings": settings,
        "seed": posterior.seed,
        "about": posterior.about.to_json(),
        "likelihood": posterior.likelihood.settings(),
        "architecture": {"name": recipe.architecture.name, "settings": recipe.architecture.settings()},
        "outputs": recipe.outputs,
        "shape": list(recipe.shape),
        "x_dtype": str(recipe.x_dtype).removeprefix("torch."),
        "standardises": recipe.standardises,
        "dropout": dropout and {"rate": dropout.p, "where": dropout.where},
        "fields": [[field.name, list(field.shape), field.whole] for field in recipe.fields],
    }


def restore(tensors: Mapping[str, torch.Tensor], stored: Mapping[str, Any], network: Any) -> Posterior:
    """The inverse of `describe`; network: the user's own, if the posterior is of one."""
    from calibrant.methods.registry import KINDS

    posterior = KINDS[stored["kind"]].from_state_dict(
        tensors,
        stored["settings"],
        recipe=_recipe(stored, network),
        likelihood=likelihood_from(stored["likelihood"]),
        seed=int(stored["seed"]),
        about=About.from_json(stored["about"]),
    )
    if isinstance(posterior, WeightPosterior):
        _check_weights(posterior)
    return posterior


def load(path: str | Path, network: Any = None) -> Posterior:
    """Load a posterior that `Posterior.save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.
    network : nn.Module or callable, optional
        Your own network, if the posterior is of one: files store weights, not code.

    Returns
    -------
    Posterior

    Examples
    --------
    >>> import tempfile
    >>> from calibrant.methods import BayesianRidge, Task, load
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> load(BayesianRidge().fit(task).save(tempfile.mkdtemp() + "/ridge.safetensors"))
    LinearPosterior('bayesian_ridge', any number of members, 'task', seed=0)
    """
    from calibrant.methods.registry import KINDS

    tensors, stored = read_tensors(Path(path), KIND)
    if str(stored.get("kind")) not in KINDS:
        got, hint = show(stored.get("kind")), "register your own kind in calibrant.methods.registry.KINDS"
        raise FileError(str(path), expected=f"one of the kinds {', '.join(sorted(KINDS))}", got=got, hint=hint)
    try:
        return restore(tensors, stored, network)
    except CalibrantError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, OverflowError) as error:
        got, hint = f"missing or invalid parts ({plain(str(error), 80)})", "save the posterior again"
        raise FileError(str(path), expected="a complete posterior", got=got, hint=hint) from error


def _recipe(stored: Mapping[str, Any], network: Any) -> Recipe:
    name = stored["architecture"]["name"]
    if name == UserModule.name and network is None:
        hint = "write load(path, network=MyNetwork(...)): files store weights, not code"
        raise UsageError("load", expected="your own network, which this posterior belongs to", got="none", hint=hint)
    architecture = (
        as_architecture(network, None if isinstance(network, Architecture) else "given")
        if network is not None
        else architecture_from(name, stored["architecture"]["settings"])
    )
    dropout = stored["dropout"] and Dropout(stored["dropout"]["rate"], stored["dropout"]["where"])
    return Recipe(
        architecture,
        int(stored["outputs"]),
        tuple(stored["shape"]),
        DTYPES[stored["x_dtype"]],
        bool(stored["standardises"]),
        dropout,
        fields=tuple(Field(name, tuple(shape), bool(whole)) for name, shape, whole in stored.get("fields", ())),
    )


def _check_weights(posterior: WeightPosterior) -> None:
    """Raise `FileError` for weights that do not fit the network, and predict one row as a test."""
    tensors = posterior.tensors(0)
    for name, value in posterior.template.module.named_parameters():
        if name not in tensors or tensors[name].shape != value.shape:
            got = f"shape {tuple(tensors[name].shape)}" if name in tensors else "none"
            hint = "pass the network it was saved with"
            raise FileError(f"weight {name}", expected=f"shape {tuple(value.shape)}", got=got, hint=hint)
    rows = torch.zeros((1, *posterior.recipe.shape), dtype=posterior.recipe.x_dtype)
    posterior.outputs(posterior._rows(rows), 1, device="cpu")  # of zeros, which need not have finite outputs
