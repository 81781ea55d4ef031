"""Entries of the registry: validation of risk models, for the top label, a class or judged answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from calibrant import intervals
from calibrant.calibration import validators
from calibrant.calibration.runs import Runs
from calibrant.intervals import NONE, Interval
from calibrant.predictions import Classification, Judged
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Metric, Option, Spec, refuse_weights
from calibrant.registry.metrics.calibration import BROECKER, LABELS
from calibrant.registry.state.accumulators import Reduced
from calibrant.registry.state.binned_state import two_sided
from calibrant.registry.state.pairs import INFINITE, OF, KeptPairs, class_columns, kept, pairs_of
from calibrant.registry.state.sorted_state import runs_error

COX = "Cox (1958), Biometrika 45: 562-565; Van Calster et al. (2019), BMC Medicine 17: 230"
CLIP = Option("clip", validators.CLIP, "p is clipped this far from 0 and 1", at_least=1e-15, at_most=0.01)
WALD = "Wald; robust with weights or units"
FIT_CELLS = 256
"""Runs that are left where a line is fitted to every redrawn outcome."""


# ------------------------------------------------------------------------------- signed statistics
def _signed(
    state: KeptPairs, settings: Settings, value: float, interval: Interval, of_runs: Callable[..., Any], cells: int
) -> Estimate:
    """A value that may be too low or too high: the p-value is two-sided."""
    null: dict[str, float] = {}
    redrawn = state.redrawn(settings) if math.isfinite(value) else None
    if redrawn is not None:
        coarse, wy = redrawn[0].joined_with(redrawn[1], cells)
        drawn = np.asarray(of_runs(coarse, wy))
        drawn = drawn[np.isfinite(drawn)]
        if len(drawn):
            null = two_sided(drawn, value, settings)
    return Estimate.of(value, state.n, interval, settings, (-INFINITE, INFINITE), **null)


def _sorted_rows(state: KeptPairs) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Sorted rows, so that sums of floats do not depend on the order of the input."""
    p, y, w, units = state.arrays()
    w = np.ones(len(p)) if w is None else w
    order = np.lexsort((y, w, p) if units is None else (y, w, p, units))
    return p[order], y[order], w[order], None if units is None else units[order]


def _spread(terms: np.ndarray, units: np.ndarray | None) -> np.ndarray:
    """Σ t tᵀ (D, D) of terms (N, D) of independent rows, or of their sums over units."""
    if units is not None:
        _, place = np.unique(units, return_inverse=True)
        terms = np.stack([np.bincount(place, column) for column in terms.T], axis=1)
        terms = terms * math.sqrt(len(terms) / max(len(terms) - 1, 1))
    return np.einsum("nd,ne->de", terms, terms)


def _one_unit(state: KeptPairs) -> bool:
    """Whether all rows are of one unit, which leaves no estimate of the variance."""
    units = state.arrays()[3]
    return units is not None and len(np.unique(units)) < 2


def _wald(value: float, variance: float, level: float) -> Interval:
    if not (math.isfinite(value) and math.isfinite(variance) and variance > 0):
        return NONE
    half = intervals.normal_quantile(level) * math.sqrt(variance)
    return Interval(value - half, value + half, "wald")


# ---------------------------------------------------------------------------------- Cox's line
def _line(state: KeptPairs, settings: Settings, which: int, clip: float) -> Estimate:
    """The intercept (0) or slope (1) of logit P(y = 1) = a + b·logit p."""
    runs = state.runs()
    fit: validators.Cox = state.once(("cox", clip), lambda: validators.cox(runs.p, runs.w, runs.wy, clip))
    value = float((fit.intercept, fit.slope)[which])
    if not settings.intervals:
        return Estimate.of(value, state.n)
    variance = state.once(("cox_variance", clip), lambda: _line_covariance(state, fit, clip))[which, which]

    def of_runs(cells: Runs, wy: np.ndarray) -> np.ndarray:
        drawn = state.once(("cox_null", clip, settings), lambda: validators.cox(cells.p, cells.w, wy, clip))
        return (drawn.intercept, drawn.slope)[which]

    return _signed(state, settings, value, _wald(value, float(variance), settings.level), of_runs, FIT_CELLS)


