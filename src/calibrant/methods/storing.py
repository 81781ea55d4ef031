"""Posteriors in files: one safetensors file each, with what is known of it as JSON. Nothing in it is executed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from calibrant.errors import CalibrantError, FileError, UsageError, plain, show
from calibrant.methods.posterior import About, Posterior
from calibrant.networks.architecture import architecture_from
from calibrant.networks.dropping import Dropout
from calibrant.networks.own import Own, as_architecture
from calibrant.networks.recipe import Recipe
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
"""What a row of x may be made of."""


def save(posterior: Posterior, path: Path) -> Path:
    """Write a posterior, whole or not at all."""
    tensors, settings = posterior.kept()
    recipe = posterior.recipe
    told = {
        "kind": posterior.kind,
        "settings": settings,
        "seed": posterior.seed,
        "about": posterior.about.told(),
        "likelihood": posterior.likelihood.settings(),
        "architecture": {"name": recipe.architecture.name, "settings": recipe.architecture.settings()},
        "outputs": recipe.outputs,
        "shape": list(recipe.shape),
        "x_dtype": str(recipe.x_dtype).removeprefix("torch."),
        "standardises": recipe.standardises,
        "dropout": None if recipe.dropout is None else vars(recipe.dropout),
    }
    write_tensors(path, KIND, tensors, told)
    return path


def load(path: str | Path, network: Any = None) -> Posterior:
    """The posterior that a file holds. network: your own, where the posterior is of one."""
    from calibrant.methods.kinds import KINDS

    tensors, told = read_tensors(Path(path), KIND)
    if str(told.get("kind")) not in KINDS:
        raise FileError(
            str(path),
            expected=f"one of the kinds {', '.join(sorted(KINDS))}",
            came=f"it is {show(told.get('kind'))}",
            do="enter the kind of your own in calibrant.methods.kinds.KINDS",
        )
    try:
        kind = KINDS[told["kind"]]
        known = {
            "recipe": _recipe(told, network),
            "likelihood": likelihood_from(told["likelihood"]),
            "seed": int(told["seed"]),
            "about": About.of(told["about"]),
        }
        made = kind.of_kept(tensors, told["settings"], **known)
        _try(made)
    except CalibrantError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, OverflowError) as error:
        raise FileError(
            str(path),
            expected="a whole posterior",
            came=f"a part of it is missing or odd ({plain(str(error), 80)})",
            do="save it again",
        ) from error
    return made


def _recipe(told: Mapping[str, Any], network: Any) -> Recipe:
    name = told["architecture"]["name"]
    if name == Own.name and network is None:
        raise UsageError(
            "load",
            expected="the network of your own that this posterior belongs to",
            came="none was given",
            do="load(path, network=MyNetwork(...)): files hold weights, not programs",
        )
    made = (
        as_architecture(network) if network is not None else architecture_from(name, told["architecture"]["settings"])
    )
    dropout = None if told["dropout"] is None else Dropout(**told["dropout"])
    return Recipe(
        made, int(told["outputs"]), tuple(told["shape"]), DTYPES[told["x_dtype"]], bool(told["standardises"]), dropout
    )


def _try(posterior: Posterior) -> None:
    """Refuse weights that are not those of the network, and a posterior that cannot predict a row."""
    tensors = posterior.tensors(0)
    for name, value in posterior.template.module.named_parameters():
        if name not in tensors or tensors[name].shape != value.shape:
            came = f"shape {tuple(tensors[name].shape)}" if name in tensors else "it is missing"
            raise FileError(
                f"weight {name}",
                expected=f"shape {tuple(value.shape)}",
                came=came,
                do="give the network it was saved with",
            )
    rows = torch.zeros((1, *posterior.recipe.shape), dtype=posterior.recipe.x_dtype)
    posterior.predict(rows, 1, device="cpu")
