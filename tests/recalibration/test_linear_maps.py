"""Vector scaling, matrix scaling and Dirichlet calibration: optima by other means, what is injective, what is told."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_softmax

import calibrant as cal
from calibrant.errors import CalibrantWarning
from calibrant.recalibration import recalibrator
from calibrant.recalibration.methods.linear_maps import DiagonalLoss, FullLoss, VectorMap, newton
from calibrant.recalibration.methods.odir import DirichletMap, MatrixMap, folds_of, odir_penalty

FULL = {"dirichlet": DirichletMap, "matrix": MatrixMap}


def problem(n=500, classes=4, seed=0):
    """Over-confident logits whose classes are confused, and labels."""
    rng = np.random.default_rng(seed)
    truth = 1.3 * rng.standard_normal((n, classes))
    labels = (truth + rng.gumbel(size=(n, classes))).argmax(axis=1)
    mixed = truth @ (np.eye(classes) + 0.15 * rng.standard_normal((classes, classes)))
    return 2.0 * (mixed + 0.5 * rng.standard_normal((n, classes))), labels


def of(z, y, **known):
    return cal.Classification.from_logits(z, y, **known)


def nll(logs, y, weights=None):
    return -float(np.average(logs[np.arange(len(y)), y], weights=weights))


def quiet(spec, predictions):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return recalibrator(spec).fit(predictions)


# ------------------------------------------------------------------------------------ other optimisers
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", list(FULL))
def test_without_penalties_it_is_multinomial_logistic_regression(name, weighted):
    """As scikit-learn fits it to the same features."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    z, y = problem()
    weights = np.random.default_rng(1).uniform(0.0, 3.0, len(y)) if weighted else None
    made = recalibrator(f"{name}(off_diagonal=0,intercept=0)").fit(of(z, y, weights=weights))
    features = FULL[name].features(log_softmax(z, axis=1))
    other = linear_model.LogisticRegression(C=np.inf, solver="newton-cg", tol=1e-9, max_iter=500)
    other.fit(features, y, sample_weight=weights)
    ours = made.transform(of(z, y)).scores[0]
    np.testing.assert_allclose(np.exp(ours), other.predict_proba(features), atol=2e-5)
    assert nll(ours, y, weights) == pytest.approx(nll(other.predict_log_proba(features), y, weights), abs=1e-9)
    assert made.report.after == pytest.approx(nll(ours, y, weights), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "off", "intercept"), [("matrix", 0.2, 1e-3), ("dirichlet", 0.03, 0.5), ("vector", 0, 0)]
)
def test_the_written_down_loss_has_no_lower_value(name, off, intercept):
    """L-BFGS of PyTorch, in double precision, from the same formula written down anew."""
    torch = pytest.importorskip("torch")
    z, y = problem(classes=5, seed=3)
    made = recalibrator(name if name == "vector" else f"{name}(off_diagonal={off},intercept={intercept})").fit(of(z, y))
    x, labels = torch.tensor(log_softmax(z, axis=1)), torch.tensor(y)
    x = x - x.mean(dim=1, keepdim=True) if name == "matrix" else x
    weight = torch.ones(5, dtype=torch.float64) if name == "vector" else torch.eye(5, dtype=torch.float64)
    weight, bias = weight.clone().requires_grad_(), torch.zeros(5, dtype=torch.float64, requires_grad=True)

    def loss(weight, bias):
        logits = (x * weight if name == "vector" else x @ weight.T) + bias
        around = 0.0 if name == "vector" else (weight**2).sum() - (torch.diag(weight) ** 2).sum()
        return torch.nn.functional.cross_entropy(logits, labels) + off * around + intercept * (bias**2).sum()

    steps = torch.optim.LBFGS(
        [weight, bias], max_iter=400, tolerance_grad=1e-10, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure():
        steps.zero_grad()
        value = loss(weight, bias)
        value.backward()
        return value

    steps.step(closure)
    found = made.parameters()[0]
    ours = [torch.tensor(found["slopes" if name == "vector" else "weights"]), torch.tensor(found["intercepts"])]
    theirs = float(loss(weight, bias).detach())
    assert theirs - 1e-8 < float(loss(*ours)) <= theirs + 1e-10
    if name != "vector":
        np.testing.assert_allclose(ours[0], weight.detach(), atol=1e-4)


@pytest.mark.parametrize("kind", [DiagonalLoss, FullLoss])
def test_derivatives_are_those_of_the_value(kind):
    z, y = problem(n=60, classes=3)
    shares = np.random.default_rng(5).dirichlet(np.ones(60))
    size = 6 if kind is DiagonalLoss else 12
    loss = kind(log_softmax(z, axis=1), y, shares, np.random.default_rng(6).uniform(0, 0.1, size))
    theta = loss.identity + np.random.default_rng(7).normal(0, 0.4, size)
    gradient, hessian = loss.value_and_gradient(theta)[1], loss.hessian(theta)
    for k, unit in enumerate(1e-5 * np.eye(size)):
        up, down = loss.value_and_gradient(theta + unit), loss.value_and_gradient(theta - unit)
        assert gradient[k] == pytest.approx((up[0] - down[0]) / 2e-5, abs=1e-8)
        np.testing.assert_allclose(hessian[k], (up[1] - down[1]) / 2e-5, atol=1e-8)


@pytest.mark.parametrize("spec", ["vector", "matrix", "dirichlet"])
def test_many_parameters_end_where_few_do(spec, monkeypatch):
    """L-BFGS, which is for many, and Newton steps have one minimum."""
    z, y = problem(classes=6)
    few = recalibrator(spec).fit(of(z, y))
    monkeypatch.setattr("calibrant.recalibration.methods.linear_maps.MAX_NEWTON_VARIABLES", 0)
    monkeypatch.setattr("calibrant.recalibration.methods.linear_maps.MAX_DIAGONAL_VARIABLES", 0)
    many = recalibrator(spec).fit(of(z, y))
    assert many.converged
    assert many.report.iterations != few.report.iterations
    np.testing.assert_allclose(many.transform(of(z, y)).scores, few.transform(of(z, y)).scores, atol=1e-4)


def test_many_classes_of_few_rows_settle():
    """Two rows a class, in places none: next to nothing holds the slopes and intercepts of many classes."""
    z, y = problem(n=400, classes=200)
    with pytest.warns(CalibrantWarning) as seen:
        made = recalibrator("vector").fit(of(z, y))
    assert made.converged
    assert made.report.iterations < 40
    said = " ".join(str(each.message) for each in seen)
    assert "no row" in said
    assert "parameters that only a ridge of 1e-08 keeps finite" in said


def test_what_only_the_ridge_holds_is_told_of_many_parameters_too(monkeypatch):
    z, y = problem(classes=6)
    few = quiet("vector", of(z, z.argmax(axis=1)))
    monkeypatch.setattr("calibrant.recalibration.methods.linear_maps.MAX_NEWTON_VARIABLES", 0)
    monkeypatch.setattr("calibrant.recalibration.methods.linear_maps.MAX_DIAGONAL_VARIABLES", 0)
    assert "only a ridge" in few.report.at_bound[0]
    assert "only a ridge" in quiet("vector", of(z, z.argmax(axis=1))).report.at_bound[0]
    assert quiet("vector", of(z, y)).report.at_bound == ()
    absent = quiet("vector", of(z[y != 2], y[y != 2])).report.at_bound
    assert absent
    assert "2" in absent[0]


def test_newton_goes_to_the_minimum_from_afar():
    """Of log(e^θ + e^−θ), whose whole Newton steps diverge from |θ| > 1.1."""
    found = newton(
        lambda t: (float(np.logaddexp(t, -t)[0]), np.tanh(t)),
        lambda t: np.array([[1.0 / np.cosh(t[0]) ** 2]]),
        np.array([4.0]),
    )
    assert found.converged
    assert found.theta == pytest.approx(0.0, abs=1e-8)


def test_strong_penalties_leave_a_vector():
    """With λ → ∞ and μ = 0, Dirichlet calibration is vector scaling."""
    z, y = problem()
    full, vector = (
        recalibrator("dirichlet(off_diagonal=1e6,intercept=0)").fit(of(z, y)),
        recalibrator("vector").fit(of(z, y)),
    )
    np.testing.assert_allclose(full.transform(of(z, y)).scores, vector.transform(of(z, y)).scores, atol=1e-4)


def test_parameters_do_not_drift_where_predictions_stay():
    """Nothing is added to all intercepts, nor to all rows of the weights: their optimum under penalties is one."""
    z, y = problem()
    for spec in ("vector", "matrix", "dirichlet"):
        found = recalibrator(spec).fit(of(z, y)).parameters()[0]
        assert found["intercepts"].sum() == pytest.approx(0.0, abs=1e-12)
        if spec != "vector":
            off = found["weights"].sum(axis=0) - np.diag(found["weights"])
            np.testing.assert_allclose(off, 0.0, atol=1e-6)


# ------------------------------------------------------------------------------------------- injective
def pair(delta):
    """Two predictions with ln p − ln p' = δ, which has entries of both signs."""
    shrink = np.exp(-delta)
    up, down = delta > 0, delta <= 0
    low, high = shrink[up].mean(), shrink[down].mean()
    share = (high - 1.0) / (high - low)
    p = np.where(up, share / up.sum(), (1.0 - share) / down.sum())
    return p, p * shrink


def same_image(made, delta):
    """Whether two predictions that differ by δ, both predictions indeed, have one image."""
    p, q = pair(delta / np.abs(delta).max())
    assert p.sum() == pytest.approx(1.0)
    assert q.sum() == pytest.approx(1.0)
    assert np.abs(p - q).max() > 1e-3
    return np.abs(made.apply(np.log(p)[None]) - made.apply(np.log(q)[None])).max() < 1e-9


@pytest.mark.parametrize(
    ("slopes", "injective"),
    [
        ([1.0, 2.0, 0.5], True),
        ([-1.0, -2.0, -0.5], True),
        ([1.0, 0.0, 0.5], True),
        ([1.0, 0.0, -0.5], True),
        ([1.0, 2.0, -0.5], False),
        ([1.0, 0.0, 0.0], False),
        ([0.0, 0.0, 0.0], False),
    ],
)
def test_vectors_that_are_injective(slopes, injective):
    """Vectors are diagonal matrices, of which the null space tells the same; what is not injective is shown to be."""
    slopes = np.array(slopes)
    made = VectorMap(slopes, np.array([0.3, -0.2, 0.0]))
    assert made.injective is injective
    if slopes.any():
        assert DirichletMap(np.diag(slopes), made.intercepts, 0.0, 0.0).injective is injective
    if not injective:
        zero = np.flatnonzero(slopes == 0)
        delta = (
            1.0 / slopes if not len(zero) else np.where(np.arange(3) == zero[0], 1.0, np.where(slopes == 0, -1.0, 0.0))
        )
        assert same_image(made, delta)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.integers(0, 10_000), st.sampled_from(["any", "short"]))
