"""Comparisons over several data sets: flips of ranks by each, a pool in each, and what their summary says."""

import json
from dataclasses import replace

import numpy as np
import pytest

import calibrant as cal
from calibrant.comparison.datasets import summary
from calibrant.errors import UsageError
from calibrant.render.comparison_text import comparison_legend
from calibrant.render.evaluation import tables
from calibrant.render.verdicts.api import verdict
from calibrant.results.comparison import MeanEquivalent
from calibrant.results.evaluation import Evaluation

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
        alone = cal.comparison.rank_flips(models)
        assert found.flips_by[name] == alone
        assert f"{name}: {alone.reading()}" in [point.text for point in verdict(found).points]
        assert f"{name} · {alone.table().title}" in [table.title for table in tables(found)]
        assert found.to_json()["comparison"]["datasets"][name]["flips"] == alone.to_json()
    again = Evaluation.from_json(json.loads(found.dumps()))
    assert again.flips_by == found.flips_by
    assert str(again) == str(found)


@pytest.mark.parametrize(
    ("item", "got"),
    [
        (cal.Judged.from_confidence([0.6, 0.7], [True, False]), "judged predictions"),
        (cal.Regression.from_gaussian([0.0, 1.0], [1.0, 1.0], y=[0.0, 2.0]), "regression predictions"),
        (cal.Classification.from_probs([[0.6, 0.4], [0.5, 0.5]], [0, 1]), "one model"),
    ],
)
def test_flips_need_classes_and_two_models(item, got):
    for given in ({"a": item}, {"x": {"a": item}, "y": {"a": item}}):
        with pytest.raises(UsageError, match=rf"flips.*at least two classification models.*{got}"):
            cal.compare(given, flips=True)


# ----------------------------------------------------------------------------------------------------- pool
@pytest.mark.parametrize(("pool", "lacks"), [("pool", "y"), ("pool.npz", "x")])
def test_a_pool_of_data_sets_is_a_model_of_each(two, pool, lacks):
    sets = halves({**two, "pool": model(1.0, seed=3, members=3)})
    del sets["y"]["pool"]
    with pytest.raises(UsageError, match=f"every data set.*got '{pool}', which '{lacks}' lacks.*as a model of each"):
        cal.compare(sets, "cll", pool=pool)


@pytest.fixture(scope="module")
def counted(two):
    """Three models of two data sets, and what each is worth in a pool of four."""
    models = {**two, "five": model(1.2, seed=4, members=5), "pool": model(1.0, seed=3, members=4)}
    return cal.compare(halves(models), "cll", pool="pool", resamples=100, draws=3)


def test_all_members_of_a_model_have_one_equivalent(counted):
    for each in counted.comparison.datasets.values():
        assert [item.members for item in each.equivalent_curves["five"]] == [1, 2, 3, 4, 5]
        assert each.equivalent_curves["five"][-1] == each.equivalents["five"]


def cells(found, head):
    table = next(table for table in tables(found) if head in table.heads)
    return {row[1]: row[table.heads.index(head)] for row in table.rows}


def test_a_mean_equivalent_says_where_it_lies_beyond_the_pool(counted):
    """All below one member is at most 1; what is above all of them is at least their number."""
    each = counted.comparison.datasets
    assert {item.equivalents["poor"].censored for item in each.values()} == {"below"}
    assert {item.equivalents["good"].censored for item in each.values()} == {"above"}
    shown = cells(counted, "DEE")
    assert (shown["poor"], shown["good"]) == ("< 1.0", "> 4.0")
    inside = {item.equivalents["five"].censored for item in each.values()} == {""}
    assert inside == (shown["five"][0] not in "<>")
    assert any(line.startswith("DEE < and >") for line in comparison_legend(counted))


@pytest.mark.parametrize(
    ("sides", "shown"),
    [
        (("", ""), "2.0"),
        (("below", ""), "< 2.0"),
        (("", "above"), "> 2.0"),
        (("below", "above"), "2.0 (1 <, 1 >)"),
    ],
)
def test_a_mean_of_some_that_are_beyond_is_a_bound(counted, sides, shown):
    each = {}
    for (name, item), side in zip(counted.comparison.datasets.items(), sides, strict=True):
        known = replace(item.equivalents["five"], value=2.0, censored=side)
        each[name] = replace(item, equivalents={**item.equivalents, "five": known})
    found = summary(each, "cll")
    held = replace(counted, comparison=replace(counted.comparison, datasets=each, summary=found))
    assert cells(held, "DEE")["five"] == shown
    again = Evaluation.from_json(json.loads(held.dumps()))
    assert cells(again, "DEE") == cells(held, "DEE")
    below, above = sides.count("below"), sides.count("above")
    assert MeanEquivalent(5, 2.0, 1.0, 3.0, 2, below, above).shown() == shown


@pytest.mark.parametrize("temperature", ["same", "clean"])
def test_equivalents_of_a_ranking_by_clean_rows_say_what_they_are_counted_by(two, temperature):
    pool = model(1.0, seed=3, members=3)
    clean = {name: item[::2] for name, item in two.items()} if temperature == "clean" else None
    scored = {name: item[1::2] for name, item in two.items()}
    found = cal.compare(scored, "cll", temperature=temperature, clean=clean, pool=pool[1::2], resamples=100, draws=2)
    alone = cal.comparison.equivalent(scored["good"], pool[1::2], draws=2, resamples=100)
    assert found.comparison.equivalents["good"].cll == pytest.approx(alone.cll, abs=1e-12)
    told = [line for line in comparison_legend(found) if line.startswith("DEE")]
    assert len(told) == (temperature == "clean")
    assert all("same rows" in line and line in str(found).replace("\n  ", " ") for line in told)
