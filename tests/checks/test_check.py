"""`cal.check`: readings, groups, shift, blocks, functions, temperatures; and both failures of calibration error."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

import calibrant as cal


def ensemble(n=300, members=4, classes=3, seed=0, apart=0.7, **known):
    """Members that agree in part, and labels that the first of them drew."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, classes)) * 2 + apart * rng.normal(size=(members, n, classes))
    p = np.exp(logits[0]) / np.exp(logits[0]).sum(1, keepdims=True)
    labels = (p.cumsum(1) < rng.random(n)[:, None]).sum(1)
    return cal.Classification.from_logits(logits, labels, **known)


def same(a, b):
    """Whether two evaluations say the same, inputs and settings aside."""
    return json.dumps(a.to_json()["results"]) == json.dumps(b.to_json()["results"])


# ------------------------------------------------------------------------------------------------ the result
def test_observed_values_are_those_of_measure():
    p = ensemble()
    specs = "accuracy,ece,ece(bins=7,binning=mass),nll,brier,cwce,ks"
    found, expected = cal.check(p, specs, draws=20), cal.measure(p, specs)
    for spec, value in expected.items():
        assert found[spec].observed == pytest.approx(value, abs=1e-6), spec


def test_both_readings_stand_side_by_side_and_one_alone_is_the_same():
    p = ensemble()
    both = cal.check(p, draws=50)
    (result,) = both.results
    assert result.checks == cal.check(p, draws=50, members="bayesian").results[0].checks
    assert result.independent == cal.check(p, draws=50, members="independent").results[0].checks
    assert result.supported in ("bayesian", "independent", "both", "neither")
    assert "Bayesian" in str(both)
    assert "independent" in str(both)


def test_it_can_be_stored_and_read_back(tmp_path):
    rng = np.random.default_rng(3)
    columns = {"shift": rng.choice(["blur", "fog"], 300), "severity": rng.integers(0, 3, 300)}
    found = cal.check(ensemble(columns=columns), draws=30, by="shift", shift=True)
    again = cal.Evaluation.load(found.save(tmp_path / "check.json"))
    assert again.to_json() == found.to_json()
    assert str(again) == str(found)
    stored = json.loads((tmp_path / "check.json").read_text())["results"][0]
    assert set(stored["checks"]["ece"]) >= {
        "observed", "p_value", "mid_p", "two_sided", "sharpness", "mean", "q05", "q95", "passed_range",
        "passed_interval", "draws", "se", "randomised",
    }  # fmt: skip


def test_a_statistic_that_was_not_checked_is_named():
    with pytest.raises(cal.CalibrantError, match="did you mean 'accuracy'"):
        cal.check(ensemble(), "accuracy", draws=5)["acuracy"]


def test_the_seed_decides_and_nothing_else():
    p = ensemble()
    assert same(cal.check(p, draws=40, seed=5), cal.check(p, draws=40, seed=5))
    assert not same(cal.check(p, draws=40, seed=5), cal.check(p, draws=40, seed=6))
    alone = cal.check(p, "ece", draws=40)["ece"]
    among_others = cal.check(p, ["nll", "ece", lambda y, q: 0.0, "accuracy"], draws=40)["ece"]
    assert alone == replace(among_others, p_adjusted=alone.p_adjusted)


@pytest.mark.parametrize("statistics", [None, "ece(binning=mass),class_frequency,entropy,confusion", "cwce,top_k(k=2)"])
@pytest.mark.parametrize("how", ["blocks", "threads", "stream", "shards"])
def test_the_same_bits_in_any_blocks_threads_and_shards(tmp_path, statistics, how):
    p = ensemble(n=203)
    expected = cal.check(p, statistics, draws=25)
    if how == "blocks":
        found = cal.check(p, statistics, draws=25, block_rows=17)
    elif how == "threads":
        found = cal.check(p, statistics, draws=25, threads=2)
    elif how == "stream":
        found = cal.check(cal.scan(cal.write(p, tmp_path / "p.npz")).named("predictions"), statistics, draws=25)
    else:
        (tmp_path / "shards").mkdir()
        for k, rows in enumerate(np.split(np.arange(203), [50, 121])):
            cal.write(p[rows], tmp_path / "shards" / f"{k}.npz")
        found = cal.check(cal.scan(tmp_path / "shards").named("predictions"), statistics, draws=25)
    assert same(found, expected)


