"""The canonical error and the squared kernel error: published values, plain loops, exact expectations, their tests."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import gammaln, logsumexp, softmax

import calibrant as cal
from calibrant.calibration import canonical, kernel_pairs
from calibrant.kernels.dirichlet import dirichlet_log_likelihood


def probabilities(n, classes, seed=0, sharp=1.0):
    return softmax(sharp * 2 * np.random.default_rng(seed).normal(size=(n, classes)), axis=1)


def drawn(p, seed=0):
    return (p.cumsum(axis=1) > np.random.default_rng([seed, 1]).random((len(p), 1))).argmax(axis=1)


def plain_skce(p, y, width):
    """h over all pairs, by loops."""
    e = np.eye(p.shape[1])[y] - p
    h = np.empty((len(p), len(p)))
    for i, j in itertools.product(range(len(p)), repeat=2):
        h[i, j] = math.exp(-math.sqrt(sum((p[i] - p[j]) ** 2)) / width) * sum(e[i] * e[j])
    return h


def plain_ce(p, y, bandwidth, order):
    """The public formula in log space, row by row."""
    alpha, logs, total = p / bandwidth + 1, np.log(np.maximum(p, 1e-12)), 0.0
    norm = gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)
    for j in range(len(p)):
        log_k = (alpha - 1) @ logs[j] + norm
        log_k[j] = -np.inf
        for c in range(p.shape[1]):
            with np.errstate(divide="ignore"):
                share = np.exp(logsumexp(np.where(y == c, log_k, -np.inf)) - logsumexp(log_k))
            total += abs(p[j, c] - share) ** order
    return (total / len(p)) ** (1 / order)


def value(predictions, spec):
    return cal.measure(predictions, [spec])[cal.registry.lookup.parse(spec).text]


# ---------------------------------------------------------------------------- squared kernel error
@pytest.mark.parametrize(
    ("labels", "unbiased", "biased"),
    [([0, 1], 0, 0), ([0, 0], 0, 0.5), ([1, 0], -2 * math.exp(-1), 1 - math.exp(-1)), ([1, 1], 0, 0.5)],
)
def test_published_values_of_two_certain_predictions(labels, unbiased, biased):
    """CalibrationErrors.jl, test/skce.jl: two corners of the simplex are √2 apart, and the kernel there is 1/e."""
    two = cal.Classification.from_probs(np.eye(2), labels)
    for form, expected in (("unbiased", unbiased), ("biased", biased), ("block", unbiased)):
        assert value(two, f"skce(form={form},bandwidth={math.sqrt(2)!r})") == pytest.approx(expected, abs=1e-12)
    many = cal.Classification.from_probs(np.tile(np.eye(2), (10, 1)), np.tile(labels, 10))
    same, other = value(many, "skce(form=biased,bandwidth=1e-3)"), value(many, "skce(form=biased,bandwidth=1e6)")
    residuals = np.eye(2)[labels] - np.eye(2)  # near one kernel only like predictions count, near the other all do
    assert same == pytest.approx(np.mean(np.sum(residuals**2, axis=1)) / 2)
    assert other == pytest.approx(np.sum(residuals.mean(axis=0) ** 2), abs=1e-5)


@pytest.mark.parametrize(
    ("mean", "std", "y", "expected"),
    [
        ([0, 0], [1, 1], [0, 0], 1 - math.sqrt(2) + 1 / math.sqrt(3)),
        (
            [0, 1],
            [1, 2],
            [1, 0],
            math.exp(-math.sqrt(2))
            * (math.exp(-1 / 2) - 1 / math.sqrt(2) - 1 / math.sqrt(5) + math.exp(-1 / 12) / math.sqrt(6)),
        ),
        (
            [0, 1],
            [1, 2],
            [0, 1],
            math.exp(-math.sqrt(2))
            * (
                math.exp(-1 / 2)
                - math.exp(-1 / 4) / math.sqrt(2)
                - math.exp(-1 / 10) / math.sqrt(5)
                + math.exp(-1 / 12) / math.sqrt(6)
            ),
        ),
    ],
)
def test_published_values_of_two_gaussians(mean, std, y, expected):
    """CalibrationErrors.jl, test/normal.jl; its outcomes of the second and third case belong to the other Gaussian."""
    two = cal.Regression.from_gaussian(np.array(mean, float), np.array(std, float), y=np.array(y, float))
    assert value(two, "skce") == pytest.approx(expected, abs=1e-12)
    units = cal.Regression.from_gaussian(60.0 * np.array(mean), 60.0 * np.array(std), y=60.0 * np.array(y))
    assert value(units, "skce(scale=60)") == pytest.approx(expected, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 12), st.integers(2, 6), st.floats(0.05, 5), st.floats(0, 30), st.integers(0, 2**32 - 1))
def test_skce_equals_plain_loops(n, classes, width, sharp, seed):
    p = probabilities(n, classes, seed, sharp)
    y = drawn(p, seed)
    h = plain_skce(p, y, width)
    predictions = cal.Classification.from_probs(p, y)
    pairs = h[np.triu_indices(n, 1)]
    assert value(predictions, f"skce(bandwidth={width!r})") == pytest.approx(pairs.mean(), abs=1e-10)
    assert value(predictions, f"skce(form=biased,bandwidth={width!r})") == pytest.approx(h.mean(), abs=1e-10)


def test_bandwidth_is_the_median_distance():
    p = probabilities(60, 4)
    predictions = cal.Classification.from_probs(p, drawn(p))
    distances = np.sqrt(((p[:, None] - p[None]) ** 2).sum(axis=2))[np.triu_indices(60, 1)]
    given_one = value(predictions, f"skce(bandwidth={float(np.median(distances))!r})")
    assert value(predictions, "skce") == pytest.approx(given_one, rel=1e-5)


def test_skce_is_unbiased_for_every_calibrated_classifier():
    """Its expectation over all labels that the predictions allow is 0, to rounding; that of the biased form is not."""
    p = probabilities(5, 3, seed=3)
    expected = dict.fromkeys(("skce(bandwidth=0.5)", "skce(form=biased,bandwidth=0.5)"), 0.0)
    for labels in itertools.product(range(3), repeat=5):
        chance = math.prod(p[i, k] for i, k in enumerate(labels))
        found = cal.measure(cal.Classification.from_probs(p, np.array(labels)), list(expected))
        expected = {spec: expected[spec] + chance * found[spec] for spec in expected}
    assert expected["skce(bandwidth=0.5)"] == pytest.approx(0, abs=1e-12)
    assert expected["skce(form=biased,bandwidth=0.5)"] == pytest.approx((1 - np.sum(p**2, axis=1)).sum() / 25)


def test_gaussian_skce_is_unbiased_for_a_calibrated_regression():
    """By quadrature over both outcomes."""
    mean, std = np.array([0.3, -0.8]), np.array([0.7, 1.9])
    nodes, weights = hermegauss(40)
    weights = weights / weights.sum()
    total = 0.0
    for (a, wa), (b, wb) in itertools.product(zip(nodes, weights, strict=True), repeat=2):
        two = cal.Regression.from_gaussian(mean, std, y=mean + std * np.array([a, b]))
        total += wa * wb * value(two, "skce")
    assert total == pytest.approx(0, abs=1e-9)


def test_block_form_is_the_mean_over_its_blocks():
    """Blocks of two rows, of which each pair is as likely: over many seeds they average to the unbiased form."""
    p = probabilities(12, 3, sharp=2)
    predictions = cal.Classification.from_probs(p, drawn(p, 5))
    one = value(predictions, "skce(bandwidth=0.5)")
    assert value(predictions, "skce(form=block,block=12,bandwidth=0.5)") == pytest.approx(one, abs=1e-12)
    spec = "skce(form=block,block=2,bandwidth=0.5)"
    found = [cal.evaluate(predictions, [spec], seed=k)[spec].value for k in range(400)]
    assert np.mean(found) == pytest.approx(one, abs=4 * np.std(found) / 20)
    assert np.std(found) > 0


@pytest.mark.parametrize("spec", ["skce", "skce(form=biased)", "skce(form=block)", "ce"])
def test_p_values_hold_their_level_and_find_a_bad_model(spec):
    """120 simulations of 150 rows (blocks: 1000): 5 % + 3.3 standard errors at most; a bad model is mostly found."""
    rejected = {1.0: 0, 3.0: 0}
    for seed in range(120):
        law = probabilities(1000 if "block" in spec else 150, 3, seed)
        y = drawn(law, seed)
        for sharp in rejected:
            p = law**sharp / np.sum(law**sharp, axis=1, keepdims=True)
            if sharp == 1.0 or seed < 20:
                found = cal.evaluate(cal.Classification.from_probs(p, y), [spec], resamples=100, seed=seed)[spec]
                rejected[sharp] += found.p_value < 0.05
    assert rejected[1.0] <= 6 + 3.3 * math.sqrt(120 * 0.05 * 0.95)
    assert rejected[3.0] >= 15


def test_gaussian_p_values_hold_their_level_and_find_a_bad_model():
    rng, rejected = np.random.default_rng(0), [0, 0]
    for _ in range(100):
        mean, std = rng.normal(size=80), 0.5 + rng.random(80)
        y = mean + std * rng.normal(size=80)
        for bad in (0, 1):
            found = cal.evaluate(cal.Regression.from_gaussian(mean, std / (1 + bad), y=y), ["skce"], resamples=100)
            rejected[bad] += found["skce"].p_value < 0.05
    assert rejected[0] <= 5 + 3.3 * math.sqrt(100 * 0.05 * 0.95)
    assert rejected[1] >= 80


# ---------------------------------------------------------------------------------- canonical error
@pytest.mark.parametrize("bandwidth", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("order", [1.0, 2.0])
@pytest.mark.parametrize(("classes", "sharp"), [(2, 1), (3, 1), (10, 2), (5, 12)])
def test_ce_equals_the_public_formula_in_log_space(bandwidth, order, classes, sharp):
    """Also of very sharp predictions, where p reaches 1e-12 and log densities run into thousands."""
    p = probabilities(80, classes, seed=classes, sharp=sharp)
    y = drawn(p, 2)
    spec = f"ce(p={order:g},bandwidth={bandwidth!r})"
    assert value(cal.Classification.from_probs(p, y), spec) == pytest.approx(plain_ce(p, y, bandwidth, order), abs=2e-6)


def test_bandwidth_maximises_the_leave_one_out_likelihood():
    p = probabilities(150, 3, seed=1)

    def likelihood(h):
        alpha = p / h + 1
        log_k = np.log(p) @ (p / h).T + gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)
        np.fill_diagonal(log_k, -np.inf)
        return np.mean(logsumexp(log_k, axis=1) - np.log(len(p) - 1))

    plain = np.array([likelihood(h) for h in canonical.BANDWIDTHS])
    assert np.allclose(dirichlet_log_likelihood(p, canonical.BANDWIDTHS), plain, atol=1e-5)
    best = float(canonical.BANDWIDTHS[plain.argmax()])
    assert canonical.bandwidth_of(p) == best
    predictions = cal.Classification.from_probs(p, drawn(p))
    assert value(predictions, "ce") == value(predictions, f"ce(bandwidth={best!r})")


def test_ce_tends_to_the_truth_where_predictions_come_again():
    """Three predictions, each with its own law: the kernels only have to tell them apart."""
    p = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    law = np.array([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [0.3, 0.1, 0.6]])
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 3000)
    y = (law[kind].cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1)
    for order in (1.0, 2.0):
        truth = np.mean(np.sum(np.abs(p - law) ** order, axis=1)) ** (1 / order)
        spec = f"ce(p={order:g},bandwidth=0.001)"
        found = cal.evaluate(cal.Classification.from_probs(p[kind], y), [spec], resamples=60)
        e = found.results[0].metrics[cal.registry.lookup.parse(spec).text]
        assert e.value == pytest.approx(truth, abs=0.03)
        assert e.low <= truth <= e.high
        assert e.p_value == pytest.approx(2 / 61)


def test_calibrated_interval_begins_at_zero():
    law = probabilities(200, 3, seed=9)
    found = cal.evaluate(cal.Classification.from_probs(law, drawn(law, 4)), "ce,skce", resamples=100)
    for spec in ("ce", "skce"):
        e = found[spec]
        assert e.low == 0.0 < e.high
        assert e.null_low < e.value < e.null_high


# --------------------------------------------------------------------------------------- hard cases
@pytest.mark.parametrize("spec", ["ce", "ce(p=2)", "skce", "skce(form=biased)", "skce(form=block)"])
@pytest.mark.parametrize(
    ("p", "y"),
    [
        (np.eye(3)[[0, 1, 2, 0, 1, 2]], [0, 1, 2, 1, 1, 2]),
        (np.full((6, 3), 1 / 3), [0, 1, 2, 0, 1, 2]),
        (np.eye(2)[[0] * 5], [0] * 5),
        (probabilities(3, 2), [0, 1, 0]),
    ],
    ids=["one-hot", "all equal", "one class", "three rows"],
)
def test_hard_cases_give_numbers_in_range(spec, p, y):
    e = cal.evaluate(cal.Classification.from_probs(p, y), [spec], resamples=40).results[0].metrics[spec]
    assert math.isfinite(e.value)
    assert math.isnan(e.low) or 0 <= e.low <= e.high <= 2
    assert math.isnan(e.p_value) or 0 < e.p_value <= 1


@pytest.mark.parametrize("spec", ["ce", "skce"])
def test_one_row_is_undefined_and_two_are_not_enough_for_an_interval(spec):
    one = cal.evaluate(cal.Classification.from_probs([[0.4, 0.6]], [1]), [spec])[spec]
    assert math.isnan(one.value)
    two = cal.evaluate(cal.Classification.from_probs([[0.4, 0.6], [0.5, 0.5]], [1, 0]), [spec], resamples=20)[spec]
    assert math.isnan(two.low)


def test_weights_mixtures_and_samples_are_refused_with_a_reason():
    p = probabilities(10, 3)
    weighted = cal.Classification.from_probs(p, drawn(p), weights=np.arange(1.0, 11))
    for spec in ("ce", "skce"):
        with pytest.raises(cal.CalibrantError, match="weighted form"):
            cal.measure(weighted, spec)
    with pytest.raises(cal.CalibrantError, match="no pairs"):
        cal.measure(cal.Classification.from_probs(p, drawn(p)), "skce(form=block,block=1)")
    with pytest.raises(cal.CalibrantError, match="one Gaussian per row"):
        cal.measure(cal.Regression.from_samples(np.random.default_rng(0).random((5, 4)), y=np.zeros(4)), "skce")
    with pytest.raises(cal.CalibrantError, match="one Gaussian per row"):
        cal.measure(cal.Regression.from_gaussian(np.zeros((2, 4)), np.ones((2, 4)), y=np.zeros(4)), "skce")


def test_a_kernel_that_sees_nothing_in_these_units_is_noted():
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    for unit, noted in ((1.0, False), (1e6, True), (1e-6, True)):
        predictions = cal.Regression.from_gaussian(np.zeros(40), np.full(40, unit), y=unit * y)
        codes = [note.code for note in cal.evaluate(predictions, "skce", resamples=20).warnings]
        assert ("kernel-scale" in codes) is noted
        assert "kernel-scale" not in [note.code for note in cal.evaluate(predictions, "skce(scale=0)").warnings]


def test_dependent_rows_have_neither_test_nor_interval():
    p = probabilities(20, 3)
    predictions = cal.Classification.from_probs(p, drawn(p), columns={"unit": np.arange(20) // 2})
    for spec in ("ce", "skce", "skce(form=block)"):
        e = cal.evaluate(predictions, [spec], units="unit", resamples=20)[spec]
        assert math.isnan(e.p_value)
        assert e.method == "none"


@pytest.mark.parametrize("scale", [1e-9, 1e4, 1e6])
def test_kernel_that_does_not_fit_the_units_rejects_nothing(scale):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        mean, std = scale * rng.normal(size=60), scale * np.exp(0.3 * rng.normal(size=60))
        right = cal.Regression.from_gaussian(mean, std, mean + std * rng.normal(size=60))
        found = cal.evaluate(right, "skce", resamples=100, curves=False)["skce"]
        assert found.p_value > 0.05, found


def test_interval_of_a_negative_skce_is_no_point():
    seen = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = rng.dirichlet([1.0, 1.0, 1.0], size=40)
        y = (p.cumsum(axis=1) < rng.random((40, 1))).sum(axis=1).clip(0, 2)
        found = cal.evaluate(cal.Classification.from_probs(p, y), "skce", resamples=20, curves=False)["skce"]
        assert found.low < found.high
        seen += found.value < 0
    assert seen > 5


def test_outcomes_redrawn_in_parts_are_the_same(monkeypatch):
    rng = np.random.default_rng(1)
    mean, std = rng.normal(size=70), np.exp(0.2 * rng.normal(size=70))
    pairs = kernel_pairs.GaussianPairs(mean, std, mean + std * rng.normal(size=70))
    whole = pairs.redrawn(9, 3)
    monkeypatch.setattr(kernel_pairs, "MOST_DRAWN", 150)
    parts = pairs.redrawn(9, 3)
    assert (parts.totals == whole.totals).all()
    assert (parts.diagonals == whole.diagonals).all()
