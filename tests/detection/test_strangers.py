"""Detection and selective prediction as they are named: scikit-learn, SciPy and torchmetrics on the same rows."""

import numpy as np
import pytest
import torch
from scipy import special, stats
from sklearn import metrics as sk
from torchmetrics.functional import classification as tm

import calibrant as cal

EXACT, SINGLE = 1e-9, 2e-6
SCORES = ("max_probability", "entropy", "expected_entropy", "mutual_information", "margin", "energy")


def logits_of(seed, rows=300, classes=5, members=3, sure=2.0):
    """Members (M, N, C) that agree more or less; sixteenths, so that some rows are tied."""
    rng = np.random.default_rng(seed)
    common = sure * rng.normal(size=(rows, classes))
    z = np.round(16 * (common + 0.7 * rng.normal(size=(members, rows, classes)))) / 16
    z[:, rows // 2 : rows // 2 + 20] = z[:, :1]
    p = special.softmax(z, axis=2).mean(0)
    return z, np.array([rng.choice(classes, p=row) for row in p])


def uncertainty(z, score):
    """Each row's uncertainty by SciPy, higher being more uncertain."""
    members = special.softmax(z, axis=2)
    p = members.mean(0)
    ranked = np.sort(p, axis=1)
    inner = stats.entropy(members, axis=2).mean(0)
    found = {
        "max_probability": 1 - ranked[:, -1],
        "entropy": stats.entropy(p, axis=1),
        "expected_entropy": inner,
        "mutual_information": stats.entropy(p, axis=1) - inner,
        "margin": ranked[:, -2] - ranked[:, -1],
        "energy": -special.logsumexp(z, axis=2).mean(0),
    }
    return np.round(found[score], 12)  # ties that rounding has parted


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("score", SCORES)
def test_detection(score, seed):
    inside, outside = logits_of(seed)[0], logits_of(seed + 10, 200, sure=1.0)[0]
    u = np.concatenate([uncertainty(inside, score), uncertainty(outside, score)])
    out = np.repeat([False, True], [300, 200])
    fpr, tpr, _ = sk.roc_curve(out, u, drop_intermediate=False)
    expected = {
        "auroc": sk.roc_auc_score(out, u),
        "aupr_out": sk.average_precision_score(out, u),
        "aupr_in": sk.average_precision_score(~out, -u),
        "detection_accuracy": ((tpr + 1 - fpr) / 2).max(),
        "fpr95": fpr[tpr >= 0.95 - 1e-12][0],
        "fpr95(level=0.8)": fpr[tpr >= 0.8 - 1e-12][0],
        "wasserstein": stats.wasserstein_distance(u[~out], u[out]),
    }
    sides = [cal.Classification.from_logits(z) for z in (inside, outside)]
    found = cal.detect(*sides, score, list(expected), intervals=False).results[0]
    assert {spec: found[spec].value for spec in expected} == pytest.approx(expected, abs=1e-8)


def test_detection_of_torchmetrics():
    inside, outside = logits_of(3)[0], logits_of(13, 200, sure=1.0)[0]
    u = np.concatenate([uncertainty(inside, "entropy"), uncertainty(outside, "entropy")])
    score, out = torch.tensor(u / 2), torch.tensor([0] * 300 + [1] * 200)
    specificity, _ = tm.binary_specificity_at_sensitivity(score, out, 0.95 - 1e-6)
    expected = {
        "auroc": float(tm.binary_auroc(score, out)),
        "aupr_out": float(tm.binary_average_precision(score, out)),
        "fpr95": 1 - float(specificity),
    }
    sides = [cal.Classification.from_logits(z) for z in (inside, outside)]
    found = cal.detect(*sides, "entropy", list(expected), intervals=False).results[0]
    assert {spec: found[spec].value for spec in expected} == pytest.approx(expected, abs=SINGLE)


@pytest.mark.parametrize("score", SCORES)
def test_misclassification(score):
    z, labels = logits_of(5)
    u = uncertainty(z, score)
    wrong = special.softmax(z, axis=2).mean(0).argmax(1) != labels
    expected = {
        f"misclassification_auroc(score={score})": sk.roc_auc_score(wrong, u),
        f"misclassification_aupr(score={score})": sk.average_precision_score(wrong, u),
    }
    found = cal.measure(cal.Classification.from_logits(z, labels), list(expected))
    assert list(found.values()) == pytest.approx(list(expected.values()), abs=EXACT)


@pytest.mark.parametrize("score", SCORES)
def test_accuracy_versus_uncertainty(score):
    """Certain: up to the threshold; it lies half-way between the means of right and of wrong rows."""
    z, labels = logits_of(6)
    u = uncertainty(z, score)
    wrong = special.softmax(z, axis=2).mean(0).argmax(1) != labels

    def shares(threshold):
        sure = u <= threshold
        return (sure != wrong).mean(), (~wrong)[sure].mean(), (~sure)[wrong].mean()

    own = (u[wrong].mean() + u[~wrong].mean()) / 2
    levels = np.linspace(u.min(), u.max(), 21)
    area = np.trapezoid([(np.asarray(u <= t + 1e-12) != wrong).mean() for t in levels], dx=0.05)
    names = ("avu", "p_accurate_certain", "p_uncertain_inaccurate")
    expected = [*shares(own), area]
    specs = [f"{name}(score={score})" for name in (*names, "avu_auc")]
    given = float(np.quantile(u, 0.37)) + 1e-7
    if given > 0:  # below 0 stands for half-way
        expected += shares(given)
        specs += [f"{name}(score={score},threshold={given!r})" for name in names]
    found = cal.measure(cal.Classification.from_logits(z, labels), specs)
    assert list(found.values()) == pytest.approx(expected, abs=EXACT)


def test_areas_of_selective_prediction():
    """Without ties: the mean over rows, and what other normalisations make of it."""
    rng = np.random.default_rng(8)
    confidence = rng.permutation(np.arange(1, 501)) / 501
    wrong = rng.random(500) > confidence
    risks = np.cumsum(wrong[np.argsort(-confidence)]) / np.arange(1, 501)
    best = np.cumsum(np.sort(wrong)) / np.arange(1, 501)
    found = cal.measure(cal.Judged.from_confidence(confidence, ~wrong), "aurc,e_aurc")
    assert found["aurc"] == pytest.approx(risks.mean(), abs=EXACT)
    assert found["e_aurc"] == pytest.approx(risks.mean() - best.mean(), abs=EXACT)
    area = np.trapezoid(risks, dx=1 / 500)
    assert area == pytest.approx(found["aurc"] - (risks[0] + risks[-1]) / 1000, abs=EXACT)
