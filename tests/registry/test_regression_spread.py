"""Coverage, width, variances and tests of the PIT: against loops and SciPy, in odd cases, and on real ensembles."""

import math

import numpy as np
import pytest
from evaluations import evaluate_with
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr, ndtri

import calibrant as cal

UNCHANGED = (
    "calibration_error", "mace", "rmsce", "mace(coverage=central)", "picp", "picp(level=0.5)", "se_var_ratio", "ence",
    "pit_uniformity", "pit_uniformity(test=cvm)", "pit_uniformity(test=ad)", "pit_uniformity(test=chi2)",
)  # fmt: skip
"""What does not depend on the units of y."""


def normal(n=300, width=1.0, seed=0, **known):
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=n), np.exp(0.5 * rng.normal(size=n))
    return cal.Regression.from_gaussian(mean, width * std, mean + std * rng.normal(size=n), **known)


def estimates(made, *specs, **known):
    return evaluate_with(made, list(specs), **{"resamples": 100, **known}).results[0].metrics


# ------------------------------------------------------------------------------- central intervals
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_coverage_and_width_of_gaussians(level):
    made = normal()
    half = ndtri((1 + level) / 2) * made.std[0]
    inside = np.abs(made.y - made.mean[0]) <= half
    found = cal.measure(made, [f"picp(level={level})", f"width(level={level})"])
    assert list(found.values()) == pytest.approx([inside.mean(), 2 * half.mean()], rel=1e-12)


def test_coverage_of_a_mixture_is_by_its_own_distribution():
    rng = np.random.default_rng(0)
    mean, std, y = rng.normal(size=(3, 200)), 0.5 + rng.random((3, 200)), rng.normal(size=200)
    pit = ndtr((y - mean) / std).mean(axis=0)
    found = cal.measure(cal.Regression.from_gaussian(mean, std, y), "picp(level=0.8)")
    assert found["picp(level=0.8)"] == pytest.approx(((pit >= 0.1) & (pit <= 0.9)).mean(), rel=1e-12)


def test_ends_of_intervals_are_inside():
    made = cal.Regression.from_quantiles([[0.0, 2.0]] * 4, [0.1, 0.9], [0.0, 2.0, 1.0, 3.0])
    found = cal.measure(made, "picp(level=0.8),width(level=0.8)")
    assert list(found.values()) == [0.75, 2.0]
    samples = np.tile(np.arange(1.0, 11.0)[:, None], 4)
    found = cal.measure(cal.Regression.from_samples(samples, [1.0, 9.0, 0.9, 5.0]), "picp(level=0.8),width(level=0.8)")
    assert list(found.values()) == [0.75, 8.0]


def test_samples_of_the_right_distribution_cover_less_than_the_level():
    """Places 2 … 20 of the 21 among 20 samples: 19/21."""
    rng = np.random.default_rng(0)
    made = cal.Regression.from_samples(rng.normal(size=(20, 20_000)), rng.normal(size=20_000))
    found = estimates(made, "picp")["picp"]
    assert found.low < 19 / 21 < found.high
    assert math.isnan(found.p_value)


@pytest.mark.parametrize(("n", "width"), [(1, 1.0), (7, 1.0), (40, 0.5), (3000, 1.02)])
def test_band_of_the_coverage_is_binomial(n, width):
    e = estimates(normal(n, width, seed=n), "picp(level=0.9)")["picp(level=0.9)"]
    law = stats.binom(n, 0.9)
    count = round(e.value * n)
    assert (e.null_low, e.null_high) == pytest.approx((law.ppf(0.025) / n, law.ppf(0.975) / n), abs=1e-12)
    assert e.p_value == pytest.approx(min(1.0, 2 * min(law.cdf(count), law.sf(count - 1))), rel=1e-9)


# --------------------------------------------------------------------------------------- variances
def test_sharpness_and_ratio_are_means_over_rows():
    made = normal(width=0.7)
    found = estimates(made, "sharpness", "se_var_ratio")
    ratio = np.square(made.y - made.mean[0]) / np.square(made.std[0])
    assert found["sharpness"].value == pytest.approx(np.sqrt(np.mean(made.std[0] ** 2)), rel=1e-12)
    e, law = found["se_var_ratio"], stats.chi2(300)
    assert e.value == pytest.approx(ratio.mean(), rel=1e-12)
    assert (e.null_low, e.null_high) == pytest.approx((law.ppf(0.025) / 300, law.ppf(0.975) / 300), rel=1e-9)
    assert e.p_value == pytest.approx(2 * law.sf(300 * e.value), rel=1e-6)


