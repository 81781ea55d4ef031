"""The ladder: which errors are on it, which links hold, and what is said of them."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

import calibrant as cal
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import parse
from calibrant.results.error_hierarchy import LINKS, RUNGS, SPECS, ErrorHierarchy


def model(n=300, classes=4, sharp=1.5, seed=0):
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, classes))
    labels = (softmax(z, axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return cal.Classification.from_probs(softmax(sharp * z, axis=1), labels)


def test_specs_are_canonical_and_every_link_has_its_rungs():
    assert [parse(spec).text for spec in SPECS] == list(SPECS)
    assert {link.kind for link in LINKS} == {"must", "limit", "may cross"}
    assert all(link.upper in SPECS and link.lower in SPECS for link in LINKS)
    assert [rung.symbol for rung in RUNGS] == ["√BS", "CE₂", "CWCE₂", "TCE₂", "KS", "ECE"]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(2, 6), st.floats(0, 8), st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_links_that_must_hold_are_never_crossed(n, classes, sharp, seed, coarse, weighted):
    """Whatever the predictions and labels are, tied or not, weighted or not."""
    rng = np.random.default_rng(seed)
    p = softmax(sharp * rng.normal(size=(n, classes)), axis=1)
    if coarse:
        p = np.round(4 * p) + 1
        p /= p.sum(axis=1, keepdims=True)
    weights = rng.exponential(size=n) if weighted else None
    predictions = cal.Classification.from_probs(p, rng.integers(0, classes, n), weights=weights)
    specs = [spec for spec in SPECS if spec != "ce(p=2)"]
    values = {spec: Estimate.of(value, n) for spec, value in cal.measure(predictions, specs).items()}
    assert not [standing for standing in ErrorHierarchy.of(values).standings if standing.surprising]


def test_links_that_may_cross_do_cross():
    """The corrected counter-example of theorem 3.1, and errors over bins beside one without."""
    from itertools import permutations

    kinds = [((0.4, 0.3, 0.3), [20, 0, 0]), ((0.4, 0.6, 0.0), [0, 30, 0]), ((0.3, 0.6, 0.1), [18, 0, 2])]
    probs, labels = [], []
    for order in permutations(range(3)):
        for prediction, counts in kinds:
            probs += [np.array(prediction)[list(order)]] * sum(counts)
            labels += [place for place, k in enumerate(order) for _ in range(counts[k])]
    values = cal.measure(cal.Classification.from_probs(probs, labels), list(SPECS))
    ladder = ErrorHierarchy.of({spec: Estimate.of(value, 1) for spec, value in values.items()})
    crossed = {(s.link.upper, s.link.lower) for s in ladder.standings if not s.holds}
    assert crossed == {("cwce", "tce")}
    hidden = cal.Judged.from_confidence([0.61, 0.66, 0.61, 0.66], [1, 1, 0, 0])  # one bin of fifteen
    again = cal.Judged.from_confidence([0.61, 0.66], [1, 0])
    for judged, holds in ((hidden, True), (again, False)):
        found = cal.measure(judged, ["ks", "ece"])
        assert (found["ece"] >= found["ks"]) is holds


def test_evaluation_has_the_ladder_with_intervals_and_keeps_it():
    evaluation = cal.error_hierarchy(model(), resamples=60)
    result = evaluation.results[0]
    assert list(result.metrics) == list(SPECS)
    assert all(np.isfinite([e.low, e.high]).all() for e in result.metrics.values())
    stored = json.loads(evaluation.dumps())["results"][0]["ladder"]
    assert [rung["spec"] for rung in stored["rungs"]] == list(SPECS)
    assert len(stored["links"]) == len(LINKS)
    assert type(evaluation).from_json(json.loads(evaluation.dumps())) == evaluation
    text = str(evaluation)
    for said in (
        "√BS ≥ CE₂",
        "must hold",
        "not guaranteed",
        "holds in the limit",
        "ECE = 0: ",
        "proposition 3.2",
    ):
        assert said in text
    assert max(map(len, text.splitlines())) <= 80


def test_metrics_that_are_named_stand_beside_the_ladder():
    found = cal.error_hierarchy(model(50), "nll, ece(bins=15), ks", resamples=20).results[0]
    assert list(found.metrics) == [*SPECS, "nll"]
    whole = cal.error_hierarchy(model(50), "all", resamples=20).results[0]
    assert list(whole.metrics)[: len(SPECS)] == list(SPECS)
    assert {"nll", "ce", "skce"} < set(whole.metrics)


def test_rungs_that_predictions_cannot_give_are_left_out_with_their_links():
    judged = cal.Judged.from_confidence([0.6, 0.7, 0.9], [1, 0, 1])
    result = cal.error_hierarchy(judged, resamples=20).results[0]
    assert [rung.spec for rung in result.ladder.rungs] == ["rbs", "tce", "ks", "ece"]
    assert set(result.skipped) == {"ce(p=2)", "cwce"}
    assert all({s.link.upper, s.link.lower} <= set(result.metrics) for s in result.ladder.standings)
    with pytest.raises(cal.CalibrantError, match="not defined for regression"):
        cal.error_hierarchy(cal.Regression.from_gaussian([0.0, 1.0], [1.0, 1.0], y=[0.0, 1.0]))


def test_what_is_said_of_values_beyond_their_interval_is_true_of_each():
    """All right: accuracy 1 is no biased value, though Wilson's upper end may be a rounding below it."""
    sure = cal.Classification.from_probs(np.tile([[0.9, 0.1]], (597, 1)), np.zeros(597, int))
    assert "biased" not in str(cal.evaluate(sure, "accuracy"))
    rng = np.random.default_rng(5)
    tried = (cal.evaluate(_calibrated(rng.dirichlet(np.ones(3), 40), rng), "skce", resamples=20) for _ in range(50))
    low = next(found for found in tried if found["skce"].value < 0)
    assert "can be negative" in str(low)
    assert "biased" not in str(low).replace("unbiased", "")


def _calibrated(p, rng):
    return cal.Classification.from_probs(p, (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1))
