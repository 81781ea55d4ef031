"""`cal.detect`: scores from predictions, arrays, columns and functions; weights, units; the curve on the mix."""

import json
import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import calibrant as cal
from calibrant.kernels.rows import rows_of

Classification, Judged, Regression = cal.Classification, cal.Judged, cal.Regression
ROWS = {"inside": 60, "near": 40, "far": 30}


def probs(name, concentration=0.4, members=1, classes=4):
    """Inside sharp, outside blunt; in tenths of a per cent, so that scores are tied."""
    rng = np.random.default_rng(len(name))
    blunt = {"inside": 1.0, "near": 2.0, "far": 6.0}[name]
    p = rng.dirichlet(np.full(classes, concentration * blunt), (members, ROWS[name])) + 1e-3
    return np.round(p / p.sum(axis=-1, keepdims=True), 2) + 1e-4


def classes(name, members=1, labels=True, **known):
    p = probs(name, members=members)
    p = p / p.sum(axis=-1, keepdims=True)
    y = np.random.default_rng(1).integers(0, 4, ROWS[name]) if labels else None
    return Classification.from_probs(p, y, name=name, **known)


def entropies(predictions):
    return cal.score_rows(predictions, "entropy")["entropy"]


def detect(*args, **settings):
    return cal.detect(*args, **{"resamples": 30} | settings)


INSIDE, NEAR, FAR = (classes(name) for name in ROWS)


# ------------------------------------------------------------------------------------------ scores
def test_predictions_by_entropy_as_sklearn_has_it():
    found = detect(INSIDE, NEAR)
    score = np.append(entropies(INSIDE), entropies(NEAR))
    outside = np.repeat([0, 1], [ROWS["inside"], ROWS["near"]])
    assert len(np.unique(score)) < len(score)  # tied
    assert found["auroc"].value == pytest.approx(roc_auc_score(outside, score), abs=1e-12)
    assert found["aupr_out"].value == pytest.approx(average_precision_score(outside, score), abs=1e-12)
    assert found["aupr_in"].value == pytest.approx(average_precision_score(1 - outside, -score), abs=1e-12)
    assert found.results[0].input == "near"
    assert found["auroc"].n == 100
    for e in found.results[0].metrics.values():
        assert e.low <= e.value <= e.high


def test_scores_that_are_given_are_the_scores_of_predictions():
    by_predictions, by_scores = detect(INSIDE, NEAR), detect(entropies(INSIDE), entropies(NEAR))
    assert by_scores.results[0].metrics == by_predictions.results[0].metrics
    assert by_scores.results[0].curves["scores"] == by_predictions.results[0].curves["scores"]
    assert "mix" not in by_scores.results[0].curves  # nothing is known of confidences
    assert detect([1, 2, 3], (2, 3, 4))["auroc"].value == pytest.approx(7 / 9)
    assert detect(np.float32([1, 2, 3]), [2, 3, 4])["auroc"].value == pytest.approx(7 / 9)


def test_several_outsides_by_name_in_a_list_and_as_arrays():
    by_name = detect(INSIDE, {"a": NEAR, "b": FAR, "c": FAR})
    assert [r.input for r in by_name.results] == ["a", "b", "c"]
    assert by_name["b"].metrics == by_name["c"].metrics
    for name, outside in (("a", NEAR), ("b", FAR)):
        assert by_name[name].metrics == detect(INSIDE, outside).results[0].metrics
    listed = detect(INSIDE, [NEAR, FAR])
    assert [r.input for r in listed.results] == ["near", "far"]
    arrays = detect(entropies(INSIDE), [entropies(NEAR), entropies(FAR)])
    assert [r.input for r in arrays.results] == ["outside 1", "outside 2"]
    for k in range(2):
        assert arrays.results[k].metrics == listed.results[k].metrics == by_name.results[k].metrics


def least_sure(predictions):
    return 1.0 - rows_of(predictions).confidence


def test_several_scores_and_a_function_of_ones_own():
    found = detect(INSIDE, [NEAR, FAR], ["entropy", "max_probability", least_sure])
    assert [r.input for r in found.results] == [
        f"{side} by {score}" for score in ("entropy", "max_probability", "least_sure") for side in ("near", "far")
    ]
    for side in ("near", "far"):
        a, b = (found[f"{side} by {score}"]["auroc"].value for score in ("max_probability", "least_sure"))
        assert a == pytest.approx(b, abs=1e-12)
    assert found.settings["scores"] == ["entropy", "max_probability", "least_sure"]
    alone = detect(INSIDE, NEAR, "max_probability").results[0]
    assert alone.metrics == found["near by max_probability"].metrics


