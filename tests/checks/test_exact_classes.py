"""Computed laws of classification against enumeration of all labels, and against labels drawn in NumPy."""

import itertools
from functools import partial

import numpy as np
import pytest
from checks.engines import computed

from calibrant.calibration.binning import assign
from calibrant.checks import exact_binned as exact_gaps
from calibrant.checks.exact_classes import ExactClasses
from calibrant.checks.plan import Targets
from calibrant.checks.statistics import Statistic, statistics_of
from calibrant.predictions import Classification, Judged
from calibrant.results.check import BAYESIAN, INDEPENDENT

READINGS = [BAYESIAN, INDEPENDENT]
laws = partial(computed, ExactClasses)


def law(predictions, spec, reading=BAYESIAN, **how):
    (found,) = laws(predictions, [spec], reading, **how)[0].values()
    return found


def probabilities(members, rows, classes, seed=0, sharp=1.5):
    rng = np.random.default_rng(seed)
    z = sharp * rng.standard_normal((rows, classes)) + 0.8 * rng.standard_normal((members, rows, classes))
    p = np.exp(z)
    p /= p.sum(axis=2, keepdims=True)
    return p, rng.integers(0, classes, rows)


def readers(p, reading):
    """What labels are drawn from: each member, or the average."""
    return p if reading == BAYESIAN else p.mean(axis=0, keepdims=True)


def norm_of_gaps(hits, confidence, place, power):
    """Of hits (K, N), in plain NumPy."""
    n = hits.shape[1]
    shares, gaps = [], []
    for b in np.unique(place):
        inside = place == b
        shares.append(inside.mean())
        gaps.append(np.abs(hits[:, inside].mean(axis=1) - confidence[inside].mean()))
    assert sum(shares) * n == pytest.approx(n)
    if np.isinf(power):
        return np.max(gaps, axis=0)
    return (np.array(shares)[:, None] * np.array(gaps) ** power).sum(axis=0) ** (1 / power)


def agree(law, values, probability, atol=1e-9):
    """P(< v) and P(≤ v) at every value that is possible."""
    assert (np.diff(law.values) > 0).all()
    assert law.probability.sum() == pytest.approx(1, abs=1e-12)
    for v in np.unique(np.round(values, 10)):
        for edge in (v - 1e-9, v + 1e-9):
            expected = probability[values < edge].sum()
            assert law.probability[law.values < edge].sum() == pytest.approx(expected, abs=atol)


def all_hits(n):
    return np.array(list(itertools.product((0, 1), repeat=n)))


def chance_of(hits, chances):
    """The mixture over members of the probability of each row of hits."""
    return np.mean([np.where(hits == 1, c, 1 - c).prod(axis=1) for c in chances], axis=0)


def top(p):
    mean = p.mean(axis=0)
    predicted = mean.argmax(axis=1)
    rows = np.arange(len(predicted))
    return predicted, mean.max(axis=1), lambda q: q[:, rows, predicted]


# ------------------------------------------------------------------------------------------ counts
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("n", [1, 2, 10])
def test_accuracy_by_enumeration(n, members, reading):
    p, labels = probabilities(members, n, 3, seed=n)
    predicted, _, chosen = top(p)
    hits = all_hits(n)
    found = law(Classification.from_probs(p, labels), "accuracy", reading)
    agree(found, hits.mean(axis=1), chance_of(hits, chosen(readers(p, reading))))
    assert found.observed == (predicted == labels).mean()
    assert found.observed in found.values


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
def test_class_frequency_and_confusion_by_enumeration(kind, reading):
    n, classes = 9, 3
    p, labels = probabilities(3, n, classes, seed=4)
    scores = {"logits": np.log(p) + 2.0, "log_probs": np.log(p), "probs": p}[kind]
    predictions = Classification.build(kind, scores, labels)
    predicted, _, _ = top(p)
    found = laws(predictions, ["class_frequency", "confusion"], reading)[0]
    assert len(found) == classes + classes**2
    is_class = all_hits(n)
    for k in range(classes):
        chance = chance_of(is_class, readers(p, reading)[:, :, k])
        mine = found[f"class_frequency(of={k})"]
        agree(mine, is_class.mean(axis=1), chance)
        assert mine.observed == (labels == k).mean()
        for j in range(classes):
            cell = found[f"confusion(true={k},predicted={j})"]
            agree(cell, (is_class * (predicted == j)).mean(axis=1), chance)
            assert cell.observed == ((labels == k) & (predicted == j)).mean()
            assert cell.observed in cell.values


