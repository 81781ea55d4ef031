"""Curves of regression, each against a plain loop, and their drawing."""

import json
import math

import numpy as np
import pytest
from evaluations import evaluate_with
from scipy import stats

import calibrant as cal
from calibrant.intervals import binomial_band

GIVEN = [0.05, 0.25, 0.5, 0.75, 0.9, 0.95]
NAMES = {"pit", "calibration", "central_coverage"}
ALL = NAMES | {"width"}


def made(kind, n=400, factor=1.0, weighted=False, seed=0, labels=True, **more):
    """Outcomes of N(mean, std²), predicted with factor times the spread."""
    rng = np.random.default_rng([n, seed])
    mean, std = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
    y = mean + std * rng.normal(size=n) if labels else None
    weights = np.where(np.arange(n) % 5 == 0, 0.0, rng.exponential(size=n)) if weighted else None
    rest = {"y": y, "weights": weights, **more}
    if kind == "gaussian":
        return cal.Regression.from_gaussian(mean, factor * std, **rest)
    if kind == "mixture":
        return cal.Regression.from_gaussian(np.stack([mean - 0.3, mean + 0.3]), factor * np.stack([std, std]), **rest)
    if kind == "samples":
        return cal.Regression.from_samples(mean + factor * std * rng.normal(size=(9, n)), **rest)
    quantiles = mean[:, None] + factor * std[:, None] * stats.norm.ppf(GIVEN)
    return cal.Regression.from_quantiles(quantiles, GIVEN, **rest)


def curves(predictions, metrics=None, **settings):
    result = evaluate_with(predictions, metrics, **({"resamples": 40} | settings)).results[0]
    for columns in result.curves.values():
        assert all(math.isfinite(x) for column in columns.values() for x in column)
    return {name: {key: np.array(c) for key, c in columns.items()} for name, columns in result.curves.items()}


def known(predictions):
    w = np.ones(predictions.n) if predictions.weights is None else predictions.weights
    return w > 0, w[w > 0]


both = pytest.mark.parametrize("weighted", [False, True])


# ------------------------------------------------------------------------------------- by a loop
@both
@pytest.mark.parametrize("kind", ["gaussian", "mixture"])
def test_shares_of_the_pit(kind, weighted):
    predictions = made(kind, weighted=weighted)
    counted, w = known(predictions)
    pit = cal.score_rows(predictions, "pit")["pit"][counted]
    found = curves(predictions)
    assert set(found) == ALL
    assert found["pit"]["n"].sum() == len(pit)
    assert found["calibration"]["level"].tolist() == [k / 100 for k in range(1, 101)]
    below, central = (found[name]["observed"] for name in ("calibration", "central_coverage"))
    for level, share, covered in zip(found["calibration"]["level"], below, central, strict=True):
        assert share == pytest.approx(np.average(pit <= level, weights=w))
        assert covered == pytest.approx(np.average(np.abs(2 * pit - 1) <= level, weights=w))
    cumulated = found["pit"]["share"].cumsum()
    assert cumulated == pytest.approx(found["calibration"]["observed"][4::5])


@both
def test_samples_are_spread_over_their_place(weighted):
    rng = np.random.default_rng(1)
    x, y = rng.poisson(2.0, size=(6, 300)), rng.poisson(2.0, size=300)
    w = rng.exponential(size=300) if weighted else np.ones(300)
    found = curves(cal.Regression.from_samples(x, y, weights=w if weighted else None), "crps")
    low, high = (x < y).sum(axis=0) / 7, ((x <= y).sum(axis=0) + 1) / 7

    def share(a, b):
        inside = np.clip(np.minimum(high, b) - np.maximum(low, a), 0, None) / (high - low)
        return np.average(inside, weights=w)

    levels = found["calibration"]["level"]
    assert found["calibration"]["observed"] == pytest.approx([share(0, t) for t in levels])
    assert found["central_coverage"]["observed"] == pytest.approx([share(0.5 - t / 2, 0.5 + t / 2) for t in levels])
    assert found["pit"]["n"].sum() == pytest.approx(300)


