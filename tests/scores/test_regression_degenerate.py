"""Degenerate and extreme regressions: values, or `undefined`, `infinite` or skipped with the reason, and no crash."""

import json
import math

import numpy as np
import pytest
from evaluations import evaluate_with
from scipy import stats

import calibrant as cal

Regression = cal.Regression
LEVELS = [0.025, 0.25, 0.5, 0.75, 0.975]
Q = np.sort(np.random.default_rng(0).normal(size=(6, 5)), axis=1)
Y = np.random.default_rng(1).normal(size=6)
DRAWS = np.random.default_rng(2).normal(size=(4, 6))
DEGENERATE = {
    "one row": Regression.from_gaussian([0.0], [1.0], [1.0]),
    "one row of members": Regression.from_gaussian([[0.0], [1.0]], [[1.0], [2.0]], [1.0]),
    "one row of samples": Regression.from_samples([[0.0], [1.0]], [1.0]),
    "one row of quantiles": Regression.from_quantiles([[0.0, 1.0]], [0.25, 0.5], [1.0]),
    "two rows": Regression.from_gaussian([0.0, 1.0], [1.0, 2.0], [1.0, 1.5]),
    "one sample": Regression.from_samples(DRAWS[:1], Y),
    "equal samples, missed": Regression.from_samples(np.full((5, 3), 2.0), [1.0, 2.5, 3.0]),
    "equal samples, hit": Regression.from_samples(np.full((5, 3), 2.0), [2.0, 2.0, 2.0]),
    "equal samples, both": Regression.from_samples(np.full((5, 3), 2.0), [1.0, 2.0, 3.0]),
    "equal samples in one row": Regression.from_samples(np.where(np.arange(6) == 2, 1.0, DRAWS), Y),
    "equal rows": Regression.from_gaussian(np.zeros(5), np.ones(5), np.ones(5)),
    "equal rows of samples": Regression.from_samples(np.repeat(DRAWS[:, :1], 5, axis=1), np.ones(5)),
    "one level": Regression.from_quantiles(Q[:, :1], [0.9], Y),
    "crossing": Regression.from_quantiles(Q[:, ::-1], LEVELS, Y),
    "no outcome": Regression.from_gaussian([[0.0, 1.0], [1.0, 3.0]], np.ones((2, 2))),
    "one weight": Regression.from_gaussian(np.zeros(6), np.ones(6), Y, weights=[0, 0, 1, 0, 0, 0]),
    "one unit": Regression.from_samples(DRAWS, Y, columns={"unit": np.zeros(6)}),
    "far away": Regression.from_gaussian(np.zeros(3), np.ones(3), [1e9, -1e9, 0.0]),
    "very narrow": Regression.from_gaussian(np.zeros(3), np.full(3, 1e-30), [1.0, 1e-30, 0.0]),
    "narrow and wide members": Regression.from_gaussian([[0.0], [1e6]], [[1e-6], [1e3]], [0.5]),
}

OVER_LEVELS = {"calibration_error", "mace", "rmsce"}
STATUS = ("undefined", "infinite", "-infinite")


def estimates(made, metrics=None, **settings):
    return evaluate_with(made, metrics, resamples=20, **settings).results[0].metrics


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("metrics", [None, "all"])
def test_nothing_raises_and_everything_is_said(name, metrics):
    """Whatever cannot be had has a status; whatever is stored can be read, printed and compared."""
    made = DEGENERATE[name]
    units = "unit" if "unit" in made.columns else None
    result = cal.evaluate(made, metrics, resamples=20, units=units)
    stored = json.loads(result.dumps())["results"][0]
    assert stored["metrics"]
    for spec, estimate in stored["metrics"].items():
        assert (estimate["value"] is None) == (estimate.get("status") in STATUS), (spec, estimate)
        assert estimate["value"] is not None or "low" not in estimate
    said = str(result)
    assert all(spec in said for spec in (*stored["metrics"], *stored["skipped"]))


@pytest.mark.parametrize("name", ["one row", "one row of members", "one row of samples", "one weight", "one unit"])
def test_one_row_has_values_and_no_interval(name):
    made = DEGENERATE[name]
    for spec, estimate in estimates(made, units="unit" if name == "one unit" else None).items():
        assert math.isfinite(estimate.value), spec
        if estimate.method != "wilson":
            assert (estimate.method, math.isnan(estimate.low)) == ("none", True), spec


