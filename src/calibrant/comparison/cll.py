"""`cll` and `cll_curve`: the calibrated log-likelihood of a model, and of its first k members for every k.

The interval is Student's t of the row scores, corrected for skewness, by units where rows depend. The temperatures are
fitted too; near their optimum the score hardly depends on them, so that their own spread adds next to nothing.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.comparison.calibrated import CLEAN, SAME, calibrated, calibrated_by
from calibrant.comparison.curves import curve_rows, curve_rows_by, member_orders
from calibrant.comparison.records import CllCurve
from calibrant.comparison.splits import REPEATS, splits_of
from calibrant.errors import LabelsError, NotApplicable, ShapeError, UsageError, did_you_mean, show
from calibrant.intervals import studentised
from calibrant.predictions import Classification, Judged
from calibrant.recalibration.class_rows import as_classes
from calibrant.registry.accumulators import Moments

MOST_DRAWS = 10_000
WIDTH = 80
CLEAN_OF = "give clean predictions of the same model"
Known = Classification | Judged


@dataclass(frozen=True, eq=False, repr=False)
class Cll:
    """The calibrated log-likelihood of one model; higher is better."""

    name: str
    value: float
    low: float
    high: float
    level: float
    method: str
    """How the interval was found."""
    n: int
    """Rows."""
    members: int
    fitted_on: str
    """The rows that temperatures were fitted on: same (in halves) or clean."""
    temperature: float
    """Fitted on all rows: for information, nothing is scored by it; of clean rows the one that scores."""
    temperatures: np.ndarray
    """(R, 2): fitted on either half of each repeat, used on the other; (1, 1) of clean rows."""
    log_likelihood: float
    """Before temperature."""
    splits: Mapping[str, Any] = field(default_factory=dict)
    """How the halves were made; empty of clean rows."""
    rows: np.ndarray = field(default_factory=lambda: np.empty(0))
    """(N,) the score of each row."""

    def to_json(self) -> dict[str, Any]:
        """As plain data, without the rows; what is not finite is null."""
        numbers = ("value", "low", "high", "level", "temperature", "log_likelihood")
        plain = {key: _plain(getattr(self, key)) for key in numbers}
        words = {key: getattr(self, key) for key in ("name", "n", "members", "method", "fitted_on")}
        return {**words, **plain, "temperatures": self.temperatures.tolist(), "splits": dict(self.splits)}

    def __str__(self) -> str:
        interval = f" ({self.level:.0%} interval {self.low:.4f} to {self.high:.4f})" if self.low == self.low else ""
        impossible = int(np.isneginf(self.rows).sum())
        lost = f" {impossible} labels have probability 0, which no temperature mends." if impossible else ""
        text = (
            f"{self.name}: calibrated log-likelihood {self.value:.4f}{interval} of {self.n} rows; "
            f"{self.log_likelihood:.4f} before temperature.{lost} {self._said()}"
        )
        return textwrap.fill(text, WIDTH)

    __repr__ = __str__

    def _said(self) -> str:
        if self.fitted_on == CLEAN:
            return f"T = {self.temperature:.4g}, fitted on clean rows."
        ends = f"{self.temperatures.min():.4g} to {self.temperatures.max():.4g}"
        what = "units of rows" if self.splits.get("by_units") else "rows"
        return (
            f"T = {ends} on halves of the {what} ({self.splits['repeats']} repeats, seed {self.splits['seed']}), each "
            f"used on the other half; {self.temperature:.4g} on all."
        )


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
    """Log-likelihood at the best temperature, fitted on rows that are not scored (Ashukha et al. 2020).

    temperature: of the "same" rows by test-time cross-validation (fit on one half, score the other, both ways, in
    `repeats` random splits), or of "clean" ones, whose predictions by the same model are given as `clean` (Ovadia et
    al. 2019). units: a column of dependent rows, which stay together.
    """
    _check(predictions, temperature, clean, level, seed, threads)
    codes, splits = _codes(predictions, units), {}
    if clean is None:
        halves = splits_of(predictions.n, repeats=repeats, seed=seed, units=codes)
        found, splits = calibrated(predictions, halves, threads), halves.to_json()
    else:
        found = calibrated_by(predictions, clean, threads)
    moments, plain = Moments(), Moments()
    moments.add(found.log_likelihood, predictions.weights, codes)
    plain.add(found.before, predictions.weights, None, spread=False)
    value = moments.mean()
    interval = studentised(value, *moments.error_and_skewness(), level)
    return Cll(
        name=predictions.name,
        value=value,
        low=interval.low,
        high=interval.high,
        level=float(level),
        method=interval.method,
        n=predictions.n,
        members=predictions.members,
        fitted_on=temperature,
        temperature=found.temperature,
        temperatures=found.temperatures,
        log_likelihood=plain.mean(),
        splits=splits,
        rows=found.log_likelihood,
    )


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
    """Calibrated log-likelihood of the average of k members, for every k = 1 … M.

    draws: 1 takes the members in the order given; more take random orders, and give means and standard deviations over
    them. The other arguments are those of `cll`.
    """
    _check(predictions, temperature, clean, 0.95, seed, threads)
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or not 1 <= draws <= MOST_DRAWS:
        said = f"a whole number from 1 to {MOST_DRAWS}"
        raise UsageError("draws", expected=said, came=f"got {draws}", do="1 takes the members as they come")
    orders = member_orders(predictions.members, int(draws), int(seed))
    codes = _codes(predictions, units)
    if clean is None:
        halves = splits_of(predictions.n, repeats=repeats, seed=seed, units=codes)
        found = curve_rows(predictions, halves, orders, threads)
    else:
        _same_members(predictions, clean)
        found = curve_rows_by(predictions, clean, orders, threads)
    times = repeats if clean is None else 0
    return found.curve(predictions, repeats=times, seed=seed, fitted_on=temperature)


# -------------------------------------------------------------------------------------------- checks
def _check(
    predictions: Known, temperature: str, clean: Known | None, level: float, seed: int, threads: int | None
) -> None:
    _check_rows(predictions)
    if temperature not in (SAME, CLEAN):
        do = did_you_mean(str(temperature), (SAME, CLEAN))
        raise UsageError("temperature", expected="same or clean", came=f"got {show(temperature)}", do=do)
    if (clean is not None) != (temperature == CLEAN):
        came = "there are none" if clean is None else "temperature is 'same'"
        do = "give them as `clean`" if clean is None else "say temperature='clean', or leave `clean` out"
        raise UsageError("clean", expected="clean predictions where temperature='clean'", came=came, do=do)
    if clean is not None:
        check_clean(predictions, clean)
    if not 0.0 < level < 1.0:
        raise UsageError("level", expected="a number between 0 and 1", came=f"got {level}", do="0.95 is usual")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 1 << 64:
        raise UsageError("seed", expected="a whole number from 0 to 2^64 - 1", came=f"got {seed}", do="0 is usual")
    if threads is not None and threads < 1:
        raise UsageError("threads", expected="at least 1", came=f"got {threads}", do="leave it out for all")


def _check_rows(item: Any, what: str = "calibrated log-likelihood") -> None:
    """Class predictions or judged answers with a label for each row."""
    if not isinstance(item, Classification | Judged):
        raise NotApplicable(
            what,
            expected="class predictions or judged answers in memory",
            came=f"got {getattr(item, 'task', type(item).__name__)}",
            do="temperature acts on probabilities of classes",
        )
    labels = item.correct if isinstance(item, Judged) else item.labels
    if labels is None:
        raise LabelsError(
            f"{what}: {item.name}",
            expected="a label for each row",
            came="there are only soft labels" if item.has_labels else "there are none",
            do="give what came true for each row",
        )


def check_clean(predictions: Known, clean: Known) -> None:
    """Refuse clean rows that cannot fit the temperature of these predictions: without labels, or of other classes."""
    _check_rows(clean, "clean")
    if predictions.task != clean.task:
        came = f"{predictions.name} is {predictions.task} and they are {clean.task}"
        raise ShapeError("clean", expected="rows of the same task", came=came, do=CLEAN_OF)
    one, two = as_classes(predictions), as_classes(clean)
    names = one.class_names, two.class_names
    if one.classes != two.classes or (all(names) and names[0] != names[1]):
        came = f"{predictions.name} has {one.classes} and they have {two.classes}"
        if one.classes == two.classes:
            came = f"those of {predictions.name} have other names"
        raise ShapeError("clean", expected="rows of the same classes", came=came, do=CLEAN_OF)


def _same_members(predictions: Known, clean: Known) -> None:
    if predictions.members != clean.members:
        raise ShapeError(
            "clean",
            expected=f"the same {predictions.members} members",
            came=f"{clean.name} has {clean.members}",
            do="give clean predictions of the same members",
        )


def _codes(predictions: Known, units: str | None) -> np.ndarray | None:
    """The number (N,) of the unit of each row."""
    return None if units is None else np.unique(predictions.column(units), return_inverse=True)[1].ravel()


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