def _line_covariance(state: KeptPairs, fit: validators.Cox, clip: float) -> np.ndarray:
    """Inverse information; with weights or units the robust form H⁻¹JH⁻¹ (White 1982)."""
    if not (state.weighted or state.by_unit) or not np.isfinite(fit.covariance).all():
        return fit.covariance
    if _one_unit(state):
        return np.full((2, 2), np.nan)
    p, y, w, units = _sorted_rows(state)
    p = np.clip(p, clip, 1.0 - clip)
    x = np.log(p) - np.log1p(-p)
    residual = w * (y - 1.0 / (1.0 + np.exp(-(float(fit.intercept) + float(fit.slope) * x))))
    spread = _spread(np.stack([residual, residual * x], axis=1), units)
    return np.einsum("ij,jk,kl->il", fit.covariance, spread, fit.covariance)


def _in_the_large(state: KeptPairs, settings: Settings, clip: float) -> Estimate:
    """The intercept with the slope fixed at 1."""
    runs = state.runs()
    value, variance = (float(x) for x in validators.intercept_at_slope_one(runs.p, runs.w, runs.wy, clip))
    if not settings.intervals:
        return Estimate.of(value, state.n)
    if math.isfinite(value) and (state.weighted or state.by_unit):
        p, y, w, units = _sorted_rows(state)
        p = np.clip(p, clip, 1.0 - clip)
        residual = w * (y - 1.0 / (1.0 + np.exp(-value) * (1.0 - p) / p))
        variance = math.nan if _one_unit(state) else float(variance**2 * _spread(residual[:, None], units)[0, 0])

    def of_runs(cells: Runs, wy: np.ndarray) -> np.ndarray:
        return validators.intercept_at_slope_one(cells.p, cells.w, wy, clip)[0]

    return _signed(state, settings, value, _wald(value, variance, settings.level), of_runs, FIT_CELLS)


def _intercept(spec: Spec, predictions: Classification | Judged) -> Reduced:
    clip = float(spec["clip"])
    reduce = partial(_line, which=0, clip=clip) if spec["slope"] == "free" else partial(_in_the_large, clip=clip)
    return kept(pairs_of(spec, predictions), reduce)


# ---------------------------------------------------------------------------- z, O/E and the others
def _z(state: KeptPairs, settings: Settings) -> Estimate:
    """Standard normal if the predictions are right and the rows independent; rows that depend have no such law."""
    runs = state.runs()
    value = float(validators.spiegelhalter_z(runs.p, runs.w, runs.squares, runs.wy))
    if not settings.intervals or not math.isfinite(value) or state.by_unit or not state.binary:
        return Estimate.of(value, state.n)
    z = intervals.normal_quantile(settings.level)
    p_value = math.erfc(abs(value) / math.sqrt(2.0))
    return Estimate.of(value, state.n, null_low=-z, null_high=z, p_value=p_value)


def _o_e(state: KeptPairs, settings: Settings) -> Estimate:
    runs = state.runs()
    value = float(validators.observed_expected(runs.p, runs.w, runs.wy))
    if not settings.intervals:
        return Estimate.of(value, state.n)
    interval = NONE
    if math.isfinite(value) and value > 0 and not _one_unit(state):
        p, y, w, units = _sorted_rows(state)
        error = math.sqrt(_spread((w * (y - value * p))[:, None], units)[0, 0]) / float((w * y).sum())
        half = intervals.normal_quantile(settings.level) * error
        interval = Interval(value * math.exp(-half), value * math.exp(half), "wald-log") if error > 0 else NONE

    def of_runs(cells: Runs, wy: np.ndarray) -> np.ndarray:
        return validators.observed_expected(cells.p, cells.w, wy)

    return _signed(state, settings, value, interval, of_runs, FIT_CELLS)


def _ici(spec: Spec, predictions: Classification | Judged) -> Reduced:
    settings = {"span": float(spec["span"]), "degree": int(spec["degree"]), "summary": str(spec["summary"])}
    return runs_error(
        pairs_of(spec, predictions),
        partial(validators.ici, **settings),  # type: ignore[arg-type]
        of_many=partial(validators.ici, cells=FIT_CELLS, **settings),  # type: ignore[arg-type]
        interval=spec["summary"] == "mean",
    )