# ------------------------------------------------------------------------------------------------ functions
def test_a_function_sees_the_labels_that_metrics_see():
    p = ensemble()
    truth = p.average().scores[0].argmax(1)

    def right(labels, predictions):
        assert predictions.labels is None
        assert predictions.members == 1
        return (labels == truth).mean()

    found = cal.check(
        p, ["accuracy", right, cal.checks.Statistic(lambda y, q: (y == truth).mean(1), "many", vectorised=True)]
    )
    assert found["right"].observed == pytest.approx(found["accuracy"].observed)
    for name in ("p_value", "mid_p", "mean", "q05", "max"):
        assert getattr(found["right"], name) == pytest.approx(getattr(found["accuracy"], name))
        assert getattr(found["many"], name) == getattr(found["right"], name)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs", "one logit"])
def test_a_function_is_shown_probabilities(members, kind):
    p = ensemble(n=40, members=members)
    logits = p.scores[..., :1] if kind == "one logit" else p.scores
    odds = np.exp(np.concatenate([0 * logits, logits], axis=2) if kind == "one logit" else logits)
    probs = odds / odds.sum(axis=2, keepdims=True)
    if kind in ("log_probs", "probs"):
        make = getattr(cal.Classification, f"from_{kind}")
        given = make(np.log(probs) if kind == "log_probs" else probs, p.labels)
    else:
        given = cal.Classification.from_logits(logits, np.minimum(p.labels, logits.shape[2]))

    def highest(labels, predictions):
        assert predictions.scores.shape == (1, 40, probs.shape[2])
        return predictions.scores[0].max(axis=1).sum()

    assert cal.check(given, highest, draws=3)["highest"].observed == pytest.approx(probs.mean(axis=0).max(axis=1).sum())


def test_a_function_has_as_many_replicates_as_there_are_joint_draws():
    rng = np.random.default_rng(0)
    p = cal.Regression.from_samples(rng.normal(size=(30, 20)), rng.normal(size=20))
    found = cal.check(p, [lambda y, q: y[0], "mean"], draws=100)
    first = found["<lambda>"]
    assert first.draws == found["mean"].draws == 30
    assert first.p_value == pytest.approx((p.samples[:, 0] < p.y[0]).mean())
    assert found.results[0].independent["<lambda>"].draws == 100


@pytest.mark.parametrize("reading", ["bayesian", "independent"])
def test_functions_of_samples_are_judged_as_metrics_are(reading):
    """A draw that stands for the outcomes is judged by the other draws and what was observed."""
    rng = np.random.default_rng(1)
    p = cal.Regression.from_samples(rng.normal(size=(12, 25)), rng.normal(size=25), columns={"half": np.arange(25) % 2})

    def crps(y, q):
        assert q.y is None
        return cal.measure(cal.Regression.from_samples(q.samples, y), "crps")["crps"]

    found = cal.check(p, [crps, "crps", "mae"], draws=40, members=reading, by="half")
    for checks in (found.results[0].checks, *(g.checks for g in found.results[0].groups)):
        for name in ("observed", "p_value", "mean", "q05", "max"):
            assert getattr(checks["crps#2"], name) == pytest.approx(getattr(checks["crps"], name), abs=1e-9)
    if reading == "bayesian":
        values = []
        for j in range(12):
            others = p.samples.copy()
            others[j] = p.y
            values.append(cal.measure(cal.Regression.from_samples(others, p.samples[j]), "mae")["mae"])
        assert found["mae"].mean == pytest.approx(np.mean(values))
        assert found["mae"].p_value == pytest.approx(np.mean(values < np.float64(found["mae"].observed)))


