"""Groups of ArviZ (InferenceData, or xarray's DataTree) as arrays, without importing either."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.errors import ShapeError, UsageError, did_you_mean, show
from calibrant.predictions.arrays import as_floats

CHAINS = ("chain", "draw")


def draws_and_observed(data: Any, group: str, variable: str | None) -> tuple[str, np.ndarray, np.ndarray | None]:
    """The variable's name, its draws (S, N) of all chains, and what was observed of it (N,), where that is known."""
    drawn = _group(data, group)
    if drawn is None:
        raise UsageError(
            "from_arviz",
            expected=f"a group {show(group)}",
            came="there is none",
            do="sample it first (pymc.sample_posterior_predictive), or name another group",
        )
    name = _name(drawn, group, variable)
    array = drawn[name]
    missing = [dim for dim in CHAINS if dim not in array.dims]
    if missing:
        raise ShapeError(
            f"{group}: {name}",
            expected="dimensions chain and draw",
            came=f"its dimensions are {', '.join(map(str, array.dims))}",
            do="keep the dimensions that ArviZ gives",
        )
    rest = [dim for dim in array.dims if dim not in CHAINS]
    values = as_floats(array.transpose(*CHAINS, *rest).values, name)
    draws = values.reshape(values.shape[0] * values.shape[1], -1)
    observed = _group(data, "observed_data")
    if observed is None or name not in observed:
        return name, draws, None
    return name, draws, as_floats(_matched(observed[name], array, rest).values, name).reshape(-1)


def _matched(observed: Any, drawn: Any, dims: list[Any]) -> Any:
    """What was observed, in the order of what was drawn: by the names of dimensions and by coordinates, or by shape."""
    shape = tuple(drawn.sizes[dim] for dim in dims)
    try:
        if set(observed.dims) == set(dims):
            for dim in set(dims) & set(observed.indexes) & set(drawn.indexes):
                if not observed.indexes[dim].equals(drawn.indexes[dim]):
                    observed = observed.sel({dim: drawn.indexes[dim]})
            observed = observed.transpose(*dims)
    except (KeyError, ValueError):
        shape = ()
    if tuple(observed.shape) == shape:
        return observed
    raise ShapeError(
        f"observed_data: {observed.name}",
        expected=f"what is predicted: {dict(zip(dims, shape, strict=False)) or 'the same coordinates'}",
        came=f"it is {dict(observed.sizes)}",
        do="give y yourself: from_arviz(data, y=observed)",
    )


def _group(data: Any, name: str) -> Any:
    try:
        return data[name]
    except (LookupError, TypeError, AttributeError):
        return None


def _name(drawn: Any, group: str, variable: str | None) -> str:
    names = [str(name) for name in drawn.data_vars]
    if variable is None and len(names) == 1:
        return names[0]
    if variable in names:
        return str(variable)
    came = f"{show(group)} holds {', '.join(map(show, names)) or 'nothing'}"
    do = "name it: from_arviz(data, 'y')" if variable is None else did_you_mean(variable, names)
    raise UsageError("from_arviz", expected="the name of a variable", came=came, do=do)
