"""Temperatures of members against other optimisers, and what a fit promises."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

import calibrant as cal
from calibrant.errors import CalibrantError, CalibrantWarning
from calibrant.kernels import jit
from calibrant.recalibration import MemberTemperatureScaling

BOUND = np.log(64)


def fit(predictions, threads=None):
    """Fit without minding warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return MemberTemperatureScaling().fit(predictions, threads=threads)


def problem(members, n=400, classes=4, seed=0, scale=2.0):
    """Members that differ by noise and by how sure they are; labels follow what they share."""
    rng = np.random.default_rng(seed)
    shared = 1.5 * rng.standard_normal((n, classes))
    labels = (shared + rng.gumbel(size=(n, classes))).argmax(axis=1)
    own = shared + 0.7 * rng.standard_normal((members, n, classes))
    return scale * np.exp(rng.normal(0, 0.3, (members, 1, 1))) * own, labels


def loss(tau, z, y, w=None):
    """Mean negative log-likelihood of the average, as it is written down."""
    log_p = log_softmax(np.asarray(z, np.float64) / np.reshape(tau, (-1, 1, 1)), axis=2)
    rows = logsumexp(log_p[:, np.arange(len(y)), y], axis=0) - np.log(len(z))
    return -float(np.average(rows, weights=w))


def of(z, y, **known):
    return cal.Classification.from_logits(z, y, **known)


# ----------------------------------------------------------------------------------- other optimisers
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
def test_one_member_is_temperature_scaling(seed, scale):
    z, y = problem(1, seed=seed, scale=scale)
    found = fit(of(z, y))
    best = minimize_scalar(lambda t: loss(np.exp(t), z, y), bounds=(-BOUND, BOUND), options={"xatol": 1e-10})
    assert found.temperatures == pytest.approx(np.exp(best.x), rel=1e-6)
    assert found.converged
    assert found.at_bound == ()
    assert found.notes() == ()
    assert found.report.gradient < 1e-8


@pytest.mark.parametrize("seed", range(4))
def test_three_members_are_not_worse_than_lbfgs_from_several_starts(seed):
    z, y = problem(3, seed=seed)
    found = fit(of(z, y))
    rng, ends = np.random.default_rng(seed), []
    for start in [np.zeros(3), *rng.normal(0, 1, (4, 3))]:
        ends.append(
            minimize(lambda t: loss(np.exp(t), z, y), start, method="L-BFGS-B", bounds=[(-BOUND, BOUND)] * 3).fun
        )
    assert found.report.after <= min(ends) + 1e-9
    assert found.report.after == pytest.approx(loss(found.temperatures, z, y), abs=1e-12)
    assert found.report.before == pytest.approx(loss(1.0, z, y), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_many_members_are_at_a_stationary_point(seed):
    z, y = problem(12, n=300, seed=seed)
    found, h = fit(of(z, y)), 1e-5
    assert found.converged
    for m in set(range(12)) - set(found.at_bound):
        moved = [found.temperatures * np.exp(sign * h * (np.arange(12) == m)) for sign in (1, -1)]
        assert abs(loss(moved[0], z, y) - loss(moved[1], z, y)) / (2 * h) < 1e-7


def test_members_that_are_alike_do_at_least_as_well_as_one():
    z, y = problem(1, seed=3)
    common = fit(of(z, y)).report.after
    four = fit(of(np.repeat(z, 4, axis=0), y))
    assert four.report.after <= common + 1e-12
    assert four.converged


def test_a_saddle_is_left():
    """Half of the labels follow sharp predictions and half guess: two members that are alike should part."""
    rng = np.random.default_rng(0)
    z = 2 * rng.standard_normal((1, 2000, 5))
    sure = rng.random(2000) < 0.5
    y = np.where(sure, z[0].argmax(axis=1), rng.integers(0, 5, 2000))
    common, two = fit(of(z, y)), fit(of(np.repeat(z, 2, axis=0), y))
    assert two.report.after < common.report.after - 0.01
    assert two.temperatures.max() / two.temperatures.min() > 2


# ------------------------------------------------------------------------------------------- invariances
def test_a_fitted_map_leaves_nothing_to_do():
    z, y = problem(3, seed=1)
    first = fit(of(z, y))
    again = fit(first.transform(of(z, y)))
    np.testing.assert_allclose(again.temperatures, 1.0, atol=1e-4)
    assert again.report.before == pytest.approx(first.report.after, abs=1e-12)
    assert again.report.after == pytest.approx(first.report.after, abs=1e-10)


@pytest.mark.parametrize("members", [1, 3])
def test_logits_logs_and_probabilities_give_the_same_fit(members):
    z, y = problem(members, seed=2)
    fits = [
        fit(of(z, y)),
        fit(of(z + 5.0, y)),
        fit(cal.Classification.from_log_probs(log_softmax(z, axis=2), y)),
        fit(cal.Classification.from_probs(softmax(z, axis=2), y)),
    ]
    for found in fits[1:]:
        np.testing.assert_allclose(found.temperatures, fits[0].temperatures, rtol=1e-7)
        assert found.report.after == pytest.approx(fits[0].report.after, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_precisions(dtype):
    z, y = problem(3, seed=1)
    narrow = z.astype(dtype)
    same = fit(of(narrow.astype(np.float64), y))
    np.testing.assert_allclose(fit(of(narrow, y)).temperatures, same.temperatures, rtol=1e-6)
    if dtype == np.float32:
        np.testing.assert_allclose(fit(of(narrow, y)).temperatures, fit(of(z, y)).temperatures, rtol=1e-4)


def test_order_of_rows_and_threads_do_not_matter(monkeypatch):
    monkeypatch.setattr(jit, "SERIAL_BELOW", 0)
    z, y = problem(3, n=3000, seed=1)
    found, turned = fit(of(z, y), threads=1), fit(of(z[:, ::-1], y[::-1]))
    np.testing.assert_allclose(turned.temperatures, found.temperatures, rtol=1e-7)
    np.testing.assert_array_equal(fit(of(z, y), threads=3).temperatures, found.temperatures)


def test_a_weight_is_as_many_rows():
    z, y = problem(2, n=100)
    w = np.arange(100) % 4
    weighted = fit(of(z, y, weights=w))
    repeated = fit(of(np.repeat(z, w, axis=1), np.repeat(y, w)))
    np.testing.assert_allclose(weighted.temperatures, repeated.temperatures, rtol=1e-6)
    assert weighted.report.before == pytest.approx(repeated.report.before, rel=1e-12)
    assert weighted.report.after == pytest.approx(loss(weighted.temperatures, z, y, w), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 30), st.integers(2, 5), st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 3, 300])
)
def test_the_loss_never_rises(members, n, classes, seed, scale):
    rng = np.random.default_rng(seed)
    z, y = scale * rng.standard_normal((members, n, classes)), rng.integers(0, classes, n)
    found = fit(of(z, y))
    assert found.report.after <= found.report.before + 1e-13 * (1 + found.report.before)
    assert ((found.temperatures >= 1 / 64.001) & (found.temperatures <= 64.001)).all()


