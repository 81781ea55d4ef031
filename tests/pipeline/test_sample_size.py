"""Values against the size of the test set: which rows are drawn, what is found on them, and what it shows."""

import itertools
import json
import math

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal
from calibrant.errors import InputError, NotApplicable, UsageError
from calibrant.pipeline import sample_size as by_size
from calibrant.pipeline.sample_size import Draws, default_repeats, default_sizes, value_by_size
from calibrant.results.evaluation import Evaluation
from calibrant.results.sample_size import SampleSizeCurve, SampleSizeCurves


def model(n=400, temperature=1.0, seed=0, classes=4, **known):
    """Labels from softmax(z), the model saying softmax(T·z): perfect for T = 1."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, classes))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    return cal.Classification.from_logits(temperature * z, labels, **known)


# ------------------------------------------------------------------------------------------ subsets
def test_subsets_of_a_replicate_are_nested_and_of_their_size():
    draws = Draws(500, seed=3)
    for replicate in range(3):
        order = draws.order(replicate)
        subsets = [draws.subset(order, size) for size in (2, 50, 51, 400)]
        assert [len(rows) for rows in subsets] == [2, 50, 51, 400]
        for small, large in itertools.pairwise(subsets):
            assert set(small) < set(large)
            assert (np.diff(large) > 0).all()


def test_replicates_and_seeds_draw_other_rows():
    first = Draws(500, 0).subset(Draws(500, 0).order(0), 50)
    assert set(first) != set(Draws(500, 0).subset(Draws(500, 0).order(1), 50))
    assert set(first) != set(Draws(500, 1).subset(Draws(500, 1).order(0), 50))


def test_every_row_is_as_likely_as_any_other():
    draws = Draws(40, 0)
    counts = np.bincount(np.concatenate([draws.subset(draws.order(r), 10) for r in range(2000)]), minlength=40)
    assert abs(counts - 500).max() < 5 * math.sqrt(2000 * 0.25 * 0.75)


def test_whole_units_are_drawn():
    units = np.repeat(np.arange(60), 5)[np.random.default_rng(0).permutation(300)]
    draws = Draws(300, 0, units)
    order = draws.order(0)
    inside = [set(draws.subset(order, size)) for size in (7, 10, 12, 299)]
    assert [len(rows) for rows in inside] == [10, 10, 15, 300]
    assert inside[0] == inside[1] < inside[2] < inside[3]
    for rows in inside:
        assert all(np.isin(np.flatnonzero(units == u), list(rows)).all() for u in units[list(rows)])


def test_units_are_recorded_with_the_rows_that_came():
    patient = np.arange(200) // 4
    found = value_by_size(model(200, columns={"patient": patient}), "ece", sizes=[50], repeats=5, units="patient")
    assert found.rows == (52.0, 200.0)
    assert found.units == "patient"


# ------------------------------------------------------------------------------------------- values
def test_values_are_those_of_measure_on_the_drawn_rows():
    before, after = model(temperature=2.0), model(temperature=1.1)
    specs = ["ece", "tce(bins=100)", "cwce", "kde_tce", "nll"]
    found = value_by_size(before, specs, after=after, sizes=[60], repeats=7, seed=5)
    draws = Draws(400, 5)
    subsets = [draws.subset(draws.order(r), 60) for r in range(7)]
    for spec in specs:
        values = np.array([[cal.measure(item[rows], spec)[spec] for rows in subsets] for item in (before, after)])
        curve = found.specs[spec]
        assert curve.mean[0] == pytest.approx(values[0].mean(), rel=1e-12)
        assert curve.sd[0] == pytest.approx(values[0].std(ddof=1), rel=1e-9)
        assert curve.error[0] == pytest.approx(values[0].std(ddof=1) / math.sqrt(7), rel=1e-9)
        expected = np.quantile(values[0], [0.05, 0.5, 0.95])
        assert [curve.q05[0], curve.q50[0], curve.q95[0]] == pytest.approx(expected)
        assert found.specs_after[spec].mean[0] == pytest.approx(values[1].mean(), rel=1e-12)
        assert found.improvement[spec].mean[0] == pytest.approx((values[0] - values[1]).mean(), rel=1e-9, abs=1e-15)
        assert found.improvement[spec].sd[0] == pytest.approx((values[0] - values[1]).std(ddof=1), rel=1e-9)


def test_full_size_is_measure():
    predictions = model()
    found = value_by_size(predictions, repeats=2)
    whole = cal.measure(predictions, list(found.specs))
    assert {spec: curve.mean[-1] for spec, curve in found.specs.items()} == whole
    assert all(math.isnan(curve.sd[-1]) for curve in found.specs.values())
    assert found.sizes[-1] == 400


def test_an_unbiased_score_is_steady():
    found = value_by_size(model(3000), "brier", sizes=[100, 300, 1000], repeats=100)
    curve = found.specs["brier"]
    for mean, error in zip(curve.mean[:-1], curve.error[:-1], strict=True):
        assert abs(mean - curve.mean[-1]) < 4 * error
    assert found.drift("brier") == pytest.approx(1.0, abs=0.05)


def test_ece_of_a_calibrated_model_falls_with_the_root_of_n():
    found = value_by_size(model(20_000), "ece", sizes=[250, 1000, 4000], repeats=40)
    means = found.specs["ece"].mean
    assert means[0] / means[1] == pytest.approx(2, rel=0.12)
    assert means[1] / means[2] == pytest.approx(2, rel=0.12)
    assert "ece at n = 250 is" in found.reading()
    assert found.drift("rbs") == pytest.approx(1, abs=0.03)


def test_improvement_by_ece_is_too_small_on_few_rows_and_by_brier_it_is_not():
    found = value_by_size(model(4000, 2.0), "ece,brier", after=model(4000), sizes=[100], repeats=60)
    assert found.share("ece") < 0.7
    gain = found.improvement["brier"]
    assert abs(gain.mean[0] - gain.mean[-1]) < 4 * gain.error[0]
    assert "improvement of ece at n = 100" in found.reading()


def test_identical_before_and_after_gain_exactly_nothing():
    predictions = model(temperature=1.4)
    found = value_by_size(predictions, after=predictions, repeats=5)
    for curve in found.improvement.values():
        assert set(curve.mean) == {0.0}
        assert set(curve.sd[:-1]) == {0.0}
    assert found.reading() == ""


def test_threads_and_blocks_change_nothing():
    predictions = model(weights=np.random.default_rng(1).random(400))
    one, two = (value_by_size(predictions, threads=threads, repeats=6) for threads in (1, 2))
    assert one == two
    evaluations = [
        evaluate_with(predictions, ["ece", "nll"], sizes=[50, 200], repeats=4, resamples=20, block_rows=rows)
        for rows in (None, 33)
    ]
    assert evaluations[0].sizes == evaluations[1].sizes


def test_members_are_averaged():
    rng = np.random.default_rng(0)
    predictions = cal.Classification.from_probs(rng.dirichlet(np.ones(3), (4, 120)), rng.integers(0, 3, 120))
    many, one = (value_by_size(item, sizes=[30], repeats=5) for item in (predictions, predictions.average()))
    for spec, curve in many.specs.items():
        assert curve.mean == pytest.approx(one.specs[spec].mean, abs=1e-9)


def test_weights_go_with_their_rows():
    weights = np.r_[np.zeros(390), np.ones(10)]
    curve = value_by_size(model(weights=weights), "accuracy", sizes=[20], repeats=30).specs["accuracy"]
    draws = Draws(400, 0)
    empty = sum(not (draws.subset(draws.order(r), 20) >= 390).any() for r in range(30))
    assert curve.undefined == (empty, 0)
    assert 0 < empty < 30


# --------------------------------------------------------------------------------- other predictions
def test_judged_answers_have_what_applies():
    rng = np.random.default_rng(0)
    confidence = rng.random(300)
    found = value_by_size(cal.Judged.from_confidence(confidence, rng.random(300) < confidence), repeats=4)
    assert {"ece", "ks", "kde_tce", "brier"} <= set(found.specs)
    assert "cwce" not in found.specs


@pytest.mark.parametrize("kind", ["gaussian", "samples"])
def test_regression_has_dss_beside(kind):
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    made = cal.Regression.from_gaussian(np.zeros(200), np.ones(200), y)
    made = made if kind == "gaussian" else cal.Regression.from_samples(rng.normal(size=(30, 200)), y)
    assert {"dss", "crps"} <= set(value_by_size(made, repeats=3).specs)
    named = value_by_size(made, "mae", repeats=3)
    assert list(named.specs) == ["dss", "mae"]
    assert math.isnan(named.drift("dss"))
    assert math.isfinite(named.drift("mae"))


def test_infinite_values_are_counted_as_what_they_are():
    probs = np.full((50, 2), 0.5)
    probs[0] = [0.0, 1.0]
    found = value_by_size(cal.Classification.from_probs(probs, np.zeros(50, int)), "nll", sizes=[20], repeats=40)
    assert found.specs["nll"].mean == (math.inf, math.inf)
    assert found.specs["nll"].q05[0] == pytest.approx(math.log(2))
    assert SampleSizeCurves.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


def test_a_stream_is_read(tmp_path, monkeypatch):
    predictions = model(name="model")
    stream = cal.scan(cal.write(predictions, tmp_path / "model.npz"))
    known = {"sizes": [50], "repeats": 3}
    assert value_by_size(stream, **known).specs == value_by_size(predictions, **known).specs
    monkeypatch.setattr(by_size, "MAX_BYTES", 1000)
    with pytest.raises(UsageError, match="subsets need all rows in memory"):
        value_by_size(stream, **known)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(n):
    found = value_by_size(model(n))
    assert found.sizes == ((n,) if n < 3 else (2, 3))
    assert SampleSizeCurves.from_json(found.to_json()) == found
    evaluation = cal.sample_size_curves(model(n), repeats=2, resamples=20)
    assert evaluation.sizes[0].sizes == found.sizes
    assert str(evaluation)


# ----------------------------------------------------------------------------------------- defaults
@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (10, (2, 5, 10)),
        (597, (50, 100, 200, 597)),
        (10_000, (100, 200, 500, 1000, 2000, 5000, 10_000)),
        (1_000_000, (100, 500, 1000, 5000, 20_000, 100_000, 200_000, 1_000_000)),
    ],
)
def test_default_sizes_are_round(n, sizes):
    assert default_sizes(n) == sizes


def test_large_inputs_have_fewer_subsets():
    assert default_repeats(model(), (100, 200, 400)) == 100
    assert default_repeats(model(), (200_000, 4_000_000)) == (1 << 29) // (200_000 * 54)
    assert default_repeats(model(), (1 << 30, 1 << 31)) == 20


def test_curves_leave_out_what_is_undefined():
    curve = SampleSizeCurve.of([np.array([1.0, math.nan, 3.0]), np.array([math.nan]), np.array([math.inf, -math.inf])])
    assert curve.mean[0] == 2.0
    assert curve.sd[0] == pytest.approx(math.sqrt(2))
    assert curve.undefined == (1, 1, 0)
    assert math.isnan(curve.mean[1])
    assert math.isnan(curve.mean[2])


# ---------------------------------------------------------------------------------------- evaluation
@pytest.fixture(scope="module")
def paired():
    inputs = {"raw": model(temperature=2.0), "scaled": model()}
    return cal.sample_size_curves(
        inputs, "ece,nll", sizes=[50, 100, 150, 200, 250, 300], repeats=5, pairs=True, resamples=20
    )


def test_an_evaluation_holds_sizes_and_comes_back(paired, tmp_path):
    (found,) = paired.sizes
    assert (found.input, found.after, found.repeats) == ("raw", "scaled", 5)
    assert list(found.specs) == ["rbs", "ece", "nll"]
    again = Evaluation.load(paired.save(tmp_path / "sizes.json"))
    assert again == paired
    stored = json.loads((tmp_path / "sizes.json").read_text())["sizes"][0]
    assert stored["sizes"] == [50, 100, 150, 200, 250, 300, 400]
    assert len(stored["improvement"]["ece"]["q95"]) == 7
    assert paired.settings["sizes"] == [50, 100, 150, 200, 250, 300]


def test_tables_fit_and_say_what_they_hold(paired):
    lines = str(paired).splitlines()
    assert max(map(len, lines)) <= 80
    start = next(k for k, line in enumerate(lines) if line.startswith("improvement from raw to scaled by"))
    assert lines[start + 1].split() == ["metric", "50", "150", "200", "300", "400", "share"]
    assert [line.split()[0] for line in lines[start + 3 : start + 9]] == ["rbs", "±", "ece", "±", "nll", "±"]
    assert "test set size: the improvement of ece at n = 50 is" in str(paired).replace("\n  ", " ")


def test_csv_has_the_whole_grid(paired):
    from calibrant.render.evaluation import as_csv
    from calibrant.render.terminal import as_latex, as_markdown

    lines = as_csv(paired).splitlines()
    assert lines[0].endswith(",sd,error,q05,q50,q95,undefined")
    assert len({line.count(",") for line in lines}) == 1
    assert sum(",size," in line for line in lines) == 2 * 3 * 7
    assert sum(",size: improvement," in line for line in lines) == 3 * 7
    assert "by test set size" in as_markdown(paired)
    assert "share" in as_latex(paired)


def test_without_sizes_nothing_is_said_of_them():
    evaluation = cal.evaluate(model(), "ece", resamples=20)
    assert evaluation.sizes == ()
    assert "sizes" not in evaluation.to_json()
    assert "sizes" not in evaluation.settings


def test_metrics_that_do_not_apply_are_skipped_and_not_followed():
    evaluation = cal.sample_size_curves(model(), "ece,roc_auc", sizes=[50], repeats=2, resamples=20)
    assert list(evaluation.sizes[0].specs) == ["rbs", "ece"]
    with pytest.raises(NotApplicable, match="two classes"):
        value_by_size(model(), "ece,roc_auc", sizes=[50], repeats=2)


def test_all_metrics_of_linear_or_sort_cost_can_be_followed():
    found = value_by_size(model(60), "all", sizes=[2, 20], repeats=2)
    assert {"accuracy", "nll", "smooth_ece", "slope", "aurc"} <= set(found.specs)


# ------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize("sizes", [[401], [1], [0], [-5], [2.5], [True], ["100"], [100, 5000]])
def test_sizes_that_cannot_be_are_refused(sizes):
    with pytest.raises(UsageError, match="integers from 2 to 400"):
        value_by_size(model(), sizes=sizes)


@pytest.mark.parametrize("repeats", [0, 1, -3, 2.5, True, 1 << 20])
def test_repeats_that_cannot_be_are_refused(repeats):
    with pytest.raises(UsageError, match="an integer from 2"):
        value_by_size(model(), repeats=repeats)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"pairs": True, "sizes": True}, "an even number of inputs, got 1"),
        ({"pairs": True}, "expected --sizes too"),
        ({"repeats": 10}, "expected --sizes too"),
        ({"sizes": "100"}, "a list of sizes"),
        ({"sizes": 100}, "a list of sizes"),
        ({"sizes": []}, "at least one size"),
        ({"sizes": [1000]}, "from 2 to 400"),
    ],
)
def test_what_does_not_fit_together_is_refused(asked, says):
    with pytest.raises(UsageError, match=says):
        evaluate_with(model(), **asked)


def test_rows_must_correspond():
    before = model()
    swapped = before[np.arange(400)[::-1]]
    with pytest.raises(InputError, match="labels differ, first in row"):
        value_by_size(before, after=swapped)
    with pytest.raises(InputError, match="the same number of rows, got 400 and 399"):
        value_by_size(before, after=before[:399])
    with pytest.raises(InputError, match="only one of them has"):
        value_by_size(before, after=cal.Classification.from_logits(before.scores[0]))
    with pytest.raises(InputError, match="predictions of the same kind"):
        value_by_size(before, after=cal.Judged.from_confidence(np.full(400, 0.5), np.ones(400, bool)))
    with pytest.raises(InputError, match="the same weights"):
        value_by_size(before, after=model(weights=np.ones(400)))
    with pytest.raises(InputError, match="the same ids"):
        value_by_size(model(ids=np.arange(400)), after=model(ids=np.arange(400)[::-1]))
    with pytest.raises(InputError, match="the same labels"):
        cal.sample_size_curves([before, swapped], pairs=True)


def test_without_labels_there_is_nothing_to_follow():
    with pytest.raises(NotApplicable, match="it needs labels"):
        value_by_size(cal.Classification.from_logits(model().scores[0]))


def test_progress_is_told():
    told = []
    value_by_size(model(), "ece", sizes=[50], repeats=3, progress=lambda *said: told.append(said))
    assert told == [("predictions: subsets", k, 3) for k in (1, 2, 3)]
