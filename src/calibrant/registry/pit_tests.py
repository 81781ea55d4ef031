"""Entries of the registry: tests that the PIT is uniform."""

from __future__ import annotations

from functools import partial

import numpy as np

from calibrant.calibration.regression import pearson
from calibrant.calibration.uniformity import FEWEST, TESTS
from calibrant.intervals import NONE
from calibrant.kernels.philox import uniforms
from calibrant.kernels.regression_rows import PIT, RegressionRows
from calibrant.kernels.resampling import PIT_PLACE
from calibrant.predictions import Regression
from calibrant.registry.binned_error import null_band
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.kept_columns import KeptColumns
from calibrant.registry.level_shares import BELOW, LevelShares
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.pairs import INFINITE
from calibrant.registry.sharing import Reduced

BINS = 20


class KeptPits(KeptColumns):
    """The PIT of every row; of samples, both ends of y's place among them."""

    def columns_of(self, rows: RegressionRows) -> list[np.ndarray | None]:
        """The ends of y's place, or the PIT alone."""
        return [rows.pit, None] if rows.pit_low is None else [rows.pit_low, rows.pit_high]

    def sorted(self, seed: int) -> np.ndarray:
        """The PIT, rising. Of samples at random in its place, numbers being drawn for rows in an order of their own."""
        low, *ends = self.arrays()
        if not ends:
            return np.sort(low)
        (high,) = ends
        order = np.lexsort((high, low))
        low, high = low[order], high[order]
        return np.sort(low + uniforms(seed, PIT_PLACE, 0, len(low)) * (high - low))


def _of_pits(state: KeptPits, settings: Settings, test: str) -> Estimate:
    found = TESTS[test]
    value = found.statistic(state.sorted(settings.seed))
    if not settings.intervals or state.by_unit or state.n < FEWEST:
        return Estimate.of(value, state.n)
    low, high = (found.quantile(0.5 + side * settings.level / 2, state.n) for side in (-1, 1))
    return Estimate.of(value, state.n, null_low=low, null_high=high, p_value=found.p_value(value, state.n))


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
    definition="statistic of F(y) over the rows against the uniform distribution, which it has where predictions are "
    "right. ks: largest distance D of the distribution functions; cvm, ad: those of Cramér & von Mises and of Anderson "
    "& Darling, the second looking harder at the tails; chi2: Pearson's, over equal bins. F(y) of samples is drawn "
    "evenly from y's place among them; chi2 spreads it instead.",
    reference="Gneiting, Balabdaoui & Raftery (2007), JRSS B 69: 243-268; Stephens (1974), JASA 69: 730-737; "
    "Czado, Gneiting & Held (2009), Biometrics 65: 1254-1261",
    direction="lower",
    limits=(0.0, INFINITE),
    needs=frozenset({"labels", "distribution"}),
    tasks=frozenset({"regression"}),
    comparable=False,
    bias="A test, not a measure: cvm, ad and chi2 grow with n where predictions are not right, and with enough rows "
    "none are. Uniformity does not show that predictions are right in every row. ks, cvm, ad: p-values from the "
    "limiting laws with Stephens' corrections, from 5 rows on, and true to 0.003 near 0.05.",
    cost="sort",
    merge="rows",
    options=(
        Option("test", "ks", "the statistic", choices=("ks", "cvm", "ad", "chi2")),
        Option("bins", BINS, "number of bins of chi2", at_least=2, at_most=1000),
    ),
    wanted=lambda spec, predictions: frozenset({PIT}),
    refuses=_lacks,
    light=True,
    keeps_rows=lambda spec: spec["test"] != "chi2",
    accumulate=_accumulate,
)
METRICS = (PIT_UNIFORMITY,)
