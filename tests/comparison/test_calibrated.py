"""Calibrated log-likelihood: equal to the plain reference, at optima that are proven, whatever the input is like.

That weights are as good as repeated rows cannot hold here: halves are drawn by rows, and repeats of a row would fall
into both.
"""

import json

import numpy as np
import pytest
from comparison import reference
from comparison.reference import logs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import calibrant as cal
from calibrant.comparison import split_temperatures as halves
from calibrant.comparison.cross_validation import calibrated, calibrated_by
from calibrant.comparison.split_temperatures import splits_of
from calibrant.errors import CalibrantError, LabelsError, UsageError, ValuesError
from calibrant.predictions.classification import two_class_scores


def assert_equal(found, plain, rtol=2e-7):
    np.testing.assert_allclose(found.log_likelihood, plain.rows, rtol=1e-7, atol=2e-7)
    np.testing.assert_allclose(found.brier, plain.brier, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.temperatures, plain.temperatures, rtol=rtol)
    assert found.temperature == pytest.approx(plain.temperature, rel=rtol)


def compare(predictions, splits, weights=None):
    labels = predictions.labels
    assert_equal(
        calibrated(predictions, splits), reference.calibrated(logs_of(predictions), labels, splits.half, weights)
    )


# ------------------------------------------------------------------------------- against the reference
@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
@pytest.mark.parametrize(("members", "n", "classes"), [(1, 201, 10), (3, 100, 3), (2, 64, 70)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_as_the_reference_for_every_kind(simulated, kind, members, n, classes, dtype):
    z, y = simulated(members, n, classes)
    logs = z - np.logaddexp.reduce(z, axis=2, keepdims=True)
    scores = {"logits": z, "log_probs": logs, "probs": np.exp(logs)}[kind].astype(dtype)
    compare(cal.Classification.build(kind, scores, y), splits_of(n, seed=3))


def test_half_precision_and_strided_scores(simulated):
    z, y = simulated(2, 150, 5)
    compare(cal.Classification.from_logits(z.astype(np.float16), y), splits_of(150))
    compare(cal.Classification.from_logits(np.asfortranarray(z), y), splits_of(150))


@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
def test_a_binary_problem_in_one_number(simulated, kind):
    z, y = simulated(3, 120, 2)
    x = z[..., 1] - z[..., 0]
    score = {"logits": x, "log_probs": -np.log1p(np.exp(-x)), "probs": 1 / (1 + np.exp(-x))}[kind]
    one = cal.Classification.build(kind, score[..., None], y)
    two = cal.Classification.build(kind, two_class_scores(score, kind), y)
    compare(one, splits_of(120))
    np.testing.assert_allclose(
        calibrated(one, splits_of(120)).log_likelihood, calibrated(two, splits_of(120)).log_likelihood
    )


def test_judged_answers_are_two_classes(simulated):
    z, y = simulated(2, 120, 2)
    p = 1 / (1 + np.exp(z[..., 0] - z[..., 1]))
    judged = calibrated(cal.Judged.from_confidence(p, y), splits_of(120))
    classes = calibrated(cal.Classification.from_probs(p[..., None], y), splits_of(120))
    np.testing.assert_array_equal(judged.log_likelihood, classes.log_likelihood)


def test_weights_count_in_fits(simulated):
    z, y = simulated(1, 200, 4)
    weights = np.random.default_rng(1).integers(0, 4, 200).astype(float)
    p = cal.Classification.from_logits(z, y, weights=weights)
    compare(p, splits_of(200), weights)
    twice = cal.Classification.from_logits(z, y, weights=2 * weights)
    one, two = (calibrated(item, splits_of(200)) for item in (p, twice))
    np.testing.assert_allclose(one.log_likelihood, two.log_likelihood, rtol=1e-12)
    share = weights / weights.sum()
    assert cal.comparison.cll(p).value == pytest.approx(share @ one.log_likelihood, rel=1e-12)


def mean_loss(temperature, logs, labels):
    return -reference.scored(logs, labels, 1.0 / temperature)[0].mean()


def test_the_temperatures_of_many_halves_are_those_of_brent(simulated):
    """SciPy's minimiser of the value, which knows no gradient."""
    z, y = simulated(1, 300, 6)
    splits, logs = splits_of(300, repeats=6), logs_of(cal.Classification.from_logits(z, y))
    found = calibrated(cal.Classification.from_logits(z, y), splits).temperatures
    for r, side in enumerate(splits.half):
        for h in (0, 1):
            best = minimize_scalar(mean_loss, bracket=(0.5, 3.0), args=(logs[side == h], y[side == h]))
            assert found[r, h] == pytest.approx(best.x, rel=1e-6)


@pytest.mark.parametrize("chosen", [[2], [5], list(range(8))])
def test_real_networks(networks, chosen):
    stored = networks("cifar10_test_8cnn_logits")
    p = cal.Classification.from_logits(stored["logits"][chosen], stored["labels"].astype(int))
    compare(p, splits_of(p.n, repeats=2))


def test_a_hundred_real_classes(networks):
    stored = networks("cifar100_test_netcal_probs")
    p = cal.Classification.from_probs(stored["probs"][1, :2000], stored["labels"][:2000].astype(int))
    compare(p, splits_of(p.n, repeats=2))


# --------------------------------------------------------------------------------------- odd little inputs
entries = st.sampled_from([0.0, 1.0, -1.0, 0.5, -3.25, 7.0, -40.0, 300.0, -2000.0, -np.inf])


@st.composite
def odd_inputs(draw):
    members, n, classes = draw(st.integers(1, 2)), draw(st.integers(2, 9)), draw(st.integers(2, 4))
    size = members * n * classes
    z = np.array(draw(st.lists(entries, min_size=size, max_size=size))).reshape(members, n, classes)
    z[:, :, 0] = np.where(np.isneginf(z).all(axis=2), 0.0, z[:, :, 0])
    labels = np.array(draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n)))
    weights = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=n, max_size=n)))
    return z, labels, weights, draw(st.integers(0, 5))


