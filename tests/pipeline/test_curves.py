"""Curves of classes and judged answers, each against a plain loop."""

import json
import math

import numpy as np
import pytest
from evaluations import evaluate_with
from scipy import stats
from scipy.optimize import isotonic_regression

import calibrant as cal
from calibrant.pipeline import select_metrics as choosing
from calibrant.pipeline.curves import selection as curve_choosing
from calibrant.pipeline.curves.selection import curves_of

BINS = (5, 10, 15, 20, 30)
WIDTH = {b: "reliability" if b == 15 else f"reliability(bins={b})" for b in BINS}
MASS = {b: "reliability(binning=mass)" if b == 15 else f"reliability(bins={b},binning=mass)" for b in BINS}
OTHERS = {"corp", "confidence", "entropy", "accuracy_confidence", "rejection", "risk_coverage"}
OF_CLASSES = {*WIDTH.values(), *MASS.values(), *OTHERS, "avu", "rejection(score=entropy)"}
OF_MEMBERS = OF_CLASSES | {"mutual_information", "rejection(score=mutual_information)"}
OF_JUDGED = {*WIDTH.values(), *MASS.values(), *OTHERS, "avu(score=max_probability)"}


def judged(n=400, members=1, seed=0, sharper=1.0, weighted=False, ties=False, **more):
    """Answers that are right as often as is said, or sharper: nearer to 0 and 1 than they should be."""
    rng = np.random.default_rng([n, members, seed])
    z = rng.normal(size=(members, n)) + rng.normal(1.0, 1.5, size=n)
    p = 1 / (1 + np.exp(-z))
    p = np.round(p, 1) if ties else p
    correct = rng.random(n) < p.mean(axis=0)
    said = 1 / (1 + np.exp(-sharper * z)) if sharper != 1 else p
    weights = rng.exponential(size=n) if weighted else None
    return cal.Judged.from_confidence(said if members > 1 else said[0], correct.astype(int), weights=weights, **more)


def classes(n=300, width=4, members=1, seed=0, weighted=False, labels=True, **more):
    rng = np.random.default_rng([n, width, members, seed])
    z = 1.5 * rng.normal(size=(members, n, width))
    y = (z.mean(axis=0) + rng.gumbel(size=(n, width))).argmax(axis=1)
    weights = np.where(np.arange(n) % 7 == 0, 0.0, rng.exponential(size=n)) if weighted else None
    z = z if members > 1 else z[0]
    return cal.Classification.from_logits(z, y if labels else None, weights=weights, **more)


def rows(made):
    """Confidence, hits and weights of the rows that have weight."""
    if isinstance(made, cal.Judged):
        p, hit = made.confidence.mean(axis=0), made.correct.astype(float)
    else:
        z = made.scores.astype(np.float64)
        probs = np.exp(z) / np.exp(z).sum(axis=2, keepdims=True)
        p, hit = probs.mean(axis=0).max(axis=1), (probs.mean(axis=0).argmax(axis=1) == made.labels).astype(float)
    w = np.ones(len(p)) if made.weights is None else made.weights
    return p[w > 0], hit[w > 0], w[w > 0]


def curves(made, metrics="accuracy,entropy", **settings):
    found = evaluate_with(made, metrics, **({"resamples": 60} | settings)).results[0].curves
    for name, columns in found.items():
        assert len({len(column) for column in columns.values()}) == 1, name
        assert all(math.isfinite(x) for column in columns.values() for x in column), name
    return {name: {key: np.array(column) for key, column in columns.items()} for name, columns in found.items()}


MADE = {
    "judged": judged(),
    "judged-weighted": judged(weighted=True),
    "judged-ties": judged(ties=True),
    "judged-members": judged(members=3),
    "classes": classes(),
    "classes-weighted": classes(weighted=True),
    "classes-members": classes(members=3),
}
each = pytest.mark.parametrize("made", MADE.values(), ids=MADE)


# ------------------------------------------------------------------------------------------- names
def test_names():
    assert set(curves(judged())) == OF_JUDGED
    assert set(curves(classes())) == OF_CLASSES
    assert set(curves(classes(members=3))) == OF_MEMBERS
    for made in (judged(), classes()):
        names = [curve.name for curve in curves_of(made)]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(("names", "name"), [(None, "1"), (["no", "yes"], "yes"), (["no", "a=b"], "1")])
