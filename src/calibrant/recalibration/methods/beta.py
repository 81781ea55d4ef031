"""Beta calibration: logit q = a ln p − b ln(1 − p) + c with a, b ≥ 0, fitted by maximum likelihood.

This map makes p calibrated if p has a beta distribution among the rows of either class. With two classes (or judged
answers) p is that of class 1; with more, each class is calibrated against the rest, and rows are divided by their sums.
`form`: "abm" fits all three; "am" has a = b; "ab" has c = (a − b) ln 2, so that 1/2 stays 1/2. A slope that would be
negative is set to 0, where the concave likelihood is largest among non-negative slopes.

Kull, Silva Filho & Flach (2017), Beta calibration: a well-founded and easily implemented improvement on logistic
calibration for binary classifiers, AISTATS.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, logsumexp

from calibrant.kernels.exact import exact_sum
from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows, keep_top_class
from calibrant.recalibration.fit_report import FitReport
from calibrant.recalibration.methods.linear_maps import RIDGE, RIDGE_STEP, Minimum, classes_have, newton

FORMS = ("abm", "am", "ab")
LN2 = float(np.log(2.0))


def log_rest(log_probs: np.ndarray) -> np.ndarray:
    """ln(1 − p) (n, C) from ln p; for the most probable class, whose p may round to 1, from the sum of the others."""
    rows, top = np.arange(len(log_probs)), log_probs.argmax(axis=1)
    others = log_probs.copy()
    others[rows, top] = -np.inf
    out = np.log1p(-np.exp(np.minimum(others, -LN2)))
    out[rows, top] = np.minimum(logsumexp(others, axis=1), 0.0)
    return out


# ------------------------------------------------------------------------------------------ the map
@dataclass(frozen=True)
class BetaMap(ClassMap):
    """a, b and c (K,): of class 1 if there are two classes (K = 1), otherwise of each class."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    form: str

    def __post_init__(self) -> None:
        abc = np.stack([self.a, self.b, self.c])
        if abc.ndim != 2 or not np.isfinite(abc).all() or (abc[:2] < 0).any() or self.form not in FORMS:
            raise ValueError("a, b and c must be finite, with a ≥ 0 and b ≥ 0, for each class")

    def matches_classes(self, classes: int) -> bool:
        """Whether there is a curve for the second of two classes, or for each."""
        return len(self.a) == (1 if classes == 2 else classes)

    @property
    def binary(self) -> bool:
        return len(self.a) == 1

    def apply(self, log_probs: np.ndarray) -> np.ndarray:
        """The logarithms of σ(a ln p − b ln(1 − p) + c), normalised."""
        if self.binary:
            logits = self.a * log_probs[:, 1] - self.b * log_probs[:, 0] + self.c
            output = -np.logaddexp(0.0, np.stack([logits, -logits], axis=1))
        else:
            output = -np.logaddexp(0.0, -(self.a * log_probs - self.b * log_rest(log_probs) + self.c))
            output -= logsumexp(output, axis=1, keepdims=True)
        return keep_top_class(output, log_probs) if self.keeps_order else output

    @property
    def n_parameters(self) -> int:
        """Three, or two, for each curve."""
        return len(self.form) * len(self.a)

    @property
    def injective(self) -> bool:
        """Whether every curve is strictly increasing: a, b ≥ 0, not both 0.

        With several classes: were the normalised rows of two predictions p, p' the same, there would be an s ≥ 1 with
        g_k(p_k) = s g_k(p'_k) for all k (else swap them). With s > 1 every p_k > p'_k, but both sum to one.
        """
        return bool((self.a + self.b > 0).all())

    @property
    def keeps_order(self) -> bool:
        """Whether all classes have one increasing curve; with two classes, whether 1/2 stays 1/2."""
        if self.binary:
            return self.injective and bool(self.c[0] == (self.a[0] - self.b[0]) * LN2)
        return self.injective and all(np.ptp(each) == 0 for each in (self.a, self.b, self.c))