def test_dirichlet_maps_have_an_inverse_or_two_predictions_with_one_image(classes, seed, rank):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(classes, classes))
    if rank == "short" and classes > 2:
        weights[:, 0] = weights[:, 1]
    made = DirichletMap(weights, rng.normal(size=classes), 0.0, 0.0)
    acting = weights - weights.mean(axis=0)
    flat = np.linalg.svd(acting)[2][-1]
    if made.injective:
        p = rng.dirichlet(np.ones(classes))
        image = made.apply(np.log(p)[None])[0] - made.intercepts
        near = np.linalg.lstsq(acting, image - image.mean(), rcond=None)[0]
        flat = flat * np.sign(flat.sum())
        step = brentq(lambda t: np.logaddexp.reduce(near + t * flat), -300.0, 300.0, xtol=1e-13)
        np.testing.assert_allclose(np.exp(near + step * flat), p, atol=1e-6)
    else:
        short = rank == "short" and classes > 2
        assert same_image(made, np.eye(classes)[0] - np.eye(classes)[1] if short else flat)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(0, 10_000), st.booleans())
def test_matrix_maps_have_an_inverse_or_two_predictions_with_one_image(classes, seed, short):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(classes, classes))
    if short:
        weights[:, 0] = weights[:, 1]
    made = MatrixMap(weights, rng.normal(size=classes), 0.0, 0.0)
    assert made.injective is not short
    z = rng.normal(size=(1, classes))
    image = made.apply(log_softmax(z, axis=1))[0] - made.intercepts
    if made.injective:
        back = np.linalg.pinv(made.effective_weights, rcond=1e-10) @ (image - image.mean())
        np.testing.assert_allclose(back, z[0] - z.mean(), atol=1e-6)
    else:
        other = made.apply(log_softmax(z + np.eye(classes)[0] - np.eye(classes)[1], axis=1))[0] - made.intercepts
        np.testing.assert_allclose(other, image, atol=1e-12)