# -------------------------------------------------------------------------------------------- gaps
NORMS = [("ece", 1), ("ece(norm=l2)", 2), ("mce", np.inf), ("ece(norm=max)", np.inf), ("tce(p=3)", 3), ("tce(p=1)", 1)]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize(("spec", "power"), NORMS)
def test_norms_of_gaps_by_enumeration(spec, power, binning, reading):
    n = 11
    p, labels = probabilities(3, n, 4, seed=1)
    predicted, confidence, chosen = top(p)
    options = f"bins=4,binning={binning}"
    spec = spec[:-1] + f",{options})" if "(" in spec else f"{spec}({options})"
    found = law(Classification.from_probs(p, labels), spec, reading)
    place, _ = assign(confidence, 4, binning)
    hits = all_hits(n)
    agree(found, norm_of_gaps(hits, confidence, place, power), chance_of(hits, chosen(readers(p, reading))))
    seen = norm_of_gaps((predicted == labels)[None], confidence, place, power)[0]
    assert found.observed == pytest.approx(seen, rel=1e-12)
    assert found.observed in found.values
    assert found.error == 0


def drawn_hits(chances, draws, seed):
    rng = np.random.default_rng(seed)
    source = rng.integers(0, len(chances), draws)
    return rng.random((draws, chances.shape[1])) < chances[source]


def near_quantiles(found, drawn):
    """The share of drawn values up to each quantile of the law, within five standard errors and its own error."""
    below = found.probability.cumsum()
    assert found.error <= 1e-3
    for level in (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99):
        at = np.searchsorted(below, level)
        share = (drawn <= found.values[at] * (1 + 1e-12)).mean()
        assert share == pytest.approx(below[at], abs=5 * np.sqrt(level * (1 - level) / len(drawn)) + found.error)


@pytest.mark.parametrize("reading", READINGS)
def test_laws_of_many_rows_are_those_of_drawn_labels(reading):
    p, labels = probabilities(4, 600, 5, seed=2)
    predicted, confidence, chosen = top(p)
    hits = drawn_hits(chosen(readers(p, reading)), 20_000, seed=3)
    found = laws(
        Classification.from_probs(p, labels), ["ece", "ece(norm=l2,binning=mass)", "tce(p=3)", "mce"], reading
    )[0]
    for (spec, mine), power in zip(found.items(), (1, 2, 3, np.inf), strict=True):
        place, _ = assign(confidence, 15, "mass" if "mass" in spec else "width")
        near_quantiles(mine, norm_of_gaps(hits, confidence, place, power))
        seen = norm_of_gaps((predicted == labels)[None], confidence, place, power)[0]
        assert mine.observed == pytest.approx(seen, rel=1e-12)


@pytest.mark.parametrize(("power", "most"), [(1.0, 0.01), (2.0, 0.002), (4.0, 0.05)])
def test_a_grid_is_as_near_to_the_listed_values_as_it_says(power, most, monkeypatch):
    p, _ = probabilities(2, 600, 3, seed=5)
    _, confidence, chosen = top(p)
    hit = drawn_hits(chosen(p[:1]), 1, seed=5)[0].astype(float)
    hits = exact_gaps.BinnedHits.of(confidence, hit, chosen(p), 3, "mass")
    listed = exact_gaps.gap_law(hits, power)
    assert listed.method == "exact"
    monkeypatch.setattr(exact_gaps, "ENTROPY_LISTED", -1.0)
    grid = exact_gaps.gap_law(hits, power)
    assert grid.method == "convolution"
    assert 0 < grid.error < most
    at = np.interp(np.linspace(0.005, 0.995, 199), listed.probability.cumsum(), listed.values)
    gap = [grid.probability[grid.values < v].sum() - listed.probability[listed.values < v].sum() for v in at]
    assert np.abs(gap).max() <= grid.error
    below = grid.probability[grid.values < grid.observed].sum()
    tied = listed.probability[listed.values == listed.observed].sum()
    assert below == pytest.approx(listed.probability[listed.values < listed.observed].sum() + tied / 2, abs=grid.error)


