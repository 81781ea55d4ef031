"""Predictions from torch.distributions and ArviZ objects, without importing these libraries."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from calibrant.errors import ShapeError, UsageError, check_range, did_you_mean, show
from calibrant.predictions.arrays import as_floats

CHAINS = ("chain", "draw")


# --------------------------------------------------------------------------------- torch.distributions
def normal_parameters(distribution: Any) -> tuple[np.ndarray, np.ndarray]:
    """Location and scale of a Normal, alone or inside Independent."""
    base = getattr(distribution, "base_dist", distribution)
    if type(distribution).__name__ not in ("Normal", "Independent") or type(base).__name__ != "Normal":
        expected, got = "a torch Normal, or samples=S for any other distribution", type(distribution).__name__
        raise UsageError("from_torch", expected=expected, got=got, hint="pass samples=1000")
    shape = tuple(base.batch_shape)
    return as_floats(base.loc.expand(shape), "loc"), as_floats(base.scale.expand(shape), "scale")


def sample_distribution(distribution: Any, samples: int, seed: int) -> np.ndarray:
    """`samples` draws (S, N) of each member of a distribution over N rows; torch's global random state is unchanged."""
    if not hasattr(distribution, "sample"):
        got, hint = type(distribution).__name__, "use from_samples if these are the draws"
        raise UsageError("from_torch", expected="a torch distribution", got=got, hint=hint)
    samples = check_range("from_torch: samples", samples, 1, integer=True, hint="use samples=1000")
    torch = sys.modules["torch"]
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        draws = as_floats(distribution.sample((samples,)), "samples")
    if draws.ndim not in (2, 3):
        expected = "a distribution of batch shape (N,), or (M, N) for members"
        got = f"draws of shape {draws.shape[1:]}"
        raise ShapeError("from_torch", expected=expected, got=got, hint="flatten its batch shape")
    return draws.reshape(-1, draws.shape[-1])


# ----------------------------------------------------------------------------------------------- ArviZ
def arviz_draws(data: Any, group: str, variable: str | None) -> tuple[str, np.ndarray, np.ndarray | None]:
    """The variable's name, its draws (S, N) from all chains, and its observations (N,) if there are any."""
    drawn = _group(data, group)
    if drawn is None:
        hint = "run pymc.sample_posterior_predictive first, or pass group='…'"
        raise UsageError("from_arviz", expected=f"a group {show(group)}", got="none", hint=hint)
    names = [str(name) for name in drawn.data_vars]
    name = names[0] if variable is None and len(names) == 1 else str(variable)
    if name not in names:
        got = f"{show(group)} with {', '.join(map(show, names)) or 'no variables'}"
        hint = (
            f"write from_arviz(data, {names[0] if names else 'y'!r})" if variable is None else did_you_mean(name, names)
        )
        raise UsageError("from_arviz", expected="the name of a variable", got=got, hint=hint)
    array = drawn[name]
    if any(dim not in array.dims for dim in CHAINS):
        got, hint = ", ".join(map(str, array.dims)), "keep the dimensions that ArviZ creates"
        raise ShapeError(f"{group}: {name}", expected="dimensions chain and draw", got=got, hint=hint)
    dims = [dim for dim in array.dims if dim not in CHAINS]
    values = as_floats(array.transpose(*CHAINS, *dims).values, name)
    draws = values.reshape(values.shape[0] * values.shape[1], -1)
    observations = _group(data, "observed_data")
    if observations is None or name not in observations:
        return name, draws, None
    observed = observations[name]
    shape = tuple(array.sizes[dim] for dim in dims)
    try:  # align by the names of dimensions and by coordinates, else by shape
        if set(observed.dims) == set(dims):
            for dim in set(dims) & set(observed.indexes) & set(array.indexes):
                if not observed.indexes[dim].equals(array.indexes[dim]):
                    observed = observed.sel({dim: array.indexes[dim]})
            observed = observed.transpose(*dims)
    except (KeyError, ValueError):
        shape = ()
    if tuple(observed.shape) != shape:
        expected = f"the dimensions of the draws, {dict(zip(dims, shape, strict=False)) or 'the same coordinates'}"
        hint = "pass y yourself: from_arviz(data, y=observed)"
        raise ShapeError(f"observed_data: {observed.name}", expected=expected, got=f"{dict(observed.sizes)}", hint=hint)
    return name, draws, as_floats(observed.values, name).reshape(-1)


def _group(data: Any, name: str) -> Any:
    try:
        return data[name]
    except (LookupError, TypeError, AttributeError):
        return None
