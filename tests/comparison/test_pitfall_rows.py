"""What the guard sees in rows: units by name, copies, and rows that a map was fitted on."""

import warnings

import numpy as np
import pytest

import calibrant as cal
from calibrant.comparison.pitfalls import Setup, guard
from calibrant.comparison.pitfalls.rows import copied_rows
from calibrant.predictions.base import is_unit
from calibrant.predictions.row_fingerprints import parse_fingerprints, row_fingerprints
from calibrant.recalibration.lookup import recalibrator

N = 400
UNITS = (
    "patient", "PatientID", "subject_id", "prompt", "prompts", "question_hash", "group_id", "document", "session",
    "video", "scene", "speaker", "user name", "video_clip",
)  # fmt: skip
NO_UNITS = (
    "class", "severity", "group", "shift", "user_age", "patient_sex", "prompt_length", "id", "fold", "", "π",
    "confidence", "length", "subjective",
)  # fmt: skip


def made(seed=0, n=N, start=0):
    truth = np.random.default_rng(99).normal(size=(5000, 4))[start : start + n]
    labels = (truth + np.random.default_rng(98).gumbel(size=(5000, 4))[start : start + n]).argmax(axis=1)
    logits = truth + 0.8 * np.random.default_rng(seed + 7).normal(size=(5000, 4))[start : start + n]
    return cal.Classification.from_logits(logits.astype(np.float32), labels)


def fitted(rows, to, method="temperature"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return recalibrator(method).fit(rows).transform(to)


def twice(model, share):
    return model[np.r_[np.arange(model.n), np.arange(int(share * model.n))]]


def on_fitted_rows(model):
    found = guard(Setup(models={"a": model}, scores=("cll",), rank_by="cll"))
    return "scored-on-fitted-rows" in {note.code for note in found}


@pytest.mark.parametrize("name", UNITS)
def test_columns_that_are_named_like_a_unit(name):
    assert is_unit(name)


@pytest.mark.parametrize("name", NO_UNITS)
def test_columns_that_are_not(name):
    assert not is_unit(name)


@pytest.mark.parametrize("share", [0.02, 0.2, 1.0])
def test_copies_are_counted(share):
    models = {"a": twice(made(1, n=2000), share), "b": twice(made(2, n=2000), share)}
    assert copied_rows(models) == int(2000 * share)


def test_independent_rows_of_equal_features_are_rarely_called_copies():
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        leaf, probs = rng.integers(0, 150, 600), rng.dirichlet(np.ones(3), 150)
        labels = (probs[leaf].cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)
        found += copied_rows({"tree": cal.Classification.from_probs(probs[leaf], labels)}) > 0
    assert found == 0


# ----------------------------------------------------------------------------------------------------- marks
def test_a_stored_map_still_knows_its_rows(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaling = cal.recalibration.TemperatureScaling().fit(made(1))
    for suffix in ("json", "npz"):
        back = cal.recalibration.TemperatureScaling.load(scaling.save(tmp_path / f"map.{suffix}"))
        assert on_fitted_rows(back.transform(made(1)))
        assert not on_fitted_rows(back.transform(made(1, start=1000)))


def test_written_predictions_still_know_it(tmp_path):
    cal.write(fitted(made(1), made(1)), tmp_path / "a.npz")
    assert on_fitted_rows(cal.read(tmp_path / "a.npz")[:100])


@pytest.mark.parametrize("share", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("method", ["temperature", "vector", "histogram", "isotonic"])
def test_shared_rows_are_found_and_others_are_not(share, method):
    cut = int(N * share)
    every = made(1, n=5000)
    mixed = every[np.r_[:cut, 1000 : 1000 + N - cut]]
    after = fitted(every[:N], mixed, method)
    assert on_fitted_rows(after)
    assert not on_fitted_rows(fitted(every[2000:2400], mixed, method))
    if share < 1.0 and method in ("temperature", "vector"):
        assert on_fitted_rows(after[: cut - 5])
    assert share == 1.0 or not on_fitted_rows(after[cut:])


def test_marks_are_of_rows_not_of_their_order_nor_of_their_precision():
    model = made(1)
    wide = cal.Classification.from_logits(model.scores.astype(np.float64), model.labels)
    assert row_fingerprints(model) == row_fingerprints(model[::-1]) == row_fingerprints(wide)
    assert len(parse_fingerprints(row_fingerprints(model))) == 32
    assert row_fingerprints(model) != row_fingerprints(made(2))
    assert len(parse_fingerprints(row_fingerprints(model[:5]))) == 5


def test_rows_that_say_too_little_have_no_marks():
    coarse = np.random.default_rng(0).integers(50, 100, 300) / 100
    assert row_fingerprints(cal.Judged.from_confidence(coarse, coarse > 0.7)) == ""
    assert row_fingerprints(cal.Judged.from_confidence(coarse.astype(np.float32), coarse > 0.7)) == ""
    assert row_fingerprints(cal.Judged.from_confidence(coarse, coarse > 0.7, ids=np.arange(300))) != ""
    few = np.random.default_rng(0).random(20)[np.arange(300) % 20]
    assert row_fingerprints(cal.Judged.from_confidence(few, few > 0.5)) == ""
    text = [f"q{k}" for k in range(300)]
    assert row_fingerprints(cal.Judged.from_confidence(coarse, coarse > 0.7, ids=text)) != ""


@pytest.mark.parametrize("bad", ["12", "z" * 12, 5, None])
def test_marks_that_are_none_are_refused(bad):
    with pytest.raises(ValueError, match=r"."):
        parse_fingerprints(bad)
