"""`cll` and `cll_curve`: the calibrated log-likelihood of a model, and of its first k members for every k.

The interval is Student's t of the row scores, corrected for skewness, by units if rows depend on each other. The
temperatures are fitted too, but near their optimum the score hardly depends on them, so their variance is negligible.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from calibrant.comparison.cross_validation import (  # fmt: skip
    CLEAN,
    SAME,
    calibrated,
    calibrated_by,
    curve_rows,
    member_orders,
    unsplit,
)
from calibrant.comparison.split_temperatures import REPEATS, splits_of, unit_codes
from calibrant.errors import MAX_SEED, LabelsError, NotApplicable, ShapeError, UsageError, check_choice, check_range
from calibrant.intervals import approximate, studentised
from calibrant.predictions import Classification, Judged
from calibrant.recalibration.class_rows import as_classification
from calibrant.registry.state.accumulators import Moments
from calibrant.results.comparison import CllCurve
from calibrant.results.json import encode

MOST_DRAWS = 10_000
WIDTH = 80
CLEAN_HINT = "give clean predictions of the same model"
Classes = Classification | Judged


@dataclass(frozen=True, eq=False, repr=False)
class Cll:
    """The calibrated log-likelihood of one model; higher is better."""

    name: str
    value: float
    low: float
    high: float
    level: float
    method: str
    """The method of the interval."""
    n: int
    """The number of rows."""
    members: int
    fitted_on: str
    """The rows that temperatures are fitted on: "same" (in halves) or "clean"."""
    temperature: float
    """Fitted on all rows, for information only; on clean rows, the one that is used."""
    temperatures: np.ndarray
    """(R, 2): fitted on one half of each repeat, used on the other; (1, 1) for clean rows."""
    log_likelihood: float
    """Before temperature scaling."""
    splits: Mapping[str, Any] = field(default_factory=dict)
    """How rows were split into halves; empty for clean rows."""
    rows: np.ndarray = field(default_factory=lambda: np.empty(0))
    """(N,) the score of each row."""

    def to_json(self) -> dict[str, Any]:
        """As plain data, without the rows; values that are not finite are null."""
        facts = {item.name: encode(getattr(self, item.name)) for item in fields(self) if item.name != "rows"}
        return facts | {"temperatures": self.temperatures.tolist()}

    def __str__(self) -> str:
        interval = f" ({self.level:.0%} interval {self.low:.4f} to {self.high:.4f})" if self.low == self.low else ""
        impossible = int(np.isneginf(self.rows).sum())
        zeros = f" {impossible} labels have probability 0 at any temperature." if impossible else ""
        fit = f"T = {self.temperature:.4g}, fitted on clean rows."
        if self.fitted_on != CLEAN:
            what = "units" if self.splits.get("by_units") else "rows"
            fit = (
                f"T = {self.temperatures.min():.4g} to {self.temperatures.max():.4g}, fitted on one half of the {what} "
                f"and used on the other ({self.splits['repeats']} repeats, seed {self.splits['seed']}); "
                f"T = {self.temperature:.4g} fitted on all rows."
            )
        text = (
            f"{self.name}: calibrated log-likelihood {self.value:.4f}{interval}, n = {self.n}; "
            f"{self.log_likelihood:.4f} before temperature scaling.{zeros} {fit}"
        )
        return textwrap.fill(text, WIDTH)

    def __repr__(self) -> str:
        return f"Cll({self.name}: {self.value:.4f}, {self.low:.4f} to {self.high:.4f}, n = {self.n})"


FEW_EVENTS = 20
"""Labels other than the most frequent one below which intervals may end too low: NLL is then a sum of rare events."""


def few_events(predictions: Classification | Judged) -> bool:
    """Whether nearly all labels are equal, so that the interval may cover less than its level on one side."""
    labels = predictions.correct if isinstance(predictions, Judged) else predictions.labels
    return labels is not None and len(labels) - int(np.unique(labels, return_counts=True)[1].max()) < FEW_EVENTS


def cll(
    predictions: Classification | Judged,
    *,
    temperature: str = SAME,
    clean: Classification | Judged | None = None,
    repeats: int = REPEATS,
    units: str | None = None,
    level: float = 0.95,
    seed: int = 0,
    threads: int | None = None,
) -> Cll:
    """Calibrated log-likelihood: the log-likelihood at a temperature fitted on other rows (Ashukha et al. 2020).

    Parameters
    ----------
    predictions : Classification or Judged
        Predictions with labels; members are averaged.
    temperature : {"same", "clean"}
        "same": test-time cross-validation, which fits the temperature on one half of the rows and scores the other,
        both ways, in `repeats` random splits. "clean": fit it on `clean` (Ovadia et al. 2019).
    clean : Classification or Judged, optional
        Clean predictions of the same model.
    repeats : int
        Number of random splits into halves.
    units : str, optional
        A column that identifies groups of dependent rows, which stay in one half.
    level : float
        Confidence level of the interval.
    seed : int
        Seed of the splits.
    threads : int, optional
        Number of threads; all cores by default.

    Returns
    -------
    Cll
        Value, interval and temperatures.

    Examples
    --------
    >>> import calibrant as cal
    >>> predictions = cal.Classification.from_probs([0.1, 0.6, 0.8, 0.9, 0.4, 0.7], [0, 0, 1, 1, 1, 0])
    >>> result = cal.comparison.cll(predictions)
    >>> result.n, result.fitted_on
    (6, 'same')
    """
    _check(predictions, temperature, clean, level, seed, threads)
    codes, splits = unit_codes(predictions, units), {}
    if clean is None:
        halves = splits_of(predictions.n, repeats=repeats, seed=seed, units=codes)
        rows, splits = calibrated(predictions, halves, threads), halves.to_json()
    else:
        rows = calibrated_by(predictions, clean, threads)
    moments, plain = Moments(), Moments()
    moments.add(rows.log_likelihood, predictions.weights, codes)
    plain.add(rows.before, predictions.weights, None, spread=False)
    value = moments.mean()
    interval = studentised(value, *moments.error_and_skewness(), level)
    if few_events(predictions):
        interval = approximate(interval)
    return Cll(
        name=predictions.name, value=value, low=interval.low, high=min(interval.high, 0.0), level=float(level),
        method=interval.method, n=predictions.n, members=predictions.members, fitted_on=temperature,
        temperature=rows.temperature, temperatures=rows.temperatures, log_likelihood=plain.mean(), splits=splits,
        rows=rows.log_likelihood,
    )  # fmt: skip


def cll_curve(
    predictions: Classification | Judged,
    *,
    draws: int = 1,
    repeats: int = REPEATS,
    units: str | None = None,
    temperature: str = SAME,
    clean: Classification | Judged | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> CllCurve:
    """Calibrated log-likelihood of the average of the first k members, for every k = 1 … M.

    Parameters
    ----------
    predictions : Classification or Judged
        Predictions of several members, with labels.
    draws : int
        1 uses the members in the given order. More draws use random orders, and report means and standard deviations
        over them.
    repeats, units, temperature, clean, seed, threads
        As in `cll`.

    Returns
    -------
    CllCurve
        The mean and standard deviation by number of members.

    Examples
    --------
    >>> import calibrant as cal
    >>> members = [[0.2, 0.4, 0.7, 0.9], [0.1, 0.6, 0.8, 0.6]]
    >>> probs = [[[1 - p, p] for p in member] for member in members]
    >>> curve = cal.comparison.cll_curve(cal.Classification.from_probs(probs, [0, 1, 0, 1]))
    >>> curve.k
    (1, 2)
    """
    _check(predictions, temperature, clean, 0.95, seed, threads)
    hint = "use draws=1 for the given order of members"
    draws = check_range("draws", draws, 1, MOST_DRAWS, integer=True, hint=hint)
    orders = member_orders(predictions.members, draws, int(seed))
    codes = unit_codes(predictions, units)
    if clean is None:
        halves = splits_of(predictions.n, repeats=repeats, seed=seed, units=codes)
    elif predictions.members != clean.members:
        expected, got = f"the same {predictions.members} members", f"{clean.members} in {clean.name}"
        raise ShapeError("clean", expected=expected, got=got, hint="give clean predictions of the same members")
    else:
        halves = unsplit(clean.n)
    rows = curve_rows(predictions, halves, orders, threads, clean=clean)
    return rows.curve(predictions, repeats=halves.repeats, seed=seed, fitted_on=temperature)


def _check(
    predictions: Classes, temperature: str, clean: Classes | None, level: float, seed: int, threads: int | None
) -> None:
    _check_rows(predictions)
    check_choice("temperature", temperature, (SAME, CLEAN))
    if (clean is not None) != (temperature == CLEAN):
        got = "temperature='clean' alone" if clean is None else "clean with temperature='same'"
        hint = "use clean=PREDICTIONS" if clean is None else "use temperature='clean', or omit clean"
        raise UsageError("clean", expected="clean predictions with temperature='clean'", got=got, hint=hint)
    if clean is not None:
        check_clean(predictions, clean)
    check_range("level", level, 0, 1, inclusive="neither", hint="use level=0.95")
    check_range("seed", seed, 0, MAX_SEED, integer=True, hint="use seed=0")
    if threads is not None:
        check_range("threads", threads, 1, integer=True, hint="omit it to use all cores")


def _check_rows(item: Any, subject: str = "calibrated log-likelihood") -> None:
    """Check that these are classification or judged predictions with a label for each row."""
    if not isinstance(item, Classification | Judged):
        expected, got = "classification or judged predictions in memory", getattr(item, "task", type(item).__name__)
        raise NotApplicable(subject, expected=expected, got=got, hint="a temperature applies to class probabilities")
    labels = item.correct if isinstance(item, Judged) else item.labels
    if labels is None:
        got, hint = "only soft labels" if item.has_labels else "none", "add the observed class of each row"
        raise LabelsError(f"{subject}: {item.name}", expected="a label for each row", got=got, hint=hint)


def check_clean(predictions: Classes, clean: Classes) -> None:
    """Refuse clean rows that cannot fit the temperature of these predictions: no labels, or different classes."""
    _check_rows(clean, "clean")
    if predictions.task != clean.task:
        got = f"{clean.task}, while {predictions.name} is {predictions.task}"
        raise ShapeError("clean", expected="predictions for the same task", got=got, hint=CLEAN_HINT)
    one, two = as_classification(predictions), as_classification(clean)
    names = one.class_names, two.class_names
    if one.classes != two.classes or (all(names) and names[0] != names[1]):
        numbers = f"{two.classes} classes, while {predictions.name} has {one.classes}"
        got = numbers if one.classes != two.classes else f"other class names than {predictions.name}"
        raise ShapeError("clean", expected="predictions of the same classes", got=got, hint=CLEAN_HINT)
