"""Checks against the same thing in plain loops: means, spread, p-values and sharpness, within Monte-Carlo error."""

import math

import numpy as np
import pytest
from checks import reference
from scipy.special import expit

import calibrant as cal

DRAWS, FAR = 400, 5.0
CLASSES = {
    "accuracy": reference.accuracy,
    "ece": reference.ece,
    "nll": reference.nll,
    "brier": reference.brier,
    "class_frequency(of=0)": reference.class_frequency(0),
    "confusion(true=0,predicted=1)": reference.confusion(0, 1),
    "entropy": reference.entropy,
}
JUDGED = {name: getattr(reference, f"judged_{name}") for name in ("accuracy", "ece", "nll", "brier")}
NUMBERS = {
    "calibration_error": reference.calibration_error,
    "picp": reference.picp,
    "mse": reference.mse,
    "nll": reference.gaussian_nll,
    "crps": reference.crps,
    "mean": reference.mean,
    "min": reference.smallest,
    "max": reference.largest,
    "quantile(level=0.9)": reference.quantile(0.9),
}


# ----------------------------------------------------------------------------------------------- problems
def classification(rng, members, n):
    z = rng.uniform(0.5, 3) * rng.standard_normal((n, int(rng.integers(2, 5))))
    z = z + rng.uniform(0, 1.5) * rng.standard_normal((members, *z.shape))
    labels = rng.integers(0, z.shape[-1], n)
    of = (labels.tolist(), reference.averaged(z))
    return cal.Classification.from_logits(z, labels), CLASSES, of, reference.replicates_classification, (z.tolist(),)


def judged(rng, members, n):
    confidence = expit(1 + rng.standard_normal(n) + rng.uniform(0, 1.5) * rng.standard_normal((members, n)))
    right = rng.random(n) < 0.7
    of = (right.tolist(), confidence.mean(axis=0).tolist())
    predictions = cal.Judged.from_confidence(confidence, right)
    return predictions, JUDGED, of, reference.replicates_judged, (confidence.tolist(),)


def gaussian(rng, members, n):
    mean = rng.standard_normal(n) + rng.uniform(0, 1.5) * rng.standard_normal((members, n))
    std = np.exp(0.5 * rng.standard_normal((members, n)))
    y = 1.3 * rng.standard_normal(n)
    given = (mean.tolist(), std.tolist())
    return (
        cal.Regression.from_gaussian(mean, std, y),
        NUMBERS,
        (y.tolist(), given),
        reference.replicates_gaussian,
        given,
    )


MAKERS = (classification, judged, gaussian)


def problem(number):
    rng = np.random.default_rng([20, number])
    return MAKERS[number % 3](rng, int(rng.integers(1, 5)), int(rng.integers(5, 31))), rng


# ------------------------------------------------------------------------------------------------- agreement
def spread_error(values):
    """Standard error of a standard deviation, by the fourth moment."""
    gaps = (values - values.mean()) ** 2
    return gaps.std() / (2 * math.sqrt(len(values)) * max(values.std(), 1e-300))


def width_error(values):
    """Standard error of a sharpness, by resampling."""
    again = np.random.default_rng(0).choice(values, (100, len(values)))
    return np.subtract(*np.quantile(again, [0.95, 0.05], axis=1)).std()


def agree(check, values, observed, what):
    """Whether a check says what the values of the loops say; both have their Monte-Carlo error."""
    two, rounding = math.sqrt(2.0), 1e-9 + 1e-6 * np.abs(values).max()
    assert check.observed == pytest.approx(observed, rel=1e-6, abs=1e-9), what
    mean_error = values.std() / math.sqrt(DRAWS)
    assert abs(check.mean - values.mean()) <= FAR * two * mean_error + rounding, what
    assert abs(check.sd - values.std()) <= FAR * two * spread_error(values) + rounding, what
    assert abs(check.sharpness - reference.sharpness(values)) <= FAR * two * width_error(values) + gap(values), what
    # the loops add in another order: values that are equal may differ in their last digits
    below, ties = np.mean(values < observed - rounding), np.mean(np.abs(values - observed) <= rounding)
    pooled = (check.p_value + below + 1 / DRAWS) / (2 + 1 / DRAWS)
    error = math.sqrt(pooled * (1 - pooled) * 2 / DRAWS)
    assert abs(check.p_value - below) <= FAR * error, what
    assert abs(check.mid_p - below - ties / 2) <= FAR * max(error, math.sqrt(0.25 / DRAWS) * ties), what


def gap(values):
    """How far apart neighbours of a discrete statistic lie: its quantiles are no finer."""
    near = np.unique(np.round(values, 9))
    return float(np.median(np.diff(near))) if len(near) < DRAWS / 4 and len(near) > 1 else 1e-9


@pytest.mark.parametrize("reading", [reference.BAYESIAN, reference.INDEPENDENT])
@pytest.mark.parametrize("number", range(20))
def test_checks_are_what_plain_loops_say(number, reading):
    (predictions, statistics, (labels, average), replicates, given), rng = problem(number)
    names = list(statistics)

    def every(y, p):
        return [statistics[name](y, p) for name in names]

    theirs = np.array(replicates(*given, every, DRAWS, reading, rng))
    found = cal.check(predictions, names, draws=DRAWS, members=reading, seed=number)
    for name, values, observed in zip(names, theirs.T, every(labels, average), strict=True):
        agree(found[name], values, observed, name)


# --------------------------------------------------------------------------------------------- computed laws
MANY = 4000
LAWS = {
    classification: ["accuracy", "ece", "nll", "brier"],
    judged: ["accuracy", "ece", "nll", "brier"],
    gaussian: ["picp", "mse"],
}


@pytest.mark.parametrize("reading", [reference.BAYESIAN, reference.INDEPENDENT])
@pytest.mark.parametrize("number", range(12))
def test_computed_laws_are_those_of_many_draws(number, reading):
    rng = np.random.default_rng([21, number])
    maker = MAKERS[number % 3]
    predictions, *_ = maker(rng, int(rng.integers(1, 5)), int(rng.integers(150, 400)))
    exact, drawn = (
        cal.check(predictions, LAWS[maker], draws=draws, members=reading, seed=number) for draws in ("exact", MANY)
    )
    for name in LAWS[maker]:
        computed, sampled = exact[name], drawn[name]
        assert computed.se < (0.1 if computed.method == "moments" else 0.002), name
        slack = min(computed.se, 0.01)  # laws by their moments are nearer to the true ones than they promise
        steady = (MANY * sampled.p_value + 1) / (MANY + 2)
        assert abs(computed.p_value - sampled.p_value) <= FAR * math.sqrt(steady * (1 - steady) / MANY) + slack, name
        assert computed.mean == pytest.approx(sampled.mean, abs=FAR * sampled.sd / math.sqrt(MANY) + 1e-9), name
        assert computed.sd == pytest.approx(sampled.sd, rel=0.1), name