def test_samples_without_spread():
    """A miss without variance is infinitely many of its standard deviations off, a hit is undefined."""
    missed = cal.Regression.from_samples([[1.0, 2.0], [1.0, 3.0]], [0.0, 1.0])
    hit = cal.Regression.from_samples([[1.0, 2.0], [1.0, 3.0]], [1.0, 1.0])
    specs = ["se_var_ratio", "ence(bins=2)"]
    assert list(cal.measure(missed, specs).values()) == [math.inf, math.inf]
    assert np.isnan(list(cal.measure(hit, specs).values())).all()
    single = cal.Regression.from_samples([[1.0, 2.0]], [0.0, 1.0])
    for spec in ("sharpness", "se_var_ratio", "ence"):
        with pytest.raises(cal.CalibrantError, match="two samples"):
            cal.measure(single, spec)


@pytest.mark.parametrize("weighted", [False, True])
def test_ence_is_that_of_a_loop(weighted):
    rng = np.random.default_rng(3)
    n = 240
    mean, std = rng.normal(size=n), 0.1 + rng.random(n)
    y, w = mean + std * rng.normal(size=n), rng.exponential(size=n) if weighted else np.ones(n)
    made = cal.Regression.from_gaussian(mean, std, y, weights=w if weighted else None)
    order = np.argsort(std)
    parts = np.array_split(order, 8)
    if weighted:
        cuts = [np.abs(w[order].cumsum()[:-1] - w.sum() * b / 8).argmin() + 1 for b in range(1, 8)]
        parts = np.split(order, cuts)
    terms = []
    for b in parts:
        mse, var = ((w[b] * x[b]).sum() / w[b].sum() for x in ((y - mean) ** 2, std**2))
        terms.append(abs(mse**0.5 - var**0.5) / var**0.5)
    assert cal.measure(made, "ence(bins=8)")["ence(bins=8)"] == pytest.approx(np.mean(terms), rel=1e-10)


def test_ence_of_one_standard_deviation_has_one_bin():
    y = np.array([1.0, -1.0, 3.0, 0.0])
    made = cal.Regression.from_gaussian(np.zeros(4), np.full(4, 2.0), y)
    assert cal.measure(made, "ence")["ence"] == pytest.approx(abs(math.sqrt(11 / 4) - 2) / 2, rel=1e-12)


