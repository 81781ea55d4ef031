"""Comparisons over several data sets: flips of ranks by each, a pool in each, and what their summary says."""

import json

import numpy as np
import pytest

import calibrant as cal
from calibrant.errors import UsageError
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.tables import remarks, tables

N, C = 400, 4
RNG = np.random.default_rng(8)
TRUTH = RNG.normal(0.0, 2.0, (N, C))
LABELS = (TRUTH + RNG.gumbel(size=(N, C))).argmax(axis=1)


def model(noise, seed=1, members=1):
    logits = TRUTH + noise * np.random.default_rng(seed).normal(size=(members, N, C))
    return cal.Classification.from_logits(logits if members > 1 else logits[0], LABELS)


def halves(models):
    """Every other row of each model: two data sets."""
    return {s: {name: item[k::2] for name, item in models.items()} for k, s in enumerate("xy")}


@pytest.fixture(scope="module")
def two():
    return {"good": model(0.3), "poor": model(2.0, seed=2)}


# ---------------------------------------------------------------------------------------------------- flips
def test_flips_of_several_data_sets_stand_with_each(two):
    found = cal.compare(halves(two), "cll", flips=True, resamples=100)
    assert found.flips is None
    for name, models in halves(two).items():
        alone = cal.rank_flips(models)
        assert found.flips_by[name] == alone
        assert f"{name}: {alone.reading()}" in remarks(found)
        assert f"{name} · {alone.table().title}" in [table.title for table in tables(found)]
        assert found.to_json()["comparison"]["datasets"][name]["flips"] == alone.to_json()
    again = Evaluation.from_json(json.loads(found.dumps()))
    assert again.flips_by == found.flips_by
    assert str(again) == str(found)


@pytest.mark.parametrize(
    ("item", "came"),
    [
        (cal.Judged.from_confidence([0.6, 0.7], [True, False]), "these are judged"),
        (cal.Regression.from_gaussian([0.0, 1.0], [1.0, 1.0], y=[0.0, 2.0]), "these are regression"),
        (cal.Classification.from_probs([[0.6, 0.4], [0.5, 0.5]], [0, 1]), "there is one model"),
    ],
)
def test_flips_need_classes_and_two_models(item, came):
    for given in ({"a": item}, {"x": {"a": item}, "y": {"a": item}}):
        with pytest.raises(UsageError, match=rf"flips.*classes and two models.*{came}"):
            cal.compare(given, flips=True)


# ----------------------------------------------------------------------------------------------------- pool
@pytest.mark.parametrize(("pool", "lacks"), [("pool", "y"), ("pool.npz", "x")])
def test_a_pool_of_data_sets_is_a_model_of_each(two, pool, lacks):
    sets = halves({**two, "pool": model(1.0, seed=3, members=3)})
    del sets["y"]["pool"]
    with pytest.raises(UsageError, match=f"every data set.*got '{pool}', which '{lacks}' lacks.*as a model of each"):
        cal.compare(sets, "cll", pool=pool)
