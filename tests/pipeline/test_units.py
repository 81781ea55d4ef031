"""Units: rows that depend on each other are resampled and counted together."""

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal

N = 160
MEANS = ["accuracy", "nll", "brier", "rbs", "entropy"]


def made(copies=1, units=None, weights=None, n=N):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 1.0, 1.0], n)
    labels = np.array([rng.choice(3, p=row) for row in p])
    names = np.arange(n) if units is None else units
    return cal.Classification.from_probs(
        np.repeat(p, copies, axis=0),
        np.repeat(labels, copies),
        columns={"unit": np.repeat(names, copies)},
        weights=None if weights is None else np.repeat(weights, copies),
    )


def ends(predictions, spec, units="unit", **settings):
    estimate = evaluate_with(predictions, spec, units=units, **settings)[spec]
    return estimate.value, estimate.low, estimate.high


@pytest.mark.parametrize("spec", [m for m in MEANS if m != "accuracy"])
def test_a_unit_of_its_own_for_each_row_is_no_unit(spec):
    assert ends(made(), spec) == pytest.approx(ends(made(), spec, units=None), abs=1e-9)


@pytest.mark.parametrize("spec", ["accuracy", "ece", "ece(norm=l2)"])
def test_nearly_so_where_the_interval_is_of_another_kind(spec):
    """Wilson without units, studentised with; pseudo-rows in the bins without, none with."""
    assert ends(made(), spec) == pytest.approx(ends(made(), spec, units=None), abs=0.02)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("spec", [*MEANS, "ece", "ece(norm=l2)"])
def test_copies_of_rows_bring_nothing(spec, weighted):
    """Each row three times, as one unit: the interval of the single rows. Without units it shrinks."""
    w = np.random.default_rng(1).exponential(size=N) if weighted else None
    single, tripled = made(weights=w), made(3, weights=w)
    assert ends(tripled, spec) == pytest.approx(ends(single, spec), abs=1e-6)
    _, low, high = ends(tripled, spec, units=None)
    _, low_of_units, high_of_units = ends(tripled, spec)
    if not spec.startswith("ece"):
        assert (high - low) * 1.5 < high_of_units - low_of_units


def test_names_of_units_do_not_matter():
    names = np.random.default_rng(2).permutation(N) // 4
    numbers, texts = made(units=names), made(units=np.array([f"patient {k}" for k in names]))
    for spec in ("nll", "ece"):
        assert ends(numbers, spec) == pytest.approx(ends(texts, spec), abs=1e-12)


def test_ranking_resamples_units():
    rng = np.random.default_rng(3)
    p = rng.random(60)
    y = (rng.random(60) < p).astype(int)

    def width(copies, units):
        column = {"unit": np.repeat(np.arange(60), copies)}
        predictions = cal.Classification.from_probs(np.repeat(p, copies), np.repeat(y, copies), columns=column)
        _, low, high = ends(predictions, "roc_auc", units, resamples=400)
        return high - low

    assert width(4, "unit") == pytest.approx(width(1, "unit"), rel=1e-9)
    assert width(4, None) < 0.7 * width(4, "unit")


def test_a_column_that_is_not_there():
    with pytest.raises(cal.CalibrantError, match="did you mean 'unit'"):
        cal.evaluate(made(), "nll", units="units")


def test_null_band_is_not_given_for_dependent_rows():
    """Labels redrawn row by row would be independent, which these are not."""
    estimate = cal.evaluate(made(2), "ece", units="unit")["ece"]
    assert np.isnan(estimate.null_low)
    assert 0.0 < estimate.p_value <= 1.0  # of gaps with the covariance between units