# ---------------------------------------------------------------------------------------- what is extreme
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("margin", [0.5, 5.0, 60.0])
def test_rows_that_are_all_right_end_at_the_lower_bound_and_say_so(members, margin):
    z, y = problem(members)
    z[:, np.arange(len(y)), y] = z.max(axis=2) + margin
    found = fit(of(z, y))
    assert found.at_bound == tuple(range(members))
    np.testing.assert_allclose(found.temperatures, 1 / 64)
    (note,) = found.notes()
    assert note.code == "fit-at-bound"
    assert "1/64" in note.message


@pytest.mark.parametrize("members", [1, 3])
def test_rows_that_are_all_wrong_end_at_the_upper_bound_and_say_so(members):
    z, y = problem(members)
    z[:, np.arange(len(y)), y] = z.min(axis=2) - 1
    found = fit(of(z, y))
    assert found.at_bound == tuple(range(members))
    np.testing.assert_allclose(found.temperatures, 64)
    assert "uniform prediction" in found.notes()[0].message


@pytest.mark.parametrize("members", [1, 3])
def test_predictions_that_say_nothing_are_left_as_they_are(members):
    found = fit(of(np.zeros((members, 20, 3)), np.arange(20) % 3))
    np.testing.assert_array_equal(found.temperatures, 1)
    assert found.report.after == pytest.approx(np.log(3))


def test_ten_rows():
    z, y = problem(5, n=10)
    found = fit(of(z, y))
    assert found.converged
    assert found.report.after <= found.report.before


def test_impossible_labels_are_left_out_where_no_member_knows_better():
    z, y = problem(2, seed=1)
    bad = z.copy()
    bad[:, 3, y[3]] = -np.inf
    found, rest = fit(of(bad, y)), fit(of(np.delete(z, 3, axis=1), np.delete(y, 3)))
    np.testing.assert_allclose(found.temperatures, rest.temperatures, rtol=1e-7)
    assert found.report.left_out == 1
    assert found.report.before == pytest.approx(rest.report.before, rel=1e-12)
    assert [note.code for note in found.notes()] == ["impossible-labels-left-out"]
    bad[0, 3] = z[0, 3]
    assert fit(of(bad, y)).report.left_out == 0


