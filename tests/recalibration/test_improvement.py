"""What a recalibration gained: against exact expectations, proposition 4.5, simulation and plain formulas."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import softmax

import calibrant as cal
from calibrant.errors import CalibrantError, UsageError
from calibrant.recalibration import choose, cross_fit, improvement, recalibrator
from calibrant.results.improvement import Gain, Improvement

RNG = np.random.default_rng


def population(points: np.ndarray, truth: np.ndarray, mass: np.ndarray) -> cal.Classification:
    """Every prediction with every label, weighted by its probability: means over rows are expectations."""
    k, classes = points.shape
    labels = np.tile(np.arange(classes), k)
    weights = (mass[:, None] * truth).ravel()
    return cal.Classification.from_probs(np.repeat(points, classes, axis=0), labels, weights=weights)


def divergence(score: str, points: np.ndarray, truth: np.ndarray, mass: np.ndarray) -> float:
    """E d_S(f, P(Y | f)) where predictions that are alike share their rows."""
    _, group = np.unique(points.round(12), axis=0, return_inverse=True)
    group = group.ravel()
    total = 0.0
    for g in range(group.max() + 1):
        rows = group == g
        law = np.average(truth[rows], axis=0, weights=mass[rows])
        p = points[rows][0]
        one = (law * np.log(law / p)).sum() if score == "nll" else ((law - p) ** 2).sum()
        total += mass[rows].sum() * one
    return total


@pytest.fixture
def world():
    rng = RNG(0)
    points = softmax(rng.normal(0.0, 2.0, (6, 3)), axis=1)
    truth = softmax(np.log(points) / 2 + rng.normal(0.0, 0.3, (6, 3)), axis=1)
    return points, truth, rng.dirichlet(np.full(6, 5.0))


# ------------------------------------------------------------------------------------ proposition 4.5
@pytest.mark.parametrize("score", ["nll", "brier"])
def test_the_gain_of_an_injective_map_is_the_fall_of_its_calibration_error(world, score):
    points, truth, mass = world
    mapped = softmax(np.log(points) / 1.7, axis=1)
    found = improvement(population(points, truth, mass), population(mapped, truth, mass), injective=True, sizes=False)
    fall = divergence(score, points, truth, mass) - divergence(score, mapped, truth, mass)
    assert found[score].gain == pytest.approx(fall, abs=1e-12)
    assert abs(found["rbs"].gain - (found["brier"].before ** 0.5 - found["brier"].after ** 0.5)) < 1e-12


@pytest.mark.parametrize("score", ["nll", "brier"])
def test_a_map_that_merges_predictions_gains_less_than_calibration_does(world, score):
    """By as much as sharpness is lost: E d_S(P(Y | merged), P(Y | f))."""
    points, truth, mass = world
    mapped = points.copy()
    mapped[:3] = np.average(truth[:3], axis=0, weights=mass[:3])
    before, after = population(points, truth, mass), population(mapped, truth, mass)
    found = improvement(before, after, injective=False, sizes=False)
    fall = divergence(score, points, truth, mass) - divergence(score, mapped, truth, mass)
    lost = divergence(score, np.array([*mapped[:3], *truth[3:]]) + 1e-9 * np.arange(6)[:, None], truth, mass)
    assert found[score].gain < fall - 1e-3
    assert found[score].gain == pytest.approx(fall - lost, abs=1e-6)
    assert "at most the reduction" in " ".join(found.reading())


def test_words_depend_on_what_is_known(world):
    points, truth, mass = world
    before = population(points, truth, mass)
    after = population(softmax(np.log(points) / 2, axis=1), truth, mass)
    said = {known: " ".join(improvement(before, after, injective=known, sizes=False).reading()) for known in
            (True, False, None)}  # fmt: skip
    assert "CE₂²" in said[True]
    assert "proposition 4.5" in said[True]
    assert "does not say how large" in said[True]
    assert "may lose sharpness" in said[False]
    assert "the map is unknown" in said[None]


def test_predictions_say_themselves_what_made_them():
    rng = RNG(2)
    truth = rng.normal(0.0, 2.0, (400, 4))
    labels = (truth + rng.gumbel(size=(400, 4))).argmax(axis=1)
    several = cal.Classification.from_logits(2 * truth + rng.normal(size=(3, 400, 4)), labels)
    made = {
        how: recalibrator(f"temperature(members={how})").fit(several).transform(several) for how in ("average", "each")
    }
    assert improvement(several, made["average"], sizes=False).map == "injective"
    assert improvement(several, made["each"], sizes=False).map == "several"
    crossed = cross_fit(several, "temperature").predictions
    assert improvement(several, crossed, sizes=False).map == "several"


# ------------------------------------------------------------------------------------------ intervals
def test_intervals_cover_the_expected_gain():
    """300 sets of 200 rows, gains that are skewed; also of the root, by the delta method."""
    rng, covered = RNG(3), {"nll": 0, "rbs": 0}
    a_mean, b_mean = 1.0, 0.7
    for _ in range(300):
        common = rng.gamma(2.0, 0.2, 200)
        a, b = common + rng.exponential(a_mean - 0.4, 200), common + rng.exponential(b_mean - 0.4, 200)
        plain, root = (Gain.of(score, a, b, None, None, 0.95) for score in ("nll", "rbs"))
        covered["nll"] += plain.low <= a_mean - b_mean <= plain.high
        covered["rbs"] += root.low <= a_mean**0.5 - b_mean**0.5 <= root.high
    for count in covered.values():
        assert 300 * 0.95 - 3 * (300 * 0.95 * 0.05) ** 0.5 <= count <= 300


def test_pairing_narrows_the_interval():
    rng = RNG(4)
    a = rng.exponential(1.0, 500)
    paired = Gain.of("nll", a, a - 0.1 + rng.normal(0.0, 0.01, 500), None, None, 0.95)
    apart = Gain.of("nll", a, rng.permutation(a) - 0.1, None, None, 0.95)
    assert paired.high - paired.low < 0.05 * (apart.high - apart.low)
    assert paired.gain == pytest.approx(0.1, abs=0.005)


def test_the_p_value_is_below_a_level_where_the_interval_leaves_out_zero():
    rng = RNG(5)
    for k in range(60):
        gain = Gain.of("nll", rng.exponential(1.0, 30) + 0.02 * k, rng.exponential(1.0, 30), None, None, 0.9)
        assert (gain.p_value < 0.1) == (gain.low > 0 or gain.high < 0)


def test_units_widen_the_interval():
    rng = RNG(6)
    unit = np.repeat(np.arange(40), 10)
    scores = rng.normal(size=(400, 3)) + rng.normal(size=(40, 3))[unit]
    before = cal.Classification.from_logits(3 * scores, rng.integers(0, 3, 40)[unit], columns={"patient": unit})
    after = recalibrator("temperature").fit(before).transform(before)
    rows, by_unit = (improvement(before, after, units=units, sizes=False)["nll"] for units in (None, "patient"))
    assert rows.gain == by_unit.gain
    assert by_unit.high - by_unit.low > 1.3 * (rows.high - rows.low)


def test_nothing_changed():
    same = cal.Classification.from_logits(RNG(7).normal(size=(50, 3)), RNG(8).integers(0, 3, 50))
    found = improvement(same, same.named("again"), sizes=False)
    assert found["nll"].gain == 0.0
    assert np.isnan(found["nll"].low)
    assert found.reading() == ("unchanged: nll, brier, rbs",)


# ------------------------------------------------------------------------------------------- the rest
def test_errors_at_several_sizes_stand_beside_it(tmp_path):
    rng = RNG(9)
    scores = rng.normal(0.0, 2.0, (1500, 5))
    labels = np.array([rng.choice(5, p=row) for row in softmax(scores / 2, axis=1)])
    before = cal.Classification.from_logits(scores, labels)
    after = recalibrator("temperature").fit(before).transform(before)
    found = improvement(before, after, metrics="ece,cwce", sizes=[100, 500], repeats=20)
    curves = found.sizes.improvement
    assert set(curves) == {"rbs", "ece", "cwce"}
    assert found.sizes.sizes == (100, 500, 1500)
    whole = [cal.measure(each, ["ece"])["ece"] for each in (before, after)]
    assert curves["ece"].mean[-1] == pytest.approx(whole[0] - whole[1], abs=1e-12)
    assert "by test set size" in str(found)
    back = Improvement.from_json(json.loads(json.dumps(found.to_json())))
    assert back.to_json() == found.to_json()
    assert str(back) == str(found)
    assert "<table>" in found._repr_html_()


def test_numbers_and_judged_answers():
    rng = RNG(10)
    mean, y = np.zeros(300), rng.normal(0.0, 2.0, 300)
    narrow, wide = (cal.Regression.from_gaussian(mean, np.full(300, std), y) for std in (0.5, 2.0))
    found = improvement(narrow, wide, sizes=False)
    assert list(found.gains) == ["dss", "nll", "crps"]
    assert found["dss"].gain == pytest.approx(2 * found["nll"].gain, rel=1e-9)
    confidence, correct = rng.random(300), rng.random(300) < 0.5
    judged = [cal.Judged.from_confidence(c, correct) for c in (confidence, np.full(300, 0.5))]
    assert improvement(*judged, sizes=False)["brier"].low > 0


def test_an_infinite_loss_is_said_as_such():
    before = cal.Classification.from_probs([[1.0, 0.0], [0.6, 0.4]] * 10, [1, 0] * 10)
    after = cal.Classification.from_probs([[0.6, 0.4], [0.6, 0.4]] * 10, [1, 0] * 10)
    found = improvement(before, after, sizes=False)
    assert np.isinf(found["nll"].before)
    assert found.to_json()["gains"]["nll"]["before"] is None
    assert np.isfinite(found["brier"].gain)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p[:5], "the same number of rows"),
        (lambda p: cal.Classification.from_logits(p.scores, 1 - p.labels), "same labels"),
        (lambda p: cal.Judged.from_confidence(np.full(p.n, 0.5), np.ones(p.n, bool)), "predictions of the same kind"),
    ],
)
def test_other_rows_are_refused(change, said):
    before = cal.Classification.from_logits(RNG(0).normal(size=(20, 2)), RNG(1).integers(0, 2, 20))
    with pytest.raises(CalibrantError, match=said):
        improvement(before, change(before))


def test_improper_scores_are_refused():
    before = cal.Classification.from_logits(RNG(0).normal(size=(20, 2)), RNG(1).integers(0, 2, 20))
    with pytest.raises(UsageError, match="proper scores"):
        improvement(before, before, "ece")
    with pytest.raises(UsageError, match="between 0 and 1"):
        improvement(before, before, level=95)


# ------------------------------------------------------------------------------------------------ steps
def overconfident(n: int = 400) -> cal.Classification:
    rng = RNG(11)
    truth = rng.normal(0.0, 1.5, (n, 3))
    return cal.Classification.from_logits(2 * truth, (truth + rng.gumbel(size=(n, 3))).argmax(axis=1))


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_a_chain_is_as_injective_as_its_steps():
    raw = overconfident()
    binned = recalibrator("histogram").fit(raw).transform(raw)
    both = recalibrator("temperature").fit(binned).transform(binned)
    assert improvement(raw, both, sizes=False).map == "not known to be injective"
    assert improvement(raw, both, sizes=False).method == "histogram, then temperature"
    assert improvement(binned, both, sizes=False).map == "injective"
    assert improvement(binned, both, sizes=False).method == "temperature"


def test_a_gaussian_that_stands_for_a_mixture_is_no_map_of_it():
    rng = RNG(12)
    one, three = (cal.Regression.from_gaussian(rng.normal(size=(m, 200)), np.full((m, 200), 0.5), rng.normal(size=200))
                  for m in (1, 3))  # fmt: skip
    known = [improvement(p, recalibrator("std").fit(p).transform(p), sizes=False).map for p in (one, three)]
    assert known == ["injective", "not known to be injective"]


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_one_member_alone_is_not_several():
    raw = overconfident()
    made = recalibrator("histogram(members=each)").fit(raw).transform(raw)
    assert improvement(raw, made, sizes=False).map == "not known to be injective"


def test_infinite_scores_are_told():
    before = cal.Classification.from_probs([[1.0, 0.0], [0.6, 0.4]] * 10, [1, 0] * 10)
    after = cal.Classification.from_probs([[0.6, 0.4], [0.6, 0.4]] * 10, [1, 0] * 10)
    assert "no longer infinite: nll" in improvement(before, after, sizes=False).reading()[0]
    worse = improvement(after, before, sizes=False).reading()[0]
    assert "now infinite because a label has probability 0: nll" in worse


@pytest.mark.parametrize("levels", [[0.1, 0.3, 0.5, 0.7, 0.9], [0.025, 0.5, 0.975]])
def test_quantiles_are_judged_at_their_own_levels(levels):
    rng = RNG(13)
    y = rng.normal(0.0, 2.0, (2, 400))
    at = np.array([np.quantile(rng.normal(size=100_000), level) for level in levels])
    fit, test = (cal.Regression.from_quantiles(np.tile(at, (400, 1)), levels, each) for each in y)
    done = cal.recalibrate(fit, test, "levels")
    assert list(done.improvement.gains) == ["pinball"]
    np.testing.assert_array_equal(done.predictions.levels, levels)
    assert choose(fit).score == "pinball"


def test_rbs_may_be_named():
    raw = overconfident()
    assert list(improvement(raw, raw, "rbs", sizes=False).gains) == ["rbs"]
