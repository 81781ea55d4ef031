"""The same rows of several models, in one order: by ids, or as they come."""

from dataclasses import replace

import numpy as np
import pytest
from compared_models import IDS, N, gaussian, judged, made, named, turned
from hypothesis import given
from hypothesis import strategies as st

import calibrant as cal
from calibrant.comparison.alignment import aligned, error_note, matched
from calibrant.errors import CalibrantError, InputError, LabelsError, ShapeError

MAKERS = {"classification": made, "judged": judged, "regression": gaussian}


def arrays(model):
    """What is predicted, and what came true."""
    names = ("scores", "confidence", "mean", "std", "labels", "correct", "y")
    return [getattr(model, name) for name in names if getattr(model, name, None) is not None]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(arrays(one), arrays(other), strict=True))


@pytest.mark.parametrize("task", MAKERS)
def test_another_order_is_put_right(task):
    make = MAKERS[task]
    order = np.random.default_rng(0).permutation(N)
    found, notes = aligned({"a": make(1, ids=IDS), "b": make(2, ids=IDS)[order]})
    assert notes == ()
    by_id = np.argsort(IDS)
    assert same(found["a"], make(1)[by_id])
    assert same(found["b"], make(2)[by_id])
    assert list(found["b"].info.ids) == sorted(IDS)


def test_an_order_that_all_have_is_kept():
    order = np.random.default_rng(0).permutation(N)
    found, _ = aligned({"a": made(1, ids=IDS)[order], "b": made(2, ids=IDS)[order][50:], "c": made(3, ids=IDS)[order]})
    assert all(list(model.info.ids) == list(IDS[order][50:]) for model in found.values())


@pytest.mark.parametrize("ids", [IDS, np.arange(N) * 3 % 1000, np.arange(N) / 7, IDS.astype(object)])
def test_the_order_of_models_is_of_no_matter(ids):
    rng = np.random.default_rng(1)
    models = {
        name: made(k, ids=ids)[rng.permutation(N)[: N - 20 * k]] for k, name in enumerate("abc")
    }  # each has an order, and rows, of its own
    one, other = aligned(models)[0], aligned(dict(reversed(models.items())))[0]
    for name in models:
        assert same(one[name], other[name])
        assert list(one[name].info.ids) == list(other[name].info.ids) == sorted(one[name].info.ids)


def test_models_in_any_order_have_the_same_cll():
    models = {"a": made(1, ids=IDS), "b": made(2, ids=IDS)[np.random.default_rng(2).permutation(N)]}
    found = [cal.compare(given, "cll", resamples=20) for given in (models, dict(reversed(models.items())))]
    values = [{item.model: item.value for item in each.comparison.ranking} for each in found]
    assert values[0] == values[1]


@pytest.mark.parametrize("task", MAKERS)
def test_rows_that_not_all_have_are_left_out_and_noted(task):
    make = MAKERS[task]
    found, notes = aligned({"a": make(1, ids=IDS)[::-1], "b": make(2, ids=IDS)[100:], "c": make(3, ids=IDS)[:300]})
    assert {model.n for model in found.values()} == {200}
    assert all(list(model.info.ids) == sorted(IDS[100:300]) for model in found.values())
    (note,) = notes
    assert note.code == "different-rows"
    assert "200 are in all models" in note.message
    assert "left out: 200 of 400 of a, 100 of 300 of b and 100 of 300 of c" in note.message


def test_what_is_in_order_is_not_copied():
    models = {"a": made(1, ids=IDS), "b": made(2, ids=IDS)}
    found, _ = aligned(models)
    assert all(found[name].scores is model.scores for name, model in models.items())
    assert aligned({"a": models["a"]})[0]["a"] is models["a"]


def test_rows_whose_labels_disagree_are_left_out():
    labels = made(2).labels.copy()
    labels[[3, 7]] = (labels[[3, 7]] + 1) % 4
    found, notes = aligned({"a": made(1, ids=IDS), "b": replace(made(2, ids=IDS), labels=labels)})
    assert [note.code for note in notes] == ["different-labels"]
    assert "2 of 400 rows" in notes[0].message
    assert set(IDS) - set(found["b"].info.ids) == {"row3", "row7"}
    assert np.array_equal(found["a"].labels, found["b"].labels)


def test_labels_are_compared_by_name():
    one, other = named(made(1, ids=IDS), "wxyz"), turned(named(made(2, ids=IDS), "wxyz"))
    found, notes = aligned({"a": one, "b": other[::-1]})
    assert notes == ()
    assert found["b"].n == N


def test_judged_answers_are_right_or_wrong_by_model():
    found, notes = aligned({"a": judged(1, ids=IDS), "b": judged(2, flip=50, ids=IDS)})
    assert notes == ()
    assert found["a"].n == N
    with pytest.raises(LabelsError, match="50 of 400 differ, first in row 0"):
        aligned({"a": judged(1), "b": judged(2, flip=50)})
    with pytest.raises(LabelsError, match=r"need ids to match rows by \(see own-answers\)"):
        aligned({"a": judged(1), "b": judged(2, flip=50)})