def test_bands_are_for_single_gaussians_and_independent_rows():
    specs = ["ence", "se_var_ratio"]
    rng = np.random.default_rng(0)
    mean, std, y = rng.normal(size=(2, 50)), 1 + rng.random((2, 50)), rng.normal(size=50)
    for made in (cal.Regression.from_gaussian(mean, std, y), cal.Regression.from_samples(mean, y)):
        assert all(math.isnan(e.null_high) for e in estimates(made, *specs).values())
    by_unit = cal.Regression.from_gaussian(mean[0], std[0], y, columns={"unit": np.arange(50) // 5})
    with_band = [*specs, "picp", "mace", "pit_uniformity", "pit_uniformity(test=chi2)"]
    assert all(math.isnan(e.p_value) for e in estimates(by_unit, *with_band, units="unit").values())
    assert all(e.p_value > 0 for e in estimates(by_unit, *with_band).values())


# ----------------------------------------------------------------------------------- tests of the PIT
def test_uniformity_of_gaussians_is_scipys():
    made = normal(150, 0.8)
    pit = ndtr((made.y - made.mean[0]) / made.std[0])
    found = cal.measure(made, [f"pit_uniformity(test={t})" for t in ("cvm", "chi2")] + ["pit_uniformity"])
    assert found["pit_uniformity"] == pytest.approx(stats.kstest(pit, "uniform").statistic, rel=1e-9)
    assert found["pit_uniformity(test=cvm)"] == pytest.approx(stats.cramervonmises(pit, "uniform").statistic, rel=1e-9)
    counts = np.histogram(pit, 20, (0, 1))[0]
    assert found["pit_uniformity(test=chi2)"] == pytest.approx(stats.chisquare(counts).statistic, rel=1e-9)


@pytest.mark.parametrize("test", ["ks", "cvm", "ad", "chi2"])
def test_uniformity_holds_its_level_for_samples(test):
    """300 simulations of n = 100 with 7 right samples; within three standard errors."""
    rng = np.random.default_rng(4)
    spec = "pit_uniformity" + f"(test={test})" * (test != "ks")
    p = []
    for seed in range(300):
        made = cal.Regression.from_samples(rng.normal(size=(7, 100)), rng.normal(size=100))
        p.append(estimates(made, spec, resamples=99, seed=seed)[spec].p_value)
    assert abs((np.array(p) < 0.05).mean() - 0.05) < 3 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.parametrize("spec", ["ence", "mace(coverage=central)", "se_var_ratio", "picp"])
def test_bands_of_gaussians_hold_their_level(spec):
    """200 simulations; the coverage takes few values, and so rejects at most as often."""
    p = np.array([estimates(normal(100, seed=s), spec, resamples=60, seed=s)[spec].p_value for s in range(200)])
    share, error = (p < 0.05).mean(), np.sqrt(0.05 * 0.95 / 200)
    assert share < 0.05 + 3 * error
    assert spec == "picp" or share > 0.05 - 3 * error


def test_uniformity_has_no_weighted_form_and_no_bins_without_chi2():
    with pytest.raises(cal.CalibrantError, match="no weighted form"):
        cal.measure(normal(weights=np.arange(1.0, 301.0)), "pit_uniformity")
    with pytest.raises(cal.CalibrantError, match="chi2"):
        cal.measure(normal(), "pit_uniformity(bins=10)")


# --------------------------------------------------------------------------------------- odd cases
@pytest.mark.parametrize("kind", ["gaussian", "samples", "one sample", "quantiles"])
def test_one_row(kind):
    made = {
        "gaussian": cal.Regression.from_gaussian([0.0], [1.0], [0.3]),
        "samples": cal.Regression.from_samples([[0.0], [1.0]], [0.3]),
        "one sample": cal.Regression.from_samples([[0.0]], [0.3]),
        "quantiles": cal.Regression.from_quantiles([[-1.0, 1.0]], [0.025, 0.975], [0.3]),
    }[kind]
    found = cal.evaluate(made, "report", resamples=50).results[0].metrics
    assert {"calibration_error", "mace", "rmsce", "picp", "width"} <= set(found)
    assert all(math.isfinite(found[name].value) for name in ("mace", "picp", "width"))


def test_constant_outcomes_and_certain_misses():
    """F(y) is 0 or 1 to the last bit: no row is below any level, or all are within none."""
    high = cal.Regression.from_gaussian(np.zeros(20), np.ones(20), np.full(20, 1e3))
    found = estimates(high, "calibration_error", "mace(coverage=central)", "picp", "pit_uniformity(test=ad)")
    assert found["calibration_error"].value == pytest.approx(sum((j / 100) ** 2 for j in range(1, 101)))
    assert found["mace(coverage=central)"].value == pytest.approx(sum(j / 100 for j in range(1, 100)) / 100)
    assert found["picp"].value == 0.0
    assert found["pit_uniformity(test=ad)"].value == math.inf
    middle = cal.Regression.from_gaussian(np.zeros(20), np.ones(20), np.zeros(20))
    assert cal.measure(middle, "picp")["picp"] == 1.0
    assert cal.measure(middle, "mace(coverage=central)")["mace(coverage=central)"] == pytest.approx(0.495)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**16), scale=st.sampled_from([0.5, 4.0, 1024.0]), shift=st.sampled_from([0.0, -8.0, 512.0]),
    samples=st.booleans(),
)  # fmt: skip
def test_units_of_y_and_order_of_rows_do_not_matter(seed, scale, shift, samples):
    """Powers of two and numbers in quarters, so that nothing is rounded; width and sharpness are in units of y."""
    rng = np.random.default_rng(seed)
    n = 40
    mean, std = rng.integers(-20, 20, n) / 4, rng.integers(1, 12, n) / 4
    y, draws = rng.integers(-40, 40, n) / 4, rng.integers(-40, 40, (4, n)) / 4
    order = rng.permutation(n)

    def made(a, b, rows):
        if samples:
            return cal.Regression.from_samples(a * draws[:, rows] + b, a * y[rows] + b)
        return cal.Regression.from_gaussian(a * mean[rows] + b, a * std[rows], a * y[rows] + b)

    specs = [*UNCHANGED, "width", "sharpness"]
    before, after = (cal.measure(made(*how), specs) for how in ((1.0, 0.0, slice(None)), (scale, shift, order)))
    for spec in UNCHANGED:
        assert after[spec] == pytest.approx(before[spec], rel=1e-9, abs=1e-12, nan_ok=True), spec
    for spec in ("width", "sharpness"):
        assert after[spec] == pytest.approx(scale * before[spec], rel=1e-12), spec


# --------------------------------------------------------------------------------------- real data
def test_rain_ensembles_are_overconfident_where_it_rains(data_folder):
    """52 values a day; on wet days outcomes fall outside them too often, and more so at the shorter lead time."""
    path = data_folder / "regression_ensembles" / "precip_frankfurt_ecmwf_ens.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    found = {}
    with np.load(path, allow_pickle=False) as stored:
        for lead in (1, 5):
            made = cal.Regression.from_samples(stored[f"ens_lead{lead}"].T, stored[f"obs_lead{lead}"])
            found[lead] = estimates(made[made.y > 0], "mace", "picp(level=0.9)", "pit_uniformity", "se_var_ratio")
    for lead in (1, 5):
        assert found[lead]["mace"].low > found[lead]["mace"].null_high
        assert found[lead]["pit_uniformity"].p_value < 1e-6
        assert found[lead]["picp(level=0.9)"].high < 46 / 53
    assert found[1]["picp(level=0.9)"].value < found[5]["picp(level=0.9)"].value