def test_columns_are_scores_too():
    columns = [{"distance": entropies(p), "batch": np.arange(p.n) % 3} for p in (INSIDE, NEAR)]
    inside, outside = (classes(name, columns=c) for name, c in zip(("inside", "near"), columns, strict=True))
    assert detect(inside, outside, "distance").results[0].metrics == detect(INSIDE, NEAR).results[0].metrics
    whole = detect(inside, outside, "batch")["auroc"].value
    assert whole == pytest.approx(roc_auc_score(np.repeat([0, 1], [60, 40]), np.append(*(c["batch"] for c in columns))))


def test_scores_of_members():
    inside, outside = classes("inside", members=3), classes("far", members=3)
    for score in ("mutual_information", "expected_entropy", "variation_ratio", "margin"):
        found = detect(inside, outside, score, "auroc")["auroc"].value
        by_hand = detect(*(row_scores(p, score) for p in (inside, outside)), metrics="auroc")["auroc"].value
        assert found == pytest.approx(by_hand, abs=1e-12), score


def row_scores(predictions, score):
    values = cal.score_rows(predictions, score)[score]
    return 1.0 - values if score == "margin" else values


def test_regression_by_what_its_members_disagree_on():
    def gaussians(n, spread, seed):
        rng = np.random.default_rng(seed)
        return Regression.from_gaussian(rng.normal(size=(5, n)) * spread, np.ones((5, n)), y=np.zeros(n))

    inside, outside = gaussians(50, 0.5, 0), gaussians(40, 1.0, 1)
    found = detect(inside, outside, "epistemic_variance")
    score = np.append(*(p.mean.var(axis=0) for p in (inside, outside)))
    assert found["auroc"].value == pytest.approx(roc_auc_score(np.repeat([0, 1], [50, 40]), score), abs=1e-12)
    assert set(found.results[0].curves) == {"scores"}
    assert detect(inside, outside, "aleatoric_variance")["auroc"].value == 0.5
    assert detect(inside, outside).settings["scores"] == ["variance"]
    with pytest.raises(cal.CalibrantError, match="not defined for regression"):
        detect(inside, outside, "entropy")


def test_judged_answers():
    inside = Judged.from_confidence([0.9, 0.8, 0.4, 0.7], [1, 1, 0, 0])
    outside = Judged.from_confidence([0.55, 0.6, 0.3])
    by_confidence = detect(inside, outside)  # of judged answers a high entropy is no sign of being wrong
    assert by_confidence.settings["scores"] == ["max_probability"]
    assert by_confidence["auroc"].value == pytest.approx(10 / 12)
    mix = by_confidence.results[0].curves["mix"]
    assert mix["accuracy"][0] == pytest.approx(2 / 7)
    assert mix["n"][0] == 7


# ---------------------------------------------------------------------------------- weights and units
def test_whole_weights_are_repeated_rows():
    w = np.random.default_rng(0).integers(0, 4, ROWS["inside"])
    weighted = detect(classes("inside", weights=w.astype(float)), classes("near", weights=np.ones(ROWS["near"])))
    repeated = detect(INSIDE[np.repeat(np.arange(len(w)), w)], NEAR)
    for name in ("auroc", "aupr_in", "aupr_out", "detection_accuracy", "fpr95", "wasserstein"):
        assert weighted[name].value == pytest.approx(repeated[name].value, abs=1e-12)
    a, b = (x.results[0].curves["mix"] for x in (weighted, repeated))
    assert a["accuracy"] == pytest.approx(b["accuracy"], abs=1e-12)
    assert a["share"] == pytest.approx(b["share"], abs=1e-12)
    assert weighted["auroc"].n == 100


def test_the_unit_of_weights_of_one_side_does_not_matter():
    """They are brought to a mean of one: else their unit would set how many rows are outside."""
    w = np.random.default_rng(1).exponential(size=ROWS["inside"])
    plain, scaled = (detect(classes("inside", weights=unit * w), NEAR) for unit in (1.0, 100.0))
    for name in ("auroc", "aupr_in", "aupr_out", "fpr95"):
        assert scaled[name].value == pytest.approx(plain[name].value, rel=1e-9)
    both = detect(classes("inside", weights=w / w.mean()), classes("near", weights=np.ones(ROWS["near"])))
    assert plain["aupr_in"].value == pytest.approx(both["aupr_in"].value, rel=1e-9)


