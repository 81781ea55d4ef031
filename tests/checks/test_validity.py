"""Checks where the truth is known: uniform p-values if the reading is right, and surprises where it is wrong."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import kstest

import calibrant as cal
from calibrant.registry import lookup

COUNT = {"bayesian": 200, "independent": 100, "exact": 80}
ROWS, MEMBERS, DRAWS = 60, 5, 39
SHARPNESS = np.exp(0.4 * np.linspace(-1.3, 1.3, MEMBERS))


def labels_from(p, rng):
    return (p.cumsum(axis=-1) > rng.random((len(p), 1))).argmax(axis=-1)


def logits(n, rng, members=MEMBERS, classes=3, noise=0.3):
    """Members that differ in how sure they are of everything, and a little row by row."""
    shared = 1.5 * rng.standard_normal((n, classes))
    sharpness = SHARPNESS[np.arange(members) % MEMBERS][:, None, None]
    return sharpness * shared + noise * rng.standard_normal((members, n, classes))


def classes(reading):
    z = logits(ROWS, np.random.default_rng(1))
    p = softmax(z, axis=-1)
    p = p if reading == "bayesian" else p.mean(axis=0)[None]
    return lambda rng: cal.Classification.from_logits(z, labels_from(p[rng.integers(len(p))], rng))


def judged(reading):
    confidence = softmax(logits(ROWS, np.random.default_rng(2), classes=2), axis=-1)[..., 0]
    p = confidence if reading == "bayesian" else confidence.mean(axis=0)[None]
    return lambda rng: cal.Judged.from_confidence(confidence, rng.random(ROWS) < p[rng.integers(len(p))])


def gaussians(reading):
    first = np.random.default_rng(3)
    mean = first.standard_normal((MEMBERS, ROWS)) + 0.3 * first.standard_normal((MEMBERS, 1))
    std = np.exp(0.3 * first.standard_normal((MEMBERS, 1)) + 0.3 * first.standard_normal(ROWS))

    def draw(rng):
        m = rng.integers(MEMBERS, size=1 if reading == "bayesian" else ROWS)
        i = np.arange(ROWS)
        return cal.Regression.from_gaussian(mean, std, mean[m, i] + std[m, i] * rng.standard_normal(ROWS))

    return draw


def samples(reading):
    """Outcomes and draws are S + 1 vectors that could have come in any order; or are so in each row."""

    def draw(rng):
        shape = (DRAWS + 1, 1 if reading == "bayesian" else ROWS)
        shift, size = 0.3 * rng.standard_normal((2, *shape))
        drawn = shift + np.exp(size) * rng.standard_normal((DRAWS + 1, ROWS))
        return cal.Regression.from_samples(drawn[1:], drawn[0])

    return draw


DESIGNS = {
    classes: "accuracy,ece,ece(binning=mass),ece(norm=l2),mce,nll,brier,class_frequency(of=0),"
    "confusion(true=0,predicted=1),entropy,top_k(k=2)",
    judged: "accuracy,ece,nll,brier",
    gaussians: "calibration_error,mace,picp,mse,nll,crps,mean,min,max,quantile(level=0.9)",
    samples: "calibration_error,picp,mse,crps,mean,min,max",
}

EXACT = {classes: "accuracy,ece,nll,brier", judged: "accuracy,ece,nll,brier", gaussians: "picp,mse,mean"}
TESTS = [*DESIGNS.values(), *DESIGNS.values(), *EXACT.values()]
FALSE_ALARM = 0.01 / sum(len(lookup.split(names)) for names in TESTS)
"""One test in a hundred of all that are made here would fail by chance, had the seeds not been fixed."""


@pytest.mark.parametrize("reading", ["bayesian", "independent"])
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.__name__)
def test_p_values_are_uniform_where_the_reading_is_right(design, reading):
    draw, rng = design(reading), np.random.default_rng(10)
    found = [
        cal.check(draw(rng), DESIGNS[design], members=reading, draws=DRAWS, seed=k, threads=1).results[0].checks
        for k in range(COUNT[reading])
    ]
    for statistic in found[0]:
        p = kstest([checks[statistic].randomised for checks in found], "uniform").pvalue
        assert p > FALSE_ALARM, statistic


@pytest.mark.parametrize("design", EXACT, ids=lambda design: design.__name__)
def test_p_values_of_computed_laws_are_uniform_too(design):
    draw, rng = design("bayesian"), np.random.default_rng(11)
    found = [
        cal.check(draw(rng), EXACT[design], members="bayesian", draws="exact", seed=k, threads=1).results[0].checks
        for k in range(COUNT["exact"])
    ]
    for statistic in found[0]:
        p = kstest([checks[statistic].randomised for checks in found], "uniform").pvalue
        assert p > FALSE_ALARM, statistic


# ------------------------------------------------------------------------------- the other reading is surprised
def surprised(found, reading, statistic):
    """Share of data sets with a two-sided p below 0.05."""
    results = [(r.checks if reading == "bayesian" else r.independent)[statistic] for r in found]
    return np.mean([check.two_sided < 0.05 for check in results])


def checked(n, count, average):
    """Both readings of data sets whose labels one member drew, or the averaged prediction."""
    rng, out = np.random.default_rng(12), []
    for k in range(count):
        z = logits(n, rng, noise=0.0).astype(np.float32)
        p = softmax(z, axis=-1)
        law = p.mean(axis=0) if average else p[rng.integers(MEMBERS)]
        predictions = cal.Classification.from_logits(z, labels_from(law, rng))
        out += cal.check(predictions, "accuracy,nll,ece", draws=DRAWS, seed=k, threads=1).results
    return out


def test_data_of_one_member_surprise_the_independent_reading_the_more_rows_there_are():
    few, many = checked(50, 60, average=False), checked(3000, 60, average=False)
    for statistic in ("accuracy", "nll", "ece"):
        shares = [surprised(found, "independent", statistic) for found in (few, many)]
        assert shares[0] + 0.2 < shares[1], statistic
        assert shares[1] > 0.6, statistic
        assert surprised(many, "bayesian", statistic) < 0.17, statistic  # 5 % is nominal, 17 % four standard errors


def test_data_of_the_average_fit_better_than_any_member_leads_to_expect():
    found = checked(20_000, 20, average=True)
    lower = [r.checks["ece"].mid_p < 0.5 and r.checks["ece"].two_sided < 0.05 for r in found]
    assert np.mean(lower) > 0.5
    assert all(r.checks["ece"].mid_p < 0.5 for r in found)
    assert surprised(found, "bayesian", "accuracy") == 0.0
    for statistic in ("accuracy", "nll", "ece"):
        assert surprised(found, "independent", statistic) < 0.25, statistic


# --------------------------------------------------------------------------------------------------- real networks
def test_what_the_page_of_real_networks_says(data_folder):
    """docs/checks-real.md: eight networks on clean images, four under noise."""
    folder = data_folder / "predictions"
    eight = np.load(folder / "cifar10_test_8cnn_logits.npz")
    (result,) = cal.check(cal.Classification.from_logits(eight["logits"], eight["labels"])).results
    assert result.supported == "bayesian"
    assert not any(result.independent[name].passed() for name in ("accuracy", "ece", "brier"))
    four = np.load(folder / "cifar10_resnet_ensemble_shift_ood_logits.npz")
    clean = cal.Classification.from_logits(four["logits_clean"], four["labels_clean"])
    assert cal.check(clean).results[0].checks["nll"].surprise() == "higher"
    assert cal.check(clean, temperatures=0.2).results[0].supported == "both"
    for severity in (2, 5):
        logits = four[f"logits_gaussian_noise_{severity}"]
        noisy = cal.Classification.from_logits(logits, four["labels_gaussian_noise"])
        for options in ({}, {"temperatures": 0.2, "fit": clean}):
            (result,) = cal.check(noisy, **options).results
            assert not any(check.passed() for check in (*result.checks.values(), *result.independent.values()))
