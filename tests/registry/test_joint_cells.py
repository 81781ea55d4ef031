"""Cells of different classes are drawn together: their covariance, null band, and the spread of class-wise errors."""

import math

import numpy as np
import pytest
from scipy.special import softmax

import calibrant as cal
from calibrant.calibration.binning import SHRINKAGE_ROWS, equal_width
from calibrant.kernels.resampling import correlated
from calibrant.kernels.rows import JOINT, rows_of
from calibrant.registry.estimate import Settings
from calibrant.registry.lookup import parse
from calibrant.registry.state.classwise_state import Cells, Entries, cells_of_table

BINS = 15


def drawn_labels(p, rng):
    """A label for each row of p (..., N, C)."""
    return (p.cumsum(axis=-1) < rng.random((*p.shape[:-1], 1))).sum(axis=-1).clip(max=p.shape[-1] - 1)


def overconfident(n, classes, seed, temperature=1.7, spread=2.0):
    """Labels from softmax(z); the model says softmax(T·z)."""
    rng = np.random.default_rng(seed)
    z = spread * rng.normal(size=(n, classes))
    return softmax(temperature * z, axis=1), drawn_labels(softmax(z, axis=1), rng)


def cells_of(predictions, block_rows=None):
    """The cells of `cwce` that are drawn."""
    keys = ("classwise", BINS), (JOINT, BINS)
    extras = rows_of(predictions, frozenset(keys), block_rows=block_rows, light=True).extras
    return cells_of_table(*(extras[key] for key in keys))[1]


def residuals(p, labels):
    """(N, C·bins): y_c − p_c at the cell of each class of a row, and the probabilities likewise."""
    (n, classes), row = p.shape, np.arange(len(p))
    v, of_p = np.zeros((n, classes * BINS)), np.zeros((n, classes * BINS))
    for c in range(classes):
        cell = c * BINS + equal_width(np.ascontiguousarray(p[:, c]), BINS)
        v[row, cell], of_p[row, cell] = (labels == c) - p[:, c], p[:, c]
    return v, of_p


def brute_covariance(v, of_p):
    """Of the mean of v over rows, with two rows more in each cell at its mean probability."""
    n, count = len(v), (of_p > 0).sum(axis=0)
    mean_p = of_p.sum(axis=0) / count
    total = v.T @ v - np.outer(v.sum(axis=0), v.sum(axis=0)) / n + np.diag(SHRINKAGE_ROWS * mean_p * (1.0 - mean_p))
    scale = np.sqrt(count / (count + SHRINKAGE_ROWS)) / n
    return total * np.outer(scale, scale)


@pytest.mark.parametrize(("classes", "dtype"), [(3, np.float64), (10, np.float32), (21, np.float64)])
def test_the_covariance_is_that_of_brute_force(classes, dtype):
    p, labels = overconfident(800, classes, seed=classes)
    p = p.astype(dtype)
    v, of_p = residuals((p / p.sum(axis=1, keepdims=True)).astype(np.float64), labels)
    filled = of_p.sum(axis=0) > 0
    expected = brute_covariance(v[:, filled], of_p[:, filled])
    found = cells_of(cal.Classification.from_probs(p, labels)).covariance()
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.diag(expected).max())
    blocks = cells_of(cal.Classification.from_probs(p, labels), block_rows=97).covariance()
    np.testing.assert_array_equal(blocks, found)


@pytest.mark.parametrize("spec", ["ace(bins=5)", "tace(bins=5,threshold=0.05)"])
def test_the_covariance_of_bins_of_equal_counts_is_that_of_brute_force(spec):
    """Rows come in three parts, and a threshold leaves some without an entry of a class."""
    p, labels = overconfident(400, 4, seed=1)
    predictions, accumulator = cal.Classification.from_probs(p, labels), None
    for rows in np.split(np.arange(400), [90, 91]):
        accumulator = accumulator or parse(spec).metric.accumulate(parse(spec), predictions)
        accumulator.add(rows_of(predictions[rows], frozenset({accumulator.key})))
    assert isinstance(accumulator.state, Entries)
    cells, _, _ = accumulator.state.cells(5, 4, True)
    threshold = accumulator.key[1]
    v, of_p, at = [], [], 0
    for c in range(4):
        order = np.argsort(p[:, c])
        order = order[p[order, c] > threshold]
        size = len(order) // 5
        for start in (k * size for k in range(5)):
            rows = order[start : start + size] if start < 4 * size else order[start:]
            for out, values in ((v, (labels == c) - p[:, c]), (of_p, p[:, c])):
                out.append(np.zeros(400))
                out[-1][rows] = values[rows]
            assert cells.count[at] == len(rows)
            at += 1
    expected = brute_covariance(np.stack(v, axis=1), np.stack(of_p, axis=1))
    np.testing.assert_allclose(cells.covariance(), expected, atol=1e-5 * np.diag(expected).max())