validator = partial(
    Metric, family="calibration tests", direction="none", limits=(-INFINITE, INFINITE), needs=LABELS, cost="sort",
    merge="rows", has_null_band=True, options=(OF,), required_columns=class_columns, short_pass=True,
)  # fmt: skip
"""The defaults of an entry of this file."""

METRICS = (
    validator(
        name="slope",
        title="Calibration slope",
        expected=1.0,
        roles={"test_binary": 2, "test_judged": 2},
        definition="b of the logistic regression logit P(y = 1) = a + b·logit p: 1 if calibrated, below 1 if p "
        "is too extreme.",
        reference=COX,
        bias="Infinite where a threshold on p separates the outcomes; undefined where all p or all y are equal.",
        interval=WALD,
        options=(CLIP, OF),
        accumulate=lambda spec, predictions: kept(
            pairs_of(spec, predictions), partial(_line, which=1, clip=float(spec["clip"]))
        ),
    ),
    validator(
        name="intercept",
        title="Calibration intercept",
        definition="a of the same regression; slope=one fixes b at 1, which is calibration-in-the-large: 0 if "
        "calibrated, below 0 if predictions are too high.",
        reference=COX,
        interval=WALD,
        options=(Option("slope", "free", "fit the slope too, or fix it at 1", choices=("free", "one")), CLIP, OF),
        accumulate=_intercept,
    ),
    validator(
        name="spiegelhalter_z",
        title="Spiegelhalter's z",
        definition="Σ(y − p)(1 − 2p)/(Σ(1 − 2p)²p(1 − p))^½: standard normal if the predictions are right.",
        reference="Spiegelhalter (1986), Statistics in Medicine 5: 421-433",
        comparable=False,
        bias="Grows like √n for any given miscalibration; some miscalibrated models have an expected z of 0.",
        accumulate=lambda spec, predictions: kept(pairs_of(spec, predictions), _z),
    ),
    validator(
        name="o_e",
        title="Observed/expected ratio",
        definition="Σy/Σp: 1 if calibrated on average, below 1 if predictions are too high.",
        reference=COX,
        limits=(0.0, INFINITE),
        interval="Wald on the logarithm; robust with weights or units",
        accumulate=lambda spec, predictions: kept(pairs_of(spec, predictions), _o_e),
    ),
    validator(
        name="ici",
        title="Integrated calibration index",
        definition="Mean over rows of |loess(p) − p|, with local polynomials of y on p. summary=median, p90 and max "
        "are E50, E90, Emax.",
        reference=f"Austin & Steyerberg (2019), Statistics in Medicine 38: 4051-4065; {BROECKER}",
        axis="confidence",
        direction="lower",
        limits=(0.0, 1.0),
        comparable=False,
        bias="Plug-in, biased upwards; less than binned errors, because the curve is smooth.",
        interval="union of three test inversions along 30 cells of equal mass; other summaries have none",
        options=(
            Option("span", 0.75, "share of the rows in a local fit", at_least=0.05, at_most=1.0),
            Option("degree", 2, "degree of the local polynomials", at_least=1, at_most=2),
            Option("summary", "mean", "of |loess(p) − p|", choices=("mean", "median", "p90", "max")),
            OF,
        ),
        accumulate=_ici,
    ),
    validator(
        name="hosmer_lemeshow",
        title="Hosmer–Lemeshow statistic",
        definition="Σ_g (O_g − E_g)²/(E_g(1 − E_g/n_g)) over groups of equal mass; about χ² with as many degrees as "
        "groups if the predictions are right and were not fitted to these rows. The p-value is of redrawn labels.",
        reference=f"Hosmer & Lemeshow (1980), Communications in Statistics A 9: 1043-1069; {BROECKER}",
        direction="lower",
        limits=(0.0, INFINITE),
        comparable=False,
        bias="Grows with n for any given miscalibration, and depends on the number of groups.",
        interval="none with known coverage",
        options=(Option("groups", 10, "number of groups", at_least=1, at_most=1000), OF),
        refuses=refuse_weights("it counts rows and has no weighted form"),
        accumulate=lambda spec, predictions: runs_error(
            pairs_of(spec, predictions),
            partial(validators.hosmer_lemeshow, groups=int(spec["groups"])),
            interval=False,
            top=INFINITE,
        ),
    ),
)
