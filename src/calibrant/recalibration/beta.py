"""Beta calibration: logit q = a ln p − b ln(1 − p) + c with a, b ≥ 0, of the largest likelihood.

It is the map that makes p calibrated where p has a beta distribution among the rows of either class. With two classes
(or judged answers) p is that of class 1; with more, each class is calibrated against the rest, and rows are divided by
their sums. `form`: "abm" fits all three; "am" has a = b; "ab" has c = (a − b) ln 2, so that 1/2 stays 1/2. A slope
that would be negative is 0, as the likelihood, which is concave, is then largest there among slopes that are not.

Kull, Silva Filho & Flach (2017), Beta calibration: a well-founded and easily implemented improvement on logistic
calibration for binary classifiers, AISTATS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, logsumexp

from calibrant.kernels.exact import exact_sum
from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows
from calibrant.recalibration.isotonic_multiclass import kept_on_top
from calibrant.recalibration.linear_maps import MOVES, RIDGE, classes_have
from calibrant.recalibration.newton import Minimum, newton
from calibrant.recalibration.report import Fit

FORMS = ("abm", "am", "ab")
LN2 = float(np.log(2.0))


def log_rest(logs: np.ndarray) -> np.ndarray:
    """ln(1 − p) (n, C) of ln p: of the likeliest class, whose p may be 1 but for rounding, by the sum of the others."""
    rows, top = np.arange(len(logs)), logs.argmax(axis=1)
    others = logs.copy()
    others[rows, top] = -np.inf
    out = np.log1p(-np.exp(np.minimum(others, -LN2)))
    out[rows, top] = np.minimum(logsumexp(others, axis=1), 0.0)
    return out


# ------------------------------------------------------------------------------------------ the map
@dataclass(frozen=True)
class BetaMap(ClassMap):
    """a, b and c (K,): of class 1 where there are two classes (K = 1), else of each class."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    form: str

    def __post_init__(self) -> None:
        numbers = np.stack([self.a, self.b, self.c])
        if numbers.ndim != 2 or not np.isfinite(numbers).all() or (numbers[:2] < 0).any() or self.form not in FORMS:
            raise ValueError("finite a, b and c for each class, a and b not below 0")

    def is_for(self, classes: int) -> bool:
        """Whether there is a curve for the second of two classes, or for each."""
        return len(self.a) == (1 if classes == 2 else classes)

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return len(self.a) == 1

    def apply(self, logs: np.ndarray) -> np.ndarray:
        """The logarithms of σ(a ln p − b ln(1 − p) + c), normalised."""
        if self.binary:
            logits = self.a * logs[:, 1] - self.b * logs[:, 0] + self.c
            made = -np.logaddexp(0.0, np.stack([logits, -logits], axis=1))
        else:
            made = -np.logaddexp(0.0, -(self.a * logs - self.b * log_rest(logs) + self.c))
            made -= logsumexp(made, axis=1, keepdims=True)
        return kept_on_top(made, logs) if self.keeps_order else made

    @property
    def n_parameters(self) -> int:
        """Three, or two, of each class that has a curve."""
        return len(self.form) * len(self.a)

    @property
    def injective(self) -> bool:
        """Whether every curve rises: a, b ≥ 0, not both 0.

        Of several classes: were the rows of two predictions p, p' the same once divided, there would be an s ≥ 1 with
        g_k(p_k) = s g_k(p'_k) for all k (else swap them). With s > 1 every p_k > p'_k, but both sum to one.
        """
        return bool((self.a + self.b > 0).all())

    @property
    def keeps_order(self) -> bool:
        """Whether all classes have one rising curve; of two classes, whether 1/2 stays 1/2."""
        if self.binary:
            return self.injective and bool(self.c[0] == (self.a[0] - self.b[0]) * LN2)
        return self.injective and all(np.ptp(each) == 0 for each in (self.a, self.b, self.c))