@pytest.mark.parametrize("name", ["equal rows", "equal rows of samples"])
def test_equal_scores_have_no_interval(name):
    """That all are the same says little of the next: no interval of width 0. Shares have theirs."""
    for spec, estimate in estimates(DEGENERATE[name]).items():
        if estimate.method in ("wilson", "test-inversion"):
            assert estimate.low < estimate.high, spec
            continue
        assert math.isnan(estimate.low), spec
        assert math.isnan(estimate.high), spec


def test_two_rows_have_students_interval():
    """The scores of two rows have no skewness: mean ± t·|difference|/2 with one degree of freedom."""
    made = DEGENERATE["two rows"]
    estimate, rows = cal.evaluate(made, "nll")["nll"], cal.score_rows(made, "nll")["nll"]
    half = stats.t.ppf(0.975, 1) * abs(rows[0] - rows[1]) / 2
    assert (estimate.low, estimate.high) == pytest.approx((rows.mean() - half, rows.mean() + half))


# ------------------------------------------------------------------------------------------ samples
def test_one_sample_gives_what_needs_no_pairs():
    made = DEGENERATE["one sample"]
    result = cal.evaluate(made, "report").results[0]
    scores = {"mse", "mae", "pinball", "interval_score", "pit"}
    assert result.metrics.keys() == scores | OVER_LEVELS | {"picp", "width", "pit_uniformity", "coverage_gap"}
    assert str(result.skipped["crps"]) == "it needs two samples or more (fair=false does not)"
    assert str(result.skipped["dss"]) == "it needs two samples or more"
    assert str(result.skipped["nll"]) == "it needs a density"
    found = cal.measure(made, "mse,mae,mae(point=mean),crps(fair=false)")
    error = np.abs(DRAWS[0] - Y)
    assert found["mse"] == pytest.approx((error**2).mean())
    for spec in ("mae", "mae(point=mean)", "crps(fair=false)"):
        assert found[spec] == pytest.approx(error.mean())
    with pytest.raises(cal.CalibrantError, match="two samples or more"):
        cal.measure(made, "crps")


def test_equal_samples_have_an_infinite_dss_and_it_is_said():
    """+∞ where they miss, −∞ where they hit, undefined where both happen; every other score is that of a point."""
    missed, hit, both = (DEGENERATE[f"equal samples, {how}"] for how in ("missed", "hit", "both"))
    assert [cal.measure(made, "dss")["dss"] for made in (missed, hit)] == [math.inf, -math.inf]
    assert math.isnan(cal.measure(both, "dss")["dss"])
    assert math.isinf(cal.measure(DEGENERATE["equal samples in one row"], "dss")["dss"])
    assert "infinite-dss" in [note.code for note in cal.evaluate(missed, "report").warnings]
    for made in (missed, hit, both):
        error = np.abs(made.y - 2.0)
        rows = cal.score_rows(made, "crps,crps(fair=false),mae,pinball(level=0.5),mse,interval_score")
        for spec in ("crps", "crps(fair=false)", "mae"):
            assert (rows[spec] == error).all(), spec
        assert (rows["pinball(level=0.5)"] == error / 2).all()
        assert (rows["mse"] == error**2).all()
        assert rows["interval_score"] == pytest.approx(40 * error)
    assert cal.score_rows(hit, "pit")["pit"] == pytest.approx(0.5)


def test_minus_infinity_is_read_as_it_was_stored(tmp_path):
    result = cal.evaluate(DEGENERATE["equal samples, hit"], "report")
    assert cal.Evaluation.load(result.save(tmp_path / "e.json"))["dss"].value == -math.inf


def test_equal_samples_have_no_moment_matched_gaussian():
    with pytest.raises(cal.CalibrantError, match="var: expected numbers above 0"):
        DEGENERATE["equal samples, hit"].moment_matched()


# ---------------------------------------------------------------------------------------- quantiles
def test_quantiles_give_what_they_can_and_say_why_not_the_rest():
    result = cal.evaluate(Regression.from_quantiles(Q, LEVELS, Y), "report").results[0]
    assert result.metrics.keys() == {"mae", "pinball", "interval_score", "picp", "width", "coverage_gap"} | OVER_LEVELS
    reasons = {
        "it needs a density": {"nll", "aleatoric_variance", "epistemic_variance"},
        "it needs a mean": {"mse", "dss", "sharpness", "se_var_ratio", "ence"},
        "it needs a whole distribution, not quantiles": {"crps", "pit", "pit_uniformity"},
        "for regression it is defined only for one Gaussian per row": {"skce"},
    }
    texts = {spec: str(reason) for spec, reason in result.skipped.items()}
    assert texts == {spec: reason for reason, specs in reasons.items() for spec in specs}
    assert set(result.curves) == {"calibration", "central_coverage", "width"}


