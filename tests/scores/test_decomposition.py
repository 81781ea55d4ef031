"""The Brier score taken apart: the parts add up, are what brute force gives, and CORP is isotonic regression."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

import calibrant as cal
from calibrant.scores.decomposition import corp

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, database=None)
PARTS = ("brier_uncertainty", "brier_resolution", "brier_reliability", "brier_within")
WEIGHTS = st.sampled_from(["none", "equal", "exponential", "zeros"])


def weights_of(kind, n, rng):
    if kind == "none":
        return None
    w = {"equal": np.full(n, 3.0), "exponential": rng.exponential(size=n), "zeros": rng.integers(0, 3, n) * 1.0}[kind]
    w[0] += 1.0
    return w


@st.composite
def problems(draw, classes=None):
    """Probabilities in sixteenths (ties, zeros, values exactly at edges) or any; labels; weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, members = draw(st.integers(1, 90)), draw(st.sampled_from([1, 2]))
    c = classes or draw(st.integers(2, 6))
    p = rng.dirichlet(np.full(c, 0.5), (members, n))
    if draw(st.booleans()):
        p = np.stack([rng.multinomial(16, row) for row in p.reshape(-1, c)]).reshape(p.shape) / 16
    labels = rng.integers(0, c, n) if draw(st.booleans()) else [rng.choice(c, p=row) for row in p.mean(0)]
    return p, np.array(labels), weights_of(draw(WEIGHTS), n, rng)


@EXAMPLES
@given(problems(), st.integers(1, 50))
def test_parts_add_up_to_the_brier_score(problem, bins):
    p, labels, w = problem
    specs = ["brier", *(f"{part}(bins={bins})" for part in PARTS)]
    brier, unc, res, rel, within = cal.measure(cal.Classification.from_probs(p, labels, weights=w), specs).values()
    assert unc - res + rel + within == pytest.approx(brier, abs=1e-9)
    assert min(unc, res, rel) >= 0.0


