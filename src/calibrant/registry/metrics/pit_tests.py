"""Entries of the registry: tests that the PIT is uniform."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from calibrant.calibration.regression import pearson
from calibrant.calibration.uniformity import FEWEST, TESTS
from calibrant.intervals import NONE
from calibrant.kernels.philox import uniforms
from calibrant.kernels.regression_rows import PIT, RegressionRows, quantile_key
from calibrant.kernels.resampling import PIT_PLACE
from calibrant.predictions import Regression
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.metrics.regression_calibration import pit_columns
from calibrant.registry.state.accumulators import KeptColumns, Reduced
from calibrant.registry.state.binned_state import null_band
from calibrant.registry.state.level_coverage import BELOW, LevelShares, central_pairs
from calibrant.registry.state.null_mean import NullMean
from calibrant.registry.state.pairs import INFINITE
from calibrant.scores import regression

BINS = 20


class KeptPits(KeptColumns):
    """The PIT of every row; of samples, both ends of y's place among them."""

    def columns_of(self, rows: RegressionRows) -> list[np.ndarray | None]:
        """The ends of y's place, or the PIT alone."""
        return [rows.pit, None] if rows.pit_low is None else [rows.pit_low, rows.pit_high]

    def sorted(self, seed: int) -> np.ndarray:
        """The sorted PIT; of samples, drawn at random from y's place, for rows in an order that ignores the input's."""
        low, *ends = self.arrays()
        if not ends:
            return np.sort(low)
        (high,) = ends
        order = np.lexsort((high, low))
        low, high = low[order], high[order]
        return np.sort(low + uniforms(seed, PIT_PLACE, 0, len(low)) * (high - low))


def _of_pits(state: KeptPits, settings: Settings, test: str) -> Estimate:
    law = TESTS[test]
    value = law.statistic(state.sorted(settings.seed))
    if not settings.intervals or state.by_unit or state.n < FEWEST:
        return Estimate.of(value, state.n)
    low, high = (law.quantile(0.5 + side * settings.level / 2, state.n) for side in (-1, 1))
    return Estimate.of(value, state.n, null_low=low, null_high=high, p_value=law.p_value(value, state.n))


def _of_bins(state: LevelShares, settings: Settings) -> Estimate:
    bins = len(state.levels)

    def statistic(under: np.ndarray) -> np.ndarray:
        shares = np.diff(under[..., :-1], axis=-1, prepend=0.0, append=1.0)  # a PIT of 1 is in the last bin
        return pearson(shares, np.full(bins, 1.0 / bins), state.rows)

    value = float(statistic(state.shares()))
    drawn = state.null(settings) if settings.intervals else None
    if drawn is None:
        return Estimate.of(value, state.n)
    return Estimate.of(value, state.n, NONE, settings, (0.0, INFINITE), **null_band(statistic(drawn), value, settings))


def _lacks(spec: Spec, predictions: Regression) -> str | None:
    if predictions.info.weights is not None:
        return "it has no weighted form"
    return None if spec["test"] == "chi2" or spec["bins"] == BINS else "bins belong to test=chi2"


def _accumulate(spec: Spec, predictions: Regression) -> Reduced:
    if spec["test"] == "chi2":
        bins = int(spec["bins"])
        return Reduced(("levels", bins, BELOW), LevelShares.of(predictions, bins, BELOW), _of_bins)
    return Reduced("pits", KeptPits(), partial(_of_pits, test=str(spec["test"])))


PIT_UNIFORMITY = Metric(
    name="pit_uniformity",
    title="Test that the PIT is uniform",
    definition="statistic of F(y) over the rows against the uniform distribution, which it has if predictions are "
    "calibrated. ks: largest distance D of the distribution functions; cvm, ad: those of Cramér & von Mises and of "
    "Anderson & Darling, the second with more weight on the tails; chi2: Pearson's, over equal bins. F(y) of samples "
    "is drawn evenly from y's place among them; chi2 spreads it instead.",
    reference="Gneiting, Balabdaoui & Raftery (2007), JRSS B 69: 243-268; Stephens (1974), JASA 69: 730-737; "
    "Czado, Gneiting & Held (2009), Biometrics 65: 1254-1261",
    family="regression calibration",
    axis="",
    direction="lower",
    limits=(0.0, INFINITE),
    needs=frozenset({"labels", "distribution"}),
    tasks=frozenset({"regression"}),
    comparable=False,
    bias="A test, not a measure: cvm, ad and chi2 grow with n for miscalibrated predictions, and with enough rows all "
    "are. Uniformity does not imply that predictions are calibrated in every row. ks, cvm, ad: p-values from the "
    "limiting laws with Stephens' corrections, from 5 rows on, and accurate to 0.003 near 0.05.",
    cost="sort",
    merge="rows",
    options=(
        Option("test", "ks", "the statistic", choices=("ks", "cvm", "ad", "chi2")),
        Option("bins", BINS, "number of bins of chi2", at_least=2, at_most=1000),
    ),
    required_columns=lambda spec, predictions: frozenset({PIT}),
    refuses=_lacks,
    short_pass=True,
    random=True,
    keeps_rows=lambda spec: spec["test"] != "chi2",
    accumulate=_accumulate,
)