@settings(max_examples=120, deadline=None)
@given(odd_inputs())
def test_odd_inputs_end_at_optima_and_are_scored_there(given_):
    z, y, weights, seed = given_
    p = cal.Classification.from_logits(z, y, weights=weights)
    splits, logs = splits_of(len(y), repeats=2, seed=seed), logs_of(p)
    found = calibrated(p, splits)
    rows = np.zeros(len(y))
    for r, side in enumerate(splits.half):
        for h in (0, 1):
            fit, beta = side == h, 1.0 / found.temperatures[r, h]
            assert 1 / 64 <= beta <= 64
            at = reference.slope(logs[fit], y[fit], weights[fit], beta)
            outward = (beta == 64 and at <= 1e-12) or (beta == 1 / 64 and at >= -1e-12)
            assert outward or abs(at) * max(1.0, beta) <= 2e-8, (beta, at)
            rows[~fit] += reference.scored(logs[~fit], y[~fit], beta)[0] / 2
    impossible = np.isneginf(logs[np.arange(len(y)), y])
    assert (np.isneginf(found.log_likelihood) == impossible).all()
    np.testing.assert_allclose(found.log_likelihood[~impossible], rows[~impossible], rtol=1e-9, atol=1e-9)


# -------------------------------------------------------------------------------------------- invariances
def test_a_constant_added_to_logits_changes_nothing(simulated):
    z, y = simulated(3, 200, 5)
    shift = np.random.default_rng(0).normal(size=(3, 200, 1)) * 50
    one, two = (calibrated(cal.Classification.from_logits(s, y), splits_of(200)) for s in (z, z + shift))
    np.testing.assert_allclose(one.log_likelihood, two.log_likelihood, atol=1e-8)


@pytest.mark.parametrize("factor", [0.05, 3.0, 20.0])
def test_cll_does_not_see_the_temperature_that_was_given(simulated, factor):
    """All logits of one model times a factor: the same calibrated rows, temperatures that much larger."""
    z, y = simulated(1, 300, 8)
    one, two = (calibrated(cal.Classification.from_logits(s, y), splits_of(300)) for s in (z, factor * z))
    np.testing.assert_allclose(two.log_likelihood, one.log_likelihood, atol=1e-7)
    np.testing.assert_allclose(two.brier, one.brier, atol=1e-7)
    np.testing.assert_allclose(two.temperatures, factor * one.temperatures, rtol=1e-7)
    assert abs(two.before.mean() - one.before.mean()) > 0.05


def test_threads_change_no_bit(simulated):
    z, y = simulated(2, 18_000, 60)
    p = cal.Classification.from_logits(z.astype(np.float32), y)
    found = [calibrated(p, splits_of(p.n, repeats=8), threads) for threads in (1, 3)]
    for name in ("log_likelihood", "brier", "temperatures", "before"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))


def test_the_seed_makes_the_halves(simulated):
    z, y = simulated(1, 100, 3)
    p = cal.Classification.from_logits(z, y)
    assert (
        cal.comparison.cll(p, seed=4).value
        == cal.comparison.cll(p, seed=4).value
        != cal.comparison.cll(p, seed=5).value
    )


def test_an_expansion_that_does_not_reach_is_made_anew(simulated, monkeypatch):
    """With a tolerance that nothing meets but β₀ itself, every half is expanded on its own and nothing changes."""
    z, y = simulated(1, 100, 5)
    p, splits = cal.Classification.from_logits(z, y), splits_of(100)
    usual = calibrated(p, splits)
    monkeypatch.setattr(halves, "NEAR", 1e-4)
    alone = calibrated(p, splits)
    np.testing.assert_allclose(alone.temperatures, usual.temperatures, rtol=1e-7)


