"""Regression: Gaussians, mixtures of members' Gaussians, samples or quantiles, with the observed outcomes.

`mean` and `std` are (M, N): a single Gaussian has M = 1, and several members predict the mixture with equal weights.
`samples` are (S, N) draws of the predictive distribution. `quantiles` are (N, Q) at Q increasing `levels`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from calibrant.errors import ShapeError, UsageError, ValuesError
from calibrant.predictions.arrays import as_floats, as_names, mean_over_members
from calibrant.predictions.base import Note, Predictions, RowInfo
from calibrant.predictions.frames import from_frame, one_of

SEED = 0
CROSSING = "crossing-quantiles"


@dataclass(frozen=True, repr=False)
class Regression(Predictions):
    """Predictive distributions of N numbers, of kind "gaussian", "samples" or "quantiles", and outcomes `y` (N,).

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Regression.from_gaussian(mean=[1.0, 2.0, 0.5], std=[0.3, 0.4, 0.2], y=[1.1, 1.7, 0.6])
    >>> p
    Regression('predictions', gaussian, rows=3, members=1, y=True)
    """

    kind: str
    y: np.ndarray | None
    info: RowInfo
    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    samples: np.ndarray | None = None
    quantiles: np.ndarray | None = None
    levels: np.ndarray | None = None
    member_names: tuple[str, ...] | None = None
    task = "regression"
    ROW_AXES: ClassVar = {"y": 0, "mean": 1, "std": 1, "samples": 1, "quantiles": 0}
    MEMBER_ARRAYS = ("mean", "std")
    OUTCOMES = ("y",)

    # ------------------------------------------------------------------------------ constructors
    @classmethod
    def from_gaussian(
        cls,
        mean: Any,
        std: Any = None,
        y: Any = None,
        *,
        var: Any = None,
        member_names: Any = None,
        ids: Any = None,
        weights: Any = None,
        columns: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        name: str = "predictions",
    ) -> Regression:
        """Gaussian predictions, or the mixture of the Gaussians of M members.

        Parameters
        ----------
        mean : array_like of shape (N,) or (M, N)
            Predicted means; ensemble members first.
        std, var : array_like of the shape of `mean`
            Standard deviations or variances; exactly one of the two.
        y : array_like of shape (N,), optional
            Observed outcomes. Metrics that need them are skipped without.
        member_names : sequence of str, optional
            Names of the M members.
        ids, weights, columns, meta, name
            As in `Classification.from_logits`.

        Examples
        --------
        >>> from calibrant import Regression
        >>> Regression.from_gaussian([[1.0, 2.0], [1.2, 1.9]], var=[[0.1, 0.1], [0.2, 0.1]], y=[1.1, 1.7])
        Regression('predictions', gaussian, rows=2, members=2, y=True)
        """
        if (std is None) == (var is None):
            got = "both" if std is not None else "neither"
            hint = "pass std=…, or use from_samples for point predictions"
            raise UsageError("from_gaussian", expected="exactly one of std and var", got=got, hint=hint)
        what = "std" if var is None else "var"
        means, spread = _by_row(mean, "mean", y), _by_row(std if var is None else var, what, y)
        if means.shape != spread.shape:
            expected, hint = f"the shape of mean, {means.shape}", f"pass one {what} per mean"
            raise ShapeError(what, expected=expected, got=f"shape {spread.shape}", hint=hint)
        hint = "drop or fix these rows: a spread of 0 has no density"
        _refuse_rows(~(spread > 0), spread, what, "numbers above 0", hint)
        n = means.shape[-1]
        means, spread = means.reshape(-1, n), spread.reshape(-1, n)
        names = None if member_names is None else as_names(member_names, "member_names", len(means))
        std = spread if var is None else np.sqrt(spread)
        info = RowInfo.build(n, ids=ids, weights=weights, columns=columns, meta=meta, name=name)
        return cls("gaussian", _as_y(y, n), info, mean=means, std=std, member_names=names)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        y: str | None = None,
        mean: str | None = None,
        std: str | None = None,
        var: str | None = None,
        samples: str | None = None,
        quantiles: str | None = None,
        ids: str | None = None,
        weights: str | None = None,
        name: str = "predictions",
    ) -> Regression:
        """Predictions from the columns of a pandas or polars data frame.

        Parameters
        ----------
        frame : DataFrame
            One row per example; columns without a role here are kept to group by.
        y : str, optional
            The column of observed outcomes.
        mean, std, var : str, optional
            The columns of means with standard deviations or variances; a pattern such as ``"mu_*"`` gives one column
            per member.
        samples : str, optional
            A pattern for the columns of draws.
        quantiles : str, optional
            A pattern whose ``*`` is the level, such as ``"q_*"`` for ``q_0.05``.
        ids, weights, name
            As in `Classification.from_frame`.

        Examples
        --------
        >>> import pandas as pd
        >>> from calibrant import Regression
        >>> frame = pd.DataFrame({"price": [210.0, 340.0], "guess": [200.0, 355.0], "sigma": [15.0, 30.0]})
        >>> Regression.from_frame(frame, y="price", mean="guess", std="sigma")
        Regression('predictions', gaussian, rows=2, members=1, y=True)
        """
        options = {"y": y, "mean": mean, "std": std, "var": var, "samples": samples, "quantiles": quantiles}
        one_of("from_frame", mean=mean, samples=samples, quantiles=quantiles)
        predictions: Regression = from_frame(frame, options, classes=None, ids=ids, weights=weights, name=name)
        return predictions

    @classmethod
    def from_samples(
        cls,
        samples: Any,
        y: Any = None,
        *,
        ids: Any = None,
        weights: Any = None,
        columns: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        name: str = "predictions",
    ) -> Regression:
        """Draws of the predictive distribution of each row.

        Parameters
        ----------
        samples : array_like of shape (S, N)
            S draws per row: a posterior predictive, or the point predictions of an ensemble.
        y : array_like of shape (N,), optional
            Observed outcomes.
        ids, weights, columns, meta, name
            As in `Classification.from_logits`.

        Examples
        --------
        >>> from calibrant import Regression
        >>> Regression.from_samples([[1.0, 2.1], [1.3, 1.8], [0.9, 2.4]], y=[1.1, 1.7])
        Regression('predictions', samples, rows=2, samples=3, y=True)
        """
        draws = _by_row(samples, "samples", y)
        if draws.ndim != 2:
            hint = "put draws first, rows last"
            raise ShapeError("samples", expected="shape (S, N)", got=f"shape {draws.shape}", hint=hint)
        n = draws.shape[1]
        info = RowInfo.build(n, ids=ids, weights=weights, columns=columns, meta=meta, name=name)
        return cls("samples", _as_y(y, n), info, samples=draws)

    @classmethod
    def from_quantiles(
        cls,
        quantiles: Any,
        levels: Any,
        y: Any = None,
        *,
        ids: Any = None,
        weights: Any = None,
        columns: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        name: str = "predictions",
    ) -> Regression:
        """Quantiles of the predictive distribution of each row.

        Parameters
        ----------
        quantiles : array_like of shape (N, Q)
            Quantiles, one column per level. Crossing quantiles are used as they are, with a note.
        levels : array_like of shape (Q,)
            Increasing probabilities between 0 and 1.
        y : array_like of shape (N,), optional
            Observed outcomes.
        ids, weights, columns, meta, name
            As in `Classification.from_logits`.

        Examples
        --------
        >>> from calibrant import Regression
        >>> Regression.from_quantiles([[0.4, 1.0, 1.6], [1.2, 2.0, 2.9]], levels=[0.05, 0.5, 0.95], y=[1.1, 1.7])
        Regression('predictions', quantiles, rows=2, levels=3, y=True)
        """
        values, at = _floats(quantiles, "quantiles"), as_floats(levels, "levels").astype(np.float64)
        if at.ndim != 1 or not at.size:
            raise ShapeError("levels", expected="shape (Q,)", got=f"shape {at.shape}", hint="pass one level per column")
        inside = (at > 0) & (at < 1)
        if not inside.all():
            hint = "divide percentages by 100"
            raise ValuesError("levels", expected="numbers between 0 and 1", got=f"{at[~inside][0]}", hint=hint)
        if not (np.diff(at) > 0).all():
            k = int(np.argmax(~(np.diff(at) > 0)))
            got, hint = f"{at[k + 1]:g} after {at[k]:g}", "sort levels and the columns of quantiles together"
            raise ValuesError("levels", expected="increasing levels", got=got, hint=hint)
        if values.ndim != 2 or values.shape[1] != len(at) or not values.size:
            expected = f"shape (N, {len(at)}), for {len(at)} levels"
            hint = "pass one row per example, one column per level"
            raise ShapeError("quantiles", expected=expected, got=f"shape {values.shape}", hint=hint)
        _refuse_rows(~np.isfinite(values).T, values.T, "quantiles", "finite numbers", "drop or fix the row")
        info = RowInfo.build(len(values), ids=ids, weights=weights, columns=columns, meta=meta, name=name)
        return cls("quantiles", _as_y(y, len(values)), info, quantiles=values, levels=at)

    @classmethod
    def from_sklearn(cls, estimator: Any, X: Any, y: Any = None, **kwargs: Any) -> Regression:
        """Predictions of a fitted scikit-learn regressor, by `predict(X, return_std=True)`.

        Parameters
        ----------
        estimator : regressor
            A Gaussian process, Bayesian ridge, ARD or any regressor or pipeline whose predict takes `return_std`.
        X : array_like
            The inputs.
        y : array_like of shape (N,), optional
            Observed outcomes.
        **kwargs
            As in `from_gaussian`; `name` defaults to the type of the regressor.

        Examples
        --------
        >>> from calibrant import Regression
        >>> from sklearn.linear_model import BayesianRidge
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.9]
        >>> Regression.from_sklearn(BayesianRidge().fit(X, y), X, y)
        Regression('BayesianRidge', gaussian, rows=4, members=1, y=True)
        """
        estimator = getattr(estimator, "best_estimator_", estimator)
        final = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
        predict = getattr(final, "predict", None)
        if predict is None or "return_std" not in inspect.signature(predict).parameters:
            expected = "a fitted regressor whose predict takes return_std"
            hint = "use from_quantiles with quantile regressors, or from_samples with the predictions of an ensemble"
            raise UsageError("from_sklearn", expected=expected, got=type(final).__name__, hint=hint)
        kwargs.setdefault("name", type(final).__name__)
        mean, std = estimator.predict(X, return_std=True)
        if np.ndim(mean) != 1:
            got, hint = f"predictions of shape {np.shape(mean)}", "pass the mean and std of one target to from_gaussian"
            raise ShapeError("from_sklearn", expected="a regressor of one target", got=got, hint=hint)
        return cls.from_gaussian(mean, std, y, **kwargs)

    @classmethod
    def from_torch(
        cls, distribution: Any, y: Any = None, *, samples: int | None = None, seed: int = SEED, **kwargs: Any
    ) -> Regression:
        """Predictions from a `torch.distributions` object.

        Parameters
        ----------
        distribution : torch.distributions.Distribution of batch shape (N,) or (M, N)
            A Normal (also inside Independent), or any distribution together with `samples`.
        y : array_like of shape (N,), optional
            Observed outcomes.
        samples : int, optional
            Represent the distribution by this many draws.
        seed : int
            Seed of the draws.
        **kwargs
            As in `from_gaussian` or `from_samples`.

        Examples
        --------
        >>> import torch
        >>> from calibrant import Regression
        >>> Regression.from_torch(torch.distributions.Normal(torch.zeros(2), torch.ones(2)), y=[0.3, -0.1])
        Regression('predictions', gaussian, rows=2, members=1, y=True)
        """
        from calibrant.predictions.libraries import normal_parameters, sample_distribution

        if samples is not None:
            return cls.from_samples(sample_distribution(distribution, samples, seed), y, **kwargs)
        mean, std = normal_parameters(distribution)
        return cls.from_gaussian(mean, std, y, **kwargs)

    @classmethod
    def from_arviz(
        cls,
        data: Any,
        variable: str | None = None,
        y: Any = None,
        *,
        group: str = "posterior_predictive",
        **kwargs: Any,
    ) -> Regression:
        """Predictions from the posterior-predictive draws of an ArviZ InferenceData or xarray DataTree.

        Parameters
        ----------
        data : InferenceData or DataTree
            Draws of all chains are used; observations of several dimensions are flattened to rows.
        variable : str, optional
            The variable; needed if there are several.
        y : array_like of shape (N,), optional
            Observed outcomes; by default those of the group `observed_data`.
        group : str
            The group with the draws.
        **kwargs
            As in `from_samples`; `name` defaults to the variable.

        Examples
        --------
        >>> Regression.from_arviz(idata, "y")  # doctest: +SKIP
        Regression('y', samples, rows=919, samples=4000, y=True)
        """
        from calibrant.predictions.libraries import arviz_draws

        name, draws, observed = arviz_draws(data, group, variable)
        kwargs.setdefault("name", name)
        return cls.from_samples(draws, observed if y is None else y, **kwargs)

    # ------------------------------------------------------------------------------------- parts
    def moment_matched(self) -> Regression:
        """The Gaussian with the mean and variance of the mixture or of the samples."""
        if self.mean is not None and self.std is not None:
            mean, between = mean_and_variance(self.mean)
            variance = mean_over_members(np.square(self.std, dtype=np.float64)) + between
        elif self.samples is not None and len(self.samples) > 1:
            mean, variance = mean_and_variance(self.samples)
            variance *= len(self.samples) / (len(self.samples) - 1)
        else:
            got = "one sample" if self.kind == "samples" else self.kind
            expected, hint = "Gaussian members, or at least two samples", "use the predictions without moment_matched()"
            raise UsageError("moment_matched", expected=expected, got=got, hint=hint)
        return replace(Regression.from_gaussian(mean, var=variance, y=self.y), info=self.info)

    def count_crossing(self) -> int:
        """The number of rows with crossing quantiles."""
        q = self.quantiles
        return 0 if q is None else int((q[:, 1:] < q[:, :-1]).any(axis=1).sum())

    def notes(self) -> tuple[Note, ...]:
        """Remarks on these predictions that the user should see."""
        return self.info.notes + crossing_notes(self.name, self.count_crossing(), self.n)

    def __repr__(self) -> str:
        size = f"members={self.members}" if self.samples is None else f"samples={len(self.samples)}"
        size = size if self.levels is None else f"levels={len(self.levels)}"
        return f"Regression({self.name!r}, {self.kind}, rows={self.n}, {size}, y={self.has_labels})"


def mean_and_variance(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (divisor M) over the first axis, relative to its first entry: equal members have variance 0."""
    first = x[0].astype(np.float64)
    offset = x - first
    centre = mean_over_members(offset)
    return first + centre, mean_over_members(np.square(offset - centre))