def test_what_keeps_the_order():
    order = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    for made in (
        VectorMap(np.full(4, 0.7), np.zeros(4)),
        DirichletMap(0.7 * np.eye(4) + np.arange(4.0), np.full(4, 0.5), 0.0, 0.0),
        MatrixMap(0.7 * np.eye(4) + np.arange(4.0)[:, None], np.zeros(4), 0.0, 0.0),
    ):
        assert made.keeps_order
        np.testing.assert_array_equal(made.apply(np.log(order)).argsort(axis=1), order.argsort(axis=1))
    assert not VectorMap(np.full(4, -0.7), np.zeros(4)).keeps_order
    assert not DirichletMap(0.7 * np.eye(4) + np.arange(4.0)[:, None], np.zeros(4), 0.0, 0.0).keeps_order
    assert not MatrixMap(np.eye(4), np.arange(4.0), 0.0, 0.0).keeps_order


# ------------------------------------------------------------------------------------ cross-validation
def test_penalties_are_chosen_alike_in_any_order_and_for_weights_as_for_repeated_rows():
    z, y = problem(n=400)
    counts = np.random.default_rng(2).integers(0, 4, 400)
    repeated = np.random.default_rng(3).permutation(np.repeat(np.arange(400), counts))
    for spec in ("matrix(penalty=cv)", "dirichlet(penalty=cv)"):
        one, other = (
            quiet(spec, each).maps[0] for each in (of(z, y, weights=counts * 1.0), of(z[repeated], y[repeated]))
        )
        assert (one.off_diagonal, one.intercept) == (other.off_diagonal, other.intercept)
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)


