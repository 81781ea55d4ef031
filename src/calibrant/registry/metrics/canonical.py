"""Entries of the registry: calibration of the whole predicted distribution, from all pairs of rows."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from calibrant.calibration import canonical, kernel_pairs
from calibrant.intervals import APPROXIMATE, Interval
from calibrant.kernels.dirichlet import dirichlet_regression
from calibrant.kernels.records import PREDICTIONS
from calibrant.predictions import Classification, Regression
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Metric, Option, Spec, refuse_weights
from calibrant.registry.metrics.calibration import BROECKER, HARD, calibration_error
from calibrant.registry.state.accumulators import Reduced
from calibrant.registry.state.binned_state import two_sided
from calibrant.registry.state.row_sample import SampledClasses, SampledGaussians, SampledRows, most_rows

ROWS = Option("rows", 10_000, "maximum number of rows, sampled at random: the cost is quadratic", at_least=2)
QUADRATIC = "With more rows than rows=, or more than 2²¹ probabilities, it is estimated from a random sample of rows."


# -------------------------------------------------------------------------------- canonical error
def _ce(spec: Spec, predictions: Classification) -> Reduced:
    most = most_rows(int(spec["rows"]), predictions.classes + 1)
    reduce = partial(_canonical_error, order=float(spec["p"]), bandwidth=float(spec["bandwidth"]))
    return Reduced(("classes", most), SampledClasses(most), reduce)


def _canonical_error(state: SampledClasses, settings: Settings, order: float, bandwidth: float) -> Estimate:
    p, y = state.pairs()
    n, threads = len(p), settings.threads
    if n < 2:
        return Estimate.of(math.nan, n)
    bandwidth = bandwidth or state.once("bandwidth", lambda: canonical.bandwidth_of(p, threads))
    expected = state.once(("regression", bandwidth), lambda: dirichlet_regression(p, y, bandwidth, threads))
    value = canonical.gaps_to_error(p, expected, order)
    if not settings.intervals or state.by_unit or n < 3:
        return Estimate.of(value, n)
    many = canonical.replicates_of(n, settings.resamples)
    few = min(many, canonical.FEWEST_DRAWS)
    redraw = partial(canonical.redrawn_errors, p, bandwidth=bandwidth, order=order, seed=settings.seed, threads=threads)
    null = redraw(p, replicates=many)
    profiles = canonical.profiles_of(p, y, expected, order)
    drawn = [(profile, [redraw(law, replicates=few) for law in profile.laws]) for profile in profiles]
    interval = canonical.inverted(value, null, drawn, settings.level)
    interval = Interval(interval.low, interval.high, interval.method + APPROXIMATE * (interval.method != "none"))
    return Estimate.of(value, n, interval, settings, (0.0, 2.0), **two_sided(null, value, settings))


CE = calibration_error(
    name="ce",
    title="Canonical calibration error",
    definition="(E ‖p − P(Y | p)‖_p^p)^(1/p) over the whole vector of probabilities, P(Y | p) by Dirichlet kernels "
    "from all other rows: Σ_i k(p; p_i) e_{y_i}/Σ_i k(p; p_i), k the Dirichlet density of α = p_i/h + 1. The bandwidth "
    "h maximises the leave-one-out likelihood of the predictions over 21 values, 10⁻⁵ to 1, unless it is given. "
    f"{QUADRATIC}",
    reference=f"Popordanoska, Sayer & Blaschko (2022), NeurIPS 35: 7933-7946; {BROECKER}",
    family="multiclass calibration errors",
    axis="all classes",
    limits=(0.0, 2.0),
    needs=HARD,
    tasks=frozenset({"classification"}),
    bias="Biased: upwards by the noise of few neighbours, downwards where the kernel smooths real gaps away. With many "
    "classes hardly any row has neighbours, and the value is mostly noise: look at the null band. A value below the "
    "band is significant too, for example for an underconfident model: the p-value is two-sided.",
    cost="quadratic",
    merge="rows",
    keeps_rows=lambda spec: False,
    interval="union of test inversions along three profiles: overconfidence or underconfidence everywhere, the same "
    "with some classes overpredicted, and the gaps that the kernels estimate; approximate, because models may be "
    "wrong in other ways",
    options=(
        Option("p", 1.0, "power of the gaps", at_least=1.0, at_most=100.0),
        Option("bandwidth", 0.0, "of the kernel; 0: by leave-one-out likelihood", at_least=0.0, at_most=1000.0),
        ROWS,
    ),
    required_columns=lambda spec, predictions: frozenset({PREDICTIONS}),
    refuses=refuse_weights("it has no weighted form"),
    accumulate=_ce,
)


# ----------------------------------------------------------------------- squared kernel error
def _skce(spec: Spec, predictions: Classification | Regression) -> Reduced:
    state: SampledRows
    if isinstance(predictions, Regression):
        state = SampledGaussians(most_rows(int(spec["rows"]), 3))
        key: tuple[str, int] = ("gaussians", state.most)
    else:
        state = SampledClasses(most_rows(int(spec["rows"]), predictions.classes + 1))
        key = ("classes", state.most)
    return Reduced(key, state, partial(_kernel_error, spec=spec))


def _kernel_error(state: SampledRows, settings: Settings, spec: Spec) -> Estimate:
    """The error of classes or of Gaussians; over blocks, the normal limit gives the test."""
    if len(state.rows()) < 2:
        return Estimate.of(math.nan, len(state.rows()))
    threads = settings.threads
    pairs: kernel_pairs.KernelPairs
    if isinstance(state, SampledClasses):
        p, y = state.pairs()
        width = float(spec["bandwidth"]) or state.once("width", lambda: kernel_pairs.median_width(p, threads))
        pairs = kernel_pairs.ClassPairs(p, y, width, threads)
    else:
        mean, std, y = np.ascontiguousarray(state.rows().T)
        pairs = kernel_pairs.GaussianPairs.scaled(mean, std, y, float(spec["scale"]), threads)
    if spec["form"] == "block":
        size = min(int(spec["block"]) or max(2, math.isqrt(pairs.n)), pairs.n)
        blocks = pairs.shuffled(settings.seed).blocks(size)
        if not settings.intervals or state.by_unit:
            return Estimate.of(float(blocks.mean()), pairs.n)
        interval = kernel_pairs.interval_of_blocks(blocks, settings.level)
        null = kernel_pairs.null_of_blocks(blocks, settings.level)
        return Estimate.of(float(blocks.mean()), pairs.n, interval, settings, (0.0, 2.0), **null)
    biased = spec["form"] == "biased"
    sums = state.once(("sums", pairs.key), pairs.sums)
    value = kernel_pairs.value(sums, pairs.n, biased)
    if not settings.intervals or state.by_unit:
        return Estimate.of(value, pairs.n)
    replicates = pairs.replicates(settings.resamples)
    drawn = state.once(("drawn", pairs.key, settings), lambda: pairs.redrawn(replicates, settings.seed))
    null = kernel_pairs.null(drawn, pairs.n, biased, value, settings.level)
    interval = kernel_pairs.interval(sums, pairs.n, settings.level)
    return Estimate.of(value, pairs.n, interval, settings, (0.0, 2.0), **null)


def _one_gaussian(spec: Spec, predictions: Classification | Regression) -> str | None:
    if isinstance(predictions, Regression) and (predictions.kind != "gaussian" or predictions.members > 1):
        return "for regression it is defined only for one Gaussian per row"
    if spec["block"] == 1:
        return "a block of one row has no pairs: block= must be 2 or more"
    if isinstance(predictions, Regression) and float(spec["bandwidth"]):
        return "bandwidth= is for classification; scale= is for regression"
    if isinstance(predictions, Classification) and float(spec["scale"]) != 1.0:
        return "scale= is for regression"
    return "it has no weighted form" if predictions.weights is not None else None


def blind_kernel(accumulator: Reduced, spec: Spec) -> str | None:
    """A warning where the spread of y is far larger or smaller than the width of the kernel."""
    if not isinstance(accumulator.state, SampledGaussians) or not spec["scale"]:
        return None
    spread = float(np.std(accumulator.state.rows()[:, 2])) / float(spec["scale"])
    if spread == 0.0 or 0.01 <= spread <= 100.0:
        return None
    return f"{spec.text} has a kernel of width 1, but y has a standard deviation of {spread:.1e}: use skce(scale=0)"


SKCE = Metric(
    name="skce",
    title="Squared kernel calibration error",
    definition="Mean over pairs of rows i < j of k(p_i, p_j)·⟨e_{y_i} − p_i, e_{y_j} − p_j⟩, k = exp(−‖p_i − p_j‖₂/ν), "
    "ν the median distance of two predictions unless bandwidth= is given: 0 for a calibrated model, positive for any "
    "other, of the whole distribution. form=biased takes all i, j; form=block the mean over blocks of rows that the "
    "seed shuffles. Gaussian regression: k = exp(−W₂(P_i, P_j)), times the kernel exp(−(y − y')²/2) of outcomes less "
    "its expectations under both predictions; scale= divides y, means and standard deviations first (0: by the "
    f"standard deviation of y), for the kernel is in their units. {QUADRATIC}",
    reference="Widmann, Lindsten & Zachariah (2019), NeurIPS 32: 12257-12267; (2021), ICLR 9, for regression",
    family="multiclass calibration errors",
    axis="all classes",
    direction="lower",
    limits=(-2.0, 2.0),
    needs=HARD,
    tasks=frozenset({"classification", "regression"}),
    comparable=False,
    bias="Unbiased, hence negative about half of the time for a calibrated model: it is not clipped. form=biased is "
    "never negative, and biased upwards by the terms i = j. The value depends on the kernel; the p-value does not "
    "need a reference value.",
    roles={"regression_sample_size": 6},
    cost="quadratic",
    merge="rows",
    keeps_rows=lambda spec: False,
    interval="jackknife; form=block: Student's t of blocks. Both of the true value, which is never negative, and "
    "upwards from 0 where the estimate is; of form=biased too",
    has_null_band=True,
    options=(
        Option("form", "unbiased", "the estimator", choices=("unbiased", "biased", "block")),
        Option("bandwidth", 0.0, "of classes: ν; 0: the median distance", at_least=0.0, at_most=1e6),
        Option("block", 0, "rows of a block; 0: √n", at_least=0),
        Option("scale", 1.0, "of regressions: the unit of y; 0: its standard deviation", at_least=0.0),
        ROWS,
    ),
    required_columns=lambda spec, predictions: frozenset({PREDICTIONS}),
    refuses=_one_gaussian,
    accumulate=_skce,
)

METRICS: tuple[Metric, ...] = (CE, SKCE)