@EXAMPLES
@given(problems(), st.integers(1, 50))
def test_parts_are_those_of_a_loop_over_classes_and_bins(problem, bins):
    p, labels, w = problem
    mean, w = p.mean(0), np.ones(len(labels)) if w is None else w
    unc = res = rel = 0.0
    for c in range(mean.shape[1]):
        y = labels == c
        base = np.average(y, weights=w)
        unc += base * (1 - base)
        place = np.clip(np.ceil(mean[:, c] * bins), 1, bins)
        for b in np.unique(place):
            inside = place == b
            mass = w[inside].sum()
            if mass > 0:
                p_bar, y_bar = np.average([mean[inside, c], y[inside]], axis=1, weights=w[inside])
                rel += mass / w.sum() * (p_bar - y_bar) ** 2
                res += mass / w.sum() * (y_bar - base) ** 2
    predictions = cal.Classification.from_probs(mean, labels, weights=w)
    specs = [f"{part}(bins={bins})" for part in PARTS[:3]]
    assert list(cal.measure(predictions, specs).values()) == pytest.approx([unc, res, rel], abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_grouping_by_predicted_class_does_not_add_up(weighted):
    """Ovadia's grouping: reliability, resolution and uncertainty of rows with the same predicted class."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5] * 4, 300)
    labels = np.array([rng.choice(4, p=row) for row in p])
    w = rng.exponential(size=300) if weighted else np.ones(300)
    y, base = np.eye(4)[labels], np.average(np.eye(4)[labels], axis=0, weights=w)
    rel = res = 0.0
    for k in range(4):
        inside = p.argmax(1) == k
        share = w[inside].sum() / w.sum()
        p_bar, y_bar = (np.average(x[inside], axis=0, weights=w[inside]) for x in (p, y))
        rel, res = rel + share * ((p_bar - y_bar) ** 2).sum(), res + share * ((y_bar - base) ** 2).sum()
    specs = [f"brier_{part}(by=predicted_class)" for part in ("reliability", "resolution", "uncertainty")]
    predictions = cal.Classification.from_probs(p, labels, weights=w if weighted else None)
    found = list(cal.measure(predictions, [*specs, "brier"]).values())
    assert found[:3] == pytest.approx([rel, res, (base * (1 - base)).sum()], abs=1e-9)
    assert abs(found[0] - found[1] + found[2] - found[3]) > 0.01


# --------------------------------------------------------------------------------------------- CORP
@EXAMPLES
@given(problems(classes=2))
def test_corp_is_isotonic_regression(problem):
    p, labels, w = problem
    p1 = p.mean(0)[:, 1]
    parts = corp(p1, labels.astype(float), w)
    w = np.ones(len(p1)) if w is None else w
    seen = w > 0
    fitted = IsotonicRegression().fit(p1[seen], labels[seen], w[seen]).predict(p1[seen])
    score, refined, plain = (
        np.average((q - labels[seen]) ** 2, weights=w[seen])
        for q in (p1[seen], fitted, np.average(labels[seen], weights=w[seen]))
    )
    found = (parts.miscalibration, parts.discrimination, parts.uncertainty)
    assert found == pytest.approx((score - refined, plain - refined, plain), abs=1e-9)


@EXAMPLES
@given(problems(), st.booleans())
def test_corp_adds_up_and_is_never_negative(problem, top):
    p, labels, w = problem
    of = "" if top else "(of=1)"
    mean = p.mean(0)
    q = mean.max(1) if top else mean[:, 1]
    y = labels == mean.argmax(1) if top else labels == 1
    specs = [f"corp_{part}{of}" for part in ("miscalibration", "discrimination", "uncertainty")]
    mcb, dsc, unc = cal.measure(cal.Classification.from_probs(mean, labels, weights=w), specs).values()
    assert min(mcb, dsc, unc) >= 0.0
    assert mcb - dsc + unc == pytest.approx(np.average((q - y) ** 2, weights=w), abs=1e-12)


def test_corp_of_a_calibrated_table_has_no_miscalibration():
    """Frequencies equal to the predictions: nothing for isotonic regression to gain, and never less than nothing."""
    p = np.repeat(np.arange(1, 10) / 10, 10)
    y = np.concatenate([np.arange(10) < k for k in range(1, 10)]).astype(float)
    parts = corp(p, y)
    assert 0.0 <= parts.miscalibration < 1e-12
    assert parts.discrimination == pytest.approx(np.var(np.arange(1, 10) / 10), abs=1e-12)


def test_corp_of_one_value_has_no_discrimination():
    parts = corp(np.full(7, 0.3), np.array([1.0, 0, 0, 1, 0, 0, 0]))
    assert (parts.discrimination, parts.miscalibration) == pytest.approx((0.0, (0.3 - 2 / 7) ** 2), abs=1e-15)
    assert parts.discrimination >= 0.0


def test_soft_labels_leave_corp_adding_up():
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet([1, 1], (2, 100))
    specs = [f"corp_{part}(of=1)" for part in ("miscalibration", "discrimination", "uncertainty")]
    mcb, dsc, unc = cal.measure(cal.Classification.from_probs(p, label_probs=q), specs).values()
    assert mcb - dsc + unc == pytest.approx(np.mean((p[:, 1] - q[:, 1]) ** 2), abs=1e-12)


def test_grouping_by_predicted_class_of_eight_million_rows():
    """Sums are integers of 2⁻⁴⁰: more than 2²³ rows of one class would overflow 64 bits if they were not split."""
    p = np.full(((1 << 23) + 8, 2), 0.5, np.float32)
    predictions = cal.Classification.from_probs(p, np.zeros(len(p), np.int8))
    specs = [f"brier_{part}(by=predicted_class)" for part in ("reliability", "uncertainty")]
    assert list(cal.measure(predictions, specs).values()) == pytest.approx([0.5, 0.0])