def test_folds_are_of_about_one_size_and_belong_to_rows():
    z, y = problem(n=5000)
    logs = log_softmax(z, axis=1)
    folds = folds_of(logs, y)
    assert np.bincount(folds).min() > 900
    np.testing.assert_array_equal(folds_of(logs[::-1], y[::-1]), folds[::-1])
    np.testing.assert_array_equal(folds_of(log_softmax(z + 3.0, axis=1), y), folds)


def test_confusions_that_are_there_ask_for_weak_penalties_and_noise_for_strong_ones():
    rng = np.random.default_rng(4)
    truth = 1.5 * rng.standard_normal((1500, 4))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    mixed = truth @ np.linalg.inv(np.eye(4) + 0.5 * np.roll(np.eye(4), 1, axis=1))
    plain = quiet("dirichlet(penalty=cv)", of(2 * truth[:300], labels[:300])).maps[0]
    confused = quiet("dirichlet(penalty=cv)", of(mixed, labels)).maps[0]
    assert confused.off_diagonal < 0.2 < plain.off_diagonal


def test_penalties_are_of_each_entry():
    penalty = odir_penalty(3, 2.0, 5.0).reshape(3, 4)
    np.testing.assert_array_equal(penalty, [[0, 2, 2, 5], [2, 0, 2, 5], [2, 2, 0, 5]])


# --------------------------------------------------------------------------------------- what is told
@pytest.mark.parametrize("name", ["vector", "matrix", "dirichlet"])
def test_a_class_without_rows_is_told(name):
    z, y = problem()
    with pytest.warns(CalibrantWarning) as seen:
        made = recalibrator(name).fit(of(z[y != 2], y[y != 2]))
    assert any("class 2 has no row" in str(each.message) for each in seen)
    assert np.isfinite(made.transform(of(z, y)).scores).all()
    assert np.exp(made.transform(of(z, y)).scores[0, :, 2]).mean() < 0.05


def test_rows_that_are_told_apart_without_error_are_told():
    z, _ = problem()
    with pytest.warns(CalibrantWarning, match="classes 0, 1, 2, 3 have parameters that only a ridge"):
        made = recalibrator("vector").fit(of(z, z.argmax(axis=1)))
    assert made.report.at_bound
    assert np.abs(made.parameters()[0]["slopes"]).max() < 1e4


def test_a_slope_below_zero_is_told():
    z, _ = problem()
    logs = log_softmax(z, axis=1)
    turned = (logs * [-0.6, 0.6, 0.6, 0.6] + np.random.default_rng(1).gumbel(size=z.shape)).argmax(axis=1)
    with pytest.warns(CalibrantWarning, match="class 0 has a negative slope"):
        made = recalibrator("vector").fit(of(z, turned))
    assert not made.injective


def test_few_rows_are_told_and_usual_ones_pass_in_silence():
    z, y = problem(n=40, classes=3)
    made = quiet("dirichlet", of(z[:10], y[:10]))
    assert ("few-rows", "10 rows for 12 parameters") in made.report.messages
    z, y = problem()
    for spec in ("vector", "matrix", "dirichlet"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert recalibrator(spec).fit(of(z, y)).report.at_bound == ()


def test_maps_that_cannot_be_are_refused():
    for wrong in (
        lambda: VectorMap(np.ones(3), np.ones(2)),
        lambda: VectorMap(np.array([1.0, np.nan]), np.ones(2)),
        lambda: DirichletMap(np.ones((2, 3)), np.ones(2), 0.0, 0.0),
        lambda: MatrixMap(np.full((2, 2), np.inf), np.ones(2), 0.0, 0.0),
    ):
        with pytest.raises(ValueError, match=r"each class|numbers"):
            wrong()
