"""Calibrated log-likelihood of k members: as that of the first k alone, for every k and every draw."""

import json

import numpy as np
import pytest
from comparison import reference
from comparison.reference import logs_of

import calibrant as cal
from calibrant.comparison.cross_validation import calibrated, calibrated_by, curve_rows, member_orders
from calibrant.comparison.split_temperatures import splits_of
from calibrant.errors import ShapeError
from calibrant.results.comparison import CllCurve


def first(predictions, chosen):
    return cal.Classification.build(
        predictions.kind, predictions.scores[chosen], predictions.labels, weights=predictions.weights
    )


def assert_as_alone(predictions, splits, orders, found, atol=2e-8):
    for d, order in enumerate(orders):
        for k in range(1, len(order) + 1):
            part = first(predictions, order[:k])
            alone = calibrated(part, splits)
            weights = np.ones(part.n) if part.weights is None else part.weights
            assert found.values[d, k - 1] == pytest.approx(np.average(alone.log_likelihood, weights=weights), abs=atol)
            assert found.log_likelihood[d, k - 1] == pytest.approx(np.average(alone.before, weights=weights), abs=1e-9)
            assert found.temperature[d, k - 1] == pytest.approx(alone.temperature, rel=1e-7)
            if len(orders) == 1:
                np.testing.assert_allclose(found.rows[k - 1], alone.log_likelihood, atol=atol)


# ------------------------------------------------------------------------------------- against one by one
@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
@pytest.mark.parametrize(("n", "classes", "dtype"), [(300, 10, "float32"), (97, 60, "float64"), (40, 2, "float64")])
def test_each_k_as_its_members_alone(simulated, kind, n, classes, dtype):
    z, y = simulated(5, n, classes)
    logs = z - np.logaddexp.reduce(z, axis=2, keepdims=True)
    scores = {"logits": z, "log_probs": logs, "probs": np.exp(logs)}[kind].astype(dtype)
    p = cal.Classification.build(kind, scores, y, weights=np.arange(1.0, n + 1))
    orders, splits = member_orders(5, 1, 0), splits_of(n, seed=1)
    assert_as_alone(p, splits, orders, curve_rows(p, splits, orders))


def test_as_the_plain_reference(simulated):
    z, y = simulated(4, 150, 6)
    p, splits = cal.Classification.from_logits(z, y), splits_of(150)
    found = curve_rows(p, splits, member_orders(4, 1, 0))
    for k in range(1, 5):
        plain = reference.calibrated(logs_of(first(p, list(range(k)))), y, splits.half)
        np.testing.assert_allclose(found.rows[k - 1], plain.rows, atol=1e-7)
        assert found.temperature[0, k - 1] == pytest.approx(plain.temperature, rel=1e-7)


def test_sixteen_real_networks(networks):
    stored = networks("cifar10h_10fold_16cnn_logits")
    logits = np.concatenate([stored["logits_human"], stored["logits_control"]])
    p = cal.Classification.from_logits(logits, stored["labels"].astype(int))
    splits = splits_of(p.n, repeats=2)
    curve = curve_rows(p, splits, member_orders(p.members, 1, 0))
    for k in (1, 3, p.members):
        plain = reference.calibrated(logs_of(first(p, list(range(k)))), p.labels, splits.half)
        assert curve.values[0, k - 1] == pytest.approx(plain.rows.mean(), abs=1e-8)
    assert curve.values[0, -1] > curve.values[0, 0]


def test_members_that_agree_are_one(simulated):
    z, y = simulated(1, 200, 5)
    p = cal.Classification.from_logits(np.repeat(z, 4, axis=0), y)
    curve = curve_rows(p, splits_of(200), member_orders(4, 1, 0))
    np.testing.assert_allclose(curve.rows, np.tile(curve.rows[0], (4, 1)), atol=2e-8)


