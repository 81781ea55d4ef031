"""Conformal intervals and sets: finite-sample validity, against plain loops, and what is refused."""

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri, softmax

import calibrant as cal
from calibrant.conformal import ConformalQuantiles, ConformalSets, Intervals, Sets, SplitConformal, conformal, load
from calibrant.conformal.base import rows_needed, threshold_of
from calibrant.conformal.lookup import METHODS
from calibrant.errors import CalibrantError, CalibrantWarning
from calibrant.kernels.philox import uniforms
from calibrant.kernels.resampling import CONFORMAL

OF_CLASSES, OF_NUMBERS = ("lac", "aps", "raps"), ("split", "scaled", "cqr")


def classes(n=200, members=1, seed=0, columns=5, **known):
    """Over-confident logits of noisy members."""
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.normal(size=(n, columns))
    labels = (truth + rng.gumbel(size=(n, columns))).argmax(axis=1)
    logits = 1.7 * (truth + 0.5 * rng.normal(size=(members, n, columns)))
    return cal.Classification.from_logits(logits, labels, **known)


def numbers(kind, n=200, seed=0, **known):
    """Means and spreads that are somewhat off, or quantiles that are too close together."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=n), np.exp(0.5 * rng.normal(size=n))
    y = mean + 0.3 + std * rng.standard_t(4, size=n)
    if kind == "cqr":
        levels = np.array([0.05, 0.5, 0.95])
        return cal.Regression.from_quantiles(mean[:, None] + 0.7 * std[:, None] * ndtri(levels), levels, y, **known)
    return cal.Regression.from_gaussian(mean, 0.7 * std, y, **known)


def rows_for(method, **known):
    return classes(**known) if method in OF_CLASSES else numbers(method, **known)


# ---------------------------------------------------------------------------------------------- validity
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [19, 60])
def test_coverage_is_what_the_theorem_says(method, n):
    """Over fresh held-out and new rows: between the level and 1/(n + 1) more, within three standard errors."""
    level, repeats, new = 0.8, 400, 40
    rows = rows_for(method, n=repeats * (n + new), seed=n)
    shares = np.empty(repeats)
    for k in range(repeats):
        part = rows[k * (n + new) : (k + 1) * (n + new)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            made = conformal(method, level, **({"seed": k} if method in ("aps", "raps") else {})).fit(part[:n])
        shares[k] = made.predict(part[n:]).coverage
    error = shares.std() / np.sqrt(repeats)
    assert level - 3 * error <= shares.mean() <= level + 1 / (n + 1) + 3 * error


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.floats(0.05, 0.99))
def test_the_threshold_is_the_rank_that_was_promised(n, level):
    scores = np.random.default_rng(n).permutation(n).astype(float)
    found = threshold_of(scores, level)
    below = (scores <= found).sum()
    assert below >= (n + 1) * level - 1e-9 or found == math.inf
    if found < math.inf:
        assert below - 1 < (n + 1) * level
    needed = rows_needed(level)
    assert threshold_of(np.zeros(needed), level) == 0.0
    assert needed == 1 or threshold_of(np.zeros(needed - 1), level) == math.inf


@pytest.mark.parametrize(
    ("n", "level", "rank"), [(9, 0.9, 9), (19, 0.95, 19), (99, 0.9, 90), (10, 0.9, 10), (8, 0.9, 9)]
)
def test_ranks_by_hand(n, level, rank):
    found = threshold_of(np.arange(1.0, n + 1), level)
    assert found == (rank if rank <= n else math.inf)


# --------------------------------------------------------------------------------------- against plain loops
def plain_scores(p, method, u, penalty, k_reg):
    """The score of every class of one row, as papers write it."""
    scores = []
    for c in range(len(p)):
        before = [d for d in range(len(p)) if p[d] > p[c] or (p[d] == p[c] and d < c)]
        rank = len(before) + 1
        mass = sum(p[d] for d in before) + u * p[c]
        scores.append({"lac": 1 - p[c], "aps": mass, "raps": mass + penalty * max(0, rank - k_reg)}[method])
    return scores


@pytest.mark.parametrize("randomised", [True, False])
@pytest.mark.parametrize("method", OF_CLASSES)
def test_sets_are_those_of_a_plain_loop(method, randomised):
    fit, new = classes(n=99, members=3), classes(n=150, members=3, seed=1)
    options = {"randomised": randomised, "seed": 7, "penalty": 0.1, "k_reg": 2}
    made = ConformalSets(level=0.85, score=method, **options).fit(fit)

    def scores(rows, replicate):
        u = uniforms(7, CONFORMAL, replicate, rows.n) if randomised else np.ones(rows.n)
        p = softmax(rows.scores, axis=2).mean(axis=0)
        return [plain_scores(p[i], method, u[i], 0.1, 2) for i in range(rows.n)]

    known = sorted(row[label] for row, label in zip(scores(fit, 0), fit.labels, strict=True))
    threshold = known[math.ceil(100 * 0.85) - 1]
    assert made.threshold == pytest.approx(threshold, abs=1e-12)
    expected = np.array(scores(new, 1)) <= threshold + 1e-12
    np.testing.assert_array_equal(made.predict(new).included, expected)


def test_intervals_by_hand():
    fit = numbers("split", n=99)
    gap = np.sort(np.abs(fit.y - fit.mean[0]))
    made = SplitConformal(level=0.9).fit(fit)
    found = made.predict(fit)
    assert made.threshold == gap[89]
    np.testing.assert_allclose(found.upper, fit.mean[0] + gap[89])
    assert found.covered.sum() == 90
    scaled = SplitConformal(level=0.9, score="scaled").fit(fit)
    ratio = np.sort(np.abs(fit.y - fit.mean[0]) / fit.std[0])[89]
    np.testing.assert_allclose(scaled.predict(fit).sizes, 2 * ratio * fit.std[0])


def test_quantiles_too_far_apart_move_closer_and_may_cross():
    rng = np.random.default_rng(0)
    wide = cal.Regression.from_quantiles(np.tile([-9.0, 9.0], (500, 1)), [0.05, 0.95], rng.normal(size=500))
    made = ConformalQuantiles(level=0.9).fit(wide)
    assert made.threshold < -7
    assert made.predict(wide).coverage == pytest.approx(0.9, abs=0.01)
    narrow = cal.Regression.from_quantiles(np.tile([-1.0, 1.0], (3, 1)), [0.05, 0.95], np.zeros(3))
    empty = made.predict(narrow)
    assert empty.coverage == 0.0
    assert empty.overall.mean == 0.0
    assert empty.to_json()["empty"] == 3


def test_of_right_probabilities_aps_covers_every_kind_of_row_and_lac_has_the_smaller_sets():
    """What the papers say of them: P(score ≤ q | x) = q for aps; lac trades hard rows for small sets."""
    rng = np.random.default_rng(0)
    truth = rng.choice([0.5, 3.0], (12_000, 1)) * rng.normal(size=(12_000, 10))
    rows = cal.Classification.from_logits(truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1))
    lac, aps = (ConformalSets(level=0.8, score=score).fit(rows[:6000]).predict(rows[6000:]) for score in ("lac", "aps"))
    assert lac.overall.mean < aps.overall.mean
    surest = softmax(truth[6000:], axis=1).max(axis=1)
    off = []
    for low, high in [(0, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1)]:
        group = (surest > low) & (surest <= high)
        error = np.sqrt(0.16 / group.sum() + 0.16 / 6000)
        off.append([abs(found.among(group).coverage - 0.8) / error for found in (lac, aps)])
    assert np.max(off, axis=0)[1] < 3.5
    assert np.max(off, axis=0)[0] > 7


def test_raps_limits_large_sets():
    fit, new = classes(n=2000, columns=30), classes(n=2000, columns=30, seed=1)
    aps, raps = (
        ConformalSets(level=0.9, score=score, penalty=0.2, k_reg=3).fit(fit).predict(new) for score in ("aps", "raps")
    )
    assert raps.sizes.max() < aps.sizes.max()


# --------------------------------------------------------------------------------------------- same again
def test_random_numbers_belong_to_seed_and_row():
    fit, new = classes(), classes(seed=1)
    first, again = (ConformalSets(score="aps", seed=3).fit(fit).predict(new) for _ in range(2))
    np.testing.assert_array_equal(first.included, again.included)
    other = ConformalSets(score="aps", seed=4).fit(fit).predict(new)
    assert (first.included != other.included).any()
    part = ConformalSets(score="aps", seed=3).fit(fit).predict(new[:50])
    np.testing.assert_array_equal(part.included, first.included[:50])


@pytest.mark.parametrize("method", METHODS)
def test_what_is_saved_comes_back(method, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        made = conformal(method, 0.85).fit(rows_for(method))
    back = load(made.save(tmp_path / "made.json"))
    assert type(back) is type(made)
    assert (back.options(), back._state) == (made.options(), made._state)
    new = rows_for(method, seed=2)
    assert back.predict(new).to_json() == made.predict(new).to_json()
    assert type(made).load(tmp_path / "made.json").threshold == made.threshold


def test_files_that_are_none_are_refused(tmp_path):
    path = tmp_path / "odd.json"
    for odd in ("", "[]", "{}", '{"kind": "conformal", "schema": 2}', "[" * 100_000):
        path.write_text(odd)
        with pytest.raises(CalibrantError, match="expected a fitted conformal method") as caught:
            load(path)
        assert "\n" not in str(caught.value)
    made = SplitConformal().fit(numbers("split"))
    made.save(path)
    with pytest.raises(CalibrantError, match="a fitted ConformalSets, got SplitConformal"):
        ConformalSets.load(path)
    with pytest.raises(CalibrantError, match=r"ending in \.json"):
        made.save(tmp_path / "odd.npz")


@pytest.mark.parametrize(
    ("method", "key", "value"),
    [
        ("split", "rows", math.inf),  # 1e400 is read as such
        ("split", "rows", 10.5),
        ("split", "rows", True),
        ("split", "rows", 0),
        ("split", "threshold", "1.5"),
        ("split", "threshold", math.inf),
        ("split", "threshold", True),
        ("split", "levels", [0.1, 0.9]),
        ("split", "levels", []),
        ("split", "classes", 5),
        ("split", "method", "lots"),
        ("split", "fitted_on", 3),
        ("split", "notes", ["ab"]),
        ("split", "notes", [["a", 3]]),
        ("cqr", "levels", [None, None]),
        ("cqr", "levels", [0.1, None]),
        ("cqr", "levels", [0.9, 0.1]),
        ("cqr", "levels", [0.1, 9.0]),
        ("lac", "classes", None),
        ("lac", "classes", 5.0),
        ("lac", "class_names", "abcde"),
        ("lac", "class_names", ["a"]),
        ("lac", "options", {"penalty": 10**400}),
    ],
)
def test_numbers_of_a_file_that_cannot_be_are_refused(method, key, value, tmp_path):
    path = conformal(method, 0.9).fit(rows_for(method)).save(tmp_path / "made.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(CalibrantError, match="expected a fitted conformal method") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_absolute_scores_need_no_spread():
    """Rows whose samples are all equal, and single samples, have a mean: |y − μ| asks for no more."""
    rng = np.random.default_rng(0)
    samples, y = rng.normal(size=(10, 60)), rng.normal(size=60)
    samples[:, 7] = 0.5
    rows = cal.Regression.from_samples(samples, y)
    made = SplitConformal(level=0.8).fit(rows)
    assert made.threshold == pytest.approx(np.sort(np.abs(y - samples.mean(axis=0)))[48])
    assert made.predict(rows).upper[7] == 0.5 + made.threshold
    one = SplitConformal(level=0.8).fit(cal.Regression.from_samples(samples[:1], y))
    assert one.threshold == np.sort(np.abs(y - samples[0]))[48]
    with pytest.raises(CalibrantError):
        SplitConformal(score="scaled").fit(rows)


# --------------------------------------------------------------------------------------------- few rows
@pytest.mark.parametrize("method", METHODS)
def test_too_few_rows_cover_everything_and_say_so(method, tmp_path):
    with pytest.warns(CalibrantWarning, match=r"8 rows are too few for a level of 0\.9, which needs 9"):
        made = conformal(method, 0.9).fit(rows_for(method, n=8))
    assert made.threshold == math.inf
    found = load(made.save(tmp_path / "few.json")).predict(rows_for(method, seed=3))
    assert found.coverage == 1.0
    if isinstance(found, Sets):
        assert (found.sizes == 5).all()
    else:
        assert np.isinf(found.sizes).all()
    assert found.to_json()["threshold"] is None
    json.dumps(found.to_json(), allow_nan=False)
    assert "warning: " in str(found)


# --------------------------------------------------------------------------------------------- summaries
def test_shares_add_up():
    found = (
        ConformalSets(score="aps").fit(classes(classes=list("abcde"))).predict(classes(seed=1, classes=list("abcde")))
    )
    assert sum(found.size_distribution.values()) == found.n == 200
    for parts in (found.by_size, found.by_class):
        assert sum(share.n for share in parts.values()) == found.n
        assert sum(share.covered for share in parts.values()) == found.covered.sum()
    assert set(found.by_class) <= set("abcde")
    low, high = found.overall.interval
    assert low < found.coverage < high
    data = found.to_json()
    assert data["overall"]["coverage"] == found.coverage
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    text = str(found)
    assert "aps · level 0.9" in text
    assert "class a" in text
    assert len({len(line) for line in text.splitlines()[1:]}) == 1


def test_intervals_tell_coverage_by_width():
    found = SplitConformal(score="scaled").fit(numbers("scaled")).predict(numbers("scaled", seed=1))
    assert len(found.by_width) == 4
    assert sum(share.covered for share in found.by_width.values()) == found.covered.sum()
    assert SplitConformal().fit(numbers("split")).predict(numbers("split", seed=1)).by_width == {}
    assert isinstance(found, Intervals)
    assert "Intervals(" in repr(found)


@pytest.mark.parametrize("method", METHODS)
def test_rows_without_labels_have_sets_but_no_coverage(method, tmp_path):
    rows = rows_for(method, ids=np.arange(200))
    made = conformal(method).fit(rows)
    blind = replace(rows, labels=None) if method in OF_CLASSES else replace(rows, y=None)
    found = made.predict(blind)
    assert math.isnan(found.coverage)
    assert "—" in str(found)
    json.dumps(found.to_json(), allow_nan=False)
    with np.load(found.save(tmp_path / "out.npz")) as held:
        assert set(held) == ({"included", "ids"} if method in OF_CLASSES else {"lower", "upper", "ids"})
    with pytest.raises(CalibrantError, match="got no labels"):
        conformal(method).fit(blind)


# ---------------------------------------------------------------------------------------------- members
def test_members_are_averaged_or_matched():
    three, new = classes(members=3), classes(members=3, seed=1)
    made, same = (ConformalSets().fit(each) for each in (three, three.average()))
    np.testing.assert_array_equal(made.predict(new).included, same.predict(new.average()).included)
    rng = np.random.default_rng(0)
    mixed = cal.Regression.from_gaussian(rng.normal(size=(3, 50)), np.ones((3, 50)), rng.normal(size=50))
    made, same = (SplitConformal(score="scaled").fit(each) for each in (mixed, mixed.moment_matched()))
    assert made.threshold == same.threshold
    drawn = cal.Regression.from_samples(rng.normal(size=(30, 50)), rng.normal(size=50))
    assert SplitConformal().fit(drawn).threshold == SplitConformal().fit(drawn.moment_matched()).threshold


def test_one_number_and_two_columns_give_the_same_sets():
    rows = classes(columns=2)
    one = cal.Classification.from_logits(rows.scores[0, :, 1] - rows.scores[0, :, 0], rows.labels)
    made, other = (ConformalSets(score="aps").fit(each).predict(each) for each in (one, rows))
    np.testing.assert_array_equal(made.included, other.included)


# ---------------------------------------------------------------------------------------------- refusals
def refused(call, *words):
    with pytest.raises(CalibrantError) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_what_is_refused():
    judged = cal.Judged.from_confidence(np.full(5, 0.5), np.ones(5, bool))
    for method in METHODS:
        refused(lambda m=method: conformal(m).fit(judged), "got judged predictions")
        refused(lambda m=method: conformal(m).fit(3), "predictions in memory")
        refused(lambda m=method: conformal(m).predict(rows_for(m)), "call fit first")
        refused(
            lambda m=method: conformal(m).fit(rows_for(m, weights=np.ones(200))), "got weights in", "unweighted rows"
        )
    for level in (0, 1, -0.5, 2.0, "0.9", True, None, float("nan")):
        refused(lambda v=level: SplitConformal(level=v), "between 0 and 1")
    refused(lambda: conformal("lack"), "did you mean 'lac'?")
    refused(lambda: ConformalSets(score="abs"), "'lac', 'aps' or 'raps'")
    refused(lambda: ConformalSets(penalty=-1.0), "a number of at least 0")
    refused(lambda: ConformalSets(k_reg=1.5), "int")
    refused(lambda: ConformalSets(seed=-1), "seed")
    refused(lambda: SplitConformal().fit(numbers("cqr")), "got quantiles in")
    refused(lambda: ConformalQuantiles().fit(numbers("split")), "got gaussian predictions", "SplitConformal")
    soft = cal.Classification.from_logits(np.zeros((4, 3)), label_probs=np.full((4, 3), 1 / 3))
    refused(lambda: ConformalSets().fit(soft), "soft labels only")
    made = ConformalSets().fit(classes(classes=list("abcde")))
    refused(lambda: made.predict(classes(columns=3)), "the 5 classes of the fit")
    refused(lambda: made.predict(classes(classes=list("abced"))), "'d' at position 3")


def test_quantiles_at_other_levels():
    rows = numbers("cqr")
    with pytest.warns(CalibrantWarning, match=r"no quantiles at 0\.1 and 0\.9; using those at 0\.05 and 0\.95"):
        made = ConformalQuantiles(level=0.8).fit(rows)
    assert made.predict(rows).coverage == pytest.approx(0.8, abs=0.01)
    above = cal.Regression.from_quantiles(np.zeros((30, 2)), [0.5, 0.9], np.zeros(30))
    refused(lambda: ConformalQuantiles().fit(above), "a quantile below the median", "0.5, 0.9")
    refused(lambda: made.predict(above), "the quantile at 0.05, as in the fit")


# --------------------------------------------------------------------------------------------- real logits
def test_real_networks(data_folder):
    path = data_folder / "predictions" / "cifar10_test_8cnn_logits.npz"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    with np.load(path) as held:
        rows = cal.Classification.from_logits(held["logits"][:, :4000], held["labels"][:4000])
    for score in OF_CLASSES:
        found = ConformalSets(level=0.95, score=score).fit(rows[:2000]).predict(rows[2000:])
        # over both draws the share of 2000 rows from 2000 has a standard error of about 0.0069
        assert found.coverage == pytest.approx(0.95, abs=0.021)


def test_a_class_that_is_covered_less_is_named_beside_the_table():
    """One of two classes is rare and never likely: its rows are outside of nearly all sets."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.3, 15.0, 4000)
    rare = cal.Classification.from_probs(p, (rng.random(4000) < p).astype(int))
    found = cal.conformal.ConformalSets(level=0.9, score="lac").fit(rare[::2]).predict(rare[1::2])
    share = found.by_class["1"]
    assert share.interval[1] < 0.9 < found.overall.interval[1]
    assert f"note: class 1 is covered in {100 * share.coverage:.1f}% of its rows: the guarantee is" in str(found)
    fair = cal.Classification.from_probs(np.full((400, 2), 0.5), np.arange(400) % 2)
    assert "note:" not in str(cal.conformal.ConformalSets(level=0.9, score="lac").fit(fair).predict(fair))