def _raises(y, p):
    raise RuntimeError("no\nway")


@pytest.mark.parametrize(("function", "said"), [
    (_raises, "it raised RuntimeError: no way"),
    (lambda y, p: np.nan, "it returned nan"),
    (lambda y, p: y[:2], r"it returned shape \(2,\)"),
    (lambda y, p: None, "it returned NoneType|it returned nan"),
    (lambda y, p: "high", "it returned str"),
    (cal.checks.Statistic(lambda y, p: 1.0, "one", vectorised=True), r"it returned shape \(\)"),
])  # fmt: skip
def test_a_function_that_fails_is_told_in_one_line(function, said):
    with pytest.raises(cal.CalibrantError, match=said) as refused:
        cal.check(ensemble(), ["accuracy", function], draws=5)
    assert "\n" not in str(refused.value)


def test_what_needs_all_rows_is_refused_of_a_stream(tmp_path):
    stream = cal.scan(cal.write(ensemble(), tmp_path / "p.npz"))
    for statistic in (lambda y, p: 0.0, "ks"):
        with pytest.raises(cal.CalibrantError, match="it needs all rows at once"):
            cal.check(stream, [statistic], draws=5)


# -------------------------------------------------------------------------------------------------- groups
def test_groups_are_checks_of_their_rows():
    """Laws do not depend on random words: a group has the law of the same rows alone."""
    rng = np.random.default_rng(1)
    p = ensemble(columns={"site": rng.choice(["a", "b", "c"], 300), "half": np.arange(300) // 150})
    found = cal.check(p, draws="exact", by=["site", "half"])
    for group in found.results[0].groups:
        rows = p.columns[group.by] == group.value
        alone = cal.check(p[rows], draws="exact").results[0]
        assert group.n == rows.sum()
        for key, check in alone.checks.items():
            for name in ("observed", "p_value", "mean", "q95"):
                assert getattr(group.checks[key], name) == pytest.approx(getattr(check, name), abs=1e-9)


def test_groups_of_replicates_and_their_observed_values():
    rng = np.random.default_rng(1)
    p = ensemble(columns={"site": rng.choice(["a", "b"], 300)})
    found = cal.check(p, "accuracy,ece,nll,cwce", draws=60, by="site")
    for group in found.results[0].groups:
        rows = p.columns["site"] == group.value
        for key, value in cal.measure(p[rows], "accuracy,ece,nll,cwce").items():
            assert group.checks[key].observed == pytest.approx(value, abs=1e-6)
    hits = sum(g.n * g.checks["accuracy"].mean for g in found.results[0].groups)
    assert hits / 300 == pytest.approx(found["accuracy"].mean)


def test_q_values_count_all_groups():
    rng = np.random.default_rng(2)
    p = ensemble(n=600, columns={"site": rng.integers(0, 6, 600)})
    checks = [g.checks["nll"] for g in cal.check(p, draws=200, by="site").results[0].groups]
    p_values = np.array([c.test_p for c in checks])
    for check in checks:
        larger = [len(checks) * p / np.sum(p_values <= p) for p in p_values if p >= check.test_p]
        assert check.q_value == pytest.approx(min(1.0, *larger))


def test_by_predicted_class():
    p = ensemble(classes=3)
    predicted = p.average().scores[0].argmax(1)
    groups = cal.check(p, "accuracy", draws=20, by="predicted").results[0].groups
    assert [g.n for g in groups] == np.bincount(predicted).tolist()
    assert [g.checks["accuracy"].observed for g in groups] == pytest.approx(
        [(p.labels[predicted == k] == k).mean() for k in range(3)]
    )


def test_groups_by_what_is_checked_are_refused():
    with pytest.raises(cal.CalibrantError, match="would select rows by what is being checked"):
        cal.check(ensemble(), draws=5, by="labels")


def test_passes_are_counted_at_each_severity():
    rng = np.random.default_rng(4)
    severity, kind = rng.integers(0, 4, 800), rng.choice(["blur", "fog", "snow"], 800)
    p = ensemble(n=800, columns={"shift": kind, "severity": severity})
    found = cal.check(p, "accuracy,ece", draws=60, shift=True)
    bayesian, independent = found.passed
    assert (bayesian.members, independent.members) == ("bayesian", "independent")
    assert bayesian.severities == [0, 1, 2, 3]
    for table in found.passed:
        for cell in table.cells:
            rows = (severity == cell.severity) & ((kind == cell.shift) | (cell.severity == 0))
            assert cell.n == rows.sum()
            expected = cal.measure(p[rows], "accuracy")["accuracy"]
            assert cell.checks["accuracy"].observed == pytest.approx(expected)
        for level in (1, 2, 3):
            cells = [cell.checks["ece"] for cell in table.cells if cell.severity == level]
            assert table.passed("ece", level) == (sum(c.passed_interval for c in cells), 3)
            assert table.passed("ece", level, "range") == (sum(c.passed_range for c in cells), 3)
    assert "severity" in str(found)


def test_inputs_may_be_the_cells_of_a_shift():
    inputs = {
        f"{kind} {severity}": ensemble(seed=severity, meta={"shift": kind, "severity": severity})
        for kind, severity in (("none", 0), ("blur", 1), ("fog", 1))
    }
    found = cal.check(inputs, "accuracy", draws=30, shift=True)
    assert [table.members for table in found.passed] == ["bayesian", "independent"]
    assert found.passed[0].passed("accuracy", 1)[1] == 2


# --------------------------------------------------------------------------------------------- temperatures
def test_temperatures_are_fitted_on_rows_that_are_left_out():
    p = ensemble(n=500)
    hot = cal.Classification.from_logits(p.scores * 4.0, p.labels, ids=np.arange(500))
    before, after = cal.check(hot, draws=100), cal.check(hot, draws=100, temperatures=0.2)
    assert after["nll"].n == 400
    assert after["nll"].observed < before["nll"].observed
    assert not before["nll"].passed()
    assert (after.inputs[0]["checked"], after.inputs[0]["left_out"]) == (400, 100)
    assert len(after.inputs[0]["member_temperatures"]["temperatures"]) == 4
    said = " ".join(str(after).split())
    assert "on the first 20% of rows; these 100 rows are not checked" in said


def test_shifted_copies_of_fitted_rows_are_left_out_too():
    clean = ensemble(n=200, ids=np.arange(200))
    order = np.random.default_rng(0).permutation(200)
    shifted = clean[order].named("shifted")
    found = cal.check([clean, shifted], "accuracy", draws=10, temperatures=0.25, fit=clean)
    kept = order >= 50
    for result, rows in zip(found.results, (np.arange(200) >= 50, kept), strict=True):
        source = clean if result.input == "predictions" else shifted
        assert result.checks["accuracy"].n == 150
        assert result.checks["accuracy"].observed == pytest.approx(_accuracy_after(source, rows, clean))


def test_copies_of_fitted_rows_in_the_same_file_are_left_out():
    """Two severities of the same images, one after the other: neither copy of a fitted image is checked."""
    once = ensemble(n=100)
    scores, labels = np.concatenate([once.scores] * 2, axis=1), np.tile(once.labels, 2)
    both = cal.Classification.from_logits(scores, labels, ids=np.tile(np.arange(100), 2))
    found = cal.check(both, "accuracy", draws=10, temperatures=0.2)
    assert found["accuracy"].n == 120


def test_temperatures_of_a_stream_are_those_of_memory(tmp_path):
    """The rows that fit come from several shards, and are known by their ids."""
    p = ensemble(n=90, ids=np.random.default_rng(0).permutation(90))
    (tmp_path / "shards").mkdir()
    for k, rows in enumerate(np.split(np.arange(90), [11, 25, 60])):
        cal.write(p[rows], tmp_path / "shards" / f"{k}.npz")
    stream = cal.scan(tmp_path / "shards").named("predictions")
    for fit in (False, True):
        expected = cal.check(p, draws=20, temperatures=0.4, fit=p if fit else None)
        assert same(cal.check(stream, draws=20, temperatures=0.4, fit=stream if fit else None), expected)
        assert expected["accuracy"].n == 54


def test_temperatures_are_of_classes():
    rng = np.random.default_rng(0)
    numbers = cal.Regression.from_gaussian(rng.normal(size=(3, 50)), np.ones((3, 50)), rng.normal(size=50))
    with pytest.raises(cal.CalibrantError, match="member_temperatures: expected classification or judged predictions"):
        cal.check(numbers, temperatures=0.2)


def _accuracy_after(source, rows, clean):
    from calibrant.recalibration.methods.member_temperatures import MemberTemperatureScaling

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cal.CalibrantWarning)  # fifty rows send some members to the bounds
        scaled = MemberTemperatureScaling().fit(clean[:50]).transform(source)
    return cal.measure(scaled[rows], "accuracy")["accuracy"]


@pytest.mark.parametrize(("given", "said"), [
    ({"temperatures": 0.0}, "a number between 0 and 1"),
    ({"temperatures": 0.001}, "at least one row to fit them on"),
    ({"fit": ensemble(n=20)}, "temperatures together with fit"),
    ({"temperatures": 0.9, "fit": ensemble(n=900)}, "rows that no temperature was fitted on"),
    ({"draws": 0}, "an integer from 1 to 1000000, got 0; use draws=1000, or draws='exact'"),
    ({"draws": 2.5}, "got 2.5"),
    ({"draws": "many"}, "got 'many'"),
    ({"members": "all"}, "'both', 'bayesian' or 'independent'"),
    ({"rule": "both"}, "'interval' or 'range'"),
    ({"threads": 0}, "at least 1"),
    ({"seed": -1}, "a whole number from 0"),
    ({"by": "region"}, "got 'region'"),
    ({"draws": "exact", "statistics": "cwce"}, "these predictions with draws=exact"),
])  # fmt: skip
def test_bad_settings_are_one_line(given, said):
    with pytest.raises(cal.CalibrantError) as refused:
        cal.check(ensemble(), **given)
    assert said in str(refused.value)


# ----------------------------------------------------------------------------------------------- odd inputs
def test_one_member_goes_on_and_says_what_that_means():
    found = cal.check(ensemble(members=1), "accuracy", draws=200)
    assert [note.code for note in found.warnings] == ["one-member"]
    assert not found.results[0].independent
    assert found["accuracy"].draws == 200


@pytest.mark.parametrize(("predictions", "said"), [
    (cal.Classification.from_logits(np.zeros((4, 3))), "got no hard labels"),
    (cal.Classification.from_logits(np.zeros((4, 3)), label_probs=np.full((4, 3), 1 / 3)), "got no hard labels"),
    (cal.Regression.from_gaussian(np.zeros(4), np.ones(4)), "got no y"),
    (cal.Regression.from_quantiles(np.zeros((4, 1)), [0.5], np.zeros(4)), "no outcome can be drawn"),
    (cal.Judged.from_confidence(np.full(4, 0.5)), "got no hard labels"),
])  # fmt: skip
def test_what_cannot_be_checked_is_told(predictions, said):
    with pytest.raises(cal.CalibrantError, match=said):
        cal.check(predictions, draws=5)


def test_of_usual_statistics_those_with_a_law_are_computed():
    rng = np.random.default_rng(0)
    numbers = cal.Regression.from_gaussian(rng.normal(size=(3, 50)), np.ones((3, 50)), rng.normal(size=50))
    assert list(cal.check(numbers, draws="exact").results[0].checks) == ["picp", "mse", "mean"]


def test_one_row_one_class_and_certainty():
    one = cal.Classification.from_probs(np.array([[[1.0, 0.0]], [[1.0, 0.0]]]), [0])
    found = cal.check(one, draws=30)
    for check in found.results[0].checks.values():
        assert check.passed_range
        assert check.two_sided == 1.0
    wrong = cal.check(cal.Classification.from_probs(np.array([[[1.0, 0.0]], [[1.0, 0.0]]]), [1]), draws=1000)
    assert wrong["accuracy"].surprise() == "lower"
    assert wrong["nll"].to_json()["status"] == "infinite"
    assert wrong["nll"].surprise() == "higher"


def test_judged_answers_are_checked_by_their_members():
    rng = np.random.default_rng(0)
    confidence = np.clip(rng.random(400) + 0.05 * rng.normal(size=(5, 400)), 0.01, 0.99)
    good = cal.Judged.from_confidence(confidence, rng.random(400) < confidence[2])
    bad = cal.Judged.from_confidence(confidence, rng.random(400) < confidence[2] ** 3)
    assert cal.check(good, draws=200)["accuracy"].passed()
    assert cal.check(bad, draws=200)["accuracy"].surprise() == "lower"


# ------------------------------------------------------------------------------------ what a reviewer tried
def test_no_number_of_draws_makes_a_hopeless_value_a_close_call():
    wrong = cal.Classification.from_probs(np.tile([0.99, 0.01], (3, 60, 1)), np.ones(60, int))
    for draws in (20, 155, 156, 400):
        found = cal.check(wrong, "accuracy", draws=draws)
        assert not found["accuracy"].close
        assert found.results[0].supported == "neither"


@pytest.mark.parametrize("draws", [1000, "exact"])
def test_a_value_between_members_is_not_what_one_member_expects(draws):
    """Two members are right in 60 % and 98 % of the rows, by their own account; it was 79 %."""
    p = np.stack([np.tile([0.6, 0.4], (1000, 1)), np.tile([0.98, 0.02], (1000, 1))])
    found = cal.check(
        cal.Classification.from_probs(p, (np.arange(1000) % 100 < 21).astype(int)), "accuracy", draws=draws
    )
    assert found["accuracy"].between
    assert found.results[0].supported == "independent"


def test_a_law_by_moments_says_where_it_is_rough():
    sure = cal.Classification.from_probs(np.tile([0.999, 0.001], (2, 100, 1)), np.zeros(100, int))
    found = cal.check(sure, "nll", draws="exact")
    assert found["nll"].se > 0.03
    assert found["nll"].q025 >= 0.0
    assert [note.code for note in found.warnings] == ["rough-moments"]
    assert not cal.check(ensemble(n=3000), "nll", draws="exact").warnings


def test_infinite_values_have_a_place():
    def odd(labels, predictions):
        return np.inf if labels[0] == 0 else float(labels.mean())

    found = cal.check(ensemble(), [odd], draws=200)["odd"]
    assert not np.isnan([found.q025, found.q50, found.q975]).any()
    assert 0 <= found.mid_p <= 1


def test_classes_are_called_by_their_names():
    p = ensemble(classes=3)
    named = cal.Classification.from_logits(p.scores, p.labels, classes=["1", "2", "a,b"])
    found = cal.check(named, "class_frequency", draws=10)
    assert list(found.results[0].checks)[:2] == ["class_frequency(of=1)", "class_frequency(of=2)"]
    assert found["class_frequency(of=2)"].observed == pytest.approx((p.labels == 1).mean())


def test_a_function_cannot_change_what_the_next_one_sees():
    def sorts(labels, predictions):
        labels.sort()
        return 0.0

    with pytest.raises(cal.CalibrantError, match="it raised ValueError"):
        cal.check(ensemble(), [sorts, "accuracy"], draws=5)


def test_rows_without_weight_decide_nothing():
    rng = np.random.default_rng(0)
    y = np.append(rng.normal(size=40), 99.0)
    weights = np.append(np.ones(40), 0.0)
    gaussian = cal.Regression.from_gaussian(np.zeros((3, 41)), np.ones((3, 41)), y, weights=weights)
    samples = cal.Regression.from_samples(rng.normal(size=(20, 41)), y, weights=weights)
    for p in (gaussian, samples):
        assert cal.check(p, "max", draws=20)["max"].observed == y[:40].max()
        with pytest.raises(cal.CalibrantError, match="weighted rows"):
            cal.check(p, "quantile", draws=5)


def test_odd_but_legal_arguments():
    import functools

    p = ensemble()
    share = functools.partial(lambda labels, predictions, k: (labels == k).mean(), k=1)
    found = cal.check([p, p], (s for s in ["accuracy", share]), draws=np.int64(20), seed=np.int64(3), by=None)
    assert json.loads(found.dumps())["settings"]["statistics"] == ["accuracy", "statistic"]
    assert cal.check(p, "ece", draws=5)["ece( bins=15 )"].draws == 5
    assert (
        len(
            cal.check(ensemble(columns={"g": np.arange(300) % 2}), "accuracy", draws=5, by=["g", "g"]).results[0].groups
        )
        == 2
    )
    one = cal.Regression.from_samples(np.zeros((1, 5)), np.arange(5.0))
    assert "crps" not in cal.check(one).results[0].checks


def test_inputs_of_other_kinds_may_be_cells_of_one_shift():
    rng = np.random.default_rng(0)
    y = rng.normal(size=50)
    gaussian = cal.Regression.from_gaussian(
        rng.normal(size=(3, 50)), np.ones((3, 50)), y, meta={"shift": "a", "severity": 0}
    )
    samples = cal.Regression.from_samples(rng.normal(size=(30, 50)), y, meta={"shift": "b", "severity": 1})
    found = cal.check([gaussian, samples], draws=20, shift=True)
    assert found.passed[0].passed("nll", 1) == (0, 0)
    assert "nll" in str(found)


def test_numbers_too_large_to_square_are_refused():
    far = cal.Regression.from_gaussian(np.zeros((2, 5)), np.full((2, 5), 1e152), np.zeros(5))
    with pytest.raises(cal.CalibrantError, match="give outcomes and predictions in larger units"):
        cal.check(far, "mse", draws=5)


# ---------------------------------------------------------- section 3.1: how calibration error misleads
def _normal_ensemble(y):
    """θ ~ N(0, 1), y ~ N(θ, 1): 200 members, each with its θ for all rows; together they are N(0, 2)."""
    n, theta = len(y), ndtri((np.arange(200) + 0.5) / 200)[:, None]
    return cal.Regression.from_gaussian(np.repeat(theta, n, axis=1), np.ones((200, n)), y)


def test_a_good_model_may_have_a_calibration_error():
    """The truth is θ = 0.5, one of the likely ones: the error does not vanish, and the model expects it."""
    rng = np.random.default_rng(0)
    p = _normal_ensemble(rng.normal(0.5, 1.0, 2000))
    null = cal.evaluate(p, "calibration_error")["calibration_error"]
    assert null.value > null.null_high
    assert null.low > 0
    found = cal.check(p, draws=400)
    assert found["calibration_error"].passed()
    assert found["picp"].passed()
    assert not found.results[0].independent["calibration_error"].passed()
    assert found.results[0].supported == "bayesian"
    assert any("does not contradict the members" in line for line in found.results[0].reading)


def test_a_bad_model_may_have_no_calibration_error():
    """The truth is N(0, 2), which is no member: the error vanishes, and the model does not expect that."""
    rng = np.random.default_rng(1)
    p = _normal_ensemble(rng.normal(0.0, np.sqrt(2.0), 4000))
    null = cal.evaluate(p, "calibration_error")["calibration_error"]
    assert null.value < null.null_high
    found = cal.check(p, "calibration_error,mse", draws=400)
    assert found["calibration_error"].surprise() == "lower"
    assert found.results[0].independent["calibration_error"].passed()
    assert any("but its members do not expect this value" in line for line in found.results[0].reading)
