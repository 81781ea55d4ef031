"""Predictions of a number: Gaussian, a mixture of Gaussians by members, samples, or quantiles, with what came true.

`mean` and `std` are (M, N): a single Gaussian is M = 1, and the prediction of several members is the mixture with equal
weights. `samples` are (S, N) draws of the predictive distribution. `quantiles` are (N, Q) at Q rising `levels`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibrant.errors import ShapeError, UsageError, ValuesError
from calibrant.predictions.arrays import as_floats, as_names, mean_over_members
from calibrant.predictions.base import Note, Predictions, RowInfo

SEED = 0
CROSSING = "crossing-quantiles"


@dataclass(frozen=True, repr=False)
class Regression(Predictions):
    """What is predicted of N numbers, in one of three kinds: gaussian, samples or quantiles."""

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
        """Mean and standard deviation (or variance), (N,) each, or (M, N) for the mixture of M members.

        y: (N,) what came true; without it, what needs it is skipped. weights: (N,) sampling weights; columns: (N,)
        arrays to slice by.
        """
        if (std is None) == (var is None):
            raise UsageError(
                "from_gaussian",
                expected="exactly one of std and var",
                came="got both" if std is not None else "got neither",
                do="give std; several point predictions a row are from_samples",
            )
        what = "std" if var is None else "var"
        means, spread = _numbers(mean, "mean", y), _numbers(std if var is None else var, what, y)
        if means.shape != spread.shape:
            raise ShapeError(
                what,
                expected=f"the shape of mean, {means.shape}",
                came=f"its shape is {spread.shape}",
                do="give one for each mean",
            )
        hint = "mend these rows: without spread there is no density"
        _refuse_rows(~(spread > 0), spread, what, "numbers above 0", hint)
        n = means.shape[-1]
        means, spread = means.reshape(-1, n), spread.reshape(-1, n)
        names = None if member_names is None else as_names(member_names, "member_names", len(means))
        std = spread if var is None else np.sqrt(spread)
        info = RowInfo.build(n, ids=ids, weights=weights, columns=columns, meta=meta, name=name)
        return cls("gaussian", _as_y(y, n), info, mean=means, std=std, member_names=names)

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
        """Draws (S, N) of the predictive distribution of each row: an ensemble, a posterior predictive."""
        draws = _numbers(samples, "samples", y)
        if draws.ndim != 2:
            raise ShapeError(
                "samples", expected="shape (S, N)", came=f"its shape is {draws.shape}", do="put draws first, rows last"
            )
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
        """Quantiles (N, Q) at Q rising levels between 0 and 1; those that cross are used as they are, and counted."""
        values = _floats(quantiles, "quantiles")
        at = _as_levels(levels)
        if values.ndim != 2 or values.shape[1] != len(at) or not values.size:
            raise ShapeError(
                "quantiles",
                expected=f"shape (N, {len(at)}), for {len(at)} levels",
                came=f"its shape is {values.shape}",
                do="one row an example, one column a level",
            )
        _refuse_rows(~np.isfinite(values).T, values.T, "quantiles", "finite numbers", "drop or repair the row")
        info = RowInfo.build(len(values), ids=ids, weights=weights, columns=columns, meta=meta, name=name)
        return cls("quantiles", _as_y(y, len(values)), info, quantiles=values, levels=at)

    @classmethod
    def from_sklearn(cls, estimator: Any, X: Any, y: Any = None, **known: Any) -> Regression:
        """`estimator.predict(X, return_std=True)`: Gaussian processes, Bayesian ridge, ARD and what follows them."""
        estimator = getattr(estimator, "best_estimator_", estimator)
        final = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
        predict = getattr(final, "predict", None)
        if predict is None or "return_std" not in inspect.signature(predict).parameters:
            raise UsageError(
                "from_sklearn",
                expected="a fitted regressor whose predict takes return_std",
                came=f"got {type(final).__name__}",
                do="use from_quantiles with quantile regressors, or from_samples with the predictions of an ensemble",
            )
        known.setdefault("name", type(final).__name__)
        mean, std = estimator.predict(X, return_std=True)
        if np.ndim(mean) != 1:
            raise ShapeError(
                "from_sklearn",
                expected="a regressor of one target",
                came=f"it predicts shape {np.shape(mean)}",
                do="give each target's mean and std to from_gaussian",
            )
        return cls.from_gaussian(mean, std, y, **known)

    @classmethod
    def from_torch(
        cls, distribution: Any, y: Any = None, *, samples: int | None = None, seed: int = SEED, **known: Any
    ) -> Regression:
        """A torch distribution with batch shape (N,), or (M, N) for members: Normal, or any other by its draws.

        samples: how many draws stand for the distribution; a Normal (also Independent) needs none.
        """
        from calibrant.predictions.torch_distributions import draws_of, normal_of

        if samples is not None:
            return cls.from_samples(draws_of(distribution, samples, seed), y, **known)
        mean, std = normal_of(distribution)
        return cls.from_gaussian(mean, std, y, **known)

    @classmethod
    def from_arviz(
        cls, data: Any, variable: str | None = None, y: Any = None, *, group: str = "posterior_predictive", **known: Any
    ) -> Regression:
        """The posterior-predictive draws of an InferenceData or DataTree: all draws of all chains; y is the observed.

        variable: which one, where there are several. Observations of several dimensions become rows one after another.
        """
        from calibrant.predictions.arviz_groups import draws_and_observed

        name, draws, observed = draws_and_observed(data, group, variable)
        known.setdefault("name", name)
        return cls.from_samples(draws, observed if y is None else y, **known)

    # ------------------------------------------------------------------------------------- parts
    @property
    def members(self) -> int:
        """The number of members of a mixture; a single model is one, and so are samples and quantiles."""
        return 1 if self.mean is None else len(self.mean)

    @property
    def has_labels(self) -> bool:
        """Whether it is known what came true."""
        return self.y is not None

    def member(self, k: int) -> Regression:
        """One member as predictions of its own."""
        k = self._member_index(k)
        if self.mean is None or self.std is None:
            return self
        names = None if self.member_names is None else (self.member_names[k],)
        return replace(self, mean=self.mean[[k]], std=self.std[[k]], member_names=names)

    def subset(self, members: Iterable[int]) -> Regression:
        """Some members of Gaussians, in the order that is given, as predictions of their own."""
        chosen = self._member_places(members)
        if self.mean is None or self.std is None:
            return self
        names = None if self.member_names is None else tuple(self.member_names[k] for k in chosen)
        return replace(self, mean=self.mean[chosen], std=self.std[chosen], member_names=names)

    def moment_matched(self) -> Regression:
        """One Gaussian with the mean and the variance of the mixture, or of the samples."""
        if self.mean is not None and self.std is not None:
            mean, apart = mean_and_variance(self.mean)
            variance = mean_over_members(np.square(self.std, dtype=np.float64)) + apart
        elif self.samples is not None and len(self.samples) > 1:
            mean, variance = mean_and_variance(self.samples)
            variance *= len(self.samples) / (len(self.samples) - 1)
        else:
            raise UsageError(
                "moment_matched",
                expected="members, or at least two samples",
                came=f"these are {self.kind}",
                do="use the predictions as they are",
            )
        made = Regression.from_gaussian(mean, var=variance, y=self.y)
        return replace(made, info=self.info)

    def _take(self, rows: np.ndarray) -> Self:
        return replace(
            self,
            y=None if self.y is None else self.y[rows],
            mean=None if self.mean is None else self.mean[:, rows],
            std=None if self.std is None else self.std[:, rows],
            samples=None if self.samples is None else self.samples[:, rows],
            quantiles=None if self.quantiles is None else self.quantiles[rows],
            info=self.info.select(rows),
        )

    def _with_info(self, info: RowInfo) -> Self:
        return replace(self, info=info)

    def crossing(self) -> int:
        """The number of rows in which a quantile lies below one of a lower level."""
        q = self.quantiles
        return 0 if q is None else int((q[:, 1:] < q[:, :-1]).any(axis=1).sum())

    def notes(self) -> tuple[Note, ...]:
        """What the user should know of these predictions: of these rows, under their present name."""
        return self.info.notes + crossing_notes(self.name, self.crossing(), self.n)

    def __repr__(self) -> str:
        facts: Mapping[str, int] = {"members": self.members}
        if self.samples is not None:
            facts = {"samples": len(self.samples)}
        if self.levels is not None:
            facts = {"levels": len(self.levels)}
        said = ", ".join(f"{key}={value}" for key, value in facts.items())
        return f"Regression({self.name!r}, {self.kind}, rows={self.n}, {said}, y={self.has_labels})"


def mean_and_variance(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (divisor M) over the first axis, about its first entry: members that agree have none."""
    first = x[0].astype(np.float64)
    away = x - first
    centre = mean_over_members(away)
    return first + centre, mean_over_members(np.square(away - centre))


