"""`abstain`: answer only above a threshold whose error rate is certified (Learn-then-Test).

For thresholds λ₁ > λ₂ > …, each the hypothesis "the error rate of rows with confidence ≥ λ is above `risk`" is tested
on held-out rows by the exact binomial p = P(Bin(n, risk) ≤ errors). They are tested in this order until one is not
rejected at `delta`; the last rejected one is used. In a fixed sequence no correction is needed, and the error rate is
at most `risk` with probability 1 − delta over held-out rows (Angelopoulos, Bates, Candès, Jordan & Lei 2021, Learn then
Test). The thresholds are quantiles of the confidences of the rows to apply to, so that they do not depend on the rows
that certify them. Those rows must be independent: with units, one row of each is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import MAX_SEED, LabelsError, check_range
from calibrant.kernels.rows import rows_of
from calibrant.predictions import Classification, Judged

STEPS = 100
"""Thresholds of the sequence."""
MARGIN = 4.0
"""Expected rows of the first test over the fewest that can certify anything: a test with little power would end it."""


@dataclass(frozen=True)
class Abstention:
    """A certified threshold, or none."""

    risk: float
    delta: float
    threshold: float | None
    """Answer where the confidence is at least this; None where nothing is certified."""
    fitted_rows: int
    """Independent rows on which it was certified."""
    accepted: np.ndarray
    """Which of the rows to apply to are answered (N,)."""
    fitted_errors: int
    fitted_accepted: int
    p_value: float
    error: float
    """The error rate of the answered rows, NaN without labels."""

    @property
    def coverage(self) -> float:
        """The share of rows that are answered."""
        return float(self.accepted.mean())

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "method": "abstain", "risk": self.risk, "delta": self.delta, "threshold": self.threshold,
            "coverage": self.coverage, "error": None if math.isnan(self.error) else self.error,
            "certified_on": {"rows": self.fitted_rows, "accepted": self.fitted_accepted, "errors": self.fitted_errors,
                             "p_value": self.p_value},
        }  # fmt: skip

    def __str__(self) -> str:
        if self.threshold is None:
            return (
                f"No threshold is certified: no error rate of at most {self.risk:g} at delta = {self.delta:g}\n"
                f"  · {self.fitted_rows} independent held-out rows; answer nothing, or allow a higher --risk"
            )
        lines = [
            f"Answer where the confidence is at least {self.threshold:.4f}: error rate at most {self.risk:g}, "
            f"certified at {1 - self.delta:g}",
            f"  · certified on {self.fitted_rows} rows: {self.fitted_errors} errors in {self.fitted_accepted} answers",
            f"  · {self.coverage:.1%} of the {len(self.accepted)} new rows are answered"
            + ("" if math.isnan(self.error) else f", {self.error:.1%} of them wrongly"),
        ]
        return "\n".join(lines)


def abstain(
    fit: Classification | Judged,
    apply: Classification | Judged,
    *,
    risk: float = 0.05,
    delta: float = 0.05,
    units: str | None = None,
    seed: int = 0,
) -> Abstention:
    """Find the threshold of confidence above which the error rate is certified.

    Parameters
    ----------
    fit : Classification or Judged
        Held-out predictions with labels.
    apply : Classification or Judged
        The rows to answer or to abstain on; labels are optional.
    risk : float
        The largest error rate among answered rows.
    delta : float
        The probability with which the certificate may be wrong.
    units : str, optional
        A column of dependent rows of `fit`: one of each unit is drawn.
    seed : int
        Seed of this draw.

    Returns
    -------
    Abstention
        `threshold`, None where none is certified, and `accepted`.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cal
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.5, 1, 4000)
    >>> answers = cal.Judged.from_confidence(p, rng.random(4000) < p)
    >>> found = cal.conformal.abstain(answers[:2000], answers[2000:], risk=0.1)
    >>> found.error < 0.12, 0.2 < found.coverage < 0.5
    (True, True)
    """
    risk = check_range("risk", risk, 0, 1, inclusive="neither", hint="use risk=0.05")
    delta = check_range("delta", delta, 0, 1, inclusive="neither", hint="use delta=0.05")
    seed = check_range("seed", seed, 0, MAX_SEED, integer=True, hint="use seed=0")
    if not fit.has_labels:
        raise LabelsError(fit.name, expected="labels", got="none", hint="certify on rows with known outcomes")
    record = rows_of(fit)
    confidence, hit = np.asarray(record.confidence, np.float64), np.asarray(record.hit, np.float64)
    if units is not None:
        values = fit.column(units)
        shuffled = np.random.Generator(np.random.Philox(key=seed)).permutation(fit.n)
        first = np.unique(values[shuffled], return_index=True)[1]
        chosen = np.sort(shuffled[first])
        confidence, hit = confidence[chosen], hit[chosen]
    new = np.asarray(rows_of(apply).confidence, np.float64)
    threshold, best = None, (0, 0, 1.0)
    for candidate in sequence(new, len(confidence), risk, delta):
        inside = confidence >= candidate
        count, errors = int(inside.sum()), int((1.0 - hit[inside]).sum())
        p_value = binomial_p(errors, count, risk)
        if p_value > delta:
            if threshold is None:
                best = (count, errors, p_value)
            break
        threshold, best = float(candidate), (count, errors, p_value)
    accepted = np.zeros(apply.n, bool) if threshold is None else new >= threshold
    error = math.nan
    if apply.has_labels and accepted.any():
        error = float(1.0 - np.asarray(rows_of(apply).hit, np.float64)[accepted].mean())
    return Abstention(risk, delta, threshold, len(confidence), accepted, best[1], best[0], best[2], error)


def sequence(new: np.ndarray, rows: int, risk: float, delta: float) -> np.ndarray:
    """Falling thresholds, from the confidences of new rows alone."""
    fewest = math.ceil(math.log(delta) / math.log(1.0 - risk))
    start = min(1.0, MARGIN * fewest / rows)
    shares = np.linspace(start, 1.0, STEPS)
    return np.unique(np.quantile(new, 1.0 - shares, method="lower"))[::-1]


def binomial_p(errors: int, n: int, risk: float) -> float:
    """P(Bin(n, risk) ≤ errors): small where the error rate is below the risk."""
    from scipy.stats import binom

    return float(binom.cdf(errors, n, risk)) if n else 1.0
