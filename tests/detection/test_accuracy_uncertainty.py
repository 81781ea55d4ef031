"""Accuracy versus uncertainty: plain loops, soft errors, and rows that lie on a threshold."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cal
from calibrant.detection import accuracy_uncertainty as au

CLOSE = 1e-12
NAN = math.nan


def problem(n=200, seed=0, decimals=17, soft=False):
    rng = np.random.default_rng(seed)
    u = np.round(rng.gamma(2.0, size=n), decimals)
    e = rng.random(n) if soft else (rng.random(n) < u / (1 + u)).astype(float)
    return u, e


def counted(threshold, u, e, w=None):
    """AC, AU, IC, IU one row at a time."""
    cells = [0.0, 0.0, 0.0, 0.0]
    for i in range(len(u)):
        weight = 1.0 if w is None else w[i]
        uncertain = int(u[i] > threshold)
        cells[uncertain] += weight * (1 - e[i])
        cells[2 + uncertain] += weight * e[i]
    return cells


def shares(ac, au, ic, iu):
    return (
        (ac + iu) / (ac + au + ic + iu),
        ac / (ac + ic) if ac + ic else NAN,
        iu / (ic + iu) if ic + iu else NAN,
    )


def mean_of(terms):
    return (terms.value * terms.mass).sum() / terms.mass.sum()


def curve_of(u, e, w=None, ends=None):
    low, high = ends or (u.min(), u.max())
    thresholds = [low + t / 20 * (high - low) for t in range(20)] + [high]
    return thresholds, np.array([shares(*counted(t, u, e, w)) for t in thresholds])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_plain_loops_agree(soft, weighted):
    u, e = problem(soft=soft)
    w = np.random.default_rng(3).exponential(size=len(u)) if weighted else None
    got = au.avu_curves(u, e, w)
    thresholds, expected = curve_of(u, e, w)
    np.testing.assert_allclose(got.threshold, thresholds, atol=CLOSE)
    np.testing.assert_allclose(np.stack(got[2:], axis=1), expected, atol=CLOSE)
    assert au.avu_auc(u, e, w) == pytest.approx(np.trapezoid(expected[:, 0], got.level), abs=CLOSE)
    assert mean_of(au.area_terms(u, e, w)) == pytest.approx(au.avu_auc(u, e, w), abs=CLOSE)
    for terms, share in zip(au.terms_at(got.threshold[7], u, e, w), expected[7], strict=True):
        assert mean_of(terms) == pytest.approx(share, abs=CLOSE)
    cells = au.cells_at(got.threshold[7], u, e, w)
    np.testing.assert_allclose(cells, counted(got.threshold[7], u, e, w), atol=1e-10)
    assert au.avu(cells) == pytest.approx(expected[7, 0], abs=CLOSE)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 3)), min_size=1, max_size=12)
)
@settings(max_examples=150, deadline=None)
def test_ties_weights_and_shifts(rows):
    """Whole numbers: thresholds are exact. Weights are repeated rows, and a rising line through u changes nothing."""
    u, e, w = (np.array(x, float) for x in zip(*rows, strict=True))
    k = w.astype(int)
    if k.any():
        repeated = au.avu_curves(np.repeat(u, k), np.repeat(e, k))
        np.testing.assert_allclose(au.avu_curves(u, e, w), repeated, atol=CLOSE)
        np.testing.assert_allclose(au.avu_curves(u, e, 1e-9 * w)[2:], repeated[2:], atol=CLOSE)
    got = au.avu_curves(u, e)
    np.testing.assert_allclose(np.stack(got[2:], axis=1), curve_of(u, e)[1], atol=CLOSE)
    np.testing.assert_allclose(au.avu_curves(0.1 * u + 0.7, e)[2:], got[2:], atol=CLOSE)
    assert mean_of(au.area_terms(u, e)) == pytest.approx(au.avu_auc(u, e), abs=CLOSE)
    fixed = au.avu_curves(u, e, ends=(0.0, 10.0))
    np.testing.assert_allclose(np.stack(fixed[2:], axis=1), curve_of(u, e, ends=(0.0, 10.0))[1], atol=CLOSE)
    assert mean_of(au.area_terms(u, e, ends=(0.0, 10.0))) == pytest.approx(
        au.avu_auc(u, e, None, (0.0, 10.0)), abs=CLOSE
    )


def test_a_row_on_a_threshold_is_certain_whatever_rounding_says():
    u = np.array([0.0, 1 - 7 / 10, 0.6])  # the second is more than 0.3
    np.testing.assert_array_equal(au.avu_curves(u, np.zeros(3)).avu[9:11], [1 / 3, 2 / 3])


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("with_units", [False, True])
def test_order_of_rows_changes_no_bit(soft, with_units):
    u, e = problem(301, 2, 1, soft)
    w = np.round(np.random.default_rng(0).exponential(size=301), 1)
    t = au.default_threshold(u, e, w)
    curves = au.avu_curves(u, e, w)
    for seed in range(3):
        p = np.random.default_rng(seed).permutation(301)
        assert au.default_threshold(u[p], e[p], w[p]) == t
        np.testing.assert_array_equal(au.avu_curves(u[p], e[p], w[p]), curves)
    rng = np.random.default_rng(1)
    confidence, correct = rng.uniform(size=301).round(2), 1.0 - e
    columns = {"unit": np.arange(301) // 7}
    rows = cal.Judged.from_confidence(confidence, (correct > 0.5).astype(int), columns=columns)
    p = rng.permutation(301)
    first, second = (
        cal.evaluate(r, NAMES, units="unit" if with_units else None, curves=False) for r in (rows, rows[p])
    )
    for name in NAMES:
        assert (first[name].low, first[name].high) == (second[name].low, second[name].high)


NAMES = [
    f"{name}(score=max_probability)" for name in ("avu", "avu_auc", "p_accurate_certain", "p_uncertain_inaccurate")
]


def judged(u, e, **options):
    """Answers with these uncertainties and errors."""
    return cal.Judged.from_confidence(1.0 - u, 1 - e.astype(int), **options)


def test_intervals_of_shares_are_those_of_their_rows():
    """At a given threshold each is a share: of all rows, of the certain ones, of the wrong ones (Wilson 1927)."""
    rng = np.random.default_rng(5)
    u = rng.uniform(size=400).round(3)
    e = (rng.uniform(size=400) < u).astype(float)
    sure, wrong = u <= 0.4, e == 1
    parts = {"avu": (sure != wrong, np.ones(400, bool)), "p_accurate_certain": (~wrong, sure),
             "p_uncertain_inaccurate": (~sure, wrong)}  # fmt: skip
    z = 1.959963984540054
    for name, (hit, among) in parts.items():
        spec = f"{name}(score=max_probability,threshold=0.4)"
        got = cal.evaluate(judged(u, e), spec, curves=False)[spec]
        n, share = int(among.sum()), float(hit[among].mean())
        root = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        ends = [(share + z * z / (2 * n) + sign * root) / (1 + z * z / n) for sign in (-1, 1)]
        assert (got.value, got.low, got.high) == pytest.approx((share, *ends), abs=1e-12)
        assert got.method == "wilson"


def test_intervals_agree_with_a_bootstrap_of_units():
    """Units of 5 rows that share their error: a bootstrap of units, with the threshold as given."""
    rng = np.random.default_rng(6)
    unit = np.repeat(np.arange(300), 5)
    u = np.clip(rng.uniform(size=300)[unit] + rng.normal(scale=0.05, size=1500), 0, 1)
    e = (rng.uniform(size=300)[unit] < u).astype(float)
    rows = judged(u, e, columns={"unit": unit})
    spec = "p_uncertain_inaccurate(score=max_probability,threshold=0.5)"
    got = cal.evaluate(rows, spec, units="unit", curves=False)[spec]
    wrong, unsure = (np.bincount(unit, x) for x in (e, e * (u > 0.5)))
    drawn = rng.integers(0, 300, size=(4000, 300))
    ratios = unsure[drawn].sum(1) / wrong[drawn].sum(1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    assert got.high - got.low == pytest.approx(high - low, rel=0.12)
    assert (got.low, got.high) == pytest.approx((low, high), abs=0.02)


@pytest.mark.parametrize("spec", ["avu_auc(score=max_probability,thresholds=fixed)",
                                  "p_uncertain_inaccurate(score=max_probability,threshold=0.3)"])  # fmt: skip
def test_intervals_at_fixed_thresholds_cover(spec):
    """A calibrated model, P(wrong) = u uniform on (0, 0.5): 600 simulations of 200 rows, 4 standard errors."""
    rng = np.random.default_rng(7)
    big = rng.uniform(0, 0.5, 400_000)
    wrong = rng.uniform(size=big.size) < big
    of_all = mean_of(au.area_terms(big, big, ends=(0.0, 1.0)))  # the error rate of each row as a soft error
    truth = of_all if spec.startswith("avu_auc") else 1 - 0.3**2 / 0.5**2
    assert abs(truth - cal.measure(judged(big, wrong), spec)[spec]) < 0.005
    hits = 0
    for _ in range(600):
        u = rng.uniform(0, 0.5, 200)
        got = cal.evaluate(judged(u, (rng.uniform(size=200) < u)), spec, curves=False)[spec]
        hits += got.low <= truth <= got.high
    assert 0.95 - 4 * 0.0089 < hits / 600 <= 0.99


def test_fixed_thresholds_need_a_score_with_a_largest_value():
    rng = np.random.default_rng(0)
    rows = cal.Classification.from_logits(rng.normal(size=(50, 3)), rng.integers(0, 3, 50))
    with pytest.raises(cal.CalibrantError, match="energy has no largest value"):
        cal.measure(rows, "avu_auc(score=energy,thresholds=fixed)")
    entropy = -(rows.scores[0] - np.log(np.exp(rows.scores[0]).sum(1, keepdims=True)))
    p = np.exp(-entropy)
    u, e = (p * entropy).sum(1), (p.argmax(1) != rows.labels).astype(float)
    expected = np.trapezoid(curve_of(u, e, ends=(0.0, math.log(3)))[1][:, 0], np.arange(21) / 20)
    spec = "avu_auc(thresholds=fixed)"
    got = cal.evaluate(rows, spec, curves=False)[spec]
    assert got.value == pytest.approx(expected, abs=1e-9)
    assert not got.method.endswith("approximate")
    assert cal.evaluate(rows, "avu_auc", curves=False)["avu_auc"].method.endswith("approximate")


def test_default_threshold_lies_between_the_averages():
    u, e, w = np.array([1.0, 3.0, 10.0]), np.array([0.0, 0.0, 1.0]), np.array([3.0, 1.0, 5.0])
    assert au.default_threshold(u, e) == pytest.approx(6.0)
    assert au.default_threshold(u, e, w) == pytest.approx((1.5 + 10) / 2)
    assert au.default_threshold(u, np.array([0.5, 0.0, 1.0])) == pytest.approx((3.5 / 1.5 + 10.5 / 1.5) / 2)
    assert au.default_threshold(u, np.zeros(3)) == pytest.approx(14 / 3)
    assert au.default_threshold(u, np.ones(3)) == pytest.approx(14 / 3)
    assert math.isnan(au.default_threshold(u, e, np.zeros(3)))


# ------------------------------------------------------------------------------------------ degenerate
def test_no_errors_and_all_errors():
    u = np.array([0.0, 1.0, 2.0])
    none, every = au.avu_curves(u, np.zeros(3)), au.avu_curves(u, np.ones(3))
    assert np.isnan(none.p_uncertain_inaccurate).all()
    np.testing.assert_array_equal(none.p_accurate_certain, np.ones(21))
    np.testing.assert_array_equal(every.p_accurate_certain, np.zeros(21))
    np.testing.assert_allclose(none.avu + every.avu, np.ones(21), atol=CLOSE)
    assert every.p_uncertain_inaccurate[-1] == 0.0


def test_no_row_is_certain():
    cells = au.cells_at(-1.0, np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    assert cells == (0, 1, 0, 1)
    assert math.isnan(au.p_accurate_certain(cells))
    assert (float(au.avu(cells)), float(au.p_uncertain_inaccurate(cells))) == (0.5, 1.0)
    assert au.terms_at(-1.0, np.array([0.0, 1.0]), np.array([0.0, 1.0]))[1].mass.sum() == 0


@pytest.mark.parametrize("u", [[0.0], [3.0, 3.0, 3.0, 3.0]])
def test_equal_uncertainties_give_the_accuracy(u):
    e = np.arange(len(u)) % 4 / 4
    assert au.avu_auc(np.array(u), e) == pytest.approx(1 - e.mean(), abs=CLOSE)
    np.testing.assert_array_equal(au.avu_curves(np.array(u), e).threshold, np.full(21, u[0]))


def test_undefined_without_weight_and_without_a_finite_range():
    u, e = np.array([0.0, 1.0, math.inf]), np.array([0.0, 0.0, 1.0])
    assert math.isnan(au.avu_auc(u, e))
    assert np.isnan(au.area_terms(u, e).value).all()
    assert float(au.avu(au.cells_at(1.0, u, e))) == 1.0
    assert au.avu_auc(u, e, np.array([1.0, 1.0, 0.0])) == pytest.approx(au.avu_auc(u[:2], e[:2]))
    for w, n in ((np.zeros(3), 3), (None, 0)):
        assert math.isnan(au.avu_auc(u[:n], e[:n], w))
        assert math.isnan(au.avu(au.cells_at(1.0, u[:n], e[:n], w)))


def test_a_threshold_may_lie_below_zero():
    """Energies are negative: a threshold among them is meant, not the one that is chosen by default."""
    rng = np.random.default_rng(0)
    z, labels = rng.normal(size=(300, 4)), rng.integers(0, 4, 300)
    got = cal.measure(cal.Classification.from_logits(z, labels), "avu(score=energy,threshold=-2.5)")
    energy, wrong = -np.log(np.exp(z).sum(axis=1)), z.argmax(axis=1) != labels
    assert list(got.values()) == pytest.approx([((energy > -2.5) == wrong).mean()])
