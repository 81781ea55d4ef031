"""Histogram binning against netcal, by hand, and on real logits."""

import warnings

import numpy as np
import pytest
from netcal.binning import HistogramBinning as Stranger
from scipy.special import softmax

import calibrant as cal
from calibrant.calibration.binning import assign
from calibrant.errors import CalibrantWarning, UsageError
from calibrant.recalibration import HistogramBinning
from calibrant.recalibration.methods.one_vs_rest import HistogramMap


def binary(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 0.9, n)
    return p, (rng.random(n) < p**1.7).astype(int)


def quiet(predictions, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return HistogramBinning(**options).fit(predictions)


def of(p, y=None, **known):
    return cal.Classification.from_probs(np.stack([1 - p, p], axis=1), y, **known)


# --------------------------------------------------------------------------------------- strangers
def test_netcal_finds_the_same_in_bins_of_equal_width():
    p, y = binary()
    test, _ = binary(seed=1)
    made = quiet(of(p, y), bins=12).transform(of(test)).scores[0, :, 1]
    stranger = Stranger(bins=12)
    stranger.fit(p, y)
    np.testing.assert_allclose(made, stranger.transform(test), atol=1e-9)


def test_netcal_finds_the_same_for_several_classes():
    rng = np.random.default_rng(0)
    truth = rng.normal(0.0, 1.5, (6000, 3))
    y = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    p = softmax(2 * truth, axis=1)
    made = quiet(cal.Classification.from_probs(p, y), bins=5).transform(cal.Classification.from_probs(p)).scores[0]
    stranger = Stranger(bins=5)
    stranger.fit(p, y)
    np.testing.assert_allclose(made, stranger.transform(p), atol=1e-9)


# ------------------------------------------------------------------------------------- mathematics
@pytest.mark.parametrize("binning", ["width", "mass"])
def test_values_are_shares_of_hits(binning):
    p, y = binary()
    place, _ = assign(p, 15, binning)
    made = quiet(of(p, y), binning=binning).transform(of(p)).scores[0, :, 1]
    for b in range(15):
        np.testing.assert_allclose(made[place == b], y[place == b].mean(), atol=1e-12)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_the_binned_error_of_fitted_rows_vanishes(binning):
    p, y = binary()
    after = quiet(of(p, y), binning=binning).transform(of(p, y))
    was, now = (next(iter(cal.measure(each, ["ece(of=1)"]).values())) for each in (of(p, y), after))
    assert now < 1e-9 < was


def test_tied_values_stay_in_one_bin():
    p = np.repeat([0.1, 0.2, 0.8], [50, 900, 50])
    y = np.random.default_rng(0).integers(0, 2, 1000)
    found = quiet(of(p, y), binning="mass", bins=10).maps[0]
    assert found.n_parameters == 3
    np.testing.assert_allclose(
        found.curve(0, np.array([0.1, 0.2, 0.8])), [y[:50].mean(), y[50:950].mean(), y[950:].mean()]
    )


def test_edges_belong_to_the_bin_below():
    found = HistogramMap(np.array([0.5, 1.0]), np.array([0.2, 0.7]), np.array([2.0]))
    np.testing.assert_array_equal(found.curve(0, np.array([0.0, 0.5, 0.5 + 1e-9, 1.0])), [0.2, 0.2, 0.7, 0.7])


def test_empty_bins_keep_their_midpoint_and_are_told():
    p = np.repeat([0.05, 0.95], 50)
    y = np.tile([0, 1], 50)
    with pytest.warns(CalibrantWarning, match=r"[^-]8 of 10 bins have no row"):
        made = HistogramBinning(bins=10).fit(of(p, y))
    assert made.transform(of(np.array([0.35]))).scores[0, 0, 1] == pytest.approx(0.35)


def test_empty_bins_of_all_classes_are_counted():
    """Three classes of ten bins: confidences 0.9 and 0.05 lie in two bins of each class."""
    p = np.tile(np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]]), (20, 1))
    with pytest.warns(CalibrantWarning, match="24 of 30 bins have no rows"):
        HistogramBinning(bins=10, ends="inside").fit(cal.Classification.from_probs(p, np.arange(60) % 3))


def test_pseudo_rows_by_hand():
    """A bin (0, 0.5] with 20 misses among 40 rows: a twenty-first row that came true in 0.25 of it."""
    p, y = np.repeat([0.2, 0.9], 20), np.repeat([0, 1], 20)
    with pytest.warns(CalibrantWarning, match="0 or 1"):
        fitted = HistogramBinning(bins=2).fit(of(p, y))
    np.testing.assert_array_equal(fitted.maps[0].values, [0.0, 1.0])
    inside = HistogramBinning(bins=2, ends="inside").fit(of(p, y))
    np.testing.assert_allclose(inside.maps[0].values, [0.25 / 21, 20.75 / 21])


def test_one_bin_is_the_share_of_the_class():
    p, y = binary()
    made = quiet(of(p, y), bins=1)
    np.testing.assert_allclose(made.transform(of(p)).scores[0, :, 1], y.mean())
    assert not made.injective
    assert not made.accuracy_preserving


# -------------------------------------------------------------------------------------- real logits
def test_equal_mass_costs_accuracy_with_many_classes_and_says_so(data_folder):
    """Of ten classes, the tenth that is of a class falls into one or two of 15 bins of equal mass."""
    stored = np.load(data_folder / "predictions" / "cifar10_nn_calibration_logits.npz")
    fit = cal.Classification.from_logits(stored["logits_val"][0], stored["labels_val"])
    test = cal.Classification.from_logits(stored["logits_test"][0], stored["labels_test"])
    with pytest.warns(CalibrantWarning, match="the fit made it worse: brier"):
        mass = HistogramBinning(binning="mass", ends="inside").fit(fit)
    with pytest.warns(CalibrantWarning, match="keep their midpoint"):
        width = HistogramBinning(ends="inside").fit(fit)
    names = ["accuracy", "ece"]
    was, narrow, wide = (cal.measure(each, names) for each in (test, mass.transform(test), width.transform(test)))
    assert narrow["accuracy"] < was["accuracy"] - 0.04
    assert abs(wide["accuracy"] - was["accuracy"]) < 0.005
    assert max(narrow["ece"], wide["ece"]) < was["ece"] / 3


# ------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    "fields",
    [
        {"edges": [0.5, 0.9], "values": [0.1, 0.2], "sizes": [2]},
        {"edges": [0.5, 0.5, 1.0], "values": [0.1, 0.2, 0.3], "sizes": [3]},
        {"edges": [0.5, 1.0], "values": [0.1, 1.2], "sizes": [2]},
        {"edges": [0.5, 1.0], "values": [0.1, 0.2], "sizes": [1]},
    ],
)
def test_bins_that_cannot_be_are_refused(fields):
    with pytest.raises(ValueError, match=r"edges|probabilities|points"):
        HistogramMap.from_parameters(fields)


def test_options_are_checked():
    with pytest.raises(UsageError, match="at least 1"):
        HistogramBinning(bins=0)
    with pytest.raises(UsageError, match="width or mass"):
        HistogramBinning(binning="equal")
