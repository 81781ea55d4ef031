"""multicalibration: brute force, level under calibration, power against a miscalibrated group and crossing."""

import numpy as np
import pytest

import calibrant as cal
from calibrant.errors import CalibrantError


def model(seed, n=600, gap=0.0, where=None):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 2, n).round(2)
    columns = {"site": rng.choice(["a", "b", "c"], n), "age": rng.normal(50, 10, n), "sex": rng.integers(0, 2, n)}
    inside = np.ones(n, bool) if where is None else where(columns)
    y = rng.random(n) < np.clip(np.where(inside, p - gap, p), 0, 1)
    return cal.Judged.from_confidence(p, y, columns=columns)


def test_statistics_agree_with_brute_force():
    predictions = model(0, 300)
    found = cal.checks.multicalibration(predictions, min_rows=20, resamples=20)
    p, y = predictions.confidence[0], predictions.correct.astype(float)
    by_name = {group.name: group for group in found.groups}
    site = predictions.column("site")
    for value in ("a", "b", "c"):
        group, rows = by_name[f"site = {value}"], site == value
        ends = np.unique(p[rows])
        brute = max(
            abs(((y - p)[rows] * ((p[rows] >= low) & (p[rows] <= high))).sum())
            for low in ends
            for high in ends
            if low <= high
        )
        assert group.n == rows.sum()
        assert group.error * group.n == pytest.approx(brute)
        assert group.statistic == pytest.approx(brute / np.sqrt((p[rows] * (1 - p[rows])).sum()))
        assert group.mean_gap == pytest.approx((p - y)[rows].mean())
    assert found.statistic == max(group.statistic for group in found.groups)
    names = {group.columns for group in found.groups}
    assert {("site",), ("age",), ("sex",), ("site", "age"), ("age", "sex"), ("site", "sex")} == names


def test_level_under_calibration():
    """5 ± 1.5% at 1,000 data sets; here 300, with three standard errors."""
    rejected = sum(cal.checks.multicalibration(model(seed, 300), resamples=100).p_value <= 0.05 for seed in range(300))
    assert abs(rejected / 300 - 0.05) <= 3 * 0.0126


def test_power_against_one_group_and_one_crossing():
    def group(columns):
        return columns["site"] == "b"

    def crossing(columns):
        return (columns["site"] == "b") & (columns["sex"] == 1)

    for where, gap, name in ((group, 0.2, "site = b"), (crossing, 0.3, "site = b, sex = 1")):
        found = [cal.checks.multicalibration(model(seed, 1200, gap, where), resamples=100) for seed in range(20)]
        assert np.mean([item.p_value <= 0.05 for item in found]) > 0.9
        assert sum(item.groups[0].name == name for item in found) >= 10
    whole = [
        cal.checks.multicalibration(model(seed, 1200, 0.3, crossing), pairs=False, resamples=100) for seed in range(20)
    ]
    assert all("," not in item.groups[0].name for item in whole)


def test_classes_small_groups_and_seed():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 3))
    columns = {"site": np.array(["a"] * 280 + ["b"] * 20)}
    predictions = cal.Classification.from_logits(logits, rng.integers(0, 3, 300), columns=columns)
    found = cal.checks.multicalibration(predictions, resamples=50)
    assert [group.name for group in found.groups] == ["site = a"]
    assert found.skipped == 1
    assert found == cal.checks.multicalibration(predictions, resamples=50)
    one = cal.checks.multicalibration(predictions, of="1", resamples=50)
    assert one.groups[0].mean_gap != found.groups[0].mean_gap
    assert found.to_json()["groups"][0]["n"] == 280
    assert "worst group: site = a" in str(found)


def test_mistakes():
    with pytest.raises(CalibrantError, match="columns that define groups"):
        cal.checks.multicalibration(cal.Judged.from_confidence([0.5, 0.6], [1, 0]))
    with pytest.raises(CalibrantError, match="at least 50 rows"):
        cal.checks.multicalibration(model(0, 20))
    with pytest.raises(CalibrantError, match="did you mean 'site'"):
        cal.checks.multicalibration(model(0), ["siet"])
