"""Scores of regression, as `evaluate`, `measure` and `score_rows` give them: other people's code, and identities.

float64 input agrees to 1e-9 with every stranger; what is simulated is judged by its own standard error.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import scoringrules as rules
import uncertainty_toolbox as toolbox
from evaluations import evaluate_with
from scipy import stats
from scipy.optimize import brentq
from sklearn import metrics as sk

import calibrant as cal

Regression = cal.Regression
N = 257  # not a whole number of the tiles that the kernels work in
EXACT = {"rel": 1e-9, "abs": 1e-12}
LEVELS = np.arange(1, 20) / 20
FAR = 4.5  # standard errors: one in 150 000 by chance, and the seeds are fixed


def numbers(members=1, n=N, seed=0):
    """Outcomes (N,), means and standard deviations (M, N) of very unequal rows."""
    rng = np.random.default_rng([seed, members, n])
    return rng.normal(size=n), rng.normal(size=(members, n)), np.exp(0.5 * rng.normal(size=(members, n)))


def ensemble(draws, n=N, seed=0):
    """Outcomes and samples (S, N); no product S·level of the levels used here is rounded."""
    rng = np.random.default_rng([seed, draws, n])
    return rng.normal(size=n), rng.normal(size=n) + np.exp(0.5 * rng.normal(size=n)) * rng.normal(size=(draws, n))


def predictions(kind, scale=1.0, shift=0.0, **known):
    """The same problem in each of the four forms, in any units."""
    y, mean, std = numbers(3)
    y = scale * y + shift
    if kind == "gaussian":
        return Regression.from_gaussian(scale * mean[0] + shift, abs(scale) * std[0], y, **known)
    if kind == "mixture":
        return Regression.from_gaussian(scale * mean + shift, abs(scale) * std, y, **known)
    if kind == "samples":
        return Regression.from_samples(scale * ensemble(11)[1] + shift, y, **known)
    levels = np.array([0.025, 0.25, 0.5, 0.75, 0.975])
    quantiles = mean[0][:, None] + std[0][:, None] * stats.norm.ppf(levels)
    return Regression.from_quantiles(scale * quantiles + shift, levels, y, **known)


KINDS = ("gaussian", "mixture", "samples", "quantiles")
SPECS = {
    "gaussian": ["nll", "mse", "mse(root=true)", "mae", "mae(point=mean)", "dss", "crps", "crps(fair=false)", "pinball",
                 "pinball(level=0.9)", "interval_score", "interval_score(level=0.5)", "pit",
                 "aleatoric_variance"],
    "quantiles": ["mae", "pinball", "pinball(level=0.75)", "interval_score", "interval_score(level=0.5)"],
}  # fmt: skip
SPECS["mixture"] = [*SPECS["gaussian"], "epistemic_variance"]
SPECS["samples"] = [spec for spec in SPECS["gaussian"] if spec not in ("nll", "aleatoric_variance")]


def estimates(made, kind, **settings):
    return evaluate_with(made, SPECS[kind], resamples=20, **settings).results[0].metrics


def assert_gives(made, expected):
    """Rows, their mean by `measure`, and the value by `evaluate`, are those of the stranger."""
    rows, values = cal.score_rows(made, list(expected)), cal.measure(made, list(expected))
    evaluated = cal.evaluate(made, list(expected))
    for spec, theirs in expected.items():
        assert rows[spec] == pytest.approx(theirs, **EXACT), spec
        assert values[spec] == pytest.approx(np.mean(theirs), **EXACT), spec
        assert evaluated[spec].value == values[spec]


def mean_pinball(y, quantiles, levels):
    """Of each row, with quantiles (L, N), by scoringrules."""
    return np.mean([rules.quantile_score(y, q, level) for q, level in zip(quantiles, levels, strict=True)], axis=0)


# ---------------------------------------------------------------------------------------- strangers
def test_a_gaussian_by_scoringrules_and_scipy():
    y, (mean,), (std,) = numbers()
    normal = stats.norm(mean, std)
    expected = {
        "crps": rules.crps_normal(y, mean, std),
        "crps(fair=false)": rules.crps_normal(y, mean, std),
        "nll": rules.logs_normal(y, mean, std),
        "dss": ((y - mean) / std) ** 2 + 2 * np.log(std),
        "pit": normal.cdf(y),
        "mse": (mean - y) ** 2,
        "mae": np.abs(mean - y),
        "pinball": mean_pinball(y, [normal.ppf(level) for level in LEVELS], LEVELS),
        "pinball(level=0.9)": rules.quantile_score(y, normal.ppf(0.9), 0.9),
        "pinball(levels=4)": mean_pinball(y, [normal.ppf(k / 5) for k in range(1, 5)], [0.2, 0.4, 0.6, 0.8]),
        "interval_score": rules.interval_score(y, normal.ppf(0.025), normal.ppf(0.975), 0.05),
        "interval_score(level=0.5)": rules.interval_score(y, normal.ppf(0.25), normal.ppf(0.75), 0.5),
        "aleatoric_variance": std**2,
    }
    assert_gives(Regression.from_gaussian(mean, std, y), expected)
    assert_gives(Regression.from_gaussian(mean, var=std**2, y=y), expected)


@pytest.mark.parametrize("members", [2, 5, 20])
def test_a_mixture_by_scoringrules_and_scipy(members):
    """Its quantiles by Brent's root search, its moments from those of the members."""
    y, mean, std = numbers(members, n=24)

    def quantile(level):
        ends = (mean - 10 * std).min(axis=0), (mean + 10 * std).max(axis=0)
        cdf = [lambda x, i=i: stats.norm.cdf(x, mean[:, i], std[:, i]).mean() - level for i in range(len(y))]
        return np.array([brentq(f, low, high, xtol=1e-14) for f, low, high in zip(cdf, *ends, strict=True)])

    centre = mean.mean(axis=0)
    variance = (std**2 + mean**2).mean(axis=0) - centre**2
    expected = {
        "crps": rules.crps_mixnorm(y, mean.T, std.T),
        "nll": rules.logs_mixnorm(y, mean.T, std.T),
        "dss": (y - centre) ** 2 / variance + np.log(variance),
        "pit": stats.norm.cdf(y, mean, std).mean(axis=0),
        "mse": (centre - y) ** 2,
        "mae": np.abs(quantile(0.5) - y),
        "mae(point=mean)": np.abs(centre - y),
        "pinball(levels=4)": mean_pinball(y, [quantile(k / 5) for k in range(1, 5)], [0.2, 0.4, 0.6, 0.8]),
        "interval_score": rules.interval_score(y, quantile(0.025), quantile(0.975), 0.05),
        "aleatoric_variance": (std**2).mean(axis=0),
        "epistemic_variance": mean.var(axis=0),
    }
    assert_gives(Regression.from_gaussian(mean, std, y), expected)