@pytest.mark.parametrize(
    ("levels", "spec", "given"),
    [
        ([0, 1, 2, 3], "interval_score", False),
        ([1, 2, 3, 4], "interval_score", False),
        ([0, 4], "interval_score", True),
        ([0, 4], "mae", False),
        ([2], "mae", True),
        ([0, 1, 3], "interval_score(level=0.5)", True),
        ([0, 1, 3], "interval_score(level=0.6)", False),
        ([0, 1], "pinball", True),
        ([0, 1], "pinball(level=0.25)", True),
        ([0, 1], "pinball(level=0.5)", False),
        ([1, 2, 3], "pinball(levels=3)", True),
        ([1, 2, 3], "pinball(levels=4)", False),
        ([1, 2, 3], "mae(point=mean)", False),
    ],
)
def test_only_levels_that_are_there_are_used(levels, spec, given):
    """Nothing is interpolated, and the level that is missing is named."""
    made = Regression.from_quantiles(Q[:, levels], [LEVELS[k] for k in levels], Y)
    result = cal.evaluate(made, ["pinball", spec]).results[0]
    assert (spec in result.metrics) == given
    if not given:
        point = spec == "mae(point=mean)"
        assert result.skipped[spec].text.startswith("it needs a mean" if point else "it needs the level 0.")
        with pytest.raises(cal.CalibrantError, match="it needs"):
            cal.measure(made, spec)


def test_quantiles_that_cross_are_counted_and_used_as_given():
    q = np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 3.0], [1.0, 1.0, 1.0], [3.0, 2.0, 1.0]])
    made = Regression.from_quantiles(q, [0.25, 0.5, 0.75], np.ones(4))
    assert made.count_crossing() == 2
    result = cal.evaluate(made, "pinball,interval_score(level=0.5)")
    (note,) = result.warnings
    assert note.code == "crossing-quantiles"
    assert "2 of 4 rows" in note.message
    assert cal.score_rows(made, "interval_score(level=0.5)")["interval_score(level=0.5)"].tolist() == [2, 5, 0, 6]
    assert cal.evaluate(made[[0, 2]], "pinball")["pinball"].n == 2
    assert Regression.from_quantiles(np.sort(q), [0.25, 0.5, 0.75], np.ones(4)).notes() == ()


def test_the_note_on_crossing_is_of_the_rows_and_the_name_that_are_evaluated():
    made = Regression.from_quantiles([[0.0, 1.0], [2.0, 1.0], [2.0, 1.0]], [0.25, 0.75], np.ones(3))
    assert cal.evaluate(made[:1]).warnings == ()
    first, second = cal.evaluate({"a": made, "b": made[1:]}).warnings
    assert first.message.startswith("a: the quantiles of 2 of 3 rows")
    assert second.message.startswith("b: the quantiles of 2 of 2 rows")


# ------------------------------------------------------------------------------------- no outcomes
def test_without_outcomes_only_widths_are_left():
    result = cal.evaluate(DEGENERATE["no outcome"], "report").results[0]
    assert result.metrics.keys() == {"aleatoric_variance", "epistemic_variance", "width", "sharpness"}
    assert result["epistemic_variance"].value == pytest.approx(0.625)
    assert set(map(str, result.skipped.values())) == {"it needs y"}


def test_samples_and_quantiles_without_outcomes_give_their_width():
    assert cal.measure(Regression.from_samples(DRAWS), "report").keys() == {"width", "sharpness"}
    assert cal.measure(Regression.from_quantiles(Q, LEVELS)).keys() == {"width"}
    with pytest.raises(cal.CalibrantError, match="at least one metric that applies"):
        cal.evaluate(Regression.from_quantiles(Q[:, 1:], LEVELS[1:]))


# ----------------------------------------------------------------------------------------- extremes
def test_far_from_the_mean_the_density_is_finite():
    z = np.array([0.0, 30.0, -50.0, 1e9, -1e100, 1e150])
    made = Regression.from_gaussian(np.zeros(6), np.ones(6), z)
    rows = cal.score_rows(made, "nll,crps,pit,dss")
    assert rows["nll"] == pytest.approx(z**2 / 2 + 0.5 * math.log(2 * math.pi), rel=1e-14)
    assert rows["dss"] == pytest.approx(z**2, rel=1e-14)
    assert rows["crps"][1:] == pytest.approx(np.abs(z[1:]) - 1 / math.sqrt(math.pi), rel=1e-14)
    assert rows["pit"].tolist()[2:] == [0, 1, 0, 1]
    assert math.isfinite(cal.measure(made, "nll")["nll"])


