"""Replicates of classifiers against the rule written out row by row, and against the metrics themselves."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import calibrant as cal
from calibrant.checks.class_replicates import ClassReplicates
from calibrant.checks.draws import draw_labels
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.statistics import Statistic, statistics_of
from calibrant.kernels.philox import words
from calibrant.kernels.rows import rows_of

SPECS = ["accuracy", "ece", "mce", "tce(p=3)", "ece(bins=7,norm=l2)", "nll", "brier", "rbs", "brier(per_class=true)"]
MASS = ["ece(bins=5,binning=mass)", "mce(bins=4,binning=mass)"]
OWN = ["class_frequency(of=1)", "confusion(true=0,predicted=1)", "entropy"]


def dyadic(members, n, classes, seed=0, parts=64):
    """Probabilities that are multiples of 1/64, zeros among them: every sum and mean of them is exact."""
    rng = np.random.default_rng(seed)
    p = rng.multinomial(parts, rng.dirichlet(np.full(classes, 0.5), (members, n))) / parts
    return p, rng.integers(0, classes, n)


def laws(predictions, wanted, plan, targets=None, cells=None, cuts=()):
    """Every law of each target, with the rows in blocks that end at `cuts`."""
    targets = targets or Targets()
    cells = np.zeros(predictions.n, np.int64) if cells is None else cells
    engine = ClassReplicates(statistics_of(wanted, predictions), predictions, plan, targets)
    edges = [0, *cuts, predictions.n]
    for first, last in itertools.pairwise(edges):
        block = predictions[first:last]
        rows = rows_of(block, engine.required_columns, threads=plan.threads)
        engine.add(block, rows, cells[first:last], first)
    return engine.laws()


def same(mine, other):
    return all(
        np.array_equal([a[key].observed, *a[key].values], [b[key].observed, *b[key].values], equal_nan=True)
        for a, b in zip(mine, other, strict=True)
        for key in a
    )


# ------------------------------------------------------------------------------------ the rule, row by row
def label_by_rule(word, p, k):
    """The label of one row: whole shares of 2³¹ in turn, first the predicted class, then the others in order."""
    word >>= 1
    limit = math.floor(p[k] * 2**31)
    if word < limit:
        return k
    others = [c for c in range(len(p)) if c != k and math.floor(p[c] * 2**31) > 0]
    for c in others:
        limit += math.floor(p[c] * 2**31)
        if word < limit:
            return c
    return others[-1]


def labels_by_rule(p, plan, first=0):
    """Labels (R, N) of predictions (M, N, C) that are exact."""
    mean, (_, n, _) = p.mean(axis=0), p.shape
    drawn = words_of(plan, n, first)
    drawing = p[plan.source] if plan.reading == "bayesian" else np.broadcast_to(mean, (plan.draws, *mean.shape))
    k = mean.argmax(axis=1)
    return np.array(
        [[label_by_rule(int(drawn[r, i]), drawing[r, i], k[i]) for i in range(n)] for r in range(plan.draws)]
    )


def words_of(plan, n, first=0):
    return np.stack([words(plan.seed, plan.purpose, r, n, first) for r in range(plan.draws)])


@pytest.mark.parametrize("reading", ["bayesian", "independent"])
@pytest.mark.parametrize("classes", [2, 5, 60])
@pytest.mark.parametrize(("members", "dtype"), [(1, np.float64), (4, np.float32)])
def test_labels_follow_the_rule(reading, classes, members, dtype):
    p, y = dyadic(members, 23, classes)
    predictions = cal.Classification.from_probs(p.astype(dtype), y)
    plan = Plan(reading, 37, 5, members)
    drawn = draw_labels(predictions, rows_of(predictions), plan, np.arange(37), 6)
    assert (drawn == labels_by_rule(p, plan, 6)).all()
    some = np.array([30, 2, 7])
    assert (draw_labels(predictions, rows_of(predictions), plan, some, 6) == drawn[some]).all()


@pytest.mark.parametrize("reading", ["bayesian", "independent"])
@pytest.mark.parametrize("classes", [3, 60])
def test_every_statistic_is_that_of_the_labels_drawn(reading, classes):
    p, y = dyadic(4, 40, classes, seed=1)
    predictions = cal.Classification.from_probs(p, y)
    plan = Plan(reading, 21, 9, 4)
    drawn, mean = labels_by_rule(p, plan), predictions.average()
    found = laws(predictions, [*SPECS, *MASS, *OWN], plan)[0]
    for statistic in statistics_of([*SPECS, *MASS, *OWN], predictions):
        for r in (0, 7, 20):
            relabelled = cal.Classification.from_probs(mean.scores[0], drawn[r])
            if statistic.spec is None:
                value = statistic.function(drawn[r], relabelled)
            else:
                value = cal.measure(relabelled, [statistic.key])[statistic.key]
            assert found[statistic.key].values[r] == pytest.approx(float(value), abs=1e-6), statistic.key


def test_hits_of_bins_are_those_of_the_labels_to_the_bit():
    p, y = dyadic(4, 200, 3, seed=2)
    predictions, plan = cal.Classification.from_probs(p, y), Plan("bayesian", 50, 1, 4)
    found, mean = laws(predictions, ["accuracy", "ece(bins=8)"], plan)[0], p.mean(axis=0)
    confidence, hit = mean.max(axis=1), labels_by_rule(p, plan) == mean.argmax(axis=1)
    place = np.clip(np.ceil(confidence * 8) - 1, 0, 7)
    # 64ths of whole numbers: exact until the division by 200
    gaps = np.stack([np.where(place == b, hit - confidence, 0.0).sum(axis=1) for b in range(8)], axis=1)
    assert (found["accuracy"].values == hit.mean(axis=1)).all()
    assert (found["ece(bins=8)"].values == np.abs(gaps / 200).sum(axis=1)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [10, 70])
def test_labels_of_logits_follow_their_softmax(dtype, classes):
    """Away from the ends of the shares, which another exp may put elsewhere, labels are those of exact arithmetic."""
    rng = np.random.default_rng(3)
    z = (2 * rng.standard_normal((3, 50, classes))).astype(dtype)
    predictions = cal.Classification.from_logits(z, rng.integers(0, classes, 50))
    plan, rows = Plan("bayesian", 64, 2, 3), rows_of(predictions)
    drawn = draw_labels(predictions, rows, plan, np.arange(64), 0)
    e = np.exp(z.astype(np.float64) - z.max(axis=2, keepdims=True))
    p, word = e / e.sum(axis=2, keepdims=True), words_of(plan, 50) / 2.0**32
    checked = 0
    for r in range(64):
        for i in range(50):
            k = rows.predicted[i]
            order = [k, *(c for c in range(classes) if c != k)]
            ends = np.cumsum(p[plan.source[r], i, order])
            if np.abs(ends - word[r, i]).min() > (1e-5 if dtype == np.float32 else 1e-7):
                checked += 1
                assert drawn[r, i] == order[int(np.searchsorted(ends, word[r, i]))]
    assert checked > 3000


@pytest.mark.parametrize("classes", [3, 10, 60, 1000])
@pytest.mark.parametrize("reading", ["bayesian", "independent"])
def test_labels_come_as_often_as_their_probabilities_say(classes, reading):
    rng = np.random.default_rng(4)
    z = rng.standard_normal((2, 3, classes)).astype(np.float32) * 1.5
    predictions = cal.Classification.from_logits(z, [0, 1, 2])
    plan = Plan(reading, 200_000 if classes == 1000 else 40_000, 8, 2, threads=1)
    drawn = draw_labels(predictions, rows_of(predictions), plan, np.arange(plan.draws), 1)
    e = np.exp(z.astype(np.float64))
    p = e / e.sum(axis=2, keepdims=True)
    groups = [(plan.source == m, p[m]) for m in range(2)] if reading == "bayesian" else [(slice(None), p.mean(axis=0))]
    for which, law in groups:
        for i in range(3):
            seen = np.bincount(drawn[which, i], minlength=classes)
            kept = law[i] * seen.sum() >= 5
            seen, law_i = np.append(seen[kept], seen[~kept].sum()), np.append(law[i][kept], law[i][~kept].sum())
            some = law_i > 0
            assert stats.chisquare(seen[some], law_i[some] * seen.sum()).pvalue > 1e-3


# ------------------------------------------------------------------------------------------ certainty
@pytest.mark.parametrize("classes", [2, 60])
@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("reading", ["bayesian", "independent"])
def test_certain_rows_always_hit_and_impossible_labels_never_come(classes, kind, reading):
    rng = np.random.default_rng(5)
    p = np.zeros((3, 40, classes), np.float32)
    p[:, np.arange(40), rng.integers(0, classes, 40)] = 1.0
    scores = p
    if kind == "logits":
        scores = np.where(p > 0, 3.0, -np.inf).astype(np.float32)
    predictions = cal.Classification.build(kind, scores, p[0].argmax(axis=1))
    found = laws(predictions, ["accuracy", "nll", "brier", "ece"], Plan(reading, 500, 0, 3))[0]
    assert (found["accuracy"].values == 1.0).all()
    for key in ("nll", "brier", "ece"):
        assert np.abs(found[key].values).max() < 1e-6
        assert found[key].observed == found[key].values[0]


def test_a_member_that_excludes_the_predicted_class_never_draws_it():
    p = np.array([[[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]], [[0.5, 0.0, 0.5]]])
    predictions, plan = cal.Classification.from_probs(p, [0]), Plan("bayesian", 400, 0, 4)
    drawn = draw_labels(predictions, rows_of(predictions), plan, np.arange(400), 0)[:, 0]
    assert (drawn[plan.source == 0] == 1).all()
    assert (drawn[(plan.source == 1) | (plan.source == 2)] == 0).all()
    assert set(drawn[plan.source == 3]) == {0, 2}


def test_shares_too_small_for_a_word_go_to_the_most_probable_other_class():
    """Three thousand classes of less than 2⁻³¹ each: a miss is one of them, and its score is finite."""
    z = np.full((1, 4, 3001), -8.0 - np.log(3000) - 8.0)
    z[..., 5], z[..., 7] = 0.0, z[0, 0, 0] + 0.1
    predictions, plan = cal.Classification.from_logits(z[0], [5] * 4), Plan("bayesian", 10, 0, 1)
    assert np.exp(z[0, 0, 7]) < 2.0**-31
    drawn = draw_labels(predictions, rows_of(predictions), plan, np.arange(10), 0)
    assert set(np.unique(drawn)) <= {5, 7}
    assert np.isfinite(laws(predictions, "nll", plan)[0]["nll"].values).all()


# ------------------------------------------------------------------------------- blocks, threads, inputs
@pytest.mark.parametrize("kind", ["probs", "log_probs", "logits", "one number", "16 bits"])
@pytest.mark.parametrize("reading", ["bayesian", "independent"])
def test_blocks_and_threads_change_no_bit(kind, reading):
    rng = np.random.default_rng(6)
    n, members = 2001, 3
    z = rng.standard_normal((members, n, 4))
    if kind == "probs":
        z = np.exp(z) / np.exp(z).sum(axis=2, keepdims=True)
    elif kind == "log_probs":
        z = (z - np.logaddexp.reduce(z, axis=2, keepdims=True)).astype(np.float32)
    elif kind == "one number":
        z = z[:, :, :1]
    elif kind == "16 bits":
        z = z.astype(np.float16)
    name = kind if kind in ("probs", "log_probs") else "logits"
    weights = None if kind == "probs" else rng.random(n)
    predictions = cal.Classification.build(name, z, rng.integers(0, 2, n), weights=weights)
    targets = Targets(3, (np.arange(3), np.array([1]), np.array([0, 2])))
    cells, wanted = rng.integers(0, 3, n), [*SPECS, *MASS, *OWN]
    whole = laws(predictions, wanted, Plan(reading, 600, 2, members, threads=1), targets, cells)
    assert same(whole, laws(predictions, wanted, Plan(reading, 600, 2, members, threads=2), targets, cells))
    cut = laws(predictions, wanted, Plan(reading, 600, 2, members, threads=2), targets, cells, (1, 6, 999, 1000))
    assert same(whole, cut)


@pytest.mark.parametrize("task", ["classification", "judged"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("members", [1, 3])
def test_observed_values_are_the_metrics(task, weighted, members):
    rng = np.random.default_rng(7)
    weights = rng.integers(0, 4, 500) if weighted else None
    if task == "judged":
        predictions = cal.Judged.from_confidence(rng.random((members, 500)), rng.random(500) < 0.5, weights=weights)
    else:
        z = rng.standard_normal((members, 500, 5)).astype(np.float32)
        predictions = cal.Classification.from_logits(z, rng.integers(0, 5, 500), weights=weights)
    cells = rng.integers(0, 4, 500)
    targets = Targets(4, (np.arange(4), np.array([2]), np.array([0, 3])))
    found = laws(predictions, [*SPECS, *MASS], Plan("bayesian", 5, 0, members), targets, cells)
    for part, law in zip(targets.parts, found, strict=True):
        measured = cal.measure(predictions[np.isin(cells, part)], [*SPECS, *MASS])
        for key in (*SPECS, *MASS):
            assert law[key].observed == pytest.approx(measured[key], abs=1e-6), key


def test_targets_are_checked_as_if_alone():
    p, y = dyadic(2, 300, 3, seed=8)
    predictions, plan = cal.Classification.from_probs(p, y), Plan("bayesian", 30, 4, 2)
    cells = np.repeat([0, 1, 2], [100, 120, 80])
    targets = Targets(3, (np.arange(3), np.array([1]), np.array([0, 1])))
    found = laws(predictions, [*SPECS, *MASS, *OWN], plan, targets, cells)
    weighted = cal.Classification.from_probs(p, y, weights=(cells == 1).astype(float))
    alone = laws(weighted, [*SPECS, *MASS, *OWN], plan)
    for key, law in found[1].items():
        assert np.abs(law.values - alone[0][key].values).max() < 1e-9
        assert law.observed == pytest.approx(alone[0][key].observed, abs=1e-9)


def test_whole_weights_count_a_row_as_often():
    p, y = dyadic(4, 60, 3, seed=9)
    weights = np.random.default_rng(0).integers(0, 5, 60)
    predictions, plan = cal.Classification.from_probs(p, y, weights=weights), Plan("bayesian", 25, 4, 4)
    found, k = laws(predictions, ["accuracy", "class_frequency(of=1)", "brier"], plan)[0], p.mean(axis=0).argmax(axis=1)
    drawn, mean = labels_by_rule(p, plan), p.mean(axis=0)
    again = np.repeat(np.arange(60), weights)
    assert (found["accuracy"].values == (drawn == k)[:, again].mean(axis=1)).all()
    assert (found["class_frequency(of=1)"].values == (drawn == 1)[:, again].mean(axis=1)).all()
    brier = (mean**2).sum(axis=1) - 2 * mean[np.arange(60), drawn] + 1
    assert found["brier"].values == pytest.approx(brier[:, again].mean(axis=1), abs=1e-6)


def test_many_bins_are_drawn_a_few_replicates_at_a_time(monkeypatch):
    p, y = dyadic(2, 300, 3, seed=10)
    predictions, plan = cal.Classification.from_probs(p, y), Plan("bayesian", 60, 4, 2)
    wanted = ["ece(bins=40)", "ece(bins=9,binning=mass)", "accuracy"]
    before = laws(predictions, wanted, plan)
    monkeypatch.setattr("calibrant.checks.class_replicates.TABLE", 300)
    assert same(before, laws(predictions, wanted, plan))


# --------------------------------------------------------------------------------------- degenerate rows
def test_an_impossible_label_makes_the_observed_log_score_infinite_and_no_other():
    p = np.array([[0.5, 0.5, 0.0], [0.75, 0.25, 0.0], [0.0, 0.5, 0.5]])
    predictions = cal.Classification.from_probs(p, [2, 0, 1])
    found = laws(predictions, ["nll", "brier"], Plan("bayesian", 200, 0, 1))[0]
    assert found["nll"].observed == math.inf
    assert np.isfinite(found["nll"].values).all()
    assert found["brier"].observed == pytest.approx(cal.measure(predictions, ["brier"])["brier"], abs=1e-6)


def test_a_label_of_hardly_any_probability_keeps_its_log_score():
    z = np.array([[0.0, -500.0], [0.0, -30.0], [1.0, 0.0]])
    for dtype in (np.float32, np.float64):
        predictions = cal.Classification.from_logits(z.astype(dtype), [1, 1, 0])
        found = laws(predictions, ["nll"], Plan("bayesian", 50, 0, 1))[0]["nll"]
        assert found.observed == pytest.approx(cal.measure(predictions, ["nll"])["nll"], rel=1e-6)


def test_an_infinite_score_without_weight_counts_nowhere():
    p = np.array([[1.0, 0.0], [0.75, 0.25]])
    predictions = cal.Classification.from_probs(p, [1, 0], weights=[0.0, 2.0])
    found = laws(predictions, ["nll", "accuracy"], Plan("bayesian", 9, 0, 1))[0]
    assert found["nll"].observed == pytest.approx(-math.log(0.75), abs=1e-6)
    assert set(found["accuracy"].values) <= {0.0, 1.0}


def test_a_target_without_weight_has_no_values():
    p, y = dyadic(1, 20, 3)
    predictions = cal.Classification.from_probs(p, y, weights=np.repeat([1.0, 0.0], 10))
    targets = Targets(3, (np.arange(3), np.array([1]), np.array([2])))
    found = laws(predictions, [*SPECS, *MASS, *OWN], Plan("bayesian", 4, 0, 1), targets, np.repeat([0, 1], 10))
    for law in found[1:]:
        assert all(np.isnan([one.observed, *one.values]).all() for one in law.values())
    assert all(np.isfinite([one.observed, *one.values]).all() for key, one in found[0].items() if key != "nll")


@pytest.mark.parametrize("reading", ["bayesian", "independent"])
def test_judged_answers_are_right_as_often_as_said(reading):
    confidence = np.random.default_rng(11).random((2, 30)).astype(np.float32)
    confidence[:, 0], confidence[:, 1] = 1.0, 0.0
    predictions = cal.Judged.from_confidence(confidence, np.arange(30) % 2 == 0)
    plan, rows = Plan(reading, 4000, 3, 2), rows_of(predictions)
    right = draw_labels(predictions, rows, plan, np.arange(4000), 10)
    assert right.dtype == bool
    assert right[:, 0].all()
    assert not right[:, 1].any()
    mean = confidence.astype(np.float64).mean(axis=0)
    spread = np.sqrt(mean * (1 - mean) / 4000) + 1e-12
    assert (np.abs(right.mean(axis=0) - mean) / spread).max() < 4.5
    found = laws(predictions, ["accuracy", "nll", "brier"], plan)[0]
    drawn = draw_labels(predictions, rows, plan, np.arange(4000), 0)
    assert (found["accuracy"].values == drawn.mean(axis=1)).all()
    p_label = np.where(drawn, mean, 1 - mean)
    assert found["nll"].values == pytest.approx(-np.log(p_label).mean(axis=1), abs=1e-6)
    assert found["brier"].values == pytest.approx(2 * ((1 - p_label) ** 2).mean(axis=1), abs=1e-6)


def test_one_row_and_one_replicate():
    predictions = cal.Classification.from_probs([[0.25, 0.75]], [0])
    found = laws(predictions, [*SPECS, *MASS, *OWN], Plan("bayesian", 1, 0, 1))[0]
    assert all(len(law.values) == 1 for law in found.values())
    assert found["accuracy"].observed == 0.0


# -------------------------------------------------------------------------------------------- what it takes
def test_what_the_engine_takes():
    rng = np.random.default_rng(0)
    hard = cal.Classification.from_logits(rng.standard_normal((9, 3)), rng.integers(0, 3, 9))
    soft = cal.Classification.from_probs(np.full((9, 3), 1 / 3), label_probs=np.full((9, 3), 1 / 3))
    taken = statistics_of([*SPECS, *MASS, *OWN], hard)
    assert all(ClassReplicates.supports(statistic, hard) for statistic in taken)
    others = ["ece(of=1)", "tce(debias=true)", "nll(clip=0.1)", "ks", "top_k(k=2)"]
    assert not any(ClassReplicates.supports(statistic, hard) for statistic in statistics_of(others, hard))
    assert not any(ClassReplicates.supports(statistic, soft) for statistic in statistics_of(["accuracy"], soft))
    mine = Statistic(lambda labels, predictions: 0.0, name="entropy")
    assert not ClassReplicates.supports(mine, hard)


# ------------------------------------------------------------------------------------------------------- ties
def law_of_sums(confidence, score):
    """The law of the sum of a score over answers that are right with these probabilities, in fractions."""
    law = {Fraction(0): Fraction(1)}
    for p in confidence:
        spread = defaultdict(Fraction)
        for value, chance in law.items():
            spread[value + score(p, 1)] += chance * p
            spread[value + score(p, 0)] += chance * (1 - p)
        law = spread
    return law


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wrong", [(3, 2, 2, 1), (5, 4, 1, 1), (4, 1, 3, 0)])
def test_ties_of_scores_are_those_of_the_exact_law(dtype, wrong):
    """Sums of scores that are equal as fractions count as ties, however their rows were rounded."""
    stated = [Fraction(k, 10) for k in (2, 4, 6, 8)]
    confidence = np.repeat(stated, 5)
    correct = np.concatenate([np.arange(5) >= count for count in wrong])
    law = law_of_sums(confidence, lambda p, y: 2 * (y - p) ** 2)
    observed = sum(2 * (int(y) - p) ** 2 for p, y in zip(confidence, correct, strict=True))
    below = float(sum(chance for value, chance in law.items() if value < observed))
    ties = float(law[observed])
    assert ties > 0.01
    answers = cal.Judged.from_confidence(confidence.astype(float).astype(dtype), correct)
    draws = 40_000
    found = cal.check(answers, "brier,rbs", draws=draws, seed=1)
    for check in (found["brier"], found["rbs"]):
        assert abs(check.p_value - below) < 4 * np.sqrt(below * (1 - below) / draws)
        middle = below + ties / 2
        assert abs(check.mid_p - middle) < 4 * np.sqrt(middle * (1 - middle) / draws)