# ---------------------------------------------------------------------------------------- ends of the scale
def test_impossible_labels_are_minus_infinity_and_do_not_fit(simulated):
    z, y = simulated(2, 100, 4)
    z[:, 7, y[7]] = -np.inf  # both members
    z[0, 8, y[8]] = -np.inf  # one of them
    found = calibrated(cal.Classification.from_logits(z, y), splits_of(100))
    assert np.flatnonzero(np.isneginf(found.log_likelihood)).tolist() == [7]
    assert np.isneginf(found.before[7])
    assert np.isfinite(found.brier).all()
    weights = np.where(np.arange(100) == 7, 0.0, 1.0)
    without = calibrated(cal.Classification.from_logits(z, y, weights=weights), splits_of(100))
    np.testing.assert_allclose(found.temperatures, without.temperatures, rtol=1e-12)
    result = cal.comparison.cll(cal.Classification.from_logits(z, y))
    assert result.value == -np.inf
    assert np.isnan(result.low)
    assert "1 labels have probability 0" in str(result)
    assert cal.comparison.cll(cal.Classification.from_logits(z, y, weights=weights)).value > -10


def test_probabilities_of_zero_stay_zero():
    p = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8]])
    found = calibrated(cal.Classification.from_probs(p, [1, 1, 0, 1, 0]), splits_of(5))
    assert np.isneginf(found.log_likelihood).tolist() == [True, False, False, False, False]
    assert found.brier[0] == 2.0


@pytest.mark.parametrize("members", [1, 2])
def test_logits_so_wide_that_probabilities_vanish(members):
    """log p = −2000 is unlikely, not impossible: its score is what it is."""
    z = np.tile(np.array([[0.0, -2000.0], [0.0, -3.0], [0.0, -3.0], [0.0, -4.0]]), (members, 1, 1))
    y = [1, 0, 1, 0]
    p = cal.Classification.from_logits(z, y)
    found = calibrated(p, splits_of(4))
    assert found.before[0] == pytest.approx(-2000.0)
    assert np.isfinite(found.log_likelihood).all()
    plain = reference.calibrated(logs_of(p), y, splits_of(4).half)
    np.testing.assert_allclose(found.log_likelihood, plain.rows, rtol=1e-4)  # −log 2 + log 2 costs the reference digits


def test_bounds_of_the_temperature():
    z = np.random.default_rng(0).normal(size=(40, 3))
    right = calibrated(cal.Classification.from_logits(z, z.argmax(axis=1)), splits_of(40))
    wrong = calibrated(cal.Classification.from_logits(z, z.argmin(axis=1)), splits_of(40))
    flat = calibrated(cal.Classification.from_logits(np.zeros((40, 3)), np.zeros(40, int)), splits_of(40))
    assert (right.temperatures == 1 / 64).all()
    assert (wrong.temperatures == 64).all()
    assert (flat.temperatures == 1).all()
    np.testing.assert_allclose(flat.log_likelihood, -np.log(3))


# --------------------------------------------------------------------------------------------- refusals
def with_value(value, where=(0, 3, 1), members=2):
    z = np.zeros((members, 6, 3), np.float32)
    z[where] = value
    return cal.Classification.build("logits", z, [0, 1, 2] * 2, check=False)


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize(("value", "said"), [(np.nan, "nan in row 3, class 1"), (np.inf, "inf in row 3, class 1")])
def test_rows_that_are_no_predictions(value, said, members):
    with pytest.raises(ValuesError, match=said):
        cal.comparison.cll(with_value(value, members=members))
    with pytest.raises(ValuesError, match=said):
        cal.comparison.cll_curve(with_value(value, members=members))


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize(
    ("kind", "row", "said"),
    [
        ("logits", [-np.inf] * 3, "a finite entry per row"),
        ("probs", [-0.1, 0.6, 0.5], "at least 0"),
        ("probs", [0.5, 0.5, 0.2], "sum of 1.2"),
        ("log_probs", np.log([0.5, 0.5, 0.2]), "sum of 1.2"),
    ],
)
def test_rows_that_their_kind_forbids(kind, row, said, members):
    scores = np.full((members, 5, 3), np.log(1 / 3) if kind == "log_probs" else 1 / 3)
    scores[-1, 2] = row
    with pytest.raises(ValuesError, match=said):
        cal.comparison.cll(cal.Classification.build(kind, scores, [0, 1, 2, 0, 1], check=False))


def test_a_half_without_weight_is_refused_in_one_line(simulated):
    z, y = simulated(1, 20, 3)
    weights = np.zeros(20)
    weights[3] = 1.0
    with pytest.raises(ValuesError, match="rows with weight in both halves") as caught:
        cal.comparison.cll(cal.Classification.from_logits(z, y, weights=weights))
    assert "\n" not in str(caught.value)