@pytest.mark.parametrize(
    ("models", "error", "said"),
    [
        ({"a": made(1), "b": made(2)[:300]}, ShapeError, "got 400 and 300 rows"),
        ({"a": made(1), "b": made(2)[::-1]}, LabelsError, "first in row"),
        ({"a": made(1), "b": replace(made(2), labels=None)}, LabelsError, "b: expected labels"),
        ({"a": replace(made(1), labels=None), "b": made(2)}, LabelsError, "a: expected labels, got none"),
        ({"a": made(1, ids=IDS), "b": replace(made(2, ids=IDS), labels=None)}, LabelsError, "b: expected labels"),
        ({"a": made(1), "b": cal.Classification.from_logits(made(2).scores, label_probs=np.full((N, 4), 0.25))},
         LabelsError, "b: expected labels, got soft labels"),
        ({"a": judged(1), "b": cal.Judged.from_confidence(judged(2).confidence[0])}, LabelsError, "b: expected judgem"),
        ({"a": made(1), "b": judged(2)}, InputError, "classification and judged"),
        ({"a": made(1, ids=IDS), "b": made(2, ids=np.arange(N))}, InputError, "numbers"),
        ({"a": made(1, ids=IDS), "b": made(2, ids=np.char.add("x", IDS))}, InputError, "share no id"),
        ({"a": made(1, ids=IDS), "b": made(2, ids=IDS, weights=np.ones(N))}, InputError, "weights"),
        ({"a": made(1, weights=np.ones(N)), "b": made(2, weights=np.arange(1, N + 1))}, InputError, "weights"),
        ({"a": made(1, ids=np.arange(N) // 2), "b": made(2, ids=(np.arange(N) + 1) // 2)}, InputError, "repeated ids"),
        ({"a": gaussian(1), "b": gaussian(2)[::-1]}, LabelsError, "the same y"),
        ({"a": made(1, ids=IDS), "b": replace(made(2, ids=IDS), labels=made(2).labels ^ 1)},
         LabelsError, "in every shared row"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_matched_are_refused_in_one_line(models, error, said):
    with pytest.raises(error, match=said) as caught:
        aligned(models)
    assert "\n" not in str(caught.value)
    note = error_note(matched(models))
    assert note.code == ("different-labels" if error is LabelsError else "different-rows")
    assert said in note.message


def test_ids_that_repeat_alike_are_taken_as_they_come():
    ids = np.arange(N) // 3
    found, notes = aligned({"a": made(1, ids=ids), "b": made(2, ids=ids)})
    assert notes == ()
    assert found["b"].n == N


def test_one_without_ids_must_have_the_same_labels_in_order():
    found, notes = aligned({"a": made(1, ids=IDS), "b": made(2)})
    assert notes == ()
    assert found["b"].n == N
    with pytest.raises(CalibrantError):
        aligned({"a": made(1, ids=IDS)[::-1], "b": made(2)})


def test_columns_are_there_for_all_and_in_the_order_of_their_rows():
    unit, cost = np.arange(N) // 4, np.random.default_rng(0).random(N)
    models = {
        "a": made(1, ids=IDS),
        "b": made(2, ids=IDS, columns={"patient": unit, "cost": cost})[::-1],
        "c": made(3, ids=IDS, columns={"cost": cost + 1}),
    }
    found, _ = aligned(models)
    order = np.argsort(IDS)
    assert all(np.array_equal(model.column("patient"), unit[order]) for model in found.values())
    assert np.array_equal(found["a"].column("cost"), cost[order])
    assert np.array_equal(found["c"].column("cost"), cost[order] + 1)  # each keeps its own


@pytest.mark.parametrize("ids", [None, IDS])
def test_other_numbers_of_classes_are_said_before_other_labels(ids):
    wide = cal.Classification.from_logits(
        np.pad(made(2).scores[0], ((0, 0), (0, 1))), (made(2).labels + 1) % 5, ids=ids
    )
    with pytest.raises(InputError, match=r"the same number of classes, got 4: a; 5: b"):
        aligned({"a": made(1, ids=ids), "b": wide})
    assert cal.comparison.lint({"a": made(1, ids=ids), "b": wide}).codes == ("different-classes",)


def test_soft_labels_are_compared_too():
    soft = np.random.default_rng(0).dirichlet(np.ones(4), N)
    one = cal.Classification.from_logits(made(1).scores, label_probs=soft)
    other = cal.Classification.from_logits(made(2).scores, label_probs=soft.astype(np.float32))
    assert aligned({"a": one, "b": other})[1] == ()
    with pytest.raises(LabelsError, match="soft labels"):
        aligned({"a": one, "b": replace(other, label_probs=soft[::-1])})


@given(
    st.lists(st.permutations(range(12)), min_size=2, max_size=4), st.lists(st.integers(1, 12), min_size=4, max_size=4)
)
def test_any_order_and_any_part(orders, sizes):
    """Rows of all models are the same cases: the label and a score of a case are functions of its id."""
    models = {}
    for k, (order, size) in enumerate(zip(orders, sizes, strict=False)):
        ids = np.array(order[:size])
        logits = np.stack([np.sin(ids + k), np.zeros(len(ids))], axis=1)
        models[str(k)] = cal.Classification.from_logits(logits, ids % 2, ids=ids)
    common = set.intersection(*(set(model.info.ids.tolist()) for model in models.values()))
    if not common:
        with pytest.raises(InputError, match="share no id"):
            aligned(models)
        return
    found, notes = aligned(models)
    kept = [[k for k in order[:size] if k in common] for order, size in zip(orders, sizes, strict=False)]
    wanted = kept[0] if all(each == kept[0] for each in kept) else sorted(common)
    for k, model in enumerate(found.values()):
        assert model.info.ids.tolist() == wanted
        assert np.array_equal(model.scores[0, :, 0], np.sin(np.array(wanted) + k))
    assert bool(notes) == any(model.n > len(common) for model in models.values())
    again, none = aligned(found)
    assert none == ()
    assert all(again[name] is model for name, model in found.items())
