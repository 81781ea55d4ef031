"""Regression: whether outcomes lie where the predicted distributions say, F being that of a row.

- `pit`: the share of rows whose F(y) lies in each of 20 bins: lower, upper, n, share.
- `calibration`: the share of rows with F(y) ≤ level, at 0.01, 0.02 … 1: level, observed (Kuleshov, Fenner & Ermon 2018,
  ICML 35). Of quantiles, the share with y below the quantile, ties counting half, at the levels that were
  given.
- `central_coverage`: the share of rows inside the central interval of a level, |2F(y) − 1| ≤ level: level, observed. Of
  quantiles, at the levels that two of them enclose symmetrically.

band_low and band_high: where a share lies with probability `level` of the evaluation if the distributions are right, by
the binomial distribution; of weighted rows, of (Σw)²/Σw² rows. None of dependent rows. A row of S samples is spread
evenly over y's place among them (Czado, Gneiting & Held 2009, Biometrics 65: 1254-1261), so that samples of the right
distribution give even bins for every S; shares then vary a little less than the band allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Protocol

import numpy as np

from calibrant.evaluation.curves.curve import Columns, Curve, Drawn, Make, banded, columns
from calibrant.evaluation.curves.places import Places, Points, Quantiles
from calibrant.intervals import binomial_band
from calibrant.kernels.regression_rows import PIT, quantile_key
from calibrant.predictions import Evaluated, Regression
from calibrant.predictions.regression import symmetric_levels
from calibrant.registry.estimate import Settings

BINS = 20
LEVELS = np.arange(1, 101) / 100


class Shares(Protocol):
    """What is known of the rows: shares of their weight, and how many independent rows these are worth."""

    def up_to(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight with F(y) at most each level."""
        ...

    def rows_up_to(self, levels: np.ndarray) -> np.ndarray:
        """The number of rows with F(y) at most each level."""
        ...

    def within(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight with |2F(y) − 1| at most each level."""
        ...

    def worth(self) -> int | None:
        """The number of independent rows, or None where rows depend on each other; 0 where nothing is known."""
        ...


def curves(example: Evaluated) -> Iterator[Curve]:
    """All three of a distribution; of quantiles what their levels give."""
    if not isinstance(example, Regression):
        return
    if example.levels is not None:
        yield from _of_quantiles(example.levels)
        return
    wants = frozenset({PIT} if example.samples is None else ())
    for name, made in (("pit", _pit), ("calibration", _calibration), ("central_coverage", _central)):
        yield Curve(name, partial(_of_distribution, made=made), wants=wants)


def _of_distribution(example: Regression, made: Make) -> Drawn:
    if example.samples is None:
        return Drawn(("points",), Points(), made)
    size = len(example.samples)
    return Drawn(("places", size), Places(size), made)


def _of_quantiles(given: np.ndarray) -> Iterator[Curve]:
    levels = tuple(sorted(float(level) for level in given))
    wants = frozenset(quantile_key(level) for level in given.tolist())
    pairs = tuple(reversed(symmetric_levels(given)))
    central = np.array([1.0 - 2.0 * low for low, _ in pairs])
    key = ("quantiles", levels)
    made = partial(_calibration, levels=np.array(levels))
    yield Curve("calibration", lambda example: Drawn(key, Quantiles(levels, pairs), made), wants=wants)
    if pairs:
        covered = partial(_central, levels=central)
        yield Curve("central_coverage", lambda example: Drawn(key, Quantiles(levels, pairs), covered), wants=wants)


def _pit(state: Shares, settings: Settings) -> Columns:
    if state.worth() == 0:
        return {}
    edges = np.arange(BINS + 1) / BINS
    n, share = (np.diff(below(edges[1:]), prepend=0) for below in (state.rows_up_to, state.up_to))
    made = columns(lower=edges[:-1], upper=edges[1:], n=n, share=share)
    return banded(made, _band(state, np.full(BINS, 1.0 / BINS), settings))


def _calibration(state: Shares, settings: Settings, levels: np.ndarray = LEVELS) -> Columns:
    if state.worth() == 0:
        return {}
    return banded(columns(level=levels, observed=state.up_to(levels)), _band(state, levels, settings))


def _central(state: Shares, settings: Settings, levels: np.ndarray = LEVELS) -> Columns:
    if state.worth() == 0:
        return {}
    return banded(columns(level=levels, observed=state.within(levels)), _band(state, levels, settings))


def _band(state: Shares, share: np.ndarray, settings: Settings) -> tuple[np.ndarray, np.ndarray] | None:
    rows = state.worth()
    return None if rows is None or not settings.intervals else binomial_band(rows, share, settings.level)