@pytest.mark.parametrize("draws", [2, 11, 52])
def test_samples_by_scoringrules_and_numpy(draws):
    """DSS with the unbiased variance, as scoringrules has it by default; quantiles by the inverse of the ECDF."""
    y, x = ensemble(draws)

    def quantile(level):
        return np.quantile(x, level, axis=0, method="inverted_cdf")

    expected = {
        "crps": rules.crps_ensemble(y, x.T, estimator="fair"),
        "crps(fair=false)": rules.crps_ensemble(y, x.T, estimator="nrg"),
        "dss": rules.dssuv_ensemble(y, x.T),
        "mse": (x.mean(axis=0) - y) ** 2,
        "mae": np.abs(quantile(0.5) - y),
        "mae(point=mean)": np.abs(x.mean(axis=0) - y),
        "pinball": mean_pinball(y, [quantile(level) for level in LEVELS], LEVELS),
        "interval_score(level=0.5)": rules.interval_score(y, quantile(0.25), quantile(0.75), 0.5),
        "pit": ((x < y).sum(axis=0) + 0.5) / (draws + 1),
    }
    assert_gives(Regression.from_samples(x, y), expected)


def test_samples_with_ties_are_the_integral_of_the_definition():
    """∫(F(x) − 1{y ≤ x})² dx, F the step function of the samples, piece by piece."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(7, 60)).round(1), rng.normal(size=60).round(1)
    expected = []
    for row, outcome in zip(x.T, y, strict=True):
        steps = np.sort([*row, outcome])
        share = (row[:, None] <= steps[:-1]).mean(axis=0)
        expected.append(np.sum(np.diff(steps) * (share - (outcome <= steps[:-1])) ** 2))
    assert (x == y).any()
    assert_gives(Regression.from_samples(x, y), {"crps(fair=false)": np.array(expected)})


def test_quantiles_by_scoringrules():
    """Levels as they are given, also irregular ones; level 0.025 may have been computed as (1 − 0.95)/2."""
    y, (mean,), (std,) = numbers()
    levels = np.array([0.01, (1 - 0.95) / 2, 1 / 3, 0.5, 0.9, (1 + 0.95) / 2])
    q = mean[:, None] + std[:, None] * stats.t(4).ppf(levels)
    expected = {
        "pinball": mean_pinball(y, q.T, levels),
        "pinball(level=0.9)": rules.quantile_score(y, q[:, 4], 0.9),
        "interval_score": rules.interval_score(y, q[:, 1], q[:, 5], 0.05),
        "mae": np.abs(q[:, 3] - y),
    }
    assert_gives(Regression.from_quantiles(q, levels, y), expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["gaussian", "samples"])
def test_errors_by_scikit_learn(kind, weighted):
    """Its mean absolute error takes whatever point it is given: the median by default here, as it is consistent."""
    w = np.random.default_rng(2).exponential(size=N) if weighted else None
    made = predictions(kind, weights=w)
    y = made.y
    if kind == "samples":
        point = made.samples.mean(axis=0)
        middle, upper = np.quantile(made.samples, [0.5, 0.9], axis=0, method="inverted_cdf")
    else:
        point = middle = made.mean[0]
        upper = stats.norm.ppf(0.9, made.mean[0], made.std[0])
    expected = {
        "mse": sk.mean_squared_error(y, point, sample_weight=w),
        "mse(root=true)": sk.root_mean_squared_error(y, point, sample_weight=w),
        "mae": sk.mean_absolute_error(y, middle, sample_weight=w),
        "mae(point=mean)": sk.mean_absolute_error(y, point, sample_weight=w),
        "pinball(level=0.5)": sk.mean_pinball_loss(y, middle, alpha=0.5, sample_weight=w),
        "pinball(level=0.9)": sk.mean_pinball_loss(y, upper, alpha=0.9, sample_weight=w),
    }
    assert cal.measure(made, list(expected)) == pytest.approx(expected, **EXACT)


def test_a_gaussian_by_uncertainty_toolbox():
    """Its check score is the pinball loss at 99 levels; its interval score is the mean over 99 levels, ours of one."""
    y, (mean,), (std,) = numbers()
    scores = toolbox.metrics_scoring_rule
    expected = {
        "nll": scores.nll_gaussian(mean, std, y),
        "crps": scores.crps_gaussian(mean, std, y),
        "pinball(levels=99)": scores.check_score(mean, std, y),
        "mae": toolbox.metrics_accuracy.mean_absolute_error(y, mean),
        "mse": toolbox.metrics_accuracy.mean_squared_error(y, mean),
    }
    made = Regression.from_gaussian(mean, std, y)
    assert cal.measure(made, list(expected)) == pytest.approx(expected, **EXACT)
    each = cal.measure(made, [f"interval_score(level={k / 100})" for k in range(1, 100)])
    assert np.mean(list(each.values())) == pytest.approx(scores.interval_score(mean, std, y), **EXACT)
    one = scores.interval_score(mean, std, y, start_p=0.95, end_p=0.95, resolution=1)
    assert cal.measure(made, "interval_score")["interval_score"] == pytest.approx(one, **EXACT)
    spread = math.sqrt(cal.measure(made, "aleatoric_variance")["aleatoric_variance"])
    assert spread == pytest.approx(toolbox.metrics_calibration.sharpness(std), **EXACT)


# --------------------------------------------------------------------------------------- identities
def test_a_mixture_of_one_is_the_gaussian_to_the_last_bit():
    y, mean, std = numbers()
    alone, mixed = Regression.from_gaussian(mean[0], std[0], y), Regression.from_gaussian(mean, std, y)
    assert estimates(alone, "gaussian") == estimates(mixed, "gaussian")


@pytest.mark.parametrize("members", [2, 7])
def test_a_mixture_of_equals_is_the_gaussian(members):
    """Values and both ends of every interval; nothing is epistemic."""
    y, mean, std = numbers()
    alone = estimates(Regression.from_gaussian(mean, std, y), "gaussian")
    repeated = (np.repeat(x, members, axis=0) for x in (mean, std))
    mixed = estimates(Regression.from_gaussian(*repeated, y), "mixture")
    assert mixed["epistemic_variance"].value == pytest.approx(0, abs=1e-28)
    for spec, one in alone.items():
        ends = (mixed[spec].value, mixed[spec].low, mixed[spec].high)
        assert ends == pytest.approx((one.value, one.low, one.high), **EXACT), spec


def test_many_samples_of_a_gaussian_have_its_scores():
    """Samples at its quantiles (k − ½)/S: what is left is of order log S/S; random draws differ by their own error."""
    y, mean, std = numbers(n=40)
    at = stats.norm.ppf((np.arange(5000) + 0.5) / 5000)[:, None]
    exact = Regression.from_gaussian(mean, std, y)
    even = Regression.from_samples(mean + std * at, y)
    specs = ["crps", "crps(fair=false)", "mse", "mae", "pinball", "interval_score", "pit"]
    assert cal.measure(even, specs) == pytest.approx(cal.measure(exact, specs), rel=5e-3)
    assert cal.measure(even, "crps(fair=false)") == pytest.approx(cal.measure(exact, "crps(fair=false)"), rel=1e-4)
    drawn = Regression.from_samples(mean + std * np.random.default_rng(3).normal(size=(5000, 40)), y)
    gap = cal.score_rows(drawn, "crps")["crps"] - cal.score_rows(exact, "crps")["crps"]
    assert abs(gap.mean()) < FAR * gap.std(ddof=1) / math.sqrt(40)
    assert np.abs(gap / std).max() < 0.05


@pytest.mark.parametrize("draws", [2, 3, 10])
def test_the_fair_crps_is_unbiased_and_the_plain_one_is_not(draws):
    """Plain: too high by σ/(S√π), since the mean difference of two draws of a Gaussian is 2σ/√π."""
    rng = np.random.default_rng([4, draws])
    n, sigma = 40_000, 1.3
    y, mean = rng.normal(size=n), 0.5 * rng.normal(size=n)
    exact = cal.score_rows(Regression.from_gaussian(mean, np.full(n, sigma), y), "crps")["crps"]
    drawn = Regression.from_samples(mean + sigma * rng.normal(size=(draws, n)), y)
    rows = cal.score_rows(drawn, "crps,crps(fair=false)")
    gap, plain = rows["crps"] - exact, rows["crps(fair=false)"] - exact
    assert abs(gap.mean()) < FAR * stats.sem(gap)
    bias = sigma / (draws * math.sqrt(math.pi))
    assert abs(plain.mean() - bias) < FAR * stats.sem(plain)
    assert bias > 10 * stats.sem(plain)  # it would have been seen


@pytest.mark.parametrize("kind", ["gaussian", "mixture"])
def test_crps_is_twice_the_integral_of_the_pinball_loss(kind):
    """The trapezoid over k/1000; the loss vanishes at both ends."""
    found = cal.measure(predictions(kind), "crps,pinball(levels=999)")
    assert 2 * 0.999 * found["pinball(levels=999)"] == pytest.approx(found["crps"], rel=1e-4)


@pytest.mark.parametrize("draws", [2, 10])
def test_crps_of_samples_is_twice_the_pinball_loss_at_the_middle_levels(draws):
    """Between j/S and (j + 1)/S the quantile is one sample and the loss is linear: the midpoint rule is exact."""
    y, x = ensemble(draws)
    specs = [f"pinball(level={(2 * k + 1) / (2 * draws)})" for k in range(draws)]
    found = cal.measure(Regression.from_samples(x, y), ["crps(fair=false)", *specs])
    plain = found.pop("crps(fair=false)")
    assert 2 * np.mean(list(found.values())) == pytest.approx(plain, **EXACT)


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("kind", KINDS)
def test_the_interval_score_is_the_pinball_loss_at_both_ends(kind, level):
    """2/α times their sum (Gneiting & Raftery 2007, section 6.2)."""
    ends = [f"pinball(level={round((1 + sign * level) / 2, 6)})" for sign in (-1, 1)]
    found = cal.measure(predictions(kind), [f"interval_score(level={level})", *ends])
    score, low, high = found.values()
    assert 2 / (1 - level) * (low + high) == pytest.approx(score, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_the_absolute_error_of_the_median_is_twice_its_pinball_loss(kind):
    found = cal.measure(predictions(kind), "mae,pinball(level=0.5)")
    assert 2 * found["pinball(level=0.5)"] == pytest.approx(found["mae"], **EXACT)


def test_dss_is_twice_the_nll_less_a_constant():
    """Of one Gaussian; of a mixture, that of the Gaussian with its moments."""
    one, mixed = predictions("gaussian"), predictions("mixture")
    for made, normal in ((one, one), (mixed, mixed.moment_matched())):
        dss, nll = cal.score_rows(made, "dss")["dss"], cal.score_rows(normal, "nll")["nll"]
        assert dss == pytest.approx(2 * nll - math.log(2 * math.pi), **EXACT)
    assert not np.allclose(cal.score_rows(mixed, "nll")["nll"], cal.score_rows(mixed.moment_matched(), "nll")["nll"])


def test_variance_of_the_mixture_is_aleatoric_and_epistemic():
    """Law of total variance: of draws from a random member each, within what so many draws can tell."""
    rng = np.random.default_rng(5)
    y, mean, std = numbers(4, n=12)
    parts = cal.score_rows(Regression.from_gaussian(mean, std, y), "aleatoric_variance,epistemic_variance")
    total = parts["aleatoric_variance"] + parts["epistemic_variance"]
    draws = 40_000
    member = rng.integers(0, 4, size=(draws, 12))
    x = np.take_along_axis(mean, member, 0) + np.take_along_axis(std, member, 0) * rng.normal(size=(draws, 12))
    error = total * np.sqrt((stats.kurtosis(x) + 2) / draws)
    assert (np.abs(x.var(axis=0, ddof=1) - total) < FAR * error).all()
    assert (parts["epistemic_variance"] > 10 * error).any()  # leaving it out would have been seen
    assert total == pytest.approx(Regression.from_gaussian(mean, std, y).moment_matched().std[0] ** 2, **EXACT)


# ------------------------------------------------------------------------------------ equivariance
def transformed(spec, value, scale):
    """What a score becomes where everything is multiplied by `scale`."""
    name = spec.partition("(")[0]
    if name in ("nll", "dss"):
        return value + (1 if name == "nll" else 2) * math.log(scale)
    if name == "pit":
        return value
    power = 2 if spec == "mse" or name.endswith("variance") else 1
    return value * scale**power


@pytest.mark.parametrize("extra", ["plain", "weighted", "units"])
@pytest.mark.parametrize("scale", [3.7, 1e-12, 1e12])
@pytest.mark.parametrize("kind", KINDS)
def test_every_score_follows_the_units(kind, scale, extra):
    """Values and both ends of the interval, to 1e-9 of themselves, a million million times as large or as small."""
    known = {"columns": {"unit": np.arange(N) // 3}}
    if extra == "weighted":
        known["weights"] = np.random.default_rng(6).exponential(size=N)
    units = "unit" if extra == "units" else None
    plain, scaled = (estimates(predictions(kind, s, **known), kind, units=units) for s in (1.0, scale))
    for spec, one in plain.items():
        for end in ("value", "low", "high"):
            expected = transformed(spec, getattr(one, end), scale)
            assert getattr(scaled[spec], end) == pytest.approx(expected, rel=1e-9, abs=0), (spec, end)
        assert one.method.startswith("studentised")


@pytest.mark.parametrize("shift", [-0.3, 1e3, -1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_no_score_depends_on_the_origin(kind, shift):
    """Up to the rounding of numbers as large as the shift."""
    plain, moved = (estimates(predictions(kind, shift=b), kind) for b in (0.0, shift))
    slack = 1e-9 + 100 * np.spacing(abs(shift))
    for spec, one in plain.items():
        ends = (moved[spec].value, moved[spec].low, moved[spec].high)
        assert ends == pytest.approx((one.value, one.low, one.high), rel=slack, abs=slack), spec


@pytest.mark.parametrize("kind", ["gaussian", "mixture", "samples"])
def test_a_mirror_changes_no_score_but_the_pit(kind):
    """Levels are symmetric about ½, and S·level is not whole for any sample quantile used."""
    plain, mirrored = (cal.measure(predictions(kind, s), SPECS[kind]) for s in (1.0, -1.0))
    assert mirrored.pop("pit") == pytest.approx(1 - plain.pop("pit"), **EXACT)
    assert mirrored.pop("pinball(level=0.9)") != plain.pop("pinball(level=0.9)")
    assert mirrored == pytest.approx(plain, **EXACT)


# ---------------------------------------------------------------------------------------- propriety
WRONG = {"shifted": (0.3, 1.0), "widened": (0.0, 1.3), "narrowed": (0.0, 0.75)}
PROPER = ["crps", "nll", "dss", "pinball", "interval_score", "interval_score(level=0.5)"]


def assert_better(true, wrong, specs):
    """Lower on average, by more than chance."""
    for spec in specs:
        gap = cal.score_rows(wrong, spec)[spec] - cal.score_rows(true, spec)[spec]
        assert gap.mean() > FAR * stats.sem(gap), spec


@pytest.fixture(scope="module")
def truth():
    """Means, standard deviations and outcomes drawn from them."""
    rng = np.random.default_rng(7)
    mean, std = rng.normal(size=30_000), np.exp(0.3 * rng.normal(size=30_000))
    return mean, std, mean + std * rng.normal(size=30_000)


@pytest.mark.parametrize("wrong", WRONG)
def test_the_true_gaussian_scores_best(truth, wrong):
    mean, std, y = truth
    shift, factor = WRONG[wrong]
    made = Regression.from_gaussian(mean + shift * std, factor * std, y)
    assert_better(Regression.from_gaussian(mean, std, y), made, PROPER)


@pytest.mark.parametrize("wrong", WRONG)
def test_the_true_quantiles_score_best(truth, wrong):
    mean, std, y = truth
    shift, factor = WRONG[wrong]
    levels = np.array([0.025, 0.25, 0.75, 0.975])
    true = mean[:, None] + std[:, None] * stats.norm.ppf(levels)
    made = mean[:, None] + std[:, None] * (shift + factor * stats.norm.ppf(levels))
    specs = ["pinball", "interval_score", "interval_score(level=0.5)"]
    assert_better(Regression.from_quantiles(true, levels, y), Regression.from_quantiles(made, levels, y), specs)


@pytest.mark.parametrize("wrong", WRONG)
def test_samples_of_the_truth_have_the_best_fair_crps(truth, wrong):
    mean, std, y = truth
    shift, factor = WRONG[wrong]
    z = np.random.default_rng(8).normal(size=(5, len(y)))
    made = Regression.from_samples(mean + std * (shift + factor * z), y)
    assert_better(Regression.from_samples(mean + std * z, y), made, ["crps"])


def test_the_plain_crps_prefers_too_narrow_samples(truth):
    """The known fault that the fair form mends: of three draws, those with 0.8 of the spread score better."""
    mean, std, y = truth
    z = np.random.default_rng(9).normal(size=(3, len(y)))
    true, narrow = (Regression.from_samples(mean + s * std * z, y) for s in (1.0, 0.8))
    assert_better(narrow, true, ["crps(fair=false)"])
    assert_better(true, narrow, ["crps"])


def test_a_true_mixture_beats_the_gaussian_of_its_moments(truth):
    """By density and CRPS; the DSS sees two moments only, and gives both the same."""
    mean, std, _ = truth
    rng = np.random.default_rng(10)
    members = mean + 1.5 * std * np.array([[-1.0], [1.0]])
    widths = np.stack([0.5 * std, 0.5 * std])
    side = rng.integers(0, 2, len(mean))
    y = np.where(side, members[1], members[0]) + 0.5 * std * rng.normal(size=len(mean))
    true = Regression.from_gaussian(members, widths, y)
    assert_better(true, true.moment_matched(), ["nll", "crps", "pinball", "interval_score"])
    assert cal.measure(true, "dss") == pytest.approx(cal.measure(true.moment_matched(), "dss"), **EXACT)


# -------------------------------------------------------------------------------- weights and units
@pytest.mark.parametrize("kind", KINDS)
def test_integer_weights_are_repeated_rows(kind):
    w = np.random.default_rng(11).integers(0, 4, N)
    weighted, plain = predictions(kind, weights=w), predictions(kind)
    repeated = cal.measure(plain[np.repeat(np.arange(N), w)], SPECS[kind])
    assert cal.measure(weighted, SPECS[kind]) == pytest.approx(repeated, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_weight_change_neither_value_nor_interval(kind):
    """Even where they are absurd."""
    w = np.random.default_rng(12).exponential(size=N)
    out = np.arange(N) % 10 > 2
    absurd = predictions(kind, weights=np.where(out, 0.0, w))
    absurd.y[out] = 1e30
    padded, clean = estimates(absurd, kind), estimates(predictions(kind, weights=w)[~out], kind)
    for spec, one in clean.items():
        ends = (padded[spec].value, padded[spec].low, padded[spec].high)
        assert ends == pytest.approx((one.value, one.low, one.high), **EXACT), spec


@pytest.mark.parametrize("kind", KINDS)
def test_equal_weights_are_no_weights(kind):
    plain, equal = estimates(predictions(kind), kind), estimates(predictions(kind, weights=np.full(N, 7.0)), kind)
    for spec, one in plain.items():
        ends = (equal[spec].value, equal[spec].low, equal[spec].high)
        assert ends == pytest.approx((one.value, one.low, one.high), **EXACT), spec


@pytest.mark.parametrize("kind", KINDS)
def test_copies_of_rows_bring_nothing_where_units_are_named(kind):
    """Four copies of each row: by unit, the interval of the single rows; without, half as wide or, if skew, less."""
    single = predictions(kind, columns={"unit": np.arange(N)})
    copied = single[np.repeat(np.arange(N), 4)]
    alone, by_unit, blind = estimates(single, kind), estimates(copied, kind, units="unit"), estimates(copied, kind)
    for spec, one in alone.items():
        ends = (by_unit[spec].value, by_unit[spec].low, by_unit[spec].high)
        assert ends == pytest.approx((one.value, one.low, one.high), rel=1e-6, abs=1e-9), spec
        assert blind[spec].high - blind[spec].low < 0.55 * (one.high - one.low), spec


def test_rows_that_depend_widen_the_interval():
    """A shock that 40 units of 10 rows share: ten rows are then worth little more than one."""
    rng = np.random.default_rng(13)
    unit = np.repeat(np.arange(40), 10)
    y = rng.normal(size=40)[unit] + 0.2 * rng.normal(size=400)
    made = Regression.from_gaussian(np.zeros(400), np.ones(400), y, columns={"unit": unit})
    blind, aware = cal.evaluate(made), cal.evaluate(made, units="unit")
    for spec in ("nll", "crps", "mse", "pit", "pinball"):
        assert aware[spec].value == blind[spec].value
        assert aware[spec].high - aware[spec].low > 2 * (blind[spec].high - blind[spec].low), spec


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_the_evaluations_of_their_rows(kind):
    """By a column of text, and by ranges of y."""
    site = np.array(["north", "south", "west"])[np.arange(N) % 3]
    made = predictions(kind, columns={"site": site})
    for by, bins in (("site", None), ("y", 4)):
        column = by if bins is None else f"{by}:{bins}"
        groups = cal.evaluate(made, SPECS[kind], by=column).results[0].groups
        parts = dict(made.by(by, bins))
        assert [group.value for group in groups] == list(parts)
        assert sum(group.n for group in groups) == N
        for group in groups:
            alone = dict(cal.evaluate(parts[group.value], SPECS[kind]).results[0].metrics)
            if "pit" in alone:  # the correction for several groups; within a range of y no model is calibrated
                nothing = dict.fromkeys(("null_low", "null_high", "p_value", "detectable"), math.nan)
                alone["pit"] = replace(alone["pit"], q_value=group.metrics["pit"].q_value, **(nothing if bins else {}))
                assert math.isnan(group.metrics["pit"].q_value) == (bins is not None)
            assert group.metrics == alone