@both
def test_quantiles_at_the_levels_given(weighted):
    predictions = made("quantiles", weighted=weighted)
    counted, w = known(predictions)
    q, y = predictions.quantiles[counted], predictions.y[counted]
    found = curves(predictions)
    assert set(found) == ALL - {"pit"}
    assert found["calibration"]["level"].tolist() == GIVEN
    assert found["calibration"]["observed"] == pytest.approx(np.average(y[:, None] <= q, axis=0, weights=w))
    assert found["central_coverage"]["level"] == pytest.approx([0.5, 0.9])
    expected = [np.average((q[:, a] <= y) & (y <= q[:, b]), weights=w) for a, b in ((1, 3), (0, 5))]
    assert found["central_coverage"]["observed"] == pytest.approx(expected)


def test_levels_without_a_partner_have_no_central_coverage():
    predictions = cal.Regression.from_quantiles(np.zeros((5, 2)), [0.1, 0.5], np.arange(5.0) - 2)
    assert set(curves(predictions)) == {"calibration"}


# ------------------------------------------------------------------------------------------- widths
def intervals_of(kind, predictions):
    """Both ends of the interval of each row, by SciPy and NumPy, and what it should hold."""
    if kind == "gaussian":
        return *(stats.norm.ppf(t, predictions.mean[0], predictions.std[0]) for t in (0.025, 0.975)), 0.95
    if kind == "samples":
        ranked = np.sort(predictions.samples, axis=0)
        return ranked[0], ranked[-1], 0.95
    return predictions.quantiles[:, 0], predictions.quantiles[:, -1], 0.9


@both
@pytest.mark.parametrize("kind", ["gaussian", "samples", "quantiles"])
def test_the_histogram_of_widths(kind, weighted):
    predictions = made(kind, weighted=weighted)
    counted, w = known(predictions)
    low, high, level = (x[counted] if isinstance(x, np.ndarray) else x for x in intervals_of(kind, predictions))
    y, found = predictions.y[counted], curves(predictions)["width"]
    inside = (low <= y) & (y <= high)
    assert 5 < len(found["n"]) <= math.ceil(2 * len(y) ** (1 / 3))
    assert found["level"] == pytest.approx(level)
    assert (np.diff(found["lower"]) > 0).all()
    assert (found["lower"][1:] >= found["upper"][:-1]).all()
    ratio = found["upper"] / found["lower"]
    assert ratio == pytest.approx(ratio[0])
    places = [(low + a <= high) & (high < low + b) for a, b in zip(found["lower"], found["upper"], strict=True)]
    assert found["n"].tolist() == [place.sum() for place in places]
    assert found["n"].sum() == len(y)
    unit = predictions.info.weight_unit
    assert found["covered"] * unit == pytest.approx([w[place & inside].sum() for place in places])
    assert found["missed"] * unit == pytest.approx([w[place & ~inside].sum() for place in places])


def test_widths_of_any_scale_and_of_none():
    """Each power of two is a bin of its own; intervals that have no width, or an infinite one, are left out."""
    scale = np.exp2([-900.0, -30.0, 0.0, 30.0, 900.0] * 20)
    q = np.stack([-scale / 2, scale / 2], axis=1)
    q[0], q[1], q[2] = [1.0, 1.0], [1.0, 0.0], [-1e308, 1e308]
    found = curves(cal.Regression.from_quantiles(q, [0.1, 0.9], np.zeros(100)))["width"]
    assert found["n"].tolist() == [19, 19, 19, 20, 20]
    assert found["lower"] == pytest.approx(np.exp2([-900.0, -30.0, 0.0, 30.0, 900.0]))
    assert found["covered"].tolist() == found["n"].tolist()
    flat = cal.Regression.from_quantiles(np.zeros((5, 2)), [0.1, 0.9], np.zeros(5))
    assert "width" not in curves(flat)


def test_the_interval_of_95_percent_is_preferred_to_wider_ones():
    levels = [0.005, 0.025, 0.5, 0.975, 0.995]
    q = np.tile([-9.0, -2.0, 0.0, 2.0, 9.0], (30, 1))
    found = curves(cal.Regression.from_quantiles(q, levels, np.full(30, 5.0)))["width"]
    assert found["level"] == pytest.approx([0.95])
    assert found["missed"].tolist() == [30]
    assert found["lower"][0] <= 4 < found["upper"][0]