def crossing_notes(name: str, count: int, n: int) -> tuple[Note, ...]:
    """What is said of quantiles that cross."""
    if not count:
        return ()
    return (Note(CROSSING, f"{name}: the quantiles of {count} of {n} rows cross; they are used as given"),)


# ------------------------------------------------------------------------------------------ checks
def _floats(value: Any, what: str) -> np.ndarray:
    """Numbers in a floating type that computing is done in; 16-bit numbers are widened here."""
    array = as_floats(value, what)
    return array.astype(np.float32) if array.dtype.itemsize == 2 else array


def _numbers(value: Any, what: str, y: Any) -> np.ndarray:
    """Finite numbers with rows last."""
    array = _floats(value, what)
    rows: tuple[int, ...] = tuple(getattr(y, "shape", ())) or ((len(y),) if isinstance(y, list | tuple) else ())
    column = array.ndim == 2 and array.shape[1] == 1 < array.shape[0] and rows[:1] == array.shape[:1]
    if array.ndim not in (1, 2) or array.size == 0 or column:
        hints = {0: "give one number for each row: numpy.full(n, value)"}
        hints |= {2: "drop the last axis: .squeeze(-1)"} if column else {}
        raise ShapeError(
            what,
            expected="shape (N,) or (M, N) with at least one row",
            came=f"its shape is {array.shape}",
            do=hints.get(array.ndim, "members or draws come first, rows last"),
        )
    if array.ndim == 2 and len(rows) == 1 and rows[0] == array.shape[0] != array.shape[1]:
        raise ShapeError(
            what,
            expected=f"rows last: shape (M, N) with N = {rows[0]}, the length of y",
            came=f"its shape is {array.shape}",
            do="transpose it",
        )
    _refuse_rows(~np.isfinite(array), array, what, "finite numbers", "drop or repair the row")
    return array


