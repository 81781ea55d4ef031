"""Networks that keep the order of classes: what they are by construction, and what they gain on real predictions."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.integrate import quad
from scipy.special import log_softmax, softmax

import calibrant as cal
from calibrant.errors import CalibrantWarning
from calibrant.recalibration import recalibrator
from calibrant.recalibration.class_rows import FLOOR
from calibrant.recalibration.methods.network_training import positive, restore_order
from calibrant.recalibration.methods.order_preserving import (
    NODES,
    WIDTH,
    DiagonalMap,
    OrderInvariantMap,
    OrderPreservingMap,
    chebyshev_x,
)

NETWORKS = ["diag", "op", "order_invariant"]
CLASSES = 4


def random_map(name: str, seed: int = 0, classes: int = CLASSES, hidden: int = 5, size: float = 2.0):
    """A map with large weights, as none would be fitted."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0.0, size, shape)

    if name == "diag":
        return DiagonalMap(0.7, normal(hidden), normal(hidden), normal(hidden), normal(1))
    made = OrderPreservingMap if name == "op" else OrderInvariantMap
    return made(0.7, normal(classes, hidden), normal(hidden), normal(hidden, classes - 1), normal(classes - 1))


def predictions(n: int = 400, seed: int = 0) -> cal.Classification:
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.0, 2.0, (n, CLASSES))
    labels = np.array([rng.choice(CLASSES, p=row) for row in softmax(scores / 2.0, axis=1)])
    return cal.Classification.from_logits(scores, labels)


def fitted(text: str, given: cal.Classification):
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return recalibrator(text).fit(given)


# ------------------------------------------------------------------------------------ by construction
SCORES = hnp.arrays(np.float64, (3, CLASSES), elements=st.floats(-100.0, 100.0, allow_nan=False))


