"""Curves of groups: those of evaluating the rows of a group alone."""

import json

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal

N = 300


def columns():
    rng = np.random.default_rng(5)
    return {"site": rng.choice(["a", "b", "c"], N, p=[0.6, 0.3, 0.1]), "age": rng.normal(size=N), "unit": np.arange(N)}


def classes(weighted=False, members=1):
    rng = np.random.default_rng([members])
    z = 1.5 * rng.normal(size=(members, N, 4))
    y = (z.mean(axis=0) + rng.gumbel(size=(N, 4))).argmax(axis=1)
    weights = np.where(np.arange(N) % 7 == 0, 0.0, rng.exponential(size=N)) if weighted else None
    return cal.Classification.from_logits(z, y, weights=weights, columns=columns())


def judged():
    p = np.random.default_rng(1).random(N)
    return cal.Judged.from_confidence(p, np.random.default_rng(2).random(N) < p, columns=columns())


def regression(kind):
    rng = np.random.default_rng(3)
    mean, y = rng.normal(size=N), rng.normal(size=N)
    if kind == "gaussian":
        return cal.Regression.from_gaussian(mean, 1 + rng.random(N), y, columns=columns())
    return cal.Regression.from_samples(mean + rng.normal(size=(6, N)), y, columns=columns())


MADE = {
    "classes": (classes(), "reliability"),
    "weighted": (classes(weighted=True), "reliability"),
    "members": (classes(members=3), "reliability"),
    "judged": (judged(), "reliability"),
    "gaussian": (regression("gaussian"), "pit"),
    "samples": (regression("samples"), "pit"),
}


@pytest.mark.parametrize("name", MADE)
def test_a_group_has_the_curve_of_its_rows_alone(name):
    made, curve = MADE[name]
    metric = "ece" if curve == "reliability" else "pit"
    groups = cal.evaluate(made, metric, by=["site", "age:3"], resamples=60).results[0].groups
    assert len(groups) == 6
    for group in groups:
        column, _, bins = group.by.partition(":")
        rows = dict(made.by(column, int(bins) if bins else None))[group.value]
        alone = cal.evaluate(rows, metric, resamples=60).results[0].curves[curve]
        assert set(group.curves) == {curve}
        assert group.curves[curve] == alone
        assert "band_low" in alone


@pytest.mark.parametrize("name", ["weighted", "samples"])
def test_blocks_threads_and_streams_show_nowhere(name, tmp_path):
    made, _ = MADE[name]
    stream = cal.scan(cal.write(made, tmp_path / "x.npz"))
    whole, *others = (
        [dict(group.curves) for group in evaluate_with(item, by="site", resamples=60, **how).results[0].groups]
        for item, how in ((made, {}), (made, {"block_rows": 7}), (stream, {"block_rows": 11, "threads": 2}))
    )
    assert all(other == whole for other in others)
    assert all(whole)


def test_within_an_outcome_there_is_no_band():
    """Among rows of one label, or of high outcomes, no model is calibrated."""
    for made, by, curve in ((classes(), "labels", "reliability"), (regression("gaussian"), "y:3", "pit")):
        for group in cal.evaluate(made, by=by, resamples=60).results[0].groups:
            assert not {"band_low", "band_high"} & set(group.curves[curve])
            assert sum(group.curves[curve]["n"]) == group.n


def test_without_bands_and_without_curves():
    made = classes()
    groups = evaluate_with(made, "ece", by="site", intervals=False).results[0].groups
    assert all("band_low" not in group.curves["reliability"] for group in groups)
    assert all(group.curves == {} for group in cal.evaluate(made, "ece", by="site", curves=False).results[0].groups)
    assert "curves" not in cal.evaluate(made, "ece", by="site", curves=False).to_json()["results"][0]["groups"][0]
    assert all(group.curves == {} for group in cal.evaluate(regression("gaussian"), "mse", by="site").results[0].groups)


def test_groups_of_no_weight_and_columns_of_many_groups_have_none():
    columns = {"site": np.arange(N) % 2, "many": np.arange(N) % 61, "most": np.arange(N) % 60}
    rng = np.random.default_rng(0)
    made = cal.Judged.from_confidence(rng.random(N), rng.integers(0, 2, N), weights=columns["site"], columns=columns)
    none, some = cal.evaluate(made, "ece", by="site", resamples=60).results[0].groups
    assert none.curves == {}
    assert sum(some.curves["reliability"]["n"]) == N / 2
    for column, expected in (("many", False), ("most", True)):
        groups = cal.evaluate(made, "ece", by=column, resamples=60).results[0].groups
        assert any(group.curves for group in groups) == expected


def test_files_bring_them_back(tmp_path):
    found = cal.evaluate(classes(), "ece", by="site", resamples=60)
    again = cal.Evaluation.load(found.save(tmp_path / "x.json"))
    assert again == found
    assert again.results[0].groups[1].curves["reliability"]["n"]
    old = json.loads(found.dumps())
    for group in old["results"][0]["groups"]:
        del group["curves"]
    assert cal.Evaluation.from_json(old).results[0].groups[0].curves == {}