# ------------------------------------------------------------------------------------------ scores
def enumerated_moments(p, q, score):
    """Mean, standard deviation and skewness of the mean score over all C^N labels, by each reader in q."""
    n, classes = p.shape[1:]
    mean = p.mean(axis=0)
    table = -np.log(mean) if score == "nll" else (mean**2).sum(axis=1, keepdims=True) + 1 - 2 * mean
    labels = np.array(list(itertools.product(range(classes), repeat=n)))
    values = table[np.arange(n), labels].mean(axis=1)
    out = []
    for reader in q:
        weight = reader[np.arange(n), labels].prod(axis=1)
        centre = (weight * values).sum()
        sd = np.sqrt((weight * (values - centre) ** 2).sum())
        out.append((centre, sd, (weight * (values - centre) ** 3).sum() / sd**3))
    return np.array(out).T


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
@pytest.mark.parametrize("members", [1, 3])
def test_moments_by_enumeration(members, kind, reading):
    p, labels = probabilities(members, 7, 3, seed=6)
    scores = {"logits": np.log(p) - 1.0, "log_probs": np.log(p), "probs": p}[kind]
    found = laws(Classification.build(kind, scores, labels), ["nll", "brier", "brier(per_class=true)"], reading)[0]
    for score in ("nll", "brier"):
        expected = enumerated_moments(p, readers(p, reading), score)
        mine = found[score]
        np.testing.assert_allclose([mine.mean, mine.sd, mine.skewness], expected, rtol=1e-7)
    assert found["nll"].observed == pytest.approx(-np.log(p.mean(axis=0)[np.arange(7), labels]).mean())
    per_class = found["brier(per_class=true)"]
    for name in ("observed", "mean", "sd"):
        np.testing.assert_allclose(getattr(per_class, name), getattr(found["brier"], name) / 3)
    np.testing.assert_allclose(per_class.skewness, found["brier"].skewness)


def moments_in_numpy(p, q, weights):
    """The same from sums over rows and classes."""
    mean = p.mean(axis=0)
    share = weights / weights.sum()
    out = {}
    for name, s in (("nll", -np.log(mean)), ("brier", (mean**2).sum(axis=1, keepdims=True) + 1 - 2 * mean)):
        centre = (q * s).sum(axis=2)
        off = s - centre[..., None]
        variance = (share**2 * (q * off**2).sum(axis=2)).sum(axis=1)
        third = (share**3 * (q * off**3).sum(axis=2)).sum(axis=1)
        out[name] = ((share * centre).sum(axis=1), np.sqrt(variance), third / variance**1.5)
    return out


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 10, 47, 48, 100])
def test_moments_of_any_width_type_and_weights(classes, dtype, reading):
    rng = np.random.default_rng(classes)
    logits = (3 * rng.standard_normal((3, 140, classes))).astype(dtype)
    labels, weights = rng.integers(0, classes, 140), rng.integers(0, 3, 140).astype(float)
    predictions = Classification.from_logits(logits, labels, weights=weights)
    wide = np.exp(logits.astype(np.float64))
    p = wide / wide.sum(axis=2, keepdims=True)
    found = laws(predictions, ["nll", "brier"], reading)[0]
    for name, expected in moments_in_numpy(p, readers(p, reading), weights).items():
        mine = found[name]
        rtol = 1e-8 if dtype == np.float64 else 2e-5
        np.testing.assert_allclose([mine.mean, mine.sd, mine.skewness], expected, rtol=rtol)
    seen = -np.log(p.mean(axis=0)[np.arange(140), labels])
    assert found["nll"].observed == pytest.approx((weights * seen).sum() / weights.sum(), rel=1e-5)