def test_threads_change_no_bit(simulated):
    z, y = simulated(3, 18_000, 60)
    p = cal.Classification.from_logits(z.astype(np.float32), y)
    splits, orders = splits_of(p.n, repeats=8), member_orders(3, 1, 0)
    one, three = (curve_rows(p, splits, orders, threads) for threads in (1, 3))
    np.testing.assert_array_equal(one.rows, three.rows)
    np.testing.assert_array_equal(one.values, three.values)


# ------------------------------------------------------------------------------------------------- draws
def test_draws_are_means_over_orders(simulated):
    z, y = simulated(4, 120, 5)
    p, splits = cal.Classification.from_logits(z, y), splits_of(120, repeats=2)
    orders = member_orders(4, 6, 7)
    assert (np.sort(orders, axis=1) == np.arange(4)).all()
    found = curve_rows(p, splits, orders)
    assert_as_alone(p, splits, orders, found)
    single = np.array([[calibrated(first(p, o[:k]), splits).log_likelihood for k in range(1, 5)] for o in orders])
    np.testing.assert_allclose(found.rows, single.mean(axis=0), atol=2e-8)
    apart = single - single.mean(axis=0)
    noise = apart.var(axis=2).mean(axis=0) / 120 / (1 - 1 / 6)
    np.testing.assert_allclose(found.interaction, noise, rtol=1e-5, atol=1e-14)
    assert found.interaction[0] > 0
    assert found.interaction[-1] == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_noise_of_members_is_that_of_weighted_rows_and_of_units(simulated, weighted):
    """Against plain sums over units: rows of one unit move together, and so their mean moves more."""
    z, y = simulated(4, 120, 5)
    weights = np.random.default_rng(1).uniform(0.2, 2.0, 120) if weighted else None
    units = np.arange(120) // 4
    p, splits = cal.Classification.from_logits(z, y, weights=weights), splits_of(120, repeats=1, units=units)
    orders = member_orders(4, 5, 7)
    share = np.full(120, 1 / 120) if weights is None else weights / weights.sum()
    single = np.array([[calibrated(first(p, o[:k]), splits).log_likelihood for k in range(1, 5)] for o in orders])
    apart = single - single.mean(axis=0)
    for codes in (None, units):
        known = np.arange(120) if codes is None else codes
        mass = np.bincount(known, share)
        noise = np.zeros(4)
        for k in range(4):
            for row in apart[:, k]:
                sums = np.bincount(known, share * row)
                noise[k] += ((sums - mass * sums.sum()) ** 2).sum() / 5 / (1 - 1 / 5)
        found = curve_rows(p, splits, orders, units=codes).interaction
        np.testing.assert_allclose(found, noise, rtol=1e-5, atol=1e-14)


def test_one_draw_takes_members_as_they_come():
    assert member_orders(5, 1, 99).tolist() == [[0, 1, 2, 3, 4]]
    assert (member_orders(5, 3, 1) == member_orders(5, 9, 1)[:3]).all()


def test_random_orders_give_each_member_every_place():
    orders = member_orders(4, 4000, 0)
    shares = (orders[:, :, None] == np.arange(4)).mean(axis=0)
    assert np.abs(shares - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 4000)


# --------------------------------------------------------------------------------------- ends of the scale
def test_a_label_becomes_possible_with_the_member_that_knows_it(simulated):
    z, y = simulated(3, 60, 4)
    z[:2, 5, y[5]] = -np.inf
    p = cal.Classification.from_logits(z, y)
    curve = curve_rows(p, splits_of(60), member_orders(3, 1, 0))
    assert np.isneginf(curve.values[0]).tolist() == [True, True, False]
    assert np.isneginf(curve.log_likelihood[0]).tolist() == [True, True, False]
    assert_as_alone(p, splits_of(60), member_orders(3, 1, 0), curve)
    found = cal.comparison.cll_curve(p, draws=3)
    assert found.mean[0] == -np.inf
    weights = np.where(np.arange(60) == 5, 0.0, 1.0)
    assert np.isfinite(
        cal.comparison.cll_curve(cal.Classification.from_logits(z, y, weights=weights), draws=3).mean
    ).all()