def test_a_binary_problem_has_curves_of_class_one(names, name):
    made = classes(width=2, classes=names)
    found = curves(made, f"entropy,ece(of={name})")
    assert set(found) == OF_CLASSES | {f"reliability(of={name})", f"reliability(binning=mass,of={name})"}
    z = made.scores[0].astype(np.float64)
    p = np.exp(z[:, 1]) / np.exp(z).sum(axis=1)
    for spec in (f"reliability(of={name})", f"reliability(binning=mass,of={name})"):
        assert found[spec]["n"].sum() == made.n
        assert (found[spec]["n"] * found[spec]["confidence"]).sum() == pytest.approx(p.sum(), rel=1e-6)
        assert (found[spec]["n"] * found[spec]["accuracy"]).sum() == pytest.approx(made.labels.sum())


# ------------------------------------------------------------------------------------- reliability
def by_loop(p, y, w, lower, upper):
    for a, b in zip(lower, upper, strict=True):
        inside = (p > a) & (p <= b) | ((p == 0) & (a == 0))
        mass = w[inside].sum()
        yield inside.sum(), (w * p)[inside].sum() / mass, (w * y)[inside].sum() / mass


@each
def test_bins_of_both_kinds(made):
    p, y, w = rows(made)
    found = curves(made)
    for bins in BINS:
        for name in (WIDTH[bins], MASS[bins]):
            curve = found[name]
            expected = np.array(list(by_loop(p, y, w, curve["lower"], curve["upper"])))
            assert curve["n"].sum() == len(p)
            got = np.stack([curve[key] for key in ("n", "confidence", "accuracy")], axis=1)
            assert got == pytest.approx(expected, rel=1e-6)
            assert (curve["band_low"] <= curve["band_high"]).all()
            assert (curve["band_low"] >= 0).all()
            assert (curve["band_high"] <= 1).all()
        edges = np.arange(bins + 1) / bins
        assert set(found[WIDTH[bins]]["upper"]) <= set(edges)
        assert len(found[MASS[bins]]["n"]) <= bins


@each
def test_the_curves_are_the_ece(made):
    specs = {b: [f"ece(bins={b})", f"ece(bins={b},binning=mass)"] for b in BINS}
    result = evaluate_with(made, [spec for pair in specs.values() for spec in pair], intervals=False)
    w = rows(made)[2]
    for bins in BINS:
        for spec, name in zip(specs[bins], (WIDTH[bins], MASS[bins]), strict=True):
            curve = {key: np.array(column) for key, column in result.results[0].curves[name].items()}
            gap = np.abs(curve["confidence"] - curve["accuracy"])
            place = np.searchsorted(curve["upper"][:-1], rows(made)[0])
            mass = np.bincount(place, w, len(gap))
            assert (mass * gap).sum() / w.sum() == pytest.approx(result[spec].value, rel=1e-6, abs=1e-9)


def test_bins_of_equal_mass_are():
    curve = curves(judged(600))[MASS[20]]
    assert curve["n"].tolist() == [30] * 20


def test_the_band_of_a_bin_is_that_of_its_sum():
    """Few rows a bin, so that normal limits would be far off: the quantiles of the Poisson binomial distribution."""
    made = judged(60)
    p, _, _ = rows(made)
    curve = curves(made, resamples=20_000, level=0.9)["reliability(bins=5)"]
    for low, high, a, b, n in zip(*(curve[k] for k in ("lower", "upper", "band_low", "band_high", "n")), strict=True):
        pmf = np.ones(1)
        for x in p[(p > low) & (p <= high)]:
            pmf = np.convolve(pmf, [1 - x, x])
        cdf = pmf.cumsum()
        for end, q in ((a, 0.05), (b, 0.95)):
            k = round(end * n)
            assert end * n == pytest.approx(k, abs=1e-9)
            assert (cdf[k - 1] if k else 0) <= q + 0.01
            assert cdf[k] >= q - 0.01


def inside(found, value="accuracy"):
    slack = 1e-9
    return np.mean((found[value] >= found["band_low"] - slack) & (found[value] <= found["band_high"] + slack))


@pytest.mark.parametrize("name", [WIDTH[10], MASS[10], "corp"])
@pytest.mark.parametrize("n", [300, 4000])
def test_bands_hold_the_calibrated_and_not_the_over_confident(name, n):
    value = "recalibrated" if name == "corp" else "accuracy"
    right = np.mean([inside(curves(judged(n, seed=s), resamples=300)[name], value) for s in range(12)])
    assert right > 0.9
    wrong = np.mean([inside(curves(judged(n, seed=s, sharper=4.0), resamples=300)[name], value) for s in range(3)])
    assert wrong < right - 0.3