def classes(**known):
    return cal.Classification.from_logits(np.eye(4), [0, 1, 2, 3], **known)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: cal.comparison.cll(cal.Regression.from_gaussian([0.0, 1.0], [1.0, 1.0], y=[0.0, 1.0])), "regression"),
        (lambda: cal.comparison.cll(np.eye(3)), "ndarray"),
        (lambda: cal.comparison.cll(cal.Classification.from_logits(np.eye(4))), "got none"),
        (
            lambda: cal.comparison.cll(cal.Classification.from_logits(np.eye(4), label_probs=np.eye(4))),
            "only soft labels",
        ),
        (lambda: cal.comparison.cll(cal.Judged.from_confidence([0.2, 0.3])), "got none"),
        (lambda: cal.comparison.cll(classes(), temperature="claen"), "did you mean 'clean'"),
        (lambda: cal.comparison.cll(classes(), temperature="clean"), "use clean=PREDICTIONS"),
        (lambda: cal.comparison.cll(classes(), clean=classes()), "or omit clean"),
        (
            lambda: cal.comparison.cll(
                classes(), temperature="clean", clean=cal.Classification.from_logits(np.eye(3), [0, 1, 2])
            ),
            "the same classes",
        ),
        (
            lambda: cal.comparison.cll(
                classes(classes=list("abcd")), temperature="clean", clean=classes(classes=list("abce"))
            ),
            "other class names",
        ),
        (lambda: cal.comparison.cll(classes(), level=95), "between 0 and 1"),
        (lambda: cal.comparison.cll(classes(), seed=-1), "seed"),
        (lambda: cal.comparison.cll(classes(), threads=0), "threads"),
        (lambda: cal.comparison.cll(classes(), repeats=0), "repeats"),
        (lambda: cal.comparison.cll(classes(), units="patient"), "patient"),
        (lambda: cal.comparison.cll(classes()[:1]), "at least 2 rows"),
        (lambda: cal.comparison.cll_curve(classes(), draws=0), "draws"),
    ],
)
def test_what_is_refused_and_how(call, said):
    with pytest.raises(CalibrantError, match=said) as caught:
        call()
    assert isinstance(caught.value, UsageError | LabelsError | ValueError)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------ the result
def test_the_interval_is_that_of_the_rows(simulated):
    z, y = simulated(2, 400, 5)
    p = cal.Classification.from_logits(z, y, name="net")
    found = cal.comparison.cll(p)
    rows = calibrated(p, splits_of(400)).log_likelihood
    np.testing.assert_array_equal(found.rows, rows)
    assert found.value == pytest.approx(rows.mean(), rel=1e-12)
    half = 1.96 * rows.std(ddof=1) / np.sqrt(400)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.05)
    assert found.low < found.value < found.high
    assert found.log_likelihood == pytest.approx(-cal.measure(p, "nll")["nll"], rel=1e-9)
    assert found.temperatures.shape == (5, 2)
    assert max(map(len, str(found).splitlines())) <= 80
    assert "net: calibrated log-likelihood" in str(found)
    assert json.loads(json.dumps(found.to_json()))["splits"]["rows"] == [[200, 200]] * 5


def test_units_widen_the_interval_and_stay_together(simulated):
    z, y = simulated(1, 100, 3)
    unit = np.repeat(np.arange(100), 4)
    p = cal.Classification.from_logits(z[:, unit], y[unit], columns={"who": unit})
    alone, together = cal.comparison.cll(p), cal.comparison.cll(p, units="who")
    assert together.high - together.low > 1.8 * (alone.high - alone.low)
    assert together.splits["by_units"]
    plain = reference.calibrated(logs_of(p), p.labels, splits_of(400, units=unit).half)
    np.testing.assert_allclose(together.rows, plain.rows, atol=1e-7)


def test_the_temperature_of_clean_rows(simulated):
    z, y = simulated(2, 300, 5)
    p, clean = (
        cal.Classification.from_logits(3 * z[:, :100], y[:100]),
        cal.Classification.from_logits(z[:, 100:], y[100:]),
    )
    found = cal.comparison.cll(p, temperature="clean", clean=clean)
    fitted = cal.recalibration.TemperatureScaling().fit(clean)
    assert found.temperature == pytest.approx(fitted.temperature, rel=1e-6)
    rows, brier = reference.scored(logs_of(p), p.labels, 1 / found.temperature)
    np.testing.assert_allclose(found.rows, rows, atol=1e-9)
    np.testing.assert_allclose(calibrated_by(p, clean).brier, brier, atol=1e-9)
    assert found.splits == {}
    assert "fitted on clean rows" in str(found).replace("\n", " ")