def test_units_widen_intervals_and_leave_values():
    sides = [classes(name, columns={"patient": np.arange(ROWS[name]) // 10}) for name in ("inside", "near")]
    plain, by_unit = detect(*sides, resamples=200), detect(*sides, resamples=200, units="patient")
    assert by_unit.settings["units"] == "patient"
    for name, e in by_unit.results[0].metrics.items():
        assert e.value == plain[name].value
    assert (by_unit["auroc"].method, plain["auroc"].method) == ("influence-logit", "delong-logit")
    alike = detect(sides[0], sides[0], units="patient")  # the same patients on both sides are not the same units
    assert alike["auroc"].value == 0.5
    copies = [
        classes(n, columns={"u": np.arange(ROWS[n])})[np.repeat(np.arange(ROWS[n]), 4)] for n in ("inside", "near")
    ]
    four, one = (detect(*copies, units=u, resamples=200)["aupr_out"] for u in ("u", None))
    assert four.high - four.low > 1.4 * (one.high - one.low)


# ------------------------------------------------------------------------------------------- the mix
def plain_mix(inside, outside):
    """One threshold after another over all rows, outside rows being wrong."""
    p, q = inside.scores[0], outside.scores[0]
    hit = (p.argmax(axis=1) == inside.labels) * 1.0
    w = [np.ones(x.n) if x.weights is None else x.weights for x in (inside, outside)]
    rows = [(c, h, v) for c, h, v in zip(p.max(axis=1), hit, w[0], strict=True)]
    rows += [(c, 0.0, v) for c, v in zip(q.max(axis=1), w[1], strict=True)]
    out = []
    for k in range(20):
        kept = [row for row in rows if row[0] >= k / 20]
        mass = sum(v for *_, v in kept)
        if mass > 0:
            out.append((k / 20, sum(h * v for _, h, v in kept) / mass, mass / sum(v for *_, v in rows), len(kept)))
    return np.array(out).T


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mix_counts_outside_rows_as_wrong(weighted):
    rng = np.random.default_rng(0)
    known = [{"weights": rng.exponential(size=ROWS[n])} if weighted else {} for n in ("inside", "near")]
    inside, outside = (classes(n, **k) for n, k in zip(("inside", "near"), known, strict=True))
    mix = detect(inside, outside).results[0].curves["mix"]
    got = np.array([mix[key] for key in ("confidence", "accuracy", "share", "n")])
    np.testing.assert_allclose(got, plain_mix(inside, outside), atol=1e-12)


def test_the_mix_needs_labels_inside_only():
    assert "mix" in detect(INSIDE, classes("near", labels=False)).results[0].curves
    assert "mix" not in detect(classes("inside", labels=False), NEAR).results[0].curves
    soft = Classification.from_probs([[0.9, 0.1], [0.6, 0.4]], label_probs=[[0.7, 0.3], [0.2, 0.8]])
    mix = detect(soft, soft).results[0].curves["mix"]
    assert mix["accuracy"][0] == pytest.approx((0.7 + 0.2) / 4)


# ------------------------------------------------------------------------------------ what must not matter
@pytest.mark.parametrize("units", [None, "unit"])
def test_order_of_rows_changes_no_bit(units):
    rng = np.random.default_rng(0)
    known = [{"weights": rng.exponential(size=ROWS[n]), "columns": {"unit": np.arange(ROWS[n]) // 3}} for n in ROWS]
    sides = [classes(name, **k) for name, k in zip(ROWS, known, strict=True)]
    whole = detect(sides[0], sides[1:], ["entropy", "margin"], units=units)
    for seed in range(2):
        order = np.random.default_rng(seed)
        shuffled = [p[order.permutation(p.n)] for p in sides]
        assert detect(shuffled[0], shuffled[1:], ["entropy", "margin"], units=units).results == whole.results


def test_files_and_streams_give_the_same(tmp_path):
    paths = []
    for p in (INSIDE, NEAR):
        paths.append(tmp_path / f"{p.name}.npz")
        cal.write(p, paths[-1])
    whole = detect(INSIDE, NEAR)
    for opened in (cal.read, cal.scan):
        assert detect(*(opened(path) for path in paths)).results == whole.results
    (facts,) = detect(*map(cal.read, paths)).inputs
    assert [facts["inside_sha256"], facts["sha256"]] == [cal.read(path).sha256 for path in paths]


def test_settings_are_recorded():
    found = detect(INSIDE, NEAR, "margin", "auroc,fpr95(level=0.8)", level=0.9, seed=3, resamples=40)
    stored = json.loads(found.dumps())
    expected = {"command": "detect", "scores": ["margin"], "level": 0.9, "seed": 3, "resamples": 40, "units": None}
    assert expected.items() <= stored["settings"].items()
    (facts,) = stored["inputs"]
    assert facts["outside"] == 40
    assert facts["n"] == 100
    assert facts["meta"] == {"inside": "inside", "outside": "near", "score": "margin"}
    assert cal.Evaluation.from_json(stored).results == found.results
    assert set(stored["results"][0]["metrics"]) == {"auroc", "fpr95(level=0.8)"}
    none = detect(INSIDE, NEAR, intervals=False).results[0].metrics
    assert all(math.isnan(e.low) for e in none.values())
    assert {k: e.value for k, e in none.items()} == {
        k: e.value for k, e in detect(INSIDE, NEAR).results[0].metrics.items()
    }


# --------------------------------------------------------------------------------------------- refusals
TEXT = classes("inside", columns={"site": np.repeat(["a", "b"], 30)})
REFUSED = {
    "unknown score": ((INSIDE, NEAR, "entrop"), "did you mean 'entropy'"),
    "unknown column": ((TEXT, NEAR, "sit"), "site"),
    "text column": ((TEXT, TEXT, "site"), "holds text"),
    "column of one side": ((classes("inside", columns={"d": np.arange(60)}), NEAR, "d"), "near: score"),
    "members": ((INSIDE, NEAR, "mutual_information"), "more than one member"),
    "logits": ((INSIDE, NEAR, "energy"), "needs logits"),
    "other task": ((INSIDE, NEAR, "variance"), "not defined for classification"),
    "two numbers a row": ((INSIDE, NEAR, lambda p: p.scores[0][:, :2]), r"shape \(60,\)"),
    "one number": ((INSIDE, NEAR, lambda p: 1.0), r"of shape \(\)"),
    "text for scores": ((INSIDE, NEAR, lambda p: ["x"] * p.n), "one number for each row"),
    "NaN of a function": ((INSIDE, NEAR, lambda p: np.full(p.n, np.nan)), "NaN in row 0"),
    "ragged function": ((INSIDE, NEAR, lambda p: [[1.0], [1.0, 2.0]]), "score"),
    "NaN inside": (([1.0, np.nan], [2.0]), "inside scores: .*NaN in row 1"),
    "NaN outside": (([1.0], [2.0, np.nan]), "outside scores: .*NaN in row 1"),
    "scores against predictions": ((INSIDE, entropies(NEAR)), "both sides"),
    "predictions against scores": ((entropies(INSIDE), {"a": entropies(NEAR), "b": FAR}), "both sides"),
    "no rows": (([], [1.0]), "at least one row"),
    "a table": ((np.zeros((2, 2)), [1.0]), r"\(2, 2\)"),
    "text": ((["a", "b"], [1.0]), "inside"),
    "a path": (("nothing.npz", NEAR), "inside"),
    "ragged scores": (([[1.0], [1.0, 2.0]], [1.0]), "inside"),
    "no score": ((INSIDE, NEAR, []), "score"),
    "score of no kind": ((INSIDE, NEAR, 3), "score"),
    "no outside": ((INSIDE, {}), "outside"),
    "metric of another task": ((INSIDE, NEAR, "entropy", "ece"), "not defined for detection"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_line(name):
    arguments, said = REFUSED[name]
    with pytest.raises(cal.CalibrantError, match=said) as error:
        detect(*arguments)
    assert "\n" not in str(error.value)


def test_units_need_columns_on_both_sides():
    inside = classes("inside", columns={"patient": np.arange(60)})
    for sides in ((inside, NEAR), (NEAR, inside), (inside, entropies(NEAR))):
        with pytest.raises(cal.CalibrantError, match=r"patient|both sides"):
            detect(*sides, units="patient")


def test_an_iterator_of_scores_is_taken_as_scores():
    assert detect(iter([1.0, 2.0, 3.0]), (x for x in (2.0, 3.0, 4.0)))["auroc"].value == pytest.approx(7 / 9)