def _refuse_rows(bad: np.ndarray, array: np.ndarray, what: str, expected: str, do: str) -> None:
    """Name the first row, along the last axis, that holds what is not allowed."""
    if not bad.any():
        return
    bad, array = bad.reshape(-1, bad.shape[-1]), array.reshape(-1, array.shape[-1])
    rows = bad.any(axis=0)
    row = int(np.argmax(rows))
    lead = int(np.argmax(bad[:, row]))
    where = f"row {row}" + (f" (entry {lead} of it)" if len(bad) > 1 else "")
    more = f" ({int(rows.sum())} such rows)" if rows.sum() > 1 else ""
    raise ValuesError(what, expected=expected, came=f"{where} is {array[lead, row]}{more}", do=do)


def _as_y(value: Any, n: int) -> np.ndarray | None:
    if value is None:
        return None
    y = _floats(value, "y")
    if y.shape != (n,):
        raise ShapeError(
            "y",
            expected=f"one number for each of the {n} rows",
            came=f"its shape is {y.shape}",
            do="give it the length of the predictions",
        )
    _refuse_rows(~np.isfinite(y), y, "y", "finite numbers", "drop the rows without an outcome")
    return y


def _as_levels(value: Any) -> np.ndarray:
    levels = as_floats(value, "levels").astype(np.float64)
    if levels.ndim != 1 or not levels.size:
        raise ShapeError(
            "levels", expected="shape (Q,)", came=f"its shape is {levels.shape}", do="give one level a column"
        )
    if not ((levels > 0) & (levels < 1)).all():
        odd = levels[~((levels > 0) & (levels < 1))][0]
        raise ValuesError(
            "levels", expected="numbers between 0 and 1", came=f"one of them is {odd}", do="divide percentages by 100"
        )
    if not (np.diff(levels) > 0).all():
        place = int(np.argmax(~(np.diff(levels) > 0)))
        raise ValuesError(
            "levels",
            expected="levels that rise",
            came=f"{levels[place + 1]:g} follows {levels[place]:g}",
            do="sort levels and the columns of quantiles alike",
        )
    return levels


def level_index(levels: np.ndarray, level: float) -> int | None:
    """The column of a level, which was perhaps computed as (1 − 0.95)/2; None where there is none."""
    place = int(np.argmin(np.abs(levels - level)))
    return place if abs(levels[place] - level) <= 1e-9 else None


def symmetric_levels(levels: np.ndarray) -> list[tuple[float, float]]:
    """Two levels each that enclose as much on both sides, from the widest interval to the narrowest."""
    found = [(low, level_index(levels, 1.0 - low)) for low in levels.tolist() if low < 0.5]
    return [(low, float(levels[place])) for low, place in found if place is not None]


def central_levels(levels: np.ndarray, level: float = 0.95) -> tuple[float, float] | None:
    """The levels of the central interval that should hold `level`, else of the widest symmetric one; None without."""
    pairs, low = symmetric_levels(levels), level_index(levels, (1.0 - level) / 2.0)
    return next((pair for pair in pairs if low is not None and pair[0] == levels[low]), pairs[0] if pairs else None)


def levels_text(levels: np.ndarray) -> str:
    """The levels as they are listed for people."""
    shown = [f"{level:g}" for level in levels[:8].tolist()]
    return ", ".join(shown) + (", …" if len(levels) > len(shown) else "")