# ------------------------------------------------------------------------------------- one curve
@dataclass(frozen=True)
class CurveFit:
    """The fit of one curve: features (n, 2) are ln p and −ln(1 − p), `hits` whether the class was observed."""

    features: np.ndarray
    hits: np.ndarray
    row_weights: np.ndarray
    form: str = "abm"

    @cached_property
    def design(self) -> np.ndarray:
        """ln p, −ln(1 − p) and 1."""
        return np.concatenate([self.features, np.ones((len(self.features), 1))], axis=1)

    def loss(self, a: float, b: float, c: float) -> float:
        """The mean negative log-likelihood of a curve."""
        logits = self.design @ np.array([a, b, c])
        return exact_sum(self.row_weights * np.logaddexp(0.0, np.where(self.hits, -logits, logits)))

    def fit(self) -> tuple[np.ndarray, Minimum, bool]:
        """(a, b, c), how the minimum was found, and whether only the ridge keeps one of them finite."""
        forms = {"abm": np.eye(3), "am": [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], "ab": [[1, 0], [0, 1], [LN2, -LN2]]}
        mixing = np.array(forms[self.form], float)  # (a, b, c) = mixing · free variables
        unconstrained = self._fit_free(mixing)
        n_slopes = 1 if self.form == "am" else 2
        if (unconstrained[1].theta[:n_slopes] >= 0).all():
            return unconstrained
        edges = [self._fit_free(np.delete(mixing, k, axis=1)) for k in range(n_slopes)]
        edges = [edge for edge in edges if (edge[0][:2] >= 0).all()] or [self._fit_free(mixing[:, n_slopes:])]
        return min(edges, key=lambda edge: edge[1].value)

    def _fit_free(self, mixing: np.ndarray) -> tuple[np.ndarray, Minimum, bool]:
        """The minimum over the free variables, without constraints."""
        x, identity = self.design @ mixing, np.linalg.lstsq(mixing, np.array([1.0, 1.0, 0.0]), rcond=None)[0]

        def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
            logits, offset = x @ theta, theta - identity
            value = float(self.row_weights @ np.logaddexp(0.0, np.where(self.hits, -logits, logits)))
            gradient = x.T @ (self.row_weights * (expit(logits) - self.hits))
            return value + 0.5 * RIDGE * float(offset @ offset), gradient + RIDGE * offset

        def hessian(theta: np.ndarray) -> np.ndarray:
            p = expit(x @ theta)
            return (x.T * (self.row_weights * p * (1.0 - p))) @ x + RIDGE * np.eye(len(theta))

        if not len(identity):
            return np.zeros(3), Minimum(identity, *value_and_gradient(identity), True, 0, 1), False
        minimum = newton(value_and_gradient, hessian, identity)
        step = cho_solve(cho_factor(hessian(minimum.theta)), RIDGE * (minimum.theta - identity))
        return mixing @ minimum.theta, minimum, bool((np.abs(step) > RIDGE_STEP).any())


# -------------------------------------------------------------------------------------- the method
@dataclass(eq=False, kw_only=True)
class BetaCalibration(ClassRecalibrator):
    """An increasing curve of three parameters for class 1, or for each class against the rest.

    Parameters
    ----------
    form : {"abm", "am", "ab"}
        Fit a, b and c; a = b and c; or a and b, keeping 1/2 at 1/2.

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Classification.from_probs([0.1, 0.2, 0.8, 0.9] * 25, [0, 1, 1, 0, 0, 0, 1, 1] * 12 + [0, 0, 1, 1])
    >>> beta = cal.recalibration.BetaCalibration(form="am").fit(p)
    >>> beta.maps[0].a.round(3).tolist(), beta.maps[0].b.round(3).tolist()
    ([0.62], [0.62])
    """

    name = "beta"
    title = "Beta calibration"
    reference = (
        "Kull, Silva Filho & Flach (2017), Beta calibration: a well-founded and easily implemented improvement on "
        "logistic calibration for binary classifiers, AISTATS"
    )
    map_class = BetaMap
    promises_accuracy = False
    form: str = option("abm", "what is fitted: a, b, m; a = b, m; or a, b, with 1/2 kept", choices=FORMS)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[BetaMap, FitReport]:
        log_probs = rows.log_probs
        rest = log_rest(log_probs) if rows.classes > 2 else log_probs[:, ::-1]
        counted = rows.row_weights > 0
        labels, row_weights = rows.labels[counted], rows.row_weights[counted]
        curves = [
            CurveFit(np.stack([log_probs[counted, k], -rest[counted, k]], axis=1), labels == k, row_weights, self.form)
            for k in (range(rows.classes) if rows.classes > 2 else (1,))
        ]
        results = [curve.fit() for curve in curves]
        a, b, c = np.stack([abc for abc, _, _ in results], axis=1)
        a, b = np.maximum(a, 0.0), np.maximum(b, 0.0)
        fitted = BetaMap(a, b, (a - b) * LN2 if self.form == "ab" else c, self.form)
        at_bound = []
        for name, values in (("a", fitted.a), ("b", fitted.b)):
            if (values == 0).any():
                who = "the curve has" if fitted.binary else classes_have(values == 0)
                at_bound.append(f"{who} {name} = 0, the lower bound: a decreasing curve would fit better")
        ridge_only = np.array([ridge for _, _, ridge in results])
        if ridge_only.any():
            who = "the curve has" if fitted.binary else classes_have(ridge_only)
            text = f"{who} parameters that only a ridge of {RIDGE:g} keeps finite: the likelihood keeps rising"
            at_bound.append(f"{text}, as with separable classes")
        before, after = rows.nll(log_probs), rows.nll(fitted.apply(log_probs))
        text = f"the nll of all classes together rose from {before:.6g} to {after:.6g}"
        minima = [minimum for _, minimum, _ in results]
        fit = FitReport(
            n=rows.n, loss="nll" if fitted.binary else "nll of each class against the rest",
            before=exact_sum(np.array([curve.loss(1.0, 1.0, 0.0) for curve in curves])),
            after=exact_sum(np.array([curve.loss(*abc) for curve, (abc, _, _) in zip(curves, results, strict=True)])),
            converged=all(each.converged for each in minima), iterations=max(each.iterations for each in minima),
            passes=max(each.passes for each in minima), gradient=max(each.max_gradient for each in minima),
            at_bound=tuple(at_bound), messages=() if fitted.binary or after <= before else (("nll-rose", text),),
        )  # fmt: skip
        return fitted, fit