def crossing_notes(name: str, count: int, n: int) -> tuple[Note, ...]:
    """Warn of crossing quantiles."""
    if not count:
        return ()
    return (Note(CROSSING, f"{name}: the quantiles of {count} of {n} rows cross; they are used as given"),)


# ------------------------------------------------------------------------------------------ checks
def _floats(value: Any, what: str) -> np.ndarray:
    """Numbers as float32 or float64; 16-bit floats are widened."""
    array = as_floats(value, what)
    return array.astype(np.float32) if array.dtype.itemsize == 2 else array


def _by_row(value: Any, what: str, y: Any) -> np.ndarray:
    """Finite numbers (N,) or (M, N), rows last; the length of `y` reveals transposed arrays."""
    array = _floats(value, what)
    rows: tuple[int, ...] = tuple(getattr(y, "shape", ())) or ((len(y),) if isinstance(y, list | tuple) else ())
    column = array.ndim == 2 and array.shape[1] == 1 < array.shape[0] and rows[:1] == array.shape[:1]
    if array.ndim not in (1, 2) or array.size == 0 or column:
        hint = "drop the last axis with .squeeze(-1)" if column else "put members or draws first, rows last"
        hint = hint if array.ndim else "use numpy.full(n, value) for the same number in every row"
        expected = "shape (N,) or (M, N) with at least one row"
        raise ShapeError(what, expected=expected, got=f"shape {array.shape}", hint=hint)
    if array.ndim == 2 and len(rows) == 1 and rows[0] == array.shape[0] != array.shape[1]:
        expected = f"rows last: shape (M, N) with N = {rows[0]}, the length of y"
        raise ShapeError(what, expected=expected, got=f"shape {array.shape}", hint="transpose it")
    _refuse_rows(~np.isfinite(array), array, what, "finite numbers", "drop or fix the row")
    return array