@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=60, deadline=None)
@given(scores=SCORES, seed=st.integers(0, 50))
def test_order_is_kept_exactly(name, scores, seed):
    """What is less stays less and what is equal stays equal, whatever the weights."""
    logs = np.maximum(log_softmax(scores, axis=1), FLOOR)
    out = random_map(name, seed).apply(logs)
    assert np.isfinite(out).all()
    before, after = (np.sign(a[:, :, None] - a[:, None, :]) for a in (logs, out))
    np.testing.assert_array_equal(after, before)
    np.testing.assert_allclose(np.exp(out).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_floats_next_to_each_other_stay_apart(name):
    row = np.log(np.array([0.3, 0.2, 0.3, 0.2]))
    row[2] = np.nextafter(row[0], 0.0)
    out = random_map(name).apply(row[None])[0]
    assert out[2] > out[0] > out[1] == out[3]


@pytest.mark.parametrize("name", NETWORKS)
def test_an_idle_network_is_temperature_scaling(name):
    made = random_map(name)
    idle = type(made)(
        **{
            key: np.zeros_like(value) if key in ("outputs", "bias", "biases") else value
            for key, value in made.parameters().items()
        }
    )
    logs = log_softmax(np.random.default_rng(1).normal(0.0, 3.0, (50, CLASSES)), axis=1)
    np.testing.assert_allclose(idle.apply(logs), log_softmax(0.7 * logs, axis=1), atol=1e-11)


@pytest.mark.parametrize(("name", "equivariant"), [("diag", True), ("order_invariant", True), ("op", False)])
def test_permuted_classes_come_out_permuted_where_the_network_sees_no_names(name, equivariant):
    logs = log_softmax(np.random.default_rng(1).normal(0.0, 2.0, (20, CLASSES)), axis=1)
    made, order = random_map(name), np.array([2, 0, 3, 1])
    assert np.allclose(made.apply(logs[:, order]), made.apply(logs)[:, order], atol=1e-12) is equivariant


@pytest.mark.parametrize("seed", range(5))
def test_the_diagonal_function_is_the_integral_of_its_network(seed):
    made = random_map("diag", seed, size=1.0)

    def derivative(score: float) -> float:
        units = np.tanh(float(chebyshev_x(np.array(score))) * made.slopes + made.offsets)
        return made.beta * float(positive(units @ made.outputs + made.bias)[0])

    for score in (-1e-3, -0.5, -4.0, -60.0, FLOOR):
        value = np.polynomial.chebyshev.chebval(chebyshev_x(np.array(score)), made.coefficients)
        assert value == pytest.approx(-quad(derivative, score, 0.0, epsabs=1e-10, limit=200)[0], rel=1e-6)


def test_what_is_said_to_rise_does_and_what_does_not_is_seen():
    assert random_map("diag", size=0.5).injective
    sharp = DiagonalMap(1.0, np.array([500.0]), np.array([0.0]), np.array([400.0]), np.array([-30.0]))
    values = np.polynomial.chebyshev.chebval(np.linspace(-1.0, 1.0, 5000), sharp.coefficients)
    assert not sharp.injective
    assert (np.diff(values) > 0).any()  # m falls as x grows where it rises


def test_nodes_and_places_span_all_scores():
    assert chebyshev_x(np.array([0.0, FLOOR])).tolist() == [-1.0, 1.0]
    assert (NODES[0], NODES[-1]) == (1.0, -1.0)
    assert pytest.approx(np.log(1.0 + 1022.0 * np.log(2.0))) == WIDTH


def test_scores_that_have_their_order_are_left_alone():
    like = np.array([[3.0, 1.0, 2.0]])
    right = np.array([[0.0, -2.0, -1.0]])
    assert restore_order(right, like) is right
    mended = restore_order(np.array([[0.0, 0.5, 0.0]]), like)
    assert mended[0, 0] > mended[0, 2] > mended[0, 1]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("broken", ["shape", "nan", "beta"])
def test_maps_that_cannot_be_are_refused(name, broken):
    fields = random_map(name).parameters()
    spoilt = {
        "shape": {"outputs": np.zeros(3)},
        "nan": {"offsets": np.full(5, np.nan)},
        "beta": {"beta": 0.0},
    }[broken]
    with pytest.raises(ValueError, match=r"layers|weights|beta must be positive"):
        type(random_map(name))(**(fields | spoilt))


# --------------------------------------------------------------------------------------------- fits
@pytest.mark.parametrize("name", NETWORKS)
def test_no_fit_is_worse_on_its_rows_than_temperature_scaling(name):
    rows = predictions()
    assert fitted(name, rows).report.after <= fitted("temperature", rows).report.after + 1e-9


@pytest.mark.parametrize("name", NETWORKS)
def test_the_seed_moves_little_and_is_obeyed(name):
    rows = predictions()
    first, again, other = (fitted(text, rows) for text in (name, name, f"{name}(seed=1)"))
    for key, value in first.parameters()[0].items():
        np.testing.assert_array_equal(value, again.parameters()[0][key])
    a, b = (np.exp(made.transform(rows).scores) for made in (first, other))
    assert 0.0 < np.abs(a - b).max() < 0.2


def test_the_order_of_rows_leaves_no_trace():
    rows = predictions()
    order = np.random.default_rng(3).permutation(rows.n)
    for name in NETWORKS:
        straight, mixed = (fitted(name, each).parameters()[0] for each in (rows, rows[order]))
        for key, value in straight.items():
            np.testing.assert_allclose(value, mixed[key], atol=1e-6)


def test_a_function_that_no_temperature_gives_is_found():
    """Scores that were bent by a known increasing function: the network bends them back."""
    rng = np.random.default_rng(5)
    true = log_softmax(rng.normal(0.0, 2.5, (6000, CLASSES)), axis=1)
    labels = np.array([rng.choice(CLASSES, p=row) for row in np.exp(true)])
    bent = log_softmax(true - 0.15 * true**2, axis=1)
    train, test = (
        cal.Classification.from_logits(bent[part], labels[part]) for part in (slice(3000), slice(3000, 6000))
    )
    nll = {name: cal.measure(fitted(name, train).transform(test), "nll")["nll"] for name in ("temperature", "diag")}
    floor = -float(true[np.arange(3000, 6000), labels[3000:]].mean())
    assert nll["diag"] - floor < 0.3 * (nll["temperature"] - floor)


@pytest.mark.parametrize("name", NETWORKS)
def test_real_predictions_gain_beyond_temperature_scaling(name, data_folder):
    """ResNet-110 on CIFAR-10: temperature scaling has NLL 0.2093 on the test rows."""
    path = data_folder / "predictions" / "cifar10_nn_calibration_logits.npz"
    with np.load(path) as stored:
        train = cal.Classification.from_logits(stored["logits_val"][0], stored["labels_val"])
        test = cal.Classification.from_logits(stored["logits_test"][0], stored["labels_test"])
    made = fitted(name, train)
    after = made.transform(test)
    assert made.converged
    assert cal.measure(after, "nll")["nll"] < 0.2085
    np.testing.assert_array_equal(after.scores[0].argmax(axis=1), test.scores[0].argmax(axis=1))


def test_missing_classes_and_few_rows_are_told():
    pytest.importorskip("torch")
    rows = predictions(40)
    rows = rows[rows.labels != 2]
    with pytest.warns(CalibrantWarning) as seen:
        recalibrator("op").fit(rows)
    said = " ".join(str(each.message) for each in seen)
    assert "no row has the label 2" in said
    assert "rows: only the decay" in said


# -------------------------------------------------------------------------------------- without PyTorch
WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
import numpy as np, calibrant as cal
from calibrant.recalibration import load, recalibrator
rows = cal.Classification.from_logits(np.random.default_rng(0).normal(size=(20, 4)), np.arange(20) % 4)
print(load(sys.argv[1]).transform(rows).scores.shape)
try:
    recalibrator("diag").fit(rows)
except ImportError as error:
    print(error)
"""


def test_stored_networks_are_used_without_pytorch(tmp_path):
    path = fitted("op", predictions(200)).save(tmp_path / "map.json")
    done = subprocess.run([sys.executable, "-c", WITHOUT, str(path)], capture_output=True, text=True, check=True)
    shape, refusal = done.stdout.splitlines()
    assert shape == "(1, 20, 4)"
    assert refusal == "diag: expected PyTorch, got none installed; pip install 'calibrant[torch]'"