# ------------------------------------------------------------------------------------- one curve
@dataclass(frozen=True)
class Curve:
    """The fit of one curve: features (n, 2) are ln p and −ln(1 − p), `hits` whether the class came true."""

    features: np.ndarray
    hits: np.ndarray
    shares: np.ndarray
    form: str = "abm"
    mixing: np.ndarray = field(init=False)
    """What makes (a, b, c) of the free variables."""

    def __post_init__(self) -> None:
        known = {"abm": np.eye(3), "am": [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], "ab": [[1, 0], [0, 1], [LN2, -LN2]]}
        object.__setattr__(self, "mixing", np.array(known[self.form], float))

    @cached_property
    def wide(self) -> np.ndarray:
        """ln p, −ln(1 − p) and 1."""
        return np.concatenate([self.features, np.ones((len(self.features), 1))], axis=1)

    def loss(self, a: float, b: float, c: float) -> float:
        """The mean negative log-likelihood of a curve."""
        logits = self.wide @ np.array([a, b, c])
        return exact_sum(self.shares * np.logaddexp(0.0, np.where(self.hits, -logits, logits)))

    def best(self) -> tuple[np.ndarray, Minimum, bool]:
        """(a, b, c), how they were found, and whether the ridge alone holds one of them."""
        whole = self._fit(self.mixing)
        slopes = 1 if self.form == "am" else 2
        if (whole[1].theta[:slopes] >= 0).all():
            return whole
        edges = [self._fit(np.delete(self.mixing, k, axis=1)) for k in range(slopes)]
        edges = [edge for edge in edges if (edge[0][:2] >= 0).all()] or [self._fit(self.mixing[:, slopes:])]
        return min(edges, key=lambda edge: edge[1].value)

    def _fit(self, mixing: np.ndarray) -> tuple[np.ndarray, Minimum, bool]:
        """The best of (a, b, c) = mixing · variables."""
        x, still = self.wide @ mixing, np.linalg.lstsq(mixing, np.array([1.0, 1.0, 0.0]), rcond=None)[0]
        if not len(still):
            value, gradient = self._slope(x, still, still)
            return np.zeros(3), Minimum(still, value, gradient, True, 0, 1), False
        found = newton(lambda theta: self._slope(x, theta, still), lambda theta: self._curvature(x, theta), still)
        step = cho_solve(cho_factor(self._curvature(x, found.theta)), RIDGE * (found.theta - still))
        return mixing @ found.theta, found, bool((np.abs(step) > MOVES).any())

    def _slope(self, x: np.ndarray, theta: np.ndarray, still: np.ndarray) -> tuple[float, np.ndarray]:
        logits, off = x @ theta, theta - still
        value = float(self.shares @ np.logaddexp(0.0, np.where(self.hits, -logits, logits)))
        gradient = x.T @ (self.shares * (expit(logits) - self.hits))
        return value + 0.5 * RIDGE * float(off @ off), gradient + RIDGE * off

    def _curvature(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        chance = expit(x @ theta)
        return (x.T * (self.shares * chance * (1.0 - chance))) @ x + RIDGE * np.eye(len(theta))


# -------------------------------------------------------------------------------------- the method
@dataclass(eq=False, kw_only=True)
class BetaCalibration(ClassRecalibrator):
    """A rising curve of three parameters for class 1, or for each class against the rest."""

    name = "beta"
    title = "Beta calibration"
    reference = (
        "Kull, Silva Filho & Flach (2017), Beta calibration: a well-founded and easily implemented improvement on "
        "logistic calibration for binary classifiers, AISTATS"
    )
    map_class = BetaMap
    promises_accuracy = False
    form: str = option("abm", "what is fitted: a, b, m; a = b, m; or a, b, with 1/2 kept", choices=FORMS)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[BetaMap, Fit]:
        """The curves of the largest likelihood."""
        rest = log_rest(rows.logs) if rows.classes > 2 else rows.logs[:, ::-1]
        curves = [self._curve(rows, rest, k) for k in (range(rows.classes) if rows.classes > 2 else (1,))]
        results = [curve.best() for curve in curves]
        a, b, c = np.stack([found for found, _, _ in results], axis=1)
        a, b = np.maximum(a, 0.0), np.maximum(b, 0.0)
        made = BetaMap(a, b, (a - b) * LN2 if self.form == "ab" else c, self.form)
        ends = [end for _, end, _ in results]
        fit = Fit(
            n=rows.n,
            loss="nll" if made.binary else "nll of each class against the rest",
            before=exact_sum(np.array([curve.loss(1.0, 1.0, 0.0) for curve in curves])),
            after=exact_sum(
                np.array([curve.loss(*found) for curve, (found, _, _) in zip(curves, results, strict=True)])
            ),
            converged=all(end.converged for end in ends),
            iterations=max(end.iterations for end in ends),
            passes=max(end.passes for end in ends),
            gradient=max(end.steepest for end in ends),
            at_bound=_bounds(made, np.array([held for _, _, held in results])),
            said=_said(rows, made),
        )
        return made, fit

    def _curve(self, rows: ClassRows, rest: np.ndarray, k: int) -> Curve:
        counted = rows.shares > 0
        features = np.stack([rows.logs[counted, k], -rest[counted, k]], axis=1)
        return Curve(features, rows.labels[counted] == k, rows.shares[counted], self.form)


def _bounds(made: BetaMap, held: np.ndarray) -> tuple[str, ...]:
    """What ended at a bound, in words."""
    out = []
    for name, values in (("a", made.a), ("b", made.b)):
        if (values == 0).any():
            who = "the curve has" if made.binary else classes_have(values == 0)
            out.append(f"{who} {name} = 0, as it would be below 0: a falling curve would turn predictions round")
    if held.any():
        who = "the curve has" if made.binary else classes_have(held)
        why = f"but a ridge of {RIDGE:g}: larger ones are ever more likely, as where rows are told apart without error"
        out.append(f"{who} parameters that nothing holds {why}")
    return tuple(out)


def _said(rows: ClassRows, made: BetaMap) -> tuple[tuple[str, str], ...]:
    """What else should be known: curves of single classes can make the predictions of all classes together worse."""
    before, after = rows.nll(rows.logs), rows.nll(made.apply(rows.logs))
    if made.binary or after <= before:
        return ()
    return (("nll-rose", f"the nll of all classes together rose from {before:.6g} to {after:.6g}"),)
