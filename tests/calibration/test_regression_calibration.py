"""Shares under levels: cells, places among samples, covariance and redrawn counts, against loops and closed forms."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import calibrant as cal
from calibrant.calibration import regression
from calibrant.kernels.regression import level_counts

ERRORS = ("calibration_error", "mace", "rmsce")


def errors_of(gaps):
    """Sum of squares, mean absolute, root mean square."""
    return {"calibration_error": (gaps**2).sum(), "mace": np.abs(gaps).mean(), "rmsce": np.sqrt((gaps**2).mean())}


def gaussian(n=500, width=1.0, shift=0.0, seed=0, **known):
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=n), np.exp(0.5 * rng.normal(size=n))
    return cal.Regression.from_gaussian(mean, width * std, mean + std * (rng.normal(size=n) + shift), **known)


def spec_of(name, coverage, levels=100):
    options = [f"levels={levels}"] * (levels != 100) + ["coverage=central"] * (coverage == "central")
    return name + (f"({','.join(options)})" if options else "")


# ------------------------------------------------------------------------------------------- cells
@pytest.mark.parametrize("count", [1, 3, 10, 49, 99, 100, 997])
def test_cells_are_exact_at_every_level(count):
    """At each level, and at the floats beside it."""
    edges = np.arange(count + 1) / count
    pit = np.unique(np.clip(np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)]), 0.0, 1.0))
    levels = regression.even_levels(count)
    np.testing.assert_array_equal(regression.cells_below(pit, count), (levels <= pit[:, None]).sum(axis=1))
    pit = np.unique(np.concatenate([pit, 0.5 + edges / 2, 0.5 - edges / 2]))
    away = np.abs(2.0 * pit - 1.0)[:, None]
    np.testing.assert_array_equal(regression.cells_central(pit, count), (levels < away).sum(axis=1))
    for central, cells_of in ((False, regression.cells_below), (True, regression.cells_central)):
        counts = np.bincount(cells_of(pit, count), minlength=count + 1)
        np.testing.assert_array_equal(level_counts(pit, count, central), counts)


@pytest.mark.parametrize("coverage", ["below", "central"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("members", [1, 4])
def test_errors_of_gaussians_and_mixtures_are_those_of_a_loop(coverage, weighted, members):
    rng = np.random.default_rng(members)
    n = 300
    mean, std = rng.normal(size=(members, n)), 0.5 + rng.random((members, n))
    y, w = rng.normal(size=n), rng.exponential(size=n)
    made = cal.Regression.from_gaussian(mean, std, y, weights=w if weighted else None)
    pit = ndtr((y - mean) / std).mean(axis=0)
    levels = np.arange(1, 21) / 20
    w = w if weighted else np.ones(n)
    if coverage == "below":
        share = np.array([w[pit < p].sum() / w.sum() for p in levels])
    else:
        share = np.array([w[np.abs(2 * pit - 1) <= p].sum() / w.sum() for p in levels])
    for name, value in errors_of(share - levels).items():
        spec = spec_of(name, coverage, 20)
        assert cal.measure(made, spec)[spec] == pytest.approx(value, rel=1e-10), spec


@pytest.mark.parametrize("coverage", ["below", "central"])
@pytest.mark.parametrize("size", [1, 2, 11])
def test_rows_of_samples_are_spread_over_their_place(coverage, size):
    """Numbers in tenths, so that there are ties."""
    rng = np.random.default_rng(size)
    n = 200
    samples, y = np.round(rng.normal(size=(size, n)), 1), np.round(rng.normal(size=n), 1)
    made = cal.Regression.from_samples(samples, y)
    levels = np.arange(1, 101) / 100
    share = np.zeros(100)
    for i in range(n):
        low = (samples[:, i] < y[i]).sum() / (size + 1)
        high = ((samples[:, i] <= y[i]).sum() + 1) / (size + 1)
        ends = ((1 - levels) / 2, (1 + levels) / 2) if coverage == "central" else (np.zeros(100), levels)
        share += (np.clip(ends[1], low, high) - np.clip(ends[0], low, high)) / (high - low) / n
    for name, value in errors_of(share - levels).items():
        spec = spec_of(name, coverage)
        assert cal.measure(made, spec)[spec] == pytest.approx(value, rel=1e-9, abs=1e-14), spec


@pytest.mark.parametrize("weighted", [False, True])
def test_quantiles_are_judged_at_their_own_levels(weighted):
    rng = np.random.default_rng(1)
    n, levels = 150, np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    quantiles = np.round(rng.normal(size=(n, 1)) + ndtri(levels), 1)
    y, w = np.round(1.5 * rng.normal(size=n), 1), rng.exponential(size=n) if weighted else np.ones(n)
    made = cal.Regression.from_quantiles(quantiles, levels, y, weights=w if weighted else None)
    assert (quantiles == y[:, None]).any()
    under = (w[:, None] * ((y[:, None] < quantiles) + 0.5 * (y[:, None] == quantiles))).sum(axis=0) / w.sum()
    within = under[[3, 4]] - under[[1, 0]]
    for name in ERRORS:
        assert cal.measure(made, name)[name] == pytest.approx(errors_of(under - levels)[name], rel=1e-10)
        spec = spec_of(name, "central")
        value = errors_of(within - np.array([0.5, 0.8]))[name]
        assert cal.measure(made, spec)[spec] == pytest.approx(value, rel=1e-10)


def test_quantiles_without_partners_have_no_central_levels():
    for levels in ([0.1, 0.5, 0.8], [0.5]):
        made = cal.Regression.from_quantiles(np.zeros((3, len(levels))), levels, np.zeros(3))
        with pytest.raises(cal.CalibrantError, match="pairs"):
            cal.measure(made, "mace(coverage=central)")
    with pytest.raises(cal.CalibrantError, match="leave levels out"):
        cal.measure(made, "mace(levels=10)")


# ------------------------------------------------------------------------------------- closed forms
@pytest.mark.parametrize(("width", "shift"), [(1.0, 0.0), (2.0, 0.0), (0.5, 0.0), (1.0, 0.4)])
def test_errors_of_many_rows_are_those_of_the_normal_law(width, shift):
    """P(F < p) = Φ(width·z − shift); a share of n rows has a standard error of at most ½n^(−½)."""
    n = 200_000
    made = gaussian(n, width, shift)
    p = np.arange(1, 101) / 100
    z, half = ndtri(p), ndtri((1 + p) / 2)
    below = ndtr(width * z - shift) - p
    central = ndtr(width * half - shift) - ndtr(-width * half - shift) - p
    for coverage, gaps in (("below", below), ("central", central)):
        for name in ("mace", "rmsce"):
            spec = spec_of(name, coverage)
            assert cal.measure(made, spec)[spec] == pytest.approx(errors_of(gaps)[name], abs=4 * 0.5 / np.sqrt(n))


def test_values_of_uncertainty_toolbox():
    """Its grid k/99 has 0 and 1, where the shares are 0 and 1; its `quantile` proportions run from the other end."""
    uct = pytest.importorskip("uncertainty_toolbox.metrics_calibration")
    for width, shift in ((1.0, 0.0), (0.6, 0.2)):
        made = gaussian(2000, width, shift)
        given = (made.mean[0], made.std[0], made.y)
        for coverage, prop_type in (("central", "interval"), ("below", "quantile")):
            ours = {name: cal.measure(made, spec := spec_of(name, coverage, 99))[spec] for name in ERRORS}
            known = {"num_bins": 100, "prop_type": prop_type, "vectorized": True}
            theirs = uct.mean_absolute_calibration_error(*given, **known)
            assert theirs == pytest.approx(ours["mace"] * 99 / 100, rel=1e-10)
            theirs = uct.root_mean_squared_calibration_error(*given, **known)
            assert theirs == pytest.approx(ours["rmsce"] * np.sqrt(99 / 100), rel=1e-10)
            assert theirs**2 * 100 == pytest.approx(ours["calibration_error"], rel=1e-10)
            area = uct.miscalibration_area(*given, **known)
            assert area <= ours["mace"] + 1e-12  # the same where the curve does not cross the diagonal
            if (width, coverage) == (0.6, "central"):
                assert area == pytest.approx(ours["mace"], rel=1e-10)
        assert uct.sharpness(made.std[0]) == pytest.approx(cal.measure(made, "sharpness")["sharpness"], rel=1e-12)


# ------------------------------------------------------------------------------- what chance gives
@pytest.mark.parametrize("rows", [50.0, 51.7, 40_000.0])
def test_redrawn_cells_have_the_moments_of_a_multinomial(rows):
    """Drawn row by row, of an effective number of rows, and in the normal limit."""
    expected = np.array([0.1, 0.2, 0.3, 0.4])
    drawn = regression.redrawn_cells(expected, rows, replicates=4000, seed=3)
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(drawn.mean(axis=0), expected, atol=4 * 0.5 / np.sqrt(rows * 4000))
    truth = (np.diag(expected) - np.outer(expected, expected)) / rows
    np.testing.assert_allclose(np.cov(drawn.T), truth, atol=0.15 * truth.max())


def test_even_cells_are_the_same_by_either_way():
    even = np.append(np.full(50, 0.02), 0.0)
    drawn = regression.redrawn_cells(even, 100.0, replicates=500, seed=0)
    odd = regression.redrawn_cells(even + np.append([1e-9, -1e-9], np.zeros(49)), 100.0, replicates=500, seed=0)
    np.testing.assert_allclose(drawn, odd, atol=1e-8)
    assert (drawn[:, -1] == 0).all()


def test_errors_of_shares_have_their_covariance():
    """Of weighted rows whose weight goes with their PIT, in 1500 simulations."""
    rng = np.random.default_rng(0)
    levels, n = np.arange(1, 10) / 10, 400
    u = rng.random((1500, n))
    w = 0.5 + u
    under = np.array([((u < p) * w).sum(axis=1) / w.sum(axis=1) for p in levels]).T
    squares = np.array([((u < p) * w**2).sum(axis=1) / (w**2).sum(axis=1) for p in levels]).T
    rows = (w.sum(axis=1) ** 2 / (w**2).sum(axis=1)).mean()
    white = rng.normal(size=(20_000, 10))
    variance, errors = regression.errors_of_shares(under.mean(axis=0), squares.mean(axis=0), levels, rows, white)
    np.testing.assert_allclose(np.cov(errors.T), np.cov(under.T), atol=6e-5)
    np.testing.assert_allclose(variance, errors.var(axis=0), rtol=0.05)


@pytest.mark.parametrize("coverage", ["below", "central"])
@pytest.mark.parametrize("kind", ["gaussian", "weighted", "samples", "quantiles"])
def test_p_values_hold_their_level(kind, coverage):
    """300 simulations of n = 100 right predictions; within three standard errors."""
    rng = np.random.default_rng([len(kind), len(coverage)])
    spec, found = spec_of("mace", coverage), []
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    for seed in range(300):
        y = rng.normal(size=100)
        if kind == "samples":
            made = cal.Regression.from_samples(rng.normal(size=(4, 100)), y)
        elif kind == "quantiles":
            made = cal.Regression.from_quantiles(np.tile(ndtri(levels), (100, 1)), levels, y)
        else:
            w = 0.5 + rng.random(100) if kind == "weighted" else None
            made = cal.Regression.from_gaussian(np.zeros(100), np.ones(100), y, weights=w)
        found.append(p_value_only(made, spec, seed))
    assert abs((np.array(found) < 0.1).mean() - 0.05) < 3 * np.sqrt(0.05 * 0.95 / 300)  # of the upper tail


def p_value_only(made, spec, seed):
    """The p-value without the interval, which takes most of the time."""
    from calibrant.kernels.rows import rows_of
    from calibrant.registry.estimate import Settings
    from calibrant.registry.lookup import parse
    from calibrant.registry.state.binned_state import null_band

    parsed = parse(spec)
    total = parsed.metric.accumulate(parsed, made)
    total.add(rows_of(made, parsed.metric.required_columns(parsed, made)))
    state, settings = total.state, Settings(resamples=199, seed=seed)
    noise = regression.mean_absolute(state.null(settings) - state.levels)
    return null_band(noise, float(regression.mean_absolute(state.shares() - state.levels)), settings)["p_value"]


@pytest.mark.parametrize(("width", "shift"), [(1.0, 0.0), (0.9, 0.0), (0.5, 0.0), (1.0, 0.3)])
def test_intervals_cover(width, shift):
    """40 simulations of n = 200; the evidence has more."""
    p = np.arange(1, 100) / 100
    truth = np.abs(ndtr(width * ndtri(p) - shift) - p).sum() / 100
    made = [gaussian(200, width, shift, seed) for seed in range(40)]
    found = [cal.evaluate(one, "mace", resamples=100, seed=k)["mace"] for k, one in enumerate(made)]
    assert sum(e.low <= truth <= e.high for e in found) >= 34
    assert all(e.method == "test-inversion" for e in found)
