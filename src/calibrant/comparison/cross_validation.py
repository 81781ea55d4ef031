"""The calibrated log-likelihood (CLL): log-likelihood at the best temperature, fitted on rows that are not scored.

The temperature applies to log p of the averaged prediction: p_T ∝ p^(1/T). With temperatures of the *same* rows
(Ashukha et al. 2020) it is fitted on one half and used on the other, both ways, in every repeat of `splits`. The CLL of
a row is the mean over repeats, and the CLL of a model the mean over rows, which is the average over halves if they have
equal size. With the temperature of *clean* rows (Ovadia et al. 2019) one temperature, fitted on other rows, is used for
all. A label of probability 0 keeps it at every temperature: its CLL is −∞, and fits ignore it. A single model is used
as given, however large its logits; in an average of members, a class whose probabilities are all below 2⁻¹⁰²⁰ counts as
impossible, unless it is the label.

Curves have the CLL of k members for every k, in the given order or in random orders. A draw is a random order of all
members, whose first k are the draw of size k. Orders sort the Philox words of (seed, MEMBER_ORDERS, draw, member).
Members are added one by one to the sums of their probabilities in float64, and the temperatures of k − 1 members are
the starting point for those of k.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from calibrant.comparison.split_temperatures import Halves, Splits, best_inverses, halves_of
from calibrant.errors import LabelsError, ValuesError
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import MEMBER_ORDERS
from calibrant.kernels.temperature_taylor import RowExpansions
from calibrant.predictions import Classification, Judged
from calibrant.recalibration.base import normalized_weights
from calibrant.recalibration.class_rows import as_classification, check_rows
from calibrant.recalibration.temperature_solver import BOUND
from calibrant.results.comparison import CllCurve

SAME, CLEAN = "same", "clean"


@dataclass(frozen=True)
class Calibrated:
    """The scores of the rows of one model at temperatures fitted on other rows."""

    log_likelihood: np.ndarray
    """(N,) log p_T(label), the mean over repeats."""
    brier: np.ndarray
    """(N,) Brier score at the same temperatures, the mean over repeats."""
    temperatures: np.ndarray
    """(R, 2): [r, h] is fitted on half h of repeat r and used on the other half; (1, 1) for clean rows."""
    temperature: float
    """Fitted on all rows, for information only; on clean rows, the one that is used."""
    before: np.ndarray = field(default_factory=lambda: np.empty(0))
    """(N,) log p(label) before temperature scaling."""


def calibrated(predictions: Classification | Judged, splits: Splits, threads: int | None = None) -> Calibrated:
    """Test-time cross-validation of the average of the members of a model."""
    known = as_classification(predictions)
    rows = expanded(known, threads)
    halves = halves_of(rows, splits, normalized_weights(known))
    before = rows.log_likelihood()
    beta = best_inverses(rows, halves)
    total = np.zeros((2, rows.n))
    for r, half in enumerate(splits.half):
        total += rows.exact(beta[r][1 - half.astype(np.int64)])
    total /= splits.repeats
    return Calibrated(total[0], total[1], 1.0 / beta[:-1], float(1.0 / beta[-1, 0]), before)


def calibrated_by(
    predictions: Classification | Judged, clean: Classification | Judged, threads: int | None = None
) -> Calibrated:
    """All rows at the temperature fitted on clean rows."""
    rows, other = expanded(as_classification(predictions), threads), as_classification(clean)
    fit = expanded(other, threads)
    beta = float(best_inverses(fit, halves_of(fit, unsplit(fit.n), normalized_weights(other)))[-1, 0])
    loglik, brier = rows.exact(np.full(rows.n, beta))
    return Calibrated(loglik, brier, np.array([[1.0 / beta]]), 1.0 / beta, rows.log_likelihood())


def unsplit(n: int) -> Splits:
    """No splits of n rows, so that one temperature is fitted on all of them."""
    return Splits(np.zeros((0, n), np.uint8), 0)


def expanded(predictions: Classification, threads: int | None) -> RowExpansions:
    """The rows of the average of all members, expanded about T = 1; invalid rows are refused."""
    rows = RowExpansions(labels_of(predictions), predictions.classes, threads)
    if predictions.members == 1:
        rows.take(member_scores(predictions, 0), predictions.kind)
    else:
        for m in range(predictions.members):
            rows.add(member_scores(predictions, m), predictions.kind)
    rows.expand(1.0)
    refuse_faulty(rows, predictions)
    return rows


def labels_of(predictions: Classification) -> np.ndarray:
    """The label (N,) of each row."""
    if predictions.labels is not None:
        return np.ascontiguousarray(predictions.labels, np.int64)
    raise LabelsError(
        f"calibrated log-likelihood: {predictions.name}",
        expected="a label for each row",
        got="only soft labels" if predictions.label_probs is not None else "none",
        hint="add the labels of the rows",
    )


def member_scores(predictions: Classification, m: int) -> np.ndarray:
    """The scores (N, C) of one member in float32 or float64, C order; not copied if they are already."""
    member = predictions.member(m)
    (_, block), *_ = member.score_blocks(member.n)
    return block[0]


def refuse_faulty(rows: RowExpansions, predictions: Classification) -> None:
    """Refuse invalid rows, with the messages of recalibration."""
    if not rows.faulty:
        return
    check_rows(predictions)
    raise ValuesError(predictions.kind, expected="finite numbers", got="numbers beyond float64", hint="scale them down")


@dataclass(frozen=True)
class CurveRows:
    """The CLL of the first k = 1 … K members of D orders."""

    values: np.ndarray
    """(D, K) CLL."""
    rows: np.ndarray
    """(K, N) CLL of each row, the mean over draws."""
    interaction: np.ndarray
    """(K,) the variance of a mean over rows (or units) of CLL minus its mean over draws, averaged over draws and
    divided by 1 − 1/D: the interaction of rows and members in the variance of the mean. 0 for one draw."""
    log_likelihood: np.ndarray
    """(D, K) before temperature scaling."""
    temperature: np.ndarray
    """(D, K) temperatures fitted on all rows."""

    def curve(
        self, predictions: Classification | Judged, *, repeats: int, seed: int, fitted_on: str = SAME
    ) -> CllCurve:
        """Means and standard deviations over draws, by the number of members."""
        draws, most = self.values.shape
        with np.errstate(invalid="ignore"):
            std = self.values.std(axis=0, ddof=1) if draws > 1 else np.full(most, np.nan)
        return CllCurve(
            name=predictions.name, k=tuple(range(1, most + 1)), mean=tuple(self.values.mean(axis=0).tolist()),
            std=tuple(std.tolist()), log_likelihood=tuple(self.log_likelihood.mean(axis=0).tolist()),
            temperature=tuple(self.temperature.mean(axis=0).tolist()), draws=draws, n=predictions.n,
            repeats=int(repeats), seed=int(seed), fitted_on=fitted_on,
        )  # fmt: skip


def member_orders(members: int, draws: int, seed: int) -> np.ndarray:
    """(D, M) orders of the members; for one draw, the given order."""
    if draws == 1:
        return np.arange(members)[None]
    return np.stack([np.argsort(words(seed, MEMBER_ORDERS, d, members), kind="stable") for d in range(draws)])


def curve_rows(
    predictions: Classification | Judged,
    splits: Splits,
    orders: np.ndarray,
    threads: int | None = None,
    units: np.ndarray | None = None,
    clean: Classification | Judged | None = None,
) -> CurveRows:
    """CLL of the first k members of each order (D, K), weighted by row weights.

    units: the number (N,) of the unit of each row, used for `interaction` only. clean: other rows that fit the
    temperature, with predictions of the same members; they are not split.
    """
    known, other = as_classification(predictions), None if clean is None else as_classification(clean)
    rows, share = RowExpansions(labels_of(known), known.classes, threads), normalized_weights(known)
    fit = None if other is None else RowExpansions(labels_of(other), other.classes, threads)
    halves = halves_of(fit or rows, splits, share if other is None else normalized_weights(other))
    (draws, most), n = orders.shape, known.n
    mass = _unit_sums(np.ones(n), share, units)
    values, before, temperature, along = (np.empty((draws, most)) for _ in range(4))
    mean, centre = np.zeros((most, n)), np.zeros((most, len(mass) if draws > 1 else 0))
    spread = np.zeros_like(centre)
    for d, order in enumerate(orders):
        for k, (scores, plain, fitted) in enumerate(_steps(known, rows, halves, order, other, fit)):
            values[d, k], before[d, k], temperature[d, k] = _mean(scores, share), _mean(plain, share), fitted
            if draws == 1:
                mean[k] = scores
                continue
            with np.errstate(invalid="ignore"):  # Welford's recurrence, without storing draws
                sums = _unit_sums(scores, share, units)
                deviation = sums - centre[k]
                centre[k] += deviation / (d + 1)
                spread[k] += deviation * (sums - centre[k])
                along[d, k] = mass @ sums
                mean[k] = np.where(np.isfinite(scores), mean[k] + (scores - mean[k]) / (d + 1), -np.inf)
    if draws == 1:
        return CurveRows(values, mean, np.zeros(most), before, temperature)
    # the mean over draws of Σ_u (s_u − m_u v)²: s_u the sum of a unit minus its mean over draws, v = Σ s_u
    with np.errstate(invalid="ignore"):
        v, a = values - values.mean(axis=0), along - along.mean(axis=0)
        noise = spread.sum(axis=1) / draws - 2.0 * (v * a).mean(axis=0) + (v * v).mean(axis=0) * (mass @ mass)
    return CurveRows(values, mean, np.maximum(noise, 0.0) / (1.0 - 1.0 / draws), before, temperature)


def _steps(
    predictions: Classification,
    rows: RowExpansions,
    halves: Halves,
    order: np.ndarray,
    clean: Classification | None,
    fit: RowExpansions | None,
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """For k = 1, 2, … members: CLL (N,), log p(label) before temperature scaling (N,), the temperature of all rows."""
    rows.clear()
    scores = np.empty(rows.n)
    guess: np.ndarray | None = None
    last: np.ndarray | None = None
    if fit is not None:
        fit.clear()
    for k, m in enumerate(order.tolist(), 1):
        # the smallest guess: expansions are most accurate above their centre
        start = 1.0 if guess is None else float(np.nanmin(guess))
        if clean is None or fit is None:
            rows.add(member_scores(predictions, m), predictions.kind, start)
            refuse_faulty(rows, predictions)
            before, impossible = rows.raw() - np.log(k), rows.impossible
            beta = best_inverses(rows, halves, guess=guess, scores=scores)
            calibrated_rows = np.where(impossible, -np.inf, scores)
        else:
            rows.add(member_scores(predictions, m), predictions.kind)
            fit.add(member_scores(clean, m), clean.kind, start)
            refuse_faulty(rows, predictions)
            refuse_faulty(fit, clean)
            beta = best_inverses(fit, halves, guess=guess)
            calibrated_rows, before = (rows.exact(np.full(rows.n, b))[0] for b in (float(beta[-1, 0]), 1.0))
        yield calibrated_rows, before, float(1.0 / beta[-1, 0])
        # half the relative change from k − 1 to k members
        drift = 1.0 if last is None else np.clip(np.sqrt(beta / last), 0.9, 1.1)
        guess, last = np.clip(beta * drift, 1.0 / BOUND, BOUND), beta


def _unit_sums(rows: np.ndarray, share: np.ndarray, units: np.ndarray | None) -> np.ndarray:
    """Σ share · rows of every unit, or of every row without units; rows of weight 0 do not count."""
    with np.errstate(invalid="ignore"):
        weighted = np.where(share > 0, share * rows, 0.0)
    return weighted if units is None else np.bincount(units, weights=weighted)


def _mean(rows: np.ndarray, share: np.ndarray) -> float:
    """Σ share · rows; rows of weight 0 do not count, even if infinite."""
    if share.all():
        return float(share @ rows)
    return float(share[share > 0] @ rows[share > 0])