def _refuse_rows(invalid: np.ndarray, array: np.ndarray, what: str, expected: str, hint: str) -> None:
    """Raise `ValuesError` for the first invalid entry; rows are on the last axis."""
    if not invalid.any():
        return
    invalid, array = invalid.reshape(-1, invalid.shape[-1]), array.reshape(-1, array.shape[-1])
    rows = invalid.any(axis=0)
    row = int(np.argmax(rows))
    k = int(np.argmax(invalid[:, row]))
    position = f"row {row}" + (f", entry {k}" if len(invalid) > 1 else "")
    more = f" ({int(rows.sum())} such rows)" if rows.sum() > 1 else ""
    raise ValuesError(what, expected=expected, got=f"{array[k, row]} in {position}{more}", hint=hint)


def _as_y(value: Any, n: int) -> np.ndarray | None:
    if value is None:
        return None
    y = _floats(value, "y")
    if y.shape != (n,):
        hint = "pass one outcome per row of the predictions"
        raise ShapeError("y", expected=f"shape ({n},), one number per row", got=f"shape {y.shape}", hint=hint)
    _refuse_rows(~np.isfinite(y), y, "y", "finite numbers", "drop the rows without an outcome")
    return y


def level_index(levels: np.ndarray, level: float) -> int | None:
    """The column of a level, up to the rounding of (1 − 0.95)/2, or None."""
    index = int(np.argmin(np.abs(levels - level)))
    return index if abs(levels[index] - level) <= 1e-9 else None


def symmetric_levels(levels: np.ndarray) -> list[tuple[float, float]]:
    """The pairs of levels (α, 1 − α), from the widest interval to the narrowest."""
    pairs = [(low, level_index(levels, 1.0 - low)) for low in levels.tolist() if low < 0.5]
    return [(low, float(levels[high])) for low, high in pairs if high is not None]


def central_levels(levels: np.ndarray, level: float = 0.95) -> tuple[float, float] | None:
    """The levels of the central interval of nominal coverage `level`, else of the widest symmetric interval."""
    pairs, low = symmetric_levels(levels), level_index(levels, (1.0 - level) / 2.0)
    return next((pair for pair in pairs if low is not None and pair[0] == levels[low]), pairs[0] if pairs else None)


def format_levels(levels: np.ndarray) -> str:
    """The first eight levels as text."""
    shown = [f"{level:g}" for level in levels[:8].tolist()]
    return ", ".join(shown) + (", …" if len(levels) > len(shown) else "")