def test_rows_share_their_labels_among_all_classes():
    """Over all cells l, Σp_k·p_l sums to Σp_k(1 − p_k), and Σ(y_k·p_l + p_k·y_l) to Σ(y_k + p_k − 2p_k·y_k)."""
    p, labels = overconfident(500, 6, seed=2)
    cells = cells_of(cal.Classification.from_probs(p, labels))
    products, labelled = cells.joint.sum(axis=2)
    np.testing.assert_allclose(products, cells.p - cells.p_squared, atol=1e-3)
    np.testing.assert_allclose(labelled, cells.y + cells.p - 2.0 * cells.p_y, atol=1e-3)


def brute_null(p, replicates, seed):
    """`cwce` of redrawn labels."""
    rng, (n, classes) = np.random.default_rng(seed), p.shape
    cell = np.stack([c * BINS + equal_width(np.ascontiguousarray(p[:, c]), BINS) for c in range(classes)], axis=1)
    share = np.bincount(cell.ravel(), minlength=classes * BINS) / n
    said = np.bincount(cell.ravel(), p.ravel(), classes * BINS) / n
    out = np.empty(replicates)
    for r in range(replicates):
        hit = np.bincount(cell[np.arange(n), drawn_labels(p, rng)], minlength=classes * BINS) / n
        out[r] = math.sqrt(((hit - said)[share > 0] ** 2 / share[share > 0]).sum())
    return out


def null_values(cells: Cells, replicates):
    gaps = cells.null_gaps(Settings(resamples=replicates, seed=5))
    return np.sqrt((gaps**2 / cells.share).sum(axis=1))


@pytest.mark.parametrize(("classes", "spread"), [(3, 2.0), (3, 0.03), (10, 2.0)])
def test_the_null_band_is_that_of_redrawn_labels(classes, spread):
    """Mean and 97.5% quantile; where probabilities are nearly equal, independent cells fail."""
    p, labels = overconfident(1000, classes, seed=classes, temperature=1.0, spread=spread)
    brute, cells = brute_null(p, 3000, seed=9), cells_of(cal.Classification.from_probs(p, labels))
    found = null_values(cells, 3000)
    error = math.hypot(brute.std(), found.std()) / math.sqrt(3000)
    assert found.mean() == pytest.approx(brute.mean(), abs=4 * error)
    assert np.quantile(found, 0.975) == pytest.approx(np.quantile(brute, 0.975), rel=0.03)
    if spread < 1.0:
        cells = Cells.of([cells.count, cells.p, cells.p_squared, cells.y, cells.p_y], cells.place, cells.mass)
        assert np.quantile(null_values(cells, 3000), 0.975) < 0.97 * np.quantile(brute, 0.975)


@pytest.mark.parametrize("classes", [3, 10])
def test_the_covariance_gives_the_spread_of_the_error(classes):
    """Standard deviation of `cwce` over data sets, and by linearisation; of independent cells it is too small."""
    values, errors, alone = [], [], []
    for seed in range(300):
        cells = cells_of(cal.Classification.from_probs(*overconfident(4000, classes, seed=seed)))
        value = math.sqrt((cells.signed**2 / cells.share).sum())
        slope, covariance = cells.signed / cells.share / value, cells.covariance()
        values.append(value)
        errors.append(math.sqrt(slope @ covariance @ slope))
        alone.append(math.sqrt(slope**2 @ np.diag(covariance)))
    ratio = np.std(values) / np.mean(errors)
    assert 0.87 < ratio < 1.13  # 4.1% is its standard error
    if classes == 3:
        assert np.std(values) / np.mean(alone) > 1.13


def test_many_cells_are_drawn_independently_and_marked():
    for classes, mark in ((21, ""), (22, "-approximate")):
        predictions = cal.Classification.from_probs(*overconfident(300, classes, seed=3))
        result = cal.evaluate(predictions, "cwce,sce,ace", resamples=50)
        assert {result[name].method for name in ("cwce", "sce", "ace")} == {f"test-inversion{mark}"}


def test_correlated_numbers_have_their_covariance():
    """From unit vectors come the columns of a root: of a singular covariance too, and one with empty variables."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(20))
    a = rng.normal(size=(20, 7))
    empty = np.diag(np.arange(20.0) % 3)
    for covariance in (np.diag(p) - np.outer(p, p), a @ a.T, empty, rng.normal() ** 2 * np.ones((20, 20))):
        root = correlated(np.eye(20), covariance)
        np.testing.assert_allclose(root.T @ root, covariance, atol=1e-7 * covariance.max())
    z = rng.normal(size=(37, 20))
    np.testing.assert_allclose(correlated(z, covariance), z @ root, atol=1e-12)
    np.testing.assert_array_equal(correlated(z[:5], covariance), correlated(z, covariance)[:5])