def _coverage_gap(spec: Spec, predictions: Regression) -> NullMean:
    """½ − mean |2·PIT − 1|, or the mean over pairs of quantiles of coverage minus level."""
    del spec
    if predictions.levels is not None:
        return _of_pairs(predictions.levels)
    places = math.inf if predictions.samples is None else len(predictions.samples) + 1
    if math.isfinite(places):  # |2·PIT − 1| of S + 1 equally probable places
        distance = np.abs(2.0 * (np.arange(places) + 0.5) / places - 1.0)
        mean, variance = float(distance.mean()), float(distance.var())
        third = float(((distance - mean) ** 3).mean())
    else:
        mean, variance, third = 0.5, 1.0 / 12.0, 0.0

    def gap(rows: RegressionRows) -> np.ndarray:
        return mean - np.abs(2.0 * regression.pit(rows) - 1.0)

    def moments(rows: RegressionRows) -> tuple[np.ndarray, np.ndarray]:
        return np.full(rows.n, variance), np.full(rows.n, -third)

    return NullMean(gap, (-1.0, 1.0), moments_if_right=moments)


def _of_pairs(levels: np.ndarray) -> NullMean:
    """Of nested central intervals: y lies outside the first j of K, by which their law follows from their levels."""
    below = central_pairs(levels)
    below = np.empty(0) if below is None else below
    nominal = np.sort(1.0 - 2.0 * below)
    chance = np.diff(nominal, prepend=0.0, append=1.0)  # that y lies outside exactly j of them
    inside = (len(nominal) - np.arange(len(chance))) / max(len(nominal), 1)
    mean = float(nominal.mean()) if len(nominal) else math.nan
    variance, third = (float((chance * (inside - mean) ** k).sum()) for k in (2, 3))

    def gap(rows: RegressionRows) -> np.ndarray:
        covered = np.zeros(rows.n)
        for level in below.tolist():
            low, high = (rows.extras[quantile_key(float(end))] for end in (level, _partner(levels, level)))
            covered += (low <= rows.y) & (rows.y <= high)
        return covered / len(below) - mean

    def moments(rows: RegressionRows) -> tuple[np.ndarray, np.ndarray]:
        return np.full(rows.n, variance), np.full(rows.n, third)

    return NullMean(gap, (-1.0, 1.0), moments_if_right=moments)


def _partner(levels: np.ndarray, level: float) -> float:
    """The given level nearest to 1 − level."""
    return float(levels[np.argmin(np.abs(levels - (1.0 - level)))])


def _lacks_pairs(spec: Spec, predictions: Regression) -> str | None:
    if predictions.levels is None:
        return None
    pairs = central_pairs(predictions.levels)
    return None if pairs is not None and len(pairs) else "it needs quantiles in pairs, at levels t and 1 - t"


COVERAGE_GAP = Metric(
    name="coverage_gap",
    label="coverage − nominal",
    title="Mean coverage minus nominal coverage",
    definition="mean over rows of ½ − |2F(y) − 1|: the coverage of central intervals minus their level, averaged over "
    "all levels from 0 to 1; of quantiles, over their pairs. Below 0 if distributions are too narrow.",
    reference="Gneiting, Balabdaoui & Raftery (2007), JRSS B 69: 243-268",
    family="regression calibration",
    axis="",
    direction="none",
    limits=(-1.0, 1.0),
    expected=0.0,
    relevant_error=0.05,
    roles={"test_regression": 2},
    needs=frozenset({"labels"}),
    tasks=frozenset({"regression"}),
    cost="linear",
    merge="exact",
    bias="Unbiased. 0 does not mean that predictions are calibrated: intervals that are too narrow in some rows and "
    "too wide in others cancel, and a biased prediction covers too little too.",
    interval="studentised",
    required_columns=pit_columns,
    refuses=_lacks_pairs,
    short_pass=True,
    accumulate=_coverage_gap,
)
METRICS = (PIT_UNIFORMITY, COVERAGE_GAP)
