"""Workloads of regression: Gaussians, mixtures and samples, beside scoringrules, uncertainty-toolbox and SciPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np
from scipy.special import ndtr
from scipy.stats import norm

import calibrant as cal

Contestants = dict[str, Callable[[], object]]
BY_DEFAULT = "uncertainty-toolbox (default)"


def gaussians(members: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and standard deviations (M, N), and outcomes of the first member."""
    rng = np.random.default_rng(seed)
    centre = 3 * rng.standard_normal(n)
    mean = centre + 0.5 * rng.standard_normal((members, n))
    std = 0.5 + rng.random((members, n))
    return mean, std, mean[0] + std[0] * rng.standard_normal(n)


def workloads(threads: int, quick: bool) -> Iterator[tuple[str, Contestants, str, tuple[str, ...]]]:
    """Name, contestants, goal, and whom the goal speaks of."""
    n = 100_000 if quick else 1_000_000
    yield f"Calibration error, 99 levels, {n // 1000}k rows", _levels(n, threads), "100", (BY_DEFAULT,)
    yield f"Gaussian NLL + CRPS + PIT, {n // 1000}k rows", _gaussian(n, threads), "1", ("scoringrules",)
    yield "CRPS of mixtures, M = 50, 4k rows", _mixture(50, 4_000, threads), "", ("scoringrules",)
    yield "CRPS of mixtures, M = 5, 100k rows", _mixture(5, 100_000, threads), "", ("scoringrules",)
    yield "fair CRPS of 52 samples, 20k rows", _samples(52, 20_000, threads), "", ("scoringrules",)


def _levels(n: int, threads: int) -> Contestants:
    """The mean absolute calibration error of central intervals, found to be the same number before it is timed.

    uncertainty-toolbox averages over k/99, k = 0 … 99, the first and last of which add nothing.
    """
    mean, std, y = gaussians(1, n)
    mu, sd = mean[0], std[0]
    predictions, spec = cal.Regression.from_gaussian(mu, sd, y), "mace(levels=99,coverage=central)"

    def plain_numpy() -> float:
        away = np.sort(np.abs(2 * ndtr((y - mu) / sd) - 1))
        levels = np.arange(1, 100) / 99
        return float(np.abs(np.searchsorted(away, levels, side="right") / n - levels).mean())

    out: Contestants = {"calibrant": lambda: cal.measure(predictions, [spec], threads=threads)}
    ours = cal.measure(predictions, [spec], threads=threads)[spec]
    if find_spec("uncertainty_toolbox"):
        from uncertainty_toolbox.metrics_calibration import mean_absolute_calibration_error

        def toolbox(**how: bool) -> float:
            return mean_absolute_calibration_error(mu, sd, y, num_bins=100, prop_type="interval", **how)

        np.testing.assert_allclose(toolbox(vectorized=True) * 100 / 99, ours, rtol=1e-9)
        out[BY_DEFAULT] = toolbox
        out["uncertainty-toolbox (vectorized=True)"] = lambda: toolbox(vectorized=True)
    np.testing.assert_allclose(plain_numpy(), ours, rtol=1e-9)
    return out | {"plain NumPy": plain_numpy}


def _gaussian(n: int, threads: int) -> Contestants:
    mean, std, y = gaussians(1, n)
    mu, sd = mean[0], std[0]
    predictions = cal.Regression.from_gaussian(mu, sd, y)

    def scipy_three() -> tuple[float, ...]:
        z = (y - mu) / sd
        crps = sd * (z * (2 * ndtr(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
        return -norm.logpdf(y, mu, sd).mean(), crps.mean(), ndtr(z).mean()

    out: Contestants = {"calibrant": lambda: cal.measure(predictions, ["nll", "crps", "pit"], threads=threads)}
    if find_spec("scoringrules"):
        import scoringrules as sr

        out["scoringrules"] = lambda: (
            sr.logs_normal(y, mu, sd).mean(),
            sr.crps_normal(y, mu, sd).mean(),
            ndtr((y - mu) / sd).mean(),
        )
    if find_spec("uncertainty_toolbox"):
        from uncertainty_toolbox.metrics_scoring_rule import crps_gaussian, nll_gaussian

        out["uncertainty-toolbox (no PIT)"] = lambda: (nll_gaussian(mu, sd, y), crps_gaussian(mu, sd, y))
    return out | {"plain SciPy": scipy_three}


def _mixture(members: int, n: int, threads: int) -> Contestants:
    mean, std, y = gaussians(members, n)
    predictions = cal.Regression.from_gaussian(mean, std, y)
    out: Contestants = {"calibrant": lambda: cal.measure(predictions, ["crps"], threads=threads)}
    if find_spec("scoringrules"):
        import scoringrules as sr

        out["scoringrules"] = lambda: sr.crps_mixnorm(y, mean.T, std.T).mean()
    return out


def _samples(count: int, n: int, threads: int) -> Contestants:
    mean, std, y = gaussians(1, n)
    rng = np.random.default_rng(1)
    draws = (mean[0] + std[0] * rng.standard_normal((count, n))).astype(np.float32)
    predictions = cal.Regression.from_samples(draws, y)
    out: Contestants = {"calibrant": lambda: cal.measure(predictions, ["crps"], threads=threads)}
    if find_spec("scoringrules"):
        import scoringrules as sr

        rows = np.ascontiguousarray(draws.T)
        out["scoringrules"] = lambda: sr.crps_ensemble(y, rows, estimator="fair").mean()
        out["scoringrules, not fair (qd)"] = lambda: sr.crps_ensemble(y, rows, estimator="qd").mean()
    return out
