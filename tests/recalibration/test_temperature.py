"""One temperature: against other libraries, against its derivative, on real networks, and where it is hard."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

import calibrant as cal
from calibrant.errors import CalibrantError, CalibrantWarning
from calibrant.kernels import jit
from calibrant.kernels.temperature_sums import TemperatureSums
from calibrant.recalibration import MemberTemperatureScaling, TemperatureScaling, temperature_solver
from calibrant.recalibration.methods.temperature import TemperatureMap

NETWORKS = {"resnet110": (2.395, 0.01132, 0.209261), "densenet40": (2.8826, 0.00946, 0.225086)}


def fit(z, y, **known):
    """Fit without minding warnings."""
    threads = known.pop("threads", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return TemperatureScaling().fit(cal.Classification.from_logits(z, y, **known), threads=threads)


def problem(n=1000, classes=5, seed=0, scale=2.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.standard_normal((n, classes))
    labels = (truth + rng.gumbel(size=(n, classes))).argmax(axis=1)
    return (scale * truth).astype(dtype), labels


def slope(z, y, temperature, w=None):
    """The mean derivative of the loss by β, in float64, as it is written down."""
    z = z.astype(np.float64)
    terms = (softmax(z / temperature, axis=1) * z).sum(axis=1) - z[np.arange(len(y)), y]
    return float(np.average(terms, weights=w))


def nll(z, y, temperature):
    return -float(log_softmax(z.astype(np.float64) / temperature, axis=1)[np.arange(len(y)), y].mean())


# ------------------------------------------------------------------------------------------- the optimum
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("classes", [2, 10, 70])
def test_the_derivative_vanishes_in_few_passes(dtype, scale, classes):
    z, y = problem(2000, classes, scale=scale, dtype=dtype)
    made = fit(z, y)
    report = made.report
    assert abs(slope(z, y, made.temperature)) <= report.gradient + 1e-13 * scale
    assert report.gradient < 1e-8
    assert report.converged
    assert report.passes <= 6
    assert report.after == pytest.approx(nll(z, y, made.temperature), rel=1e-9)
    assert report.before == pytest.approx(nll(z, y, 1.0), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(2, 6),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 1e-3, 0.1, 3.0, 300.0]),
    st.sampled_from([np.float32, np.float64]),
)
def test_any_rows(n, classes, seed, scale, dtype):
    """Whatever they are: an optimum or a bound, never a worse loss."""
    rng = np.random.default_rng(seed)
    z, y = (scale * rng.standard_normal((n, classes))).astype(dtype), rng.integers(0, classes, n)
    made = fit(z, y)
    assert made.converged
    assert 1 / 64 <= made.temperature <= 64
    assert nll(z, y, made.temperature) <= nll(z, y, 1.0) + 1e-9
    g = slope(z, y, made.temperature)
    if made.temperature == 64:
        assert g >= -1e-12
    elif made.temperature == 1 / 64:
        assert g <= 1e-12
    else:
        assert abs(g) <= 1e-8


def test_the_bound_of_the_last_step_holds():
    """Where a step was not followed by a pass, the gradient is under what was promised of it."""
    gaps = []
    for seed in range(40):
        z, y = problem(300, 4, seed=seed, scale=np.exp(np.random.default_rng(seed).normal(0, 0.5)))
        made = fit(z, y)
        gaps.append(made.report.gradient + 1e-14 - abs(slope(z, y, made.temperature)))
    assert min(gaps) >= 0


# ---------------------------------------------------------------------------------------------- strangers
def test_torch_newton():
    torch = pytest.importorskip("torch")
    z, y = problem(3000, 8, dtype=np.float32)
    tensor, labels = torch.from_numpy(z).double(), torch.from_numpy(y)
    x = torch.zeros((), dtype=torch.double, requires_grad=True)
    for _ in range(12):
        loss = torch.nn.functional.cross_entropy(tensor * x.exp(), labels)
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        (h,) = torch.autograd.grad(g, x)
        with torch.no_grad():
            x -= g.detach() / h.abs()
    assert fit(z, y).temperature == pytest.approx(float((-x.detach()).exp()), rel=1e-10)


def test_netcal():
    scaling = pytest.importorskip("netcal.scaling")
    z, y = problem(3000, 8)
    other = scaling.TemperatureScaling()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other.fit(softmax(z, axis=1), y)
    made, theirs = fit(z, y), 1 / float(other.temperature[0])
    assert made.temperature == pytest.approx(theirs, rel=1e-4)
    assert made.report.after <= nll(z, y, theirs) + 1e-12


def test_probmetrics():
    torch = pytest.importorskip("torch")
    calibrators = pytest.importorskip("probmetrics.calibrators")
    from probmetrics.distributions import CategoricalLogits

    z, y = problem(3000, 8)
    other = calibrators.TemperatureScalingCalibrator()
    other.fit_torch(CategoricalLogits(torch.from_numpy(z)), torch.from_numpy(y))
    made = fit(z, y)
    assert made.temperature == pytest.approx(1 / float(other.invtemp_), rel=1e-4)
    assert made.report.after <= nll(z, y, 1 / float(other.invtemp_)) + 1e-12


def test_scikit_learn():
    calibration = pytest.importorskip("sklearn.calibration")
    if not hasattr(calibration, "_TemperatureScaling"):
        pytest.skip("this scikit-learn has no temperature scaling")
    z, y = problem(3000, 8)
    theirs = 1 / float(calibration._TemperatureScaling().fit(z, y).beta_)
    made = fit(z, y)
    assert made.temperature == pytest.approx(theirs, rel=1e-4)
    assert made.report.after <= nll(z, y, theirs) + 1e-12


@pytest.mark.parametrize("network", list(NETWORKS))
def test_real_networks(data_folder, network):
    path = data_folder / "predictions" / "cifar10_nn_calibration_logits.npz"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    with np.load(path) as held:
        k = [network in str(name).lower().replace("_", "") for name in held["model_names"]].index(True)
        train = cal.Classification.from_logits(held["logits_val"][k], held["labels_val"])
        test = cal.Classification.from_logits(held["logits_test"][k], held["labels_test"])
    made = TemperatureScaling().fit(train)
    temperature, ece, likelihood = NETWORKS[network]
    after = cal.measure(made.transform(test), ["ece", "nll"])
    assert made.temperature == pytest.approx(temperature, abs=5e-5)
    assert after["ece"] == pytest.approx(ece, abs=5e-6)
    assert after["nll"] == pytest.approx(likelihood, abs=5e-7)
    assert made.report.passes <= 6
    assert made.report.gradient < 1e-8


# ------------------------------------------------------------------------------------------- invariances
def test_one_member_of_a_joint_fit_is_the_same():
    z, y = problem()
    joint = MemberTemperatureScaling().fit(cal.Classification.from_logits(z, y))
    assert fit(z, y).temperature == pytest.approx(joint.temperatures[0], rel=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_fitted_has_nothing_left_to_fit(dtype):
    for seed in range(8):
        z, y = problem(seed=seed, dtype=dtype)
        again = fit((z / fit(z, y).temperature).astype(dtype), y)
        assert again.temperature == pytest.approx(1.0, abs=1e-6)
        assert again.report.passes <= 2
        assert again.converged


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [5, 60])
def test_threads_give_the_same_bits(monkeypatch, dtype, classes):
    monkeypatch.setattr(jit, "SERIAL_BELOW", 0)
    monkeypatch.setattr(temperature_solver, "LARGE", 0)
    z, y = problem(4000, classes, dtype=dtype)
    one, three = (fit(z, y, threads=threads) for threads in (1, 3))
    assert (one.temperature, one.report) == (three.temperature, three.report)
    assert abs(slope(z, y, one.temperature)) < 1e-8


def test_a_start_from_some_rows_leads_to_the_optimum_of_all(monkeypatch):
    """Even where the rows that are tried first, those that are right, say the opposite."""
    z, y = problem(4000, 5)
    hit = np.argsort(z.argmax(axis=1) != y, kind="stable")
    whole = fit(z, y)
    monkeypatch.setattr(temperature_solver, "LARGE", 0)
    for order in (slice(None), hit, hit[::-1]):
        made = fit(z[order], y[order])
        assert made.temperature == pytest.approx(whole.temperature, rel=1e-8)
        assert made.converged


def test_weights_count():
    z, y = problem(400)
    w = np.random.default_rng(0).exponential(size=400)
    made = fit(z, y, weights=w)
    assert abs(slope(z, y, made.temperature, w)) < 1e-8
    assert made.temperature != pytest.approx(fit(z, y).temperature, rel=1e-4)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_precisions(dtype):
    z, y = problem(500, dtype=dtype)
    assert fit(z, y).temperature == pytest.approx(fit(z.astype(np.float64), y).temperature, rel=1e-7)


# --------------------------------------------------------------------------------------------- what is odd
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [5, 60])
def test_impossible_labels_are_left_out(dtype, classes):
    z, y = problem(500, classes, dtype=dtype)
    bad = z.copy()
    bad[7, y[7]] = -np.inf
    bad[9, (y[9] + 1) % classes] = -np.inf  # possible, with a class that is not
    rest = np.arange(500) != 7
    with pytest.warns(CalibrantWarning, match="1 of 500 rows"):
        made = TemperatureScaling().fit(cal.Classification.from_logits(bad, y))
    alone = fit(bad[rest], y[rest])
    assert made.temperature == pytest.approx(alone.temperature, rel=1e-7)
    assert made.report.after == pytest.approx(alone.report.after, rel=1e-9)
    assert made.report.left_out == 1
    assert made.converged


@pytest.mark.parametrize("margin", [1e-3, 5.0, 60.0])
def test_all_right_ends_at_the_lower_bound(margin):
    z, y = problem(200)
    z[np.arange(200), y] = z.max(axis=1) + margin
    with pytest.warns(CalibrantWarning, match="1/64: every row is correct"):
        made = TemperatureScaling().fit(cal.Classification.from_logits(z, y))
    assert made.temperature == 1 / 64
    assert made.report.gradient == 0.0


def test_bounds_are_told_apart():
    z, y = problem(200)
    with pytest.warns(CalibrantWarning, match="bound 64: a uniform prediction"):
        worst = TemperatureScaling().fit(cal.Classification.from_logits(z, z.argmin(axis=1)))
    with pytest.warns(CalibrantWarning, match="1/64: a lower one"):
        small = TemperatureScaling().fit(cal.Classification.from_logits(1e-3 * z, y))
    assert (worst.temperature, small.temperature) == (64, 1 / 64)


def test_rows_that_say_nothing_change_nothing():
    with pytest.warns(CalibrantWarning, match="changed nothing"):
        made = TemperatureScaling().fit(cal.Classification.from_logits(np.zeros((20, 3)), np.arange(20) % 3))
    assert made.temperature == 1.0


@pytest.mark.parametrize("classes", [3, 60])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_prediction_is_refused(classes, bad):
    z, y = problem(300, classes, dtype=np.float32)
    z[250, 2] = bad
    with pytest.raises(CalibrantError, match="row 250, class 2") as refusal:
        TemperatureScaling().fit(cal.Classification.build("logits", z[None], y, check=False))
    assert "\n" not in str(refusal.value)
    with pytest.raises(CalibrantError, match="sum to"):
        TemperatureScaling().fit(cal.Classification.build("probs", np.ones((1, 9, 3)), np.zeros(9, int), check=False))


def test_rows_that_cannot_be_are_refused():
    z, y = problem(20)
    z[np.arange(20), y] = -np.inf
    with pytest.raises(CalibrantError, match="labels of probability 0 only"):
        TemperatureScaling().fit(cal.Classification.from_logits(z, y))


def test_a_map_that_cannot_be_is_refused():
    for temperature in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="temperature must be positive"):
            TemperatureMap(temperature)


# --------------------------------------------------------------------------------------------- the kernel
@pytest.mark.parametrize(("dtype", "single", "near"), [(np.float32, True, 2e-5), (np.float32, False, 1e-12)])
@pytest.mark.parametrize("classes", [2, 47, 48, 130, 600])
def test_sums_are_derivatives(dtype, single, near, classes):
    z, y = problem(150, classes, dtype=dtype)
    w, beta, wide = np.random.default_rng(0).random(150), 0.7, z.astype(np.float64)
    sums = TemperatureSums(z, y, w.copy(), 1)
    sums.at(1.0, single=single)
    found = sums.at(beta, single=single)
    p, d = softmax(beta * wide, axis=1), wide - wide.max(axis=1, keepdims=True)
    mean = (p * d).sum(axis=1, keepdims=True)
    expected = [
        -(w * log_softmax(beta * wide, axis=1)[np.arange(150), y]).sum(),
        (w * (mean[:, 0] - d[np.arange(150), y])).sum(),
        (w * (p * (d - mean) ** 2).sum(axis=1)).sum(),
        (w * (p * (d - mean) ** 3).sum(axis=1)).sum(),
    ]
    np.testing.assert_allclose([found.value, found.slope, found.curvature, found.third], expected, rtol=near, atol=near)
    assert sums.widest == pytest.approx(np.ptp(wide, axis=1).max(), rel=1e-6)
    assert sums.wrong == (z.argmax(axis=1) != y).sum()


def test_reports_travel(tmp_path):
    z, y = problem(100)
    made = fit(z, y)
    back = TemperatureScaling.load(made.save(tmp_path / "t.json"))
    assert back.report == made.report
    assert replace(back.report, passes=0) != made.report


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [1.1, 3.0, 0.7])
def test_scores_one_float_apart_leave_the_predicted_class(dtype, temperature):
    z, y = problem(500, dtype=dtype)
    made = fit(z, y)
    made._state = replace(made.state, maps=(TemperatureMap(temperature),))
    highest = np.random.default_rng(0).uniform(1.0, 30.0, 4000).astype(dtype)
    near = np.stack([np.nextafter(highest, dtype(-np.inf)), highest, np.zeros(4000, dtype)] + [highest * 0] * 2, axis=1)
    after = made.transform(cal.Classification.from_logits(near)).scores[0]
    np.testing.assert_array_equal(after.argmax(axis=1), 1)
    usual = made.transform(cal.Classification.from_logits(z)).scores
    assert usual.dtype == dtype