# --------------------------------------------------------------------------- binary, judged, degenerate
@pytest.mark.parametrize("reading", READINGS)
def test_judged_answers_and_binary_problems_say_the_same(reading):
    rng = np.random.default_rng(7)
    p, right = rng.uniform(0.5, 1, (3, 50)), rng.random(50) < 0.7
    specs = ["accuracy", "ece", "nll", "brier"]
    judged = laws(Judged.from_confidence(p, right), specs, reading)[0]
    binary = laws(Classification.from_probs(p[..., None], right.astype(int)), specs, reading)[0]
    for key in specs:
        assert judged[key].observed == pytest.approx(binary[key].observed, rel=1e-12)
    for key in ("accuracy", "ece"):
        np.testing.assert_allclose(judged[key].values, binary[key].values, rtol=1e-9)
        np.testing.assert_allclose(judged[key].probability, binary[key].probability, atol=1e-9)
    for key in ("nll", "brier"):
        np.testing.assert_allclose(judged[key].mean, binary[key].mean, rtol=1e-9)
        np.testing.assert_allclose(judged[key].skewness, binary[key].skewness, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("members", [1, 3, 7])
@pytest.mark.parametrize("n", [1, 70])
def test_where_nothing_is_in_doubt_the_law_is_one_value(n, members, dtype):
    labels = np.arange(n) % 3
    p = np.broadcast_to(np.eye(3, dtype=dtype)[labels], (members, n, 3))
    for predictions in (Classification.from_probs(p, labels), Classification.from_logits(300 * p, labels)):
        for reading in READINGS:
            found = laws(predictions, ["accuracy", "ece", "ece(norm=l2)", "mce", "nll", "brier"], reading)[0]
            for key in ("accuracy", "ece", "ece(norm=l2)", "mce"):
                assert found[key].values.tolist() == [found[key].observed]
            for key in ("nll", "brier"):
                assert (found[key].mean == found[key].observed).all()
                assert (found[key].sd == 0).all()


def test_a_label_that_was_thought_impossible_is_an_infinite_score():
    p = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    found = laws(Classification.from_probs(p, [1, 0]), ["nll"])[0]["nll"]
    assert found.observed == np.inf
    assert np.isfinite([found.mean, found.sd, found.skewness]).all()


def test_what_is_not_taken():
    p, labels = probabilities(2, 5, 3)
    predictions = Classification.from_probs(p, labels)
    weighted = Classification.from_probs(p, labels, weights=np.ones(5))
    soft = Classification.from_probs(p, label_probs=p[0]).with_soft_labels()
    for spec in ("entropy", "rbs", "nll(clip=0.01)", "tce(debias=true)", "tce(p=9)", "cwce"):
        assert not ExactClasses.supports(statistics_of(spec, predictions)[0], predictions)
    for spec in ("accuracy", "ece", "confusion(true=0,predicted=1)"):
        assert not ExactClasses.supports(statistics_of(spec, weighted)[0], weighted)
    assert not ExactClasses.supports(statistics_of("nll", soft)[0], soft)
    own = Statistic(lambda y, predictions: 0.0, name="confusion", vectorised=True)
    assert not ExactClasses.supports(own, predictions)


# ------------------------------------------------------------------------------------ blocks and targets
def same_bits(one, other):
    assert one.keys() == other.keys()
    for key, mine in one.items():
        for name, value in vars(mine).items():
            np.testing.assert_array_equal(value, getattr(other[key], name), err_msg=f"{key}: {name}")


EVERY = ["accuracy", "ece", "mce", "tce(p=3,binning=mass)", "nll", "brier", "class_frequency", "confusion(true=1)"]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("classes", [4, 60])
def test_blocks_and_threads_change_no_bit(classes, reading):
    p, labels = probabilities(3, 300 if classes == 4 else 6000, classes, seed=8)
    specs = EVERY if classes == 4 else ["nll", "brier", "accuracy"]
    predictions = Classification.from_probs(p.astype(np.float32), labels)
    cells = np.arange(len(labels)) % 3
    targets = Targets(3, (np.arange(3), np.array([0]), np.array([1, 2])))
    whole = laws(predictions, specs, reading, cells=cells, targets=targets)
    cut = laws(predictions, specs, reading, cells=cells, targets=targets, block=len(labels) // 4 - 3, threads=3)
    for one, other in zip(whole, cut, strict=True):
        same_bits(one, other)


@pytest.mark.parametrize("reading", READINGS)
def test_targets_are_laws_of_their_own_rows(reading):
    p, labels = probabilities(3, 130, 4, seed=9)
    predictions = Classification.from_probs(p, labels)
    cells = np.random.default_rng(0).integers(0, 4, 130)
    targets = Targets(6, (np.arange(6), np.array([1]), np.array([0, 3]), np.array([5])))
    found = laws(predictions, EVERY, reading, cells=cells, targets=targets)
    for part, mine in zip(targets.parts[:3], found[:3], strict=True):
        same_bits(mine, laws(predictions[np.isin(cells, part)], EVERY, reading)[0])
    for empty in found[3].values():
        assert np.isnan(empty.observed)


def test_rows_without_weight_say_nothing():
    p, labels = probabilities(2, 40, 3, seed=10)
    weights = (np.arange(40) < 25).astype(float)
    predictions = Classification.from_probs(p, labels, weights=weights)
    targets = Targets(2, (np.arange(2), np.array([1])))
    whole, none = laws(predictions, ["nll", "brier"], cells=(weights == 0).astype(np.int64), targets=targets)
    alone = laws(Classification.from_probs(p[:, :25], labels[:25]), ["nll", "brier"])[0]
    for key, mine in whole.items():
        np.testing.assert_allclose(mine.mean, alone[key].mean, rtol=1e-12)
        np.testing.assert_allclose(mine.skewness, alone[key].skewness, rtol=1e-9)
        assert np.isnan(none[key].observed)
        assert np.isnan(none[key].mean).all()