@pytest.mark.parametrize("spread", [1e-2, 1e-4, 1e-7])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_that_are_nearly_equal_have_an_interval_about_their_mean(spread, weighted):
    """Standard deviations that differ by the rounding of float32: t times the standard error to both sides."""
    for seed in range(20):
        rng = np.random.default_rng([6, seed])
        std = 1.0 + spread * rng.normal(size=100)
        w = rng.uniform(1, 2, size=100) if weighted else None
        made = Regression.from_gaussian(np.zeros(100), std, np.zeros(100), weights=w)
        estimate = cal.evaluate(made, "aleatoric_variance")["aleatoric_variance"]
        error = stats.sem(std**2) * (1 if w is None else math.sqrt(np.mean(w**2)) / np.mean(w))
        ends = (estimate.value - estimate.low) / error, (estimate.high - estimate.value) / error
        assert ends == pytest.approx((2, 2), abs=0.5), seed


@pytest.mark.parametrize("scale", [1e-40, 1e40, 1e-60, 1e60])
@pytest.mark.parametrize("kind", ["gaussian", "mixture", "samples"])
def test_intervals_in_units_beyond_all_reason(kind, scale):
    """Cubes of squared errors in such units are beyond floats: an interval without them, or none, but no crash."""
    rng = np.random.default_rng(3)
    mean, std, y = rng.normal(size=(3, 50)), np.exp(rng.normal(size=(3, 50))), rng.normal(size=50)

    def made(unit):
        if kind == "samples":
            return Regression.from_samples(unit * (mean + std), unit * y)
        members = slice(None) if kind == "mixture" else slice(1)
        return Regression.from_gaussian(unit * mean[members], unit * std[members], unit * y)

    plain, scaled = estimates(made(1.0)), estimates(made(scale))
    for spec, power in (("crps", 1), ("mae", 1), ("pinball", 1), ("mse", 2)):
        one, other = plain[spec], scaled[spec]
        assert other.value == pytest.approx(one.value * scale**power, rel=1e-9)
        if math.isfinite(other.low):
            assert other.low <= other.value <= other.high
    assert scaled["crps"].high == pytest.approx(plain["crps"].high * scale, rel=1e-9)


@pytest.mark.parametrize("members", [1, 4])
def test_a_far_origin_costs_no_more_than_its_own_rounding(members):
    """At 1e15 floats lie 0.125 apart: outcomes and means in eighths are exact, and so are the scores."""
    rng = np.random.default_rng(4)
    mean = np.repeat(np.round(8 * rng.normal(size=(1, 200))) / 8, members, axis=0)
    std, y = np.ones((members, 200)), np.round(8 * rng.normal(size=200)) / 8
    near, far = (cal.measure(Regression.from_gaussian(mean + b, std, y + b), "report") for b in (0.0, 1e15))
    for spec in ("nll", "crps", "mse", "mae", "dss", "pit"):
        assert far[spec] == pytest.approx(near[spec], rel=1e-9), spec
    for spec in ("pinball", "interval_score"):  # quantiles themselves are rounded to eighths
        assert far[spec] == pytest.approx(near[spec], rel=0.1), spec


@pytest.mark.parametrize("members", [3, 20])
def test_members_that_agree_have_no_epistemic_variance_wherever_they_are(members):
    mean = np.repeat(1e15 + np.arange(40)[None] / 8, members, axis=0)
    rows = cal.score_rows(Regression.from_gaussian(mean, np.ones_like(mean), mean[0]), "mse,epistemic_variance,dss")
    assert not rows["mse"].any()
    assert not rows["epistemic_variance"].any()
    assert not rows["dss"].any()


def test_samples_at_a_far_origin():
    rng = np.random.default_rng(5)
    x, y = np.round(8 * rng.normal(size=(9, 100))) / 8, np.round(8 * rng.normal(size=100)) / 8
    near, far = (cal.measure(Regression.from_samples(x + b, y + b), "report") for b in (0.0, 1e15))
    for spec in ("crps", "mae", "pinball", "interval_score", "pit"):
        assert far[spec] == pytest.approx(near[spec], rel=1e-12), spec
    assert far["mse"] == pytest.approx(near["mse"], rel=0.2)  # means of nine are rounded to eighths


def test_levels_close_to_zero_are_not_zero():
    made = Regression.from_gaussian(np.zeros(3), np.ones(3), [0.0, 1.0, -1.0])
    found = cal.score_rows(made, "pinball(level=1e-13)")["pinball(level=1e-13)"]
    assert found == pytest.approx(1e-13 * (made.y - stats.norm.ppf(1e-13)), rel=1e-6)
