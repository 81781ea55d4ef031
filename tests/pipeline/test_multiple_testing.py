"""P-values of groups, corrected for how many groups there are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import calibrant as cal
from calibrant.pipeline.multiple_testing import benjamini_hochberg


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
@settings(max_examples=80, deadline=None)
def test_q_values_are_scipys(p_values):
    p = np.array(p_values)
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))


def judged(bad, groups=12, rows=150, seed=0):
    """Calibrated groups, and `bad` ones that are over-confident by 0.25."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), rows)
    confidence = rng.uniform(0.5, 1.0, len(group))
    correct = rng.random(len(group)) < confidence - 0.25 * (group < bad)
    return cal.Judged.from_confidence(confidence, correct, columns={"group": group})


def test_bad_groups_are_found_and_marked():
    evaluation = cal.evaluate(judged(bad=2), "ece,accuracy,ks", by="group", resamples=500)
    groups = evaluation.results[0].groups
    for spec in ("ece", "ks"):
        assert all(group.metrics[spec].q_value < 0.05 for group in groups[:2])
        p = np.array([group.metrics[spec].p_value for group in groups])
        assert [group.metrics[spec].q_value for group in groups] == pytest.approx(stats.false_discovery_control(p))
    assert all(np.isnan(group.metrics["accuracy"].q_value) for group in groups)
    shown = str(evaluation)
    assert "* significantly miscalibrated (q < 0.05)" in shown
    (first,) = (line for line in shown.splitlines() if line.startswith("0 "))
    assert first.count(" *") == 2


def test_calibrated_groups_are_seldom_marked():
    """Of 30 sets of 12 calibrated groups, uncorrected p-values would mark one in almost half of the sets."""
    marked = any_small = 0
    for seed in range(30):
        groups = cal.evaluate(judged(0, rows=80, seed=seed), "ece", by="group", resamples=200).results[0].groups
        marked += any(group.metrics["ece"].q_value < 0.05 for group in groups)
        any_small += any(group.metrics["ece"].p_value < 0.05 for group in groups)
    assert marked <= 6
    assert any_small >= 2 * marked + 4


def test_groups_by_label_have_no_p_value():
    rng = np.random.default_rng(0)
    predictions = cal.Classification.from_logits(rng.normal(size=(60, 3)), rng.integers(0, 3, 60))
    groups = cal.evaluate(predictions, "ece,ks,cwce,slope", by="labels", resamples=40).results[0].groups
    assert all(np.isnan(e.p_value) and np.isnan(e.q_value) for group in groups for e in group.metrics.values())


def test_resamples_too_few_for_the_groups_are_told_of():
    """The smallest p-value is 2/(resamples + 1); times 12 groups it must be able to fall below the mark."""
    groups = judged(bad=1)
    few, enough = (cal.evaluate(groups, "ece", by="group", resamples=number) for number in (400, 480))
    assert [note.code for note in few.warnings] == ["too-few-resamples"]
    assert "use --resamples 480" in few.warnings[0].message
    assert not enough.warnings
    assert enough.results[0].groups[0].metrics["ece"].q_value < 0.05 < few.results[0].groups[0].metrics["ece"].q_value