# ------------------------------------------------------------------------------------------- bands
@pytest.mark.parametrize("n", [1, 3, 50, 10_000])
def test_the_binomial_band_is_that_of_scipy(n):
    share = np.array([0.01, 0.05, 0.5, 0.93, 1.0])
    low, high = binomial_band(n, share, 0.95)
    assert low * n == pytest.approx(stats.binom.ppf(0.025, n, share), abs=1e-9)
    assert high * n == pytest.approx(stats.binom.ppf(0.975, n, share), abs=1e-9)


@pytest.mark.parametrize("kind", ["gaussian", "samples", "quantiles"])
def test_bands_hold_the_right_and_not_the_narrow(kind):
    def inside(factor, seed):
        found = curves(made(kind, factor=factor, seed=seed), "pinball,pit" if kind != "quantiles" else None)
        banded = [c for c in found.values() if "band_low" in c]
        pairs = [(c["share" if "share" in c else "observed"], c["band_low"], c["band_high"]) for c in banded]
        return np.mean([np.mean((x >= a - 1e-9) & (x <= b + 1e-9)) for x, a, b in pairs])

    assert np.mean([inside(1.0, seed) for seed in range(8)]) > 0.88
    assert np.mean([inside(0.4, seed) for seed in range(3)]) < 0.5


def test_weights_and_units_and_bands():
    unit = {"unit": np.arange(400) // 2}
    assert "band_low" not in curves(made("gaussian", columns=unit), units="unit")["pit"]
    assert "band_low" not in curves(made("gaussian"), intervals=False)["pit"]
    plain, weighted = (curves(made("gaussian", weighted=w))["calibration"] for w in (False, True))
    assert (weighted["band_high"] - weighted["band_low"])[49] > (plain["band_high"] - plain["band_low"])[49]


# ------------------------------------------------------------------------------------- same digits
def text(evaluation):
    return json.dumps(json.loads(evaluation.dumps())["results"][0]["curves"])


@both
@pytest.mark.parametrize("kind", ["gaussian", "samples", "quantiles"])
def test_order_blocks_threads_and_streams_show_nowhere(kind, weighted, tmp_path):
    predictions = made(kind, weighted=weighted)
    whole = text(cal.evaluate(predictions))
    assert text(cal.evaluate(predictions[np.random.default_rng(1).permutation(400)])) == whole
    assert text(evaluate_with(predictions, block_rows=37, threads=1)) == whole
    cal.write(predictions, tmp_path / "x.npz")
    assert text(evaluate_with(cal.scan(tmp_path / "x.npz"), block_rows=61, threads=2)) == whole


def test_rows_are_counted_or_sorted_alike(monkeypatch):
    predictions = made("samples")
    whole = text(cal.evaluate(predictions))
    monkeypatch.setattr("calibrant.pipeline.curves.coverage.MOST_CODES", 1)
    assert text(cal.evaluate(predictions)) == whole


def test_blocks_of_rows_without_weight():
    rng = np.random.default_rng(0)
    predictions = cal.Regression.from_samples(
        rng.normal(size=(5, 8)), rng.normal(size=8), weights=[0, 0, 0, 1, 2, 1, 0, 3]
    )
    assert text(evaluate_with(predictions, block_rows=2)) == text(cal.evaluate(predictions))


@pytest.mark.parametrize("kind", ["gaussian", "samples", "quantiles"])
def test_without_outcomes_and_of_one_row(kind):
    if kind == "gaussian":  # of the others no metric is left
        result = cal.evaluate(made(kind, labels=False)).results[0]
        assert set(result.curves) == {"width"}
        assert set(result.curves["width"]) == {"lower", "upper", "n", "level"}
        assert set(map(str, result.curves_skipped.values())) == {"it needs y"}
    found = curves(made(kind, n=1))
    assert found["calibration"]["band_low"][0] == 0
    assert set(found) == (ALL if kind != "quantiles" else ALL - {"pit"})


def test_named_metrics_bring_what_their_pass_reads():
    result = cal.evaluate(made("gaussian"), "crps").results[0]
    assert result.curves == {}
    assert set(result.curves_skipped) == ALL
    assert set(cal.evaluate(made("samples"), "crps").results[0].curves) == NAMES
