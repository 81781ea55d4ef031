"""Parts of predictions: two classes in one number, members and their average, rows, groups, and what is told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_expit, log_softmax, logsumexp, softmax

import calibrant as cal
from calibrant.errors import CalibrantError, ShapeError, UsageError
from calibrant.predictions.describe import describe

RNG = np.random.default_rng(4)
N = 57
CAL = cal.Classification
quickly = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def same_evaluation(a, b, given=1e-12):
    """Every value, interval and null band of the default metrics is the same."""
    first, second = (cal.evaluate(p, resamples=50).results[0].metrics for p in (a, b))
    assert first.keys() == second.keys()
    for spec in first:
        for part in ("value", "low", "high", "null_low", "null_high", "p_value"):
            x, y = getattr(first[spec], part), getattr(second[spec], part)
            tolerance = 1e-2 if spec.startswith("smooth_ece") and part != "value" else given  # redrawn within 1e-4
            assert x == pytest.approx(y, rel=tolerance, abs=tolerance, nan_ok=True), (spec, part)


# ------------------------------------------------------------------- two classes in one number
def both_forms(kind, z):
    """One number per row, and both classes, of the same predictions."""
    if kind == "logits":
        return z, np.stack([np.zeros_like(z), z], axis=-1)
    if kind == "probs":
        return expit(z), np.stack([1 - expit(z), expit(z)], axis=-1)
    return log_expit(z), np.stack([log_expit(-z), log_expit(z)], axis=-1)


@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
@pytest.mark.parametrize("members", [1, 3])
def test_one_number_equals_two_columns(kind, members):
    z, labels = 2 * RNG.normal(size=(members, N)), RNG.integers(0, 2, N)
    one, two = both_forms(kind, z)
    narrow = CAL.build(kind, one[0] if members == 1 else one[:, :, None], labels)
    assert narrow.classes == 2
    same_evaluation(narrow, CAL.build(kind, two, labels))
    assert cal.measure(narrow) == pytest.approx(cal.measure(CAL.build(kind, two, labels)), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
def test_one_number_at_its_limits(kind):
    """P(class 1) of exactly 0 and 1: certain, right or infinitely wrong."""
    sure = {"logits": [-800.0, 800.0], "log_probs": [-np.inf, 0.0], "probs": [0.0, 1.0]}[kind]
    right = cal.measure(CAL.build(kind, np.array(sure), [0, 1]), ["nll", "brier", "accuracy", "entropy"])
    assert right == pytest.approx({"nll": 0.0, "brier": 0.0, "accuracy": 1.0, "entropy": 0.0}, abs=1e-12)
    wrong = cal.measure(CAL.build(kind, np.array(sure), [1, 0]), ["nll", "accuracy"])
    assert wrong == {"nll": 800.0 if kind == "logits" else np.inf, "accuracy": 0.0}


def test_one_number_can_be_read_in_blocks():
    p, labels = RNG.random(N), RNG.integers(0, 2, N)
    narrow = CAL.from_probs(p, labels)
    blocks = list(narrow.score_blocks(10))
    assert [start for start, _ in blocks] == list(range(0, N, 10))
    assert (np.concatenate([block for _, block in blocks], axis=1)[0, :, 1] == p).all()


# --------------------------------------------------------------------------- members, average
@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
def test_average_is_the_mean_of_the_members_probabilities(kind):
    z = 2 * RNG.normal(size=(5, N, 4))
    scores = {"logits": z, "log_probs": log_softmax(z, axis=2), "probs": softmax(z, axis=2)}[kind]
    average = CAL.build(kind, scores, RNG.integers(0, 4, N)).average()
    assert (average.members, average.n, average.classes) == (1, N, 4)
    mean = average.scores[0] if average.kind == "probs" else np.exp(average.scores[0])
    assert mean == pytest.approx(softmax(z, axis=2).mean(axis=0), rel=1e-12, abs=1e-300)


def test_average_is_judged_as_the_members_are():
    many = CAL.from_logits(RNG.normal(size=(5, N, 4)), RNG.integers(0, 4, N))
    one, all_members = cal.measure(many.average()), cal.measure(many)
    for metric in ("accuracy", "nll", "brier", "ece", "entropy"):
        assert one[metric] == pytest.approx(all_members[metric], rel=1e-12)


def test_average_of_huge_logits_is_taken_in_log_space():
    rng = np.random.default_rng(0)  # of its own: floats near 1e4 are known to 2e-12, and other draws may show it
    z = rng.choice([-1e4, 0.0, 1e4], size=(3, N, 4)) + rng.normal(size=(3, N, 4))
    average = CAL.from_logits(z).average()
    expected = logsumexp(log_softmax(z, axis=2), axis=0) - np.log(3)
    assert average.kind == "log_probs"
    assert average.scores[0] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert np.isfinite(average.scores).all()
    assert expected.min() < -9000, "the test should reach where probabilities underflow"


def test_average_where_a_class_is_ruled_out_by_some_or_all():
    z = np.zeros((2, 1, 3))
    z[:, 0, 0] = -np.inf
    z[0, 0, 1] = -np.inf
    assert np.exp(CAL.from_logits(z).average().scores[0, 0]) == pytest.approx([0, 0.25, 0.75], abs=1e-15)


def test_average_of_one_member_is_itself():
    single = CAL.from_logits(RNG.normal(size=(N, 3)))
    assert single.average() is single


def test_member_is_that_network_alone():
    z, labels = RNG.normal(size=(3, N, 4)), RNG.integers(0, 4, N)
    many = CAL.from_logits(z, labels, member_names=["a", "b", "c"], columns={"row": np.arange(N)})
    for k in (0, 1, 2, -1):
        one = many.member(k)
        assert (one.members, one.member_names) == (1, ("abc"[k],))
        assert (one.scores[0] == z[k]).all()
        assert cal.measure(one) == cal.measure(CAL.from_logits(z[k], labels))
        assert (one.columns["row"] == np.arange(N)).all()


# --------------------------------------------------------------------------------------- rows
def known_rows(n=N, judged=False, **columns):
    """Predictions whose every part tells the row it belongs to."""
    row = np.arange(n)
    known = {"ids": row, "weights": row + 1.0, "columns": {"row": row, **columns}}
    if judged:
        return cal.Judged.from_confidence(np.stack([row / n, row / n / 2]), row % 2, **known)
    z = np.stack([row, -row, 0 * row], axis=1).astype(float)
    soft = np.stack([row, n - row, 0 * row], axis=1) / n
    return CAL.from_logits(np.stack([z, z + 1]), row % 3, label_probs=soft, **known)


def assert_rows(part, rows, n=N):
    """Every part of the predictions holds these rows, in this order."""
    rows = np.asarray(rows)
    assert len(part) == part.n == len(rows)
    assert (part.columns["row"] == rows).all()
    assert (part.info.ids == rows).all()
    assert (part.weights == rows + 1).all()
    if isinstance(part, cal.Judged):
        assert (part.confidence[1] == rows / n / 2).all()
        assert (part.correct == rows % 2).all()
    else:
        assert (part.scores[0, :, 1] == -rows).all()
        assert (part.labels == rows % 3).all()
        assert (part.label_probs[:, 0] == rows / n).all()


MASK = RNG.random(N) < 0.4
INDICES = {
    "slice": slice(5, 20),
    "slice-with-step": slice(None, None, 3),
    "slice-backwards": slice(None, None, -1),
    "slice-from-the-end": slice(-4, None),
    "mask": MASK,
    "mask-as-list": MASK.tolist(),
    "positions": [3, 1, 4, 1, 5],
    "positions-from-the-end": np.array([-1, 0]),
    "one-row": 7,
    "last-row": -1,
}


@pytest.mark.parametrize("judged", [False, True], ids=["classification", "judged"])
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_rows_are_taken_from_every_part(index, judged):
    expected = np.arange(N)[index if not isinstance(index, int) else [index]]
    assert_rows(known_rows(judged=judged)[index], expected)


EMPTY, LONG = np.zeros(N, bool), np.ones(N + 1, bool)
NO_ROWS = [slice(0, 0), EMPTY, LONG, [N], -N - 1, 0.5, "row", (0, 1), None, [[0, 1], [2, 3]]]


@pytest.mark.parametrize("index", NO_ROWS, ids=str)
def test_impossible_rows_are_refused(index):
    with pytest.raises(ShapeError, match="slicing"):
        known_rows()[index]


def test_iteration_over_rows_ends():
    rows = [part.columns["row"].item() for part in known_rows(5)]
    assert rows == [0, 1, 2, 3, 4]


def test_slices_evaluate_like_predictions_of_their_own():
    z, labels = RNG.normal(size=(2, N, 3)), RNG.integers(0, 3, N)
    assert cal.measure(CAL.from_logits(z, labels)[MASK]) == cal.measure(CAL.from_logits(z[:, MASK], labels[MASK]))


# ------------------------------------------------------------------------------------- groups
@pytest.mark.parametrize("judged", [False, True], ids=["classification", "judged"])
def test_groups_by_value_partition_the_rows(judged):
    made = known_rows(judged=judged, site=np.arange(N) % 4)
    groups = dict(made.by("site"))
    assert list(groups) == [0, 1, 2, 3]
    for value, part in groups.items():
        assert_rows(part, np.flatnonzero(np.arange(N) % 4 == value))


def test_groups_by_labels_and_ids():
    made = known_rows()
    assert [value for value, _ in made.by("labels")] == [0, 1, 2]
    assert sum(part.n for _, part in made.by("ids")) == N
    with pytest.raises(UsageError, match="did you mean 'labels'"):
        list(made.by("label"))


@quickly
@given(
    st.lists(st.one_of(st.integers(-3, 3), st.floats(-1e6, 1e6)), min_size=1, max_size=60),
    st.integers(1, 15),
)
def test_groups_by_range_partition_the_rows_and_keep_ties_together(values, bins):
    values = np.array(values, dtype=float)
    made = known_rows(len(values), x=values)
    parts = [part for _, part in made.by("x", bins)]
    assert 1 <= len(parts) <= bins
    rows = np.concatenate([part.columns["row"] for part in parts])
    assert sorted(rows) == list(range(len(values)))
    for part in parts:
        inside = part.columns["x"]
        others = np.delete(values, part.columns["row"])
        assert not np.isin(others, inside).any(), "a tie was torn apart"
        assert not ((others > inside.min()) & (others < inside.max())).any(), "ranges overlap"


@quickly
@given(st.integers(1, 200), st.integers(1, 30))
def test_ranges_of_distinct_values_are_equally_filled_and_in_order(n, bins):
    shuffled = np.random.default_rng(n).permutation(n)
    groups = list(known_rows(n, x=shuffled * 0.5).by("x", bins))
    sizes = [part.n for _, part in groups]
    assert len(groups) == min(bins, n)
    assert max(sizes) - min(sizes) <= 1
    lows = [part.columns["x"].min() for _, part in groups]
    assert lows == sorted(lows), [name for name, _ in groups]


def test_range_names_say_what_is_inside():
    (first, low), (second, high) = known_rows(10, x=np.arange(10.0)).by("x", 2)
    assert (first, second) == ("1: 0 to 4", "2: 5 to 9")
    assert (low.n, high.n) == (5, 5)


def test_unlike_ranges_have_unlike_names():
    values = 1e6 + np.arange(40) * 1e-3
    names = [name for name, _ in known_rows(40, x=values).by("x", 4)]
    assert len(set(names)) == 4


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32])
def test_ranges_of_any_number_type(dtype):
    values = (np.arange(N) % 2 if dtype is bool else np.arange(N)).astype(dtype)
    parts = [part for _, part in known_rows(x=values).by("x", 2)]
    assert sum(part.n for part in parts) == N
    assert len(parts) == 2


def test_rows_without_a_number_are_not_mixed_with_those_that_have_one():
    values = np.where(np.arange(N) < 9, np.nan, np.arange(N))
    try:
        parts = [part for _, part in known_rows(x=values).by("x", 3)]
    except CalibrantError:
        return
    assert sum(part.n for part in parts) == N
    for part in parts:
        assert len(set(np.isnan(part.columns["x"]))) == 1


@pytest.mark.parametrize("bins", [0, -1, 10**30])
def test_impossible_numbers_of_ranges(bins):
    """None or fewer is refused; more than there are rows gives one range a row."""
    made = known_rows(x=np.arange(N))
    if bins < 1:
        with pytest.raises(UsageError, match="an integer of at least 1"):
            list(made.by("x", bins))
    else:
        assert len(list(made.by("x", bins))) == N


def test_text_has_no_ranges():
    with pytest.raises(UsageError, match="'site'"):
        list(known_rows(site=np.full(N, "a")).by("site", 2))


# ----------------------------------------------------------------------------------- describe
def test_describe_tells_every_fact():
    made = CAL.from_probs(
        softmax(RNG.normal(size=(2, N, 3)), axis=2).astype(np.float32),
        np.arange(N) % 3,
        classes=["cat", "dog", "elk"],
        member_names=["first", "second"],
        ids=np.arange(N) // 2,
        weights=np.ones(N),
        columns={"site": np.array(["north", "south", "west"])[np.arange(N) % 3], "age": np.arange(N) / 2},
        meta={"method": "ensemble"},
        name="mine",
    )
    lines = describe(made).splitlines()
    facts = {line[2:].split("  ")[0].strip(): line.split("  ")[-1].strip() for line in lines[1:]}
    assert lines[0] == "mine"
    assert facts["task"] == "classification"
    assert facts["scores"] == "probs (float32)"
    assert facts["rows"] == str(N)
    assert facts["classes"] == "3: cat, dog, elk"
    assert facts["members"] == "2: first, second"
    assert facts["row sums"].startswith("1 within")
    assert facts["labels"] == "3 of 3 classes occur (cat: 19, dog: 19, elk: 19)"
    assert facts["ids"] == "29 distinct"
    assert facts["weights"] == "1 to 1, effective rows 57.0"
    assert facts["column site"] == "3 values: north, south, west"
    assert facts["column age"] == "numbers from 0 to 28"
    assert facts["meta"] == '{"method": "ensemble"}'


def test_describe_says_what_is_missing_or_odd():
    assert "none; metrics that need labels will be skipped" in describe(CAL.from_logits(np.zeros((3, 2))))
    assert "one number per row" in describe(CAL.from_logits(np.zeros(3)))
    both = CAL.from_logits(np.zeros((1, 2)), [0], label_probs=[[0.5, 0.5]])
    assert "both labels and label_probs are given" in describe(both)
    assert "soft labels" in describe(both.with_soft_labels())


def test_describe_judged():
    text = describe(cal.Judged.from_confidence([[0.25, 0.5], [0.5, 1.0]], [True, False]))
    assert "confidence and correctness" in text
    assert "0.25 to 1" in text
    assert "0.5000 of the answers" in text
    assert "unknown" in describe(cal.Judged.from_confidence([0.5]))


def test_describe_does_not_drown_in_names():
    text = describe(CAL.from_logits(np.zeros((3, 1000)), classes=[f"class number {k}" for k in range(1000)]))
    assert max(map(len, text.splitlines())) < 500
    assert "…" in text


def test_describe_shows_the_numbers_of_the_file_for_one_number_per_row():
    text = describe(cal.Classification.from_probs([0.01, 0.02, 0.6], [0, 0, 1]))
    assert "0.01 to 0.6\n" in text
    assert "2 of 2 classes occur (class 0: 2, class 1: 1)" in text
    assert "row sums" not in text


def test_a_label_that_is_missing_is_named_by_its_row():
    with pytest.raises(cal.CalibrantError, match=r"got nan in row 1; drop rows without a label"):
        cal.Classification.from_probs([0.1, 0.2], np.array([1.0, np.nan]))
    with pytest.raises(cal.CalibrantError, match=r"such as 1\.0; convert them with"):
        cal.Classification.from_probs([0.1, 0.2], np.array([1.0, 0.0]))