def test_the_band_of_many_rows_is_that_of_the_sum():
    """Beyond a quarter of a million rows sums are normal; the band of class and mass bins agree with √Σp(1 − p)."""
    rng = np.random.default_rng(0)
    p = 0.5 + rng.random(300_000) / 2
    made = cal.Judged.from_confidence(p, (rng.random(len(p)) < p).astype(int))
    found = curves(made, "ks", resamples=2000)
    for name in ("reliability(bins=10)", MASS[5]):
        curve = found[name]
        for low, high, a, b, n, mean in zip(*(curve[k] for k in ("lower", "upper", "band_low", "band_high", "n",
                                                                  "confidence")), strict=True):  # fmt: skip
            rows_of = p[(p > low) & (p <= high)]
            spread = 1.96 * math.sqrt((rows_of * (1 - rows_of)).sum()) / n
            assert (mean - a, b - mean) == pytest.approx((spread, spread), rel=0.15)


def test_without_intervals_with_units_and_with_soft_labels_there_is_no_band():
    unit = {"unit": np.arange(300) // 3}
    soft = np.random.default_rng(0).dirichlet(np.ones(4), 300)
    z = classes().scores[0]
    for found in (
        curves(classes(), intervals=False),
        curves(classes(columns=unit), units="unit"),
        curves(cal.Classification.from_logits(z, label_probs=soft)),
    ):
        assert set(found) == OF_CLASSES
        assert not any("band_low" in columns for columns in found.values())


# -------------------------------------------------------------------------------------------- CORP
@each
def test_corp_is_the_isotonic_fit(made):
    p, y, w = rows(made)
    curve = curves(made)["corp"]
    assert (np.diff(curve["recalibrated"]) >= 0).all()
    assert curve["n"].sum() == len(p)
    assert len(curve["n"]) <= 200
    inverse = np.unique(p, return_inverse=True)[1]
    mass = np.bincount(inverse, w)
    fitted = isotonic_regression(np.bincount(inverse, w * y) / mass, weights=mass).x[inverse]
    for low, high, got in zip(curve["lower"], curve["upper"], curve["recalibrated"], strict=True):
        cell = (p >= low * (1 - 1e-12)) & (p <= high * (1 + 1e-12))
        assert got == pytest.approx((w * fitted)[cell].sum() / w[cell].sum(), abs=1e-6)
    assert (curve["lower"][1:] > curve["upper"][:-1]).all()


def test_few_confidences_are_one_cell_each():
    made = judged(2000, ties=True)
    assert curves(made)["corp"]["lower"].tolist() == np.unique(made.confidence).tolist()


# -------------------------------------------------------------------------------------- histograms
@each
def test_the_histogram_of_confidence(made):
    p, y, w = rows(made)
    curve = curves(made)["confidence"]
    place = np.clip(np.ceil(p * 20) - 1, 0, 19).astype(int)
    assert curve["n"].tolist() == np.bincount(place, minlength=20).tolist()
    assert curve["correct"] == pytest.approx(np.bincount(place, w * y, 20) / unit_of(made), abs=1e-9)
    assert curve["wrong"] == pytest.approx(np.bincount(place, w * (1 - y), 20) / unit_of(made), abs=1e-9)


def unit_of(made):
    return made.info.weight_unit


@each
def test_the_histogram_of_entropy(made):
    curve, y = curves(made)["entropy"], rows(made)[1]
    u = cal.score_rows(made, "entropy")["entropy"]
    u = u if made.weights is None else u[made.weights > 0]
    top = math.log(made.classes if isinstance(made, cal.Classification) else 2)
    assert curve["upper"][-1] == top
    assert curve["lower"] == pytest.approx(np.arange(20) / 20 * top)
    assert curve["n"].tolist() == np.histogram(u, np.append(curve["lower"], top + 1e-9))[0].tolist()
    if made.weights is None:
        assert curve["correct"].sum() == y.sum()
        assert (curve["correct"] + curve["wrong"]).tolist() == curve["n"].tolist()


@each
def test_accuracy_among_the_confident(made):
    p, y, w = rows(made)
    curve = curves(made)["accuracy_confidence"]
    assert curve["threshold"].tolist() == [t for t in [*(np.arange(20) / 20), 0.99] if (p >= t).any()]
    for t, accuracy, n, share in zip(*(curve[k] for k in ("threshold", "accuracy", "n", "share")), strict=True):
        chosen = p >= t
        assert n == chosen.sum()
        assert accuracy == pytest.approx(np.average(y[chosen], weights=w[chosen]))
        assert share == pytest.approx(w[chosen].sum() / w.sum())


# --------------------------------------------------------------------------------------- selective
@each
def test_rejection_is_the_expectation_over_ties(made):
    """Each run of equal confidence is cut as a whole, rows being split where the share ends."""
    p, y, w = rows(made)
    curve = curves(made)["rejection"]
    assert curve["rejected"].tolist() == [k / 100 for k in range(100)]
    values = np.unique(p)[::-1]
    mass = np.array([w[p >= v].sum() for v in values]) / w.sum()
    right = np.array([(w * y)[p >= v].sum() for v in values]) / w.sum()
    kept = (100 - np.arange(100)) / 100
    expected = np.interp(kept, np.append(0, mass), np.append(0, right)) / kept
    assert curve["accuracy"] == pytest.approx(expected, abs=1e-6)


def test_the_area_above_rejection_is_aac():
    made = judged(5000)
    result = evaluate_with(made, "aac", intervals=False)
    accuracy = np.array(result.results[0].curves["rejection"]["accuracy"])
    assert np.trapezoid(1 - accuracy, dx=0.01) == pytest.approx(result["aac"].value, abs=2e-3)


@each
def test_risk_and_coverage(made):
    p, y, w = rows(made)
    curve = curves(made)["risk_coverage"]
    assert len(curve["risk"]) <= 200
    assert curve["coverage"][-1] == 1
    assert (np.diff(curve["coverage"]) > 0).all()
    for coverage, risk, threshold in zip(*(curve[k] for k in ("coverage", "risk", "threshold")), strict=True):
        chosen = p >= threshold * (1 - 1e-12)
        assert coverage == pytest.approx(w[chosen].sum() / w.sum())
        assert risk == pytest.approx(np.average(1 - y[chosen], weights=w[chosen]), abs=1e-9)


@pytest.mark.parametrize("score", ["entropy", "mutual_information"])
def test_rejection_by_another_uncertainty(score):
    made = classes(members=3)
    curve = curves(made)[f"rejection(score={score})"]
    u, y = cal.score_rows(made, score)[score], rows(made)[1]
    by_certainty = y[np.argsort(u)]
    assert curve["accuracy"][[0, 50, 75]] == pytest.approx([by_certainty[:k].mean() for k in (300, 150, 75)])


def test_avu_by_a_loop():
    made = classes()
    curve = curves(made)["avu"]
    u, y = cal.score_rows(made, "entropy")["entropy"], rows(made)[1] == 1
    assert curve["t"].tolist() == [k / 20 for k in range(21)]
    for k in range(21):
        certain = u <= curve["uncertainty"][k] + 1e-12
        assert curve["avu"][k] == pytest.approx(np.mean(certain == y))
        assert curve["p_accurate_certain"][k] == pytest.approx(y[certain].mean())
        assert curve["p_uncertain_inaccurate"][k] == pytest.approx((~certain)[~y].mean())


# -------------------------------------------------------------------------------------- odd inputs
def test_one_row():
    found = curves(cal.Judged.from_confidence([0.7], [1]), None)
    assert set(found) == OF_JUDGED - {"avu(score=max_probability)"} | (found.keys() & OF_JUDGED)
    assert found["reliability"]["band_low"].tolist() == [0]
    assert found["reliability"]["band_high"].tolist() == [1]
    assert found["corp"]["recalibrated"].tolist() == [1]
    assert set(found["rejection"]["accuracy"]) == {1}


@pytest.mark.parametrize("right", [0, 1])
def test_all_right_or_all_wrong(right):
    p = np.random.default_rng(0).random(50)
    found = curves(cal.Judged.from_confidence(p, np.full(50, right)), None)
    assert set(found["corp"]["recalibrated"]) == {right}
    assert set(found["rejection"]["accuracy"]) == {right}
    assert ("p_uncertain_inaccurate" in found["avu(score=max_probability)"]) == (right == 0)


def test_certain_rows():
    found = curves(cal.Judged.from_confidence(np.ones(9), np.ones(9, int)), None)
    curve = found["reliability"]
    assert [curve[k].tolist() for k in ("accuracy", "band_low", "band_high")] == [[1], [1], [1]]
    assert found["accuracy_confidence"]["n"].tolist() == [9] * 21


def test_without_labels_there_are_histograms():
    made = classes(labels=False)
    result = cal.evaluate(made).results[0]
    assert set(result.curves) == {"confidence", "entropy"}
    assert set(result.curves["entropy"]) == {"lower", "upper", "n"}
    assert sum(result.curves["confidence"]["n"]) == made.n
    assert set(result.curves_skipped) == OF_CLASSES - {"confidence", "entropy"}
    assert set(map(str, result.curves_skipped.values())) == {"it needs labels"}


def test_equal_weights_are_no_weights_and_repeated_rows_are_weights():
    rng = np.random.default_rng(3)
    p, y, k = rng.random(80).round(2), rng.integers(0, 2, 80), rng.integers(1, 4, 80)
    plain, equal = (curves(cal.Judged.from_confidence(p, y, weights=w)) for w in (None, np.full(80, 3.7)))
    weighted = curves(cal.Judged.from_confidence(p, y, weights=k.astype(float)))
    repeated = curves(cal.Judged.from_confidence(np.repeat(p, k), np.repeat(y, k)))
    for a, b in ((plain, equal), (weighted, repeated)):
        for name in OF_JUDGED - {"confidence", "entropy"}:
            for key in a[name].keys() - {"n", "band_low", "band_high"}:
                assert a[name][key] == pytest.approx(b[name][key], abs=1e-9), (name, key)


@pytest.mark.parametrize(("members", "width"), [(3, 4), (5, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_histogram_of_mutual_information(members, width, weighted):
    made = classes(members=members, width=width, weighted=weighted)
    probs = made.as_probs().scores
    mean = probs.mean(axis=0)
    information = -(mean * np.log(mean)).sum(axis=1) + (probs * np.log(probs)).sum(axis=2).mean(axis=0)
    hit, w = (mean.argmax(axis=1) == made.labels), np.ones(made.n) if made.weights is None else made.weights
    found = curves(made)["mutual_information"]
    edges = np.append(found["lower"], found["upper"][-1])
    assert edges == pytest.approx(np.linspace(0, math.log(min(members, width)), 21))
    assert found["n"].tolist() == np.histogram(information[w > 0], edges)[0].tolist()
    unit = made.info.weight_unit
    assert found["correct"] * unit == pytest.approx(np.histogram(information, edges, weights=w * hit)[0])
    assert found["wrong"] * unit == pytest.approx(np.histogram(information, edges, weights=w * ~hit)[0])


def test_mutual_information_without_labels_and_of_members_that_agree():
    without = curves(classes(members=3, labels=False), "entropy,mutual_information")["mutual_information"]
    assert set(without) == {"lower", "upper", "n"}
    one = classes()
    same = cal.Classification.from_logits(np.repeat(one.scores, 3, axis=0), one.labels)
    assert curves(same)["mutual_information"]["n"].tolist() == [same.n, *[0] * 19]


# ------------------------------------------------------------------------------------ same digits
def text(found):
    stored = json.loads(found.dumps())["results"][0]
    return json.dumps([stored["curves"], stored.get("curves_skipped")])


@each
def test_order_blocks_and_threads_show_nowhere(made):
    whole = text(cal.evaluate(made, "accuracy,entropy", resamples=60))
    shuffled = made[np.random.default_rng(1).permutation(made.n)]
    assert text(cal.evaluate(shuffled, "accuracy,entropy", resamples=60)) == whole
    assert text(evaluate_with(made, "accuracy,entropy", resamples=60, block_rows=37, threads=2)) == whole
    assert text(cal.evaluate(made, "accuracy,entropy", resamples=60, threads=1)) == whole


@pytest.mark.parametrize("name", ["judged-weighted", "classes-members"])
def test_metrics_that_share_their_states_change_nothing(name):
    made = MADE[name]
    alone = cal.evaluate(made, "accuracy,entropy", resamples=60).results[0].curves
    assert cal.evaluate(made, resamples=60).results[0].curves == alone


@pytest.mark.parametrize("name", ["judged", "classes-members"])
def test_streams_give_the_same(name, tmp_path):
    made = MADE[name]
    cal.write(made, tmp_path / "x.npz")
    stream = cal.scan(tmp_path / "x.npz")
    one, other = (evaluate_with(x, "accuracy,entropy", resamples=60, threads=2, block_rows=41) for x in (stream, made))
    assert text(one) == text(other)
    assert set(one.results[0].curves) >= {"corp", "reliability"}


def test_files_bring_curves_back(tmp_path):
    found = cal.evaluate(judged(), "accuracy", resamples=60)
    again = cal.Evaluation.load(found.save(tmp_path / "x.json"))
    assert again.results[0].curves == found.results[0].curves
    assert isinstance(again.results[0].curves["corp"]["recalibrated"][0], float)
    without = cal.evaluate(classes(labels=False), resamples=60)
    assert cal.Evaluation.load(without.save(tmp_path / "y.json")) == without


# ---------------------------------------------------------------------------------------- left out
def test_curves_that_keep_rows_are_left_out_of_many(monkeypatch):
    monkeypatch.setattr(curve_choosing, "MAX_ROWS_NAMED", 100)
    kept = {*MASS.values(), "corp", "rejection", "risk_coverage", "avu", "rejection(score=entropy)"}
    result = cal.evaluate(classes(), "accuracy,entropy", resamples=60).results[0]
    assert set(result.curves) == OF_CLASSES - kept
    assert set(result.curves_skipped) == kept
    assert all("keeps every row" in reason.text for reason in result.curves_skipped.values())
    assert result.skipped == {}
    shared = cal.evaluate(classes(), "ks,entropy,avu", resamples=60).results[0]
    assert set(shared.curves) == OF_CLASSES


def test_a_long_stream_has_no_kept_curves(monkeypatch, tmp_path):
    for module in (choosing, curve_choosing):
        monkeypatch.setattr(module, "MAX_KEPT_ROWS", 100)
    cal.write(classes(), tmp_path / "x.npz")
    evaluation = cal.evaluate(cal.scan(tmp_path / "x.npz"), "report", resamples=60)
    assert set(evaluation.results[0].curves) == {"reliability"}
    assert {"corp", "confidence", "reliability(bins=5)"} <= set(evaluation.results[0].curves_skipped)
    assert "log_e_value" in evaluation.results[0].skipped
    assert "corp:" not in str(evaluation)


def test_named_metrics_bring_what_their_pass_reads():
    result = cal.evaluate(classes(width=2), "ece", resamples=60).results[0]
    assert set(result.curves_skipped) == {
        "entropy", "avu", "rejection(score=entropy)", "reliability(of=1)", "reliability(binning=mass,of=1)",
    }  # fmt: skip
    assert set(cal.evaluate(classes(width=2), "ece(of=1)", resamples=60).results[0].curves) >= {"reliability(of=1)"}


def test_curves_can_be_left_alone():
    made = classes()
    with_curves, without = (cal.evaluate(made, "nll,ece", resamples=60, curves=c) for c in (True, False))
    assert without.results[0].curves == without.results[0].curves_skipped == {}
    assert without.results[0].metrics == with_curves.results[0].metrics
    assert without.warnings == with_curves.warnings


def test_the_file_stays_small():
    binary = classes(5000, width=2)
    for made, metrics in ((judged(20_000), "accuracy"), (classes(5000, members=3), "nll"), (binary, "nll,ece(of=1)")):
        stored = cal.evaluate(made, metrics, resamples=60).to_json()["results"][0]
        assert len(json.dumps(stored["curves"])) < 150_000


def test_real_predictions(demo):
    made = cal.read(demo["test"])
    found = curves(made, resamples=200)
    assert set(found) == OF_MEMBERS
    assert found["corp"]["n"].sum() == found["reliability"]["n"].sum() == made.n
    assert found["rejection"]["accuracy"][-1] >= found["rejection"]["accuracy"][0]
    assert stats.spearmanr(found["corp"]["confidence"], found["corp"]["recalibrated"])[0] > 0


def test_a_network_that_was_published(data_folder):
    """ResNet-110 on CIFAR-10 is over-confident, and hardly so once its logits are divided by 2.5."""
    path = data_folder / "predictions" / "cifar10_nn_calibration_logits.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with np.load(path, allow_pickle=False) as stored:
        logits, labels = stored["logits_test"][0], stored["labels_test"]
    raw, scaled = (curves(cal.Classification.from_logits(z, labels), resamples=300) for z in (logits, logits / 2.5))
    assert inside(raw["corp"], "recalibrated") < 0.2
    assert inside(scaled["corp"], "recalibrated") > 0.5
    assert inside(raw[MASS[15]]) < 0.3 < inside(scaled[MASS[15]])
    assert raw["rejection"]["accuracy"][0] == pytest.approx(0.9356)
