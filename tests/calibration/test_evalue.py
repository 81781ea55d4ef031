"""The e-value: it equals the mixture written out, is a martingale to rounding, merges exactly, and has power."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from evaluations import evaluate_with
from scipy.special import expit, log_expit, logsumexp

import calibrant as cal
from calibrant.calibration import evalue
from calibrant.calibration.evalue import BINS, LINES, SHIFT_WEIGHTS, SHIFTS, WEIGHTS, LogRatios, log_e_path, log_e_value
from calibrant.registry.metrics.evalues import LOG_E_VALUE

FAR = 2.0**-20


def plain_log_e(p, y):
    """The definition, row by row and alternative by alternative."""
    lines, bins = np.zeros(len(WEIGHTS)), np.zeros((BINS, SHIFTS))
    for one, got in zip(p, y, strict=True):
        if one in (0, 1):
            if got != one:
                return math.inf
            continue
        x = math.log(one) - math.log1p(-one)
        z = LINES[0] + LINES[1] * x
        ratio = log_expit(z) - math.log(one) if got else log_expit(-z) - math.log1p(-one)
        ratio[((one <= FAR) & (z < x)) | ((one >= 1 - FAR) & (z > x))] = 0
        lines += ratio
        bins[min(max(math.ceil(one * BINS) - 1, 0), BINS - 1)] += ratio[-SHIFTS:]
    a = logsumexp(lines, b=WEIGHTS)
    b = sum(np.logaddexp(math.log(0.5), logsumexp(row, b=SHIFT_WEIGHTS)) for row in bins)
    return np.logaddexp(a, b) - math.log(2)


def draw(n, seed=0, a=0.0, b=1.0):
    """p uniform; outcomes with logit P(y = 1) = a + b·logit p."""
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return p, (rng.random(n) < expit(a + b * np.log(p / (1 - p)))).astype(float)


def test_alternatives_are_as_stated():
    assert WEIGHTS.sum() == pytest.approx(1)
    assert SHIFT_WEIGHTS.sum() == pytest.approx(0.5)
    assert LINES[0].min() == -2
    assert LINES[0].max() == 2
    assert LINES[1].min() == pytest.approx(0.25)
    assert LINES[1].max() == pytest.approx(4)
    assert (LINES[1, -SHIFTS:] == 1).all()
    assert (LINES[1, :-SHIFTS] != 1).all()
    assert not ((LINES[0] == 0) & (LINES[1] == 1)).any()


@pytest.mark.parametrize("n", [1, 7, 400])
def test_it_is_the_mixture_of_products(n):
    p, y = draw(n, n, a=0.5, b=0.6)
    assert log_e_value(p, y) == pytest.approx(plain_log_e(p, y), rel=1e-12, abs=1e-13)
    path = log_e_path(p, y)
    for k in {0, n // 2, n - 1}:
        assert path[k] == pytest.approx(plain_log_e(p[: k + 1], y[: k + 1]), rel=1e-12, abs=1e-13)


def test_extreme_forecasts():
    p = np.array([1e-300, 5e-324, 1e-20, FAR, 1 - FAR, 1 - 1e-12, 1 - 2.0**-53, 0.1, 0.2, 0.0, 1.0])
    for seed in range(20):
        y = np.random.default_rng(seed).integers(0, 2, len(p)).astype(float)
        y[-2:] = 0, 1
        assert log_e_value(p, y) == pytest.approx(plain_log_e(p, y), rel=1e-12, abs=1e-12)


# ------------------------------------------------------------------------------------- martingale
GIVEN = {
    "spread": [0.03, 0.5, 0.97, 0.2, 0.2, 0.2, 0.77, 0.999, 0.4, 0.61],
    "certain": [0.0, 1.0, 0.5, 1e-7, 1 - 1e-7, 0.9],
    "tiny": [1e-12, 1e-3, 1 - 1e-9],
}


@pytest.mark.parametrize("name", GIVEN)
def test_its_expectation_is_one(name):
    """Over all outcomes of given forecasts, each with its probability."""
    p, total = np.array(GIVEN[name]), 0.0
    for y in itertools.product([0.0, 1.0], repeat=len(p)):
        chance = math.prod(one if got else 1 - one for one, got in zip(p, y, strict=True))
        if chance:
            total += chance * math.exp(log_e_value(p, np.array(y)))
    assert total == pytest.approx(1, abs=1e-12)


def test_its_expectation_is_one_where_forecasts_answer_to_the_past():
    """A forecaster that sees outcomes and the e-value; after each row the next one is expected to be the present."""

    def expectation(state, depth, p):
        if depth == 0:
            return math.exp(state.log_e())
        total, now = 0.0, math.exp(state.log_e())
        one_step = 0.0
        for got, chance in ((1.0, p), (0.0, 1 - p)):
            after = LogRatios(state.n, 0, state.of_lines, state.of_bins)
            after.add(np.array([p]), np.array([got]))
            one_step += chance * math.exp(after.log_e())
            following = 0.15 + 0.7 * (p if got else 1 - p) * min(1.0, math.exp(after.log_e()))
            total += chance * expectation(after, depth - 1, following)
        assert one_step == pytest.approx(now, rel=1e-12)
        return total

    assert expectation(LogRatios(), 7, 0.3) == pytest.approx(1, abs=1e-12)


def test_calibrated_streams_seldom_cross():
    """200 streams of 2000 rows: the share that ever reaches 20 is at most 5 % and what chance adds to it."""
    rng = np.random.default_rng(1)
    crossed = 0
    for k in range(200):
        p = rng.random(2000) if k % 2 else rng.beta(19, 1, 2000)
        crossed += log_e_path(p, rng.random(2000) < p).max() >= math.log(20)
    assert crossed <= 0.05 * 200 + 3 * math.sqrt(0.05 * 0.95 * 200)


@pytest.mark.parametrize("wrong", [{"b": 0.5}, {"b": 2.0}, {"a": 0.5}, {"a": -0.5}])
def test_power_against_lines(wrong):
    assert log_e_value(*draw(2000, **wrong)) > math.log(20)


def test_power_against_what_is_not_monotone():
    """Too high in one bin, too low in the next: no line shows it."""
    rng = np.random.default_rng(0)
    p = rng.random(8000)
    off = np.where(np.floor(p * 10) % 2 == 0, 0.09, -0.09)
    y = (rng.random(8000) < np.clip(p + off, 0, 1)).astype(float)
    assert log_e_value(p, y) > math.log(20)


# ---------------------------------------------------------------------------------- bits and merging
def test_order_and_parts_change_no_bit():
    p, y = draw(3001, b=0.8)
    whole = LogRatios()
    whole.add(p, y)
    rng = np.random.default_rng(0)
    for cuts in ([], [1], [1000, 2000], range(0, 3001, 7)):
        order = rng.permutation(len(p))
        merged = LogRatios()
        for rows in np.split(order, list(cuts)):
            part = LogRatios()
            part.add(p[rows], y[rows])
            merged.merge(part)
        assert merged == whole
    assert log_e_path(p, y)[-1] == whole.log_e()


def test_calls_and_kernels_change_no_bit_of_the_path(monkeypatch):
    p, y = draw(2000, b=0.8)
    whole = log_e_path(p, y)
    state = LogRatios()
    parts = [log_e_path(a, b, state) for a, b in zip(np.split(p, [1, 77]), np.split(y, [1, 77]), strict=True)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    monkeypatch.setattr(evalue.loops, "MOST_ROWS", 64)
    np.testing.assert_array_equal(log_e_path(p, y), whole)
    assert log_e_value(p, y) == whole[-1]


# ------------------------------------------------------------------------------------------- metric
def test_the_impossible_is_infinite():
    assert log_e_value(np.array([0.3, 0.0]), np.array([0.0, 1.0])) == math.inf
    path = log_e_path(np.array([0.3, 1.0, 0.5]), np.array([0.0, 0.0, 1.0]))
    assert np.isfinite(path).tolist() == [True, False, False]
    e = cal.evaluate(cal.Classification.from_probs([[1.0, 0.0], [0.5, 0.5]], [1, 1]), "log_e_value")["log_e_value"]
    assert (e.value, e.p_value) == (math.inf, 0.0)
    assert e.to_json()["status"] == "infinite"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_rounds_to_one_is_not_impossible(dtype):
    """A gap of 40 between logits: the confidence is 1.0, yet the other class has a probability."""
    z = np.array([[40, 0], [0, 40], [0.5, 0]], dtype)
    for made in (cal.Classification.from_logits(z, [1, 1, 0]), cal.Classification.from_logits(z[:, ::-1], [0, 0, 1])):
        for spec in ("log_e_value", "log_e_value(of=0)", "log_e_value(of=1)"):
            assert math.log10(20) < cal.measure(made, spec)[spec] < 30


def test_the_metric_tells_its_p_value_and_how_it_is_read():
    p, y = draw(2000, b=0.5)
    e = cal.evaluate(cal.Judged.from_confidence(p, y == 1), "log_e_value")["log_e_value"]
    assert e.value == log_e_value(p, y) / math.log(10)
    assert e.p_value == 10**-e.value
    p, y = draw(2000)
    calm = cal.evaluate(cal.Judged.from_confidence(p, y == 1), "log_e_value")["log_e_value"]
    assert calm.value < 1.3
    assert calm.p_value == 1
    assert calm.null_high == pytest.approx(math.log10(20))
    assert calm.null_low == pytest.approx(math.log10(2.0**-11))
    assert calm.null_low < calm.value
    assert "log₁₀ 20 = 1.30" in LOG_E_VALUE.definition


def test_the_metric_of_a_class():
    p, y = draw(500, b=0.5)
    made = cal.Classification.from_probs(p, y.astype(int))
    found = cal.measure(made, "log_e_value(of=1),log_e_value(of=0)")
    assert found["log_e_value(of=1)"] == log_e_value(p, y) / math.log(10)
    assert found["log_e_value(of=0)"] == pytest.approx(log_e_value(1 - p, 1 - y) / math.log(10), rel=1e-9)


def test_weights_units_and_labels_take_its_ground_away():
    p, y = draw(300, b=0.5)
    columns = {"unit": np.arange(300) // 3}
    made = cal.Classification.from_probs(p, y.astype(int), columns=columns)
    by_unit = cal.evaluate(made, "log_e_value", units="unit")["log_e_value"]
    assert math.isnan(by_unit.value)
    assert math.isnan(by_unit.p_value)
    by_default = evaluate_with(made, "report", units="unit", intervals=False).results[0]
    assert "assumes independent rows" in by_default.skipped["log_e_value"].text
    weighted = cal.Classification.from_probs(p, y.astype(int), weights=np.ones(300))
    with pytest.raises(cal.CalibrantError, match="no weighted form"):
        cal.measure(weighted, "log_e_value")
    soft = replace(made, labels=None, label_probs=np.stack([1 - p, p], axis=1))
    with pytest.raises(cal.CalibrantError, match="it needs hard labels"):
        cal.measure(soft, "log_e_value")
    for group in cal.evaluate(made, "log_e_value", by="labels").results[0].groups:
        assert math.isnan(group.metrics["log_e_value"].p_value)