# --------------------------------------------------------------------------------------------- transform
def test_transform_divides_and_keeps_everything_else():
    z, y = problem(2, n=30)
    before = of(
        z.astype(np.float32),
        y,
        weights=np.arange(30) + 1.0,
        ids=np.arange(30),
        columns={"site": np.arange(30) % 2},
        meta={"made": "here"},
        member_names=["a", "b"],
        classes=list("wxyz"),
        name="mine",
    )
    found = fit(before)
    after = found.transform(before)
    np.testing.assert_allclose(after.scores, z / found.temperatures[:, None, None], rtol=1e-6)
    assert (after.kind, after.scores.dtype) == ("logits", np.float32)
    assert after.info.meta["recalibration"]["method"] == "member_temperatures"
    np.testing.assert_array_equal(after.weights, before.weights)
    np.testing.assert_array_equal(after.column("site"), before.column("site"))
    assert (after.labels, after.class_names, after.member_names) == (before.labels, before.class_names, ("a", "b"))
    np.testing.assert_array_equal(before.scores, z.astype(np.float32))
    assert cal.measure(after, ["nll"]) == pytest.approx({"nll": found.report.after}, rel=1e-6)


@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
@pytest.mark.parametrize("members", [1, 3])
def test_binary_problems_in_one_number(kind, members):
    z, y = problem(members, classes=2)
    logit = z[:, :, 1] - z[:, :, 0]
    one = {"logits": logit, "probs": 1 / (1 + np.exp(-logit)), "log_probs": -np.logaddexp(0, -logit)}[kind]
    before = cal.Classification.build(kind, one[:, :, None], y)
    found, same = fit(before), fit(of(z, y))
    np.testing.assert_allclose(found.temperatures, same.temperatures, rtol=1e-6)
    after = found.transform(before)
    assert after.scores.shape[2] == (1 if kind == "logits" else 2)
    assert cal.measure(after, ["nll"])["nll"] == pytest.approx(found.report.after, rel=1e-10)


def test_certain_probabilities_stay_valid():
    """P(class 1) of 0 and 1: as two logits neither becomes +inf."""
    p = cal.Classification.from_probs(np.array([0.0, 1.0, 0.3, 0.8, 0.4]), [0, 1, 0, 1, 1])
    after = fit(p).transform(p)
    assert np.isfinite(cal.measure(after, ["nll"])["nll"])
    assert np.isneginf(after.scores[0, 0, 1])


def test_json():
    z, y = problem(2)
    found = fit(of(z, y))
    assert json.loads(json.dumps(found.summary()))["temperatures"] == found.temperatures.tolist()


def test_a_fit_that_did_not_settle_says_so():
    z, y = problem(2)
    found = fit(of(z, y))
    found._state = replace(found._state, fits=(replace(found.report, converged=False),))
    assert [note.code for note in found.notes()] == ["fit-not-converged"]


# ---------------------------------------------------------------------------------------------- refusals
def refused(call, *words):
    with pytest.raises(CalibrantError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words)


def test_what_cannot_be_fitted_is_refused():
    z, y = problem(2, n=20)
    refused(lambda: fit(of(z, None)), "label", "got no labels")
    refused(lambda: fit(of(z, None, label_probs=np.full((20, 4), 0.25))), "soft labels only")
    refused(lambda: fit(cal.Regression.from_gaussian(np.ones(5), np.ones(5), np.ones(5))), "got regression predictions")
    z[:, np.arange(20), y] = -np.inf
    refused(lambda: fit(of(z, y)), "labels to which no member gives a positive probability")
    unchecked = cal.Classification.build
    refused(lambda: fit(unchecked("logits", np.full((1, 20, 3), np.nan), y % 3, check=False)), "row 0", "nan")
    refused(lambda: fit(unchecked("probs", np.ones((1, 20, 3)), y % 3, check=False)), "a sum of 3 in row 0")


def test_other_members_are_refused():
    z, y = problem(3, n=50)
    found = fit(of(z, y, member_names=["a", "b", "c"]))
    refused(lambda: found.transform(of(z[:2], y)), "the 3 members of the fit", "got 2")
    refused(lambda: found.transform(of(z, y, member_names=["a", "c", "b"])), "'b' at position 1", "'c'")
    refused(lambda: found.transform(cal.Judged.from_confidence(np.full(5, 0.5), np.ones(5, bool))), "judged")
    refused(lambda: MemberTemperatureScaling(members="average"), "expected each", "'average'")


# --------------------------------------------------------------------------------------------- real data
def test_eight_networks(data_folder):
    path = data_folder / "predictions" / "cifar10_test_8cnn_logits.npz"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    with np.load(path) as held:
        z, y = held["logits"][:, :2000], held["labels"][:2000]
    found = fit(of(z, y))
    assert found.converged
    assert found.report.after < found.report.before
    assert found.report.after == pytest.approx(loss(found.temperatures, z, y), rel=1e-9)
    common = minimize_scalar(lambda t: loss(np.full(8, np.exp(t)), z, y), bounds=(-BOUND, BOUND))
    assert found.report.after < common.fun