def test_labels_that_sums_of_probabilities_would_lose(simulated):
    z, y = simulated(3, 60, 4)
    z[:, 5, y[5]] = [-3000.0, -1500.0, -100.0]
    p = cal.Classification.from_logits(z, y)
    curve = curve_rows(p, splits_of(60), member_orders(3, 1, 0))
    assert np.isfinite(curve.values).all()
    for k in range(1, 4):
        plain = reference.calibrated(logs_of(first(p, list(range(k)))), y, splits_of(60).half)
        np.testing.assert_allclose(curve.rows[k - 1], plain.rows, rtol=1e-6, atol=1e-7)


def test_halves_that_are_all_right_or_all_alike():
    z = np.zeros((3, 8, 3))
    z[:, np.arange(8), np.arange(8) % 3] = [[2.0], [3.0], [4.0]]
    right = curve_rows(cal.Classification.from_logits(z, np.arange(8) % 3), splits_of(8), member_orders(3, 1, 0))
    assert (right.temperature == 1 / 64).all()
    np.testing.assert_allclose(right.values, 0.0, atol=1e-12)
    flat = curve_rows(cal.Classification.from_logits(0 * z, np.arange(8) % 3), splits_of(8), member_orders(3, 1, 0))
    assert (flat.temperature == 1.0).all()
    np.testing.assert_allclose(flat.values, -np.log(3))


# ------------------------------------------------------------------------------------------ the public name
def test_the_curve_as_a_record_and_a_table(simulated):
    z, y = simulated(20, 80, 3)
    p = cal.Classification.from_logits(z, y, name="pool")
    one, many = cal.comparison.cll_curve(p, repeats=2), cal.comparison.cll_curve(p, draws=3, repeats=2, seed=2)
    assert one.k == tuple(range(1, 21))
    assert np.isnan(one.std).all()
    assert one.mean[-1] == pytest.approx(cal.comparison.cll(p, repeats=2).value, abs=1e-8)
    assert np.isfinite(many.std).all()
    assert many.std[-1] == pytest.approx(0.0, abs=1e-8)
    for curve in (one, many):
        text = str(curve).splitlines()
        assert max(map(len, text)) <= 80
        assert len(text) <= 15
        assert text[-1].split()[0] == "20"
        back = CllCurve.from_json(json.loads(json.dumps(curve.to_json())))
        assert back.mean == curve.mean
        assert str(back) == str(curve)
    assert ("std" in str(many), "std" in str(one)) == (True, False)


def test_judged_answers_and_units(simulated):
    z, y = simulated(3, 90, 2)
    p = 1 / (1 + np.exp(z[..., 0] - z[..., 1]))
    unit = np.arange(90) // 3
    judged = cal.comparison.cll_curve(cal.Judged.from_confidence(p, y, columns={"who": unit}), units="who")
    classes = cal.Classification.from_probs(p[..., None], y, columns={"who": unit})
    assert judged.mean == cal.comparison.cll_curve(classes, units="who").mean
    assert judged.mean[-1] == pytest.approx(cal.comparison.cll(classes, units="who").value, abs=1e-8)


def test_a_curve_by_clean_rows(simulated):
    z, y = simulated(3, 200, 4)
    p, clean = (cal.Classification.from_logits(z[:, s], y[s]) for s in (slice(0, 80), slice(80, None)))
    curve = cal.comparison.cll_curve(p, temperature="clean", clean=clean)
    for k in range(1, 4):
        alone = calibrated_by(first(p, list(range(k))), first(clean, list(range(k))))
        assert curve.mean[k - 1] == pytest.approx(alone.log_likelihood.mean(), abs=1e-8)
        assert curve.temperature[k - 1] == pytest.approx(alone.temperature, rel=1e-7)
        assert curve.log_likelihood[k - 1] == pytest.approx(alone.before.mean(), abs=1e-9)
    assert curve.repeats == 0
    with pytest.raises(ShapeError, match="the same 3 members"):
        cal.comparison.cll_curve(p, temperature="clean", clean=first(clean, [0]))
