"""Every score equals the value that an independent library gives, whatever the shape, kind and precision.

float64 input agrees to 1e-9; 16 and 32 bits agree to 2e-6 with the stranger's float64 value of the same numbers.
"""

import warnings
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import special, stats
from sklearn import metrics as sk

import calibrant as cal

N = 257  # not a whole number of the tiles that the kernels work in
CLASSES = (2, 3, 10, 47, 48, 100, 1000)  # another kernel from 48 on
MEMBERS = (1, 2, 5)
KINDS = ("logits", "log_probs", "probs")
EXACT, SINGLE = 1e-9, 2e-6


def problem(classes, members, kind, dtype, seed=0):
    """Scores (M, N, C) in the given form, labels, and what strangers need: p_m and their mean in float64."""
    rng = np.random.default_rng([seed, classes, members])
    common = 1.5 * rng.normal(size=(N, classes))
    z = common + rng.normal(size=(members, N, classes))
    log_p = z - special.logsumexp(z, axis=2, keepdims=True)
    scores = {"logits": z, "log_probs": log_p, "probs": np.exp(log_p)}[kind].astype(dtype)
    wide = scores.astype(np.float64)
    p = wide / wide.sum(2, keepdims=True) if kind == "probs" else special.softmax(wide, axis=2)
    labels = np.array([rng.choice(classes, p=row) for row in p.mean(0)])
    return SimpleNamespace(
        predictions=cal.Classification.build(kind, scores, labels),
        scores=wide, members=p, mean=p.mean(0), labels=labels, kind=kind,
    )  # fmt: skip


def strange_values(x):
    """Each metric by someone else's code."""
    m, n, classes = x.members.shape
    one_hot = np.eye(classes)[x.labels]
    ranked = np.sort(x.mean, axis=1)
    entropy = stats.entropy(x.mean, axis=1)
    member_entropy = torch.distributions.Categorical(probs=torch.tensor(x.members)).entropy().numpy().mean(0)
    votes = [Counter(column).most_common(1)[0][1] for column in x.members.argmax(2).T]
    values = {
        "accuracy": sk.accuracy_score(x.labels, x.mean.argmax(1)),
        "nll": sk.log_loss(x.labels, x.mean, labels=range(classes)),
        "brier": ((x.mean - one_hot) ** 2).sum(1).mean(),
        "brier(per_class=true)": ((x.mean - one_hot) ** 2).mean(),
        "entropy": entropy.mean(),
        "margin": (ranked[:, -1] - ranked[:, -2]).mean(),
    }
    values["rbs"] = values["brier"] ** 0.5
    values["rbs(p=1)"] = (classes * values["brier"]) ** 0.5
    if classes > 5:
        values["top_k"] = sk.top_k_accuracy_score(x.labels, x.mean, k=5, labels=range(classes))
    if classes > 2:
        values["top_k(k=2)"] = sk.top_k_accuracy_score(x.labels, x.mean, k=2, labels=range(classes))
    if m > 1:
        values["expected_entropy"] = member_entropy.mean()
        values["mutual_information"] = (entropy - member_entropy).mean()
        values["variation_ratio"] = 1 - np.sum(votes) / (m * n)
    if x.kind == "logits":
        values["energy"] = -special.logsumexp(x.scores, axis=2).mean()
    return values


def assert_close(predictions, expected, tolerance):
    measured = cal.measure(predictions, list(expected))
    assert measured == pytest.approx(expected, abs=tolerance, rel=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("classes", CLASSES)
def test_float64_agrees_to_1e_9(classes, members, kind):
    x = problem(classes, members, kind, np.float64)
    assert_close(x.predictions, strange_values(x), EXACT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("classes", CLASSES)
def test_float32_agrees_to_2e_6(classes, members, kind):
    x = problem(classes, members, kind, np.float32)
    assert_close(x.predictions, strange_values(x), SINGLE)


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_float16_agrees_with_its_own_numbers(classes, kind):
    x = problem(classes, 2, kind, np.float16)
    expected = strange_values(x)
    expected.pop("variation_ratio")  # 16 bits bring ties, which strangers break otherwise
    expected.pop("top_k", None)
    assert_close(x.predictions, expected, SINGLE)


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("members", [1, 2])
def test_one_metric_alone_equals_it_among_others(classes, members):
    """A pass for confidence and likelihood alone takes a shorter way."""
    x = problem(classes, members, "logits", np.float32)
    together = cal.measure(x.predictions, "accuracy,nll,ece,brier,entropy")
    alone = {spec: cal.measure(x.predictions, spec)[spec] for spec in together}
    assert alone == pytest.approx(together, abs=SINGLE)


def test_nll_is_torch_cross_entropy():
    x = problem(10, 1, "logits", np.float64)
    value = torch.nn.functional.cross_entropy(torch.tensor(x.scores[0]), torch.tensor(x.labels)).item()
    assert_close(x.predictions, {"nll": value}, EXACT)


def test_soft_nll_is_torch_cross_entropy_with_probabilities():
    x = problem(10, 1, "logits", np.float64)
    q = np.random.default_rng(1).dirichlet(np.ones(10), N)
    value = torch.nn.functional.cross_entropy(torch.tensor(x.scores[0]), torch.tensor(q)).item()
    assert_close(cal.Classification.from_logits(x.scores, label_probs=q), {"nll": value}, EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_binary_brier_is_twice_that_of_scikit_learn(kind):
    x = problem(2, 3, kind, np.float64)
    assert_close(x.predictions, {"brier": 2 * sk.brier_score_loss(x.labels, x.mean[:, 1])}, EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_one_number_per_row_is_the_binary_problem(kind):
    x = problem(2, 3, "probs", np.float64)
    p1 = x.members[:, :, 1:]
    given = {"logits": special.logit(p1), "log_probs": np.log(p1), "probs": p1}[kind]
    expected = strange_values(x)
    expected["roc_auc"] = sk.roc_auc_score(x.labels, x.mean[:, 1])
    assert_close(cal.Classification.build(kind, given, x.labels), expected, EXACT)


# ------------------------------------------------------------------------------------------ weights
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("classes", [2, 10, 60])
def test_weighted_scores_are_those_of_scikit_learn(classes, members):
    x = problem(classes, members, "logits", np.float64)
    w = np.random.default_rng(2).exponential(size=N)
    expected = {
        "accuracy": sk.accuracy_score(x.labels, x.mean.argmax(1), sample_weight=w),
        "nll": sk.log_loss(x.labels, x.mean, labels=range(classes), sample_weight=w),
        "brier": np.average(((x.mean - np.eye(classes)[x.labels]) ** 2).sum(1), weights=w),
        "entropy": np.average(stats.entropy(x.mean, axis=1), weights=w),
    }
    if classes > 2:
        expected["top_k(k=2)"] = sk.top_k_accuracy_score(
            x.labels, x.mean, k=2, labels=range(classes), sample_weight=w
        )  # fmt: skip
    assert_close(cal.Classification.from_logits(x.scores, x.labels, weights=w), expected, EXACT)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [1, 2, 12])
def test_ranking_is_that_of_scikit_learn_with_ties_and_weights(decimals, weighted):
    rng = np.random.default_rng(3)
    p = np.round(rng.beta(2, 3, size=400), decimals)
    y = (rng.random(400) < p).astype(int)
    w = rng.exponential(size=400) if weighted else None
    expected = {
        "roc_auc": sk.roc_auc_score(y, p, sample_weight=w),
        "average_precision": sk.average_precision_score(y, p, sample_weight=w),
    }
    assert_close(cal.Classification.from_probs(p, y, weights=w), expected, EXACT)


# ------------------------------------------------------------------------------- calibration errors
NORMS = {"ece": "l1", "ece(norm=l2)": "l2", "ece(norm=max)": "max"}


@pytest.mark.parametrize(("spec", "norm"), NORMS.items())
@pytest.mark.parametrize("classes", [3, 10, 100])
def test_ece_is_that_of_torchmetrics(classes, spec, norm):
    """Continuous confidences: only values at an edge are binned differently there; it computes in float32."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    x = problem(classes, 1, "probs", np.float64)
    value = multiclass_calibration_error(
        torch.tensor(x.mean), torch.tensor(x.labels), num_classes=classes, n_bins=15, norm=norm
    ).item()
    assert_close(x.predictions, {spec: value}, SINGLE)


@pytest.mark.parametrize("bins", [5, 16, 40])
def test_binary_ece_of_class_1_is_that_of_torchmetrics(bins):
    from torchmetrics.functional.classification import binary_calibration_error

    x = problem(2, 1, "probs", np.float64)
    value = binary_calibration_error(torch.tensor(x.mean[:, 1]), torch.tensor(x.labels), n_bins=bins).item()
    assert_close(x.predictions, {f"ece(bins={bins},of=1)": value}, SINGLE)


@pytest.fixture(scope="module")
def netcal():
    """The library warns of its own dependencies when it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("netcal.metrics")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bins", [10, 15])
@pytest.mark.parametrize("classes", [3, 10, 100])
def test_ece_and_mce_are_those_of_netcal(netcal, classes, bins):
    x = problem(classes, 1, "probs", np.float64)
    expected = {
        f"ece(bins={bins})": netcal.ECE(bins).measure(x.mean, x.labels),
        f"ece(bins={bins},norm=max)": netcal.MCE(bins).measure(x.mean, x.labels),
    }
    measured = cal.measure(x.predictions, list(expected))
    assert list(measured.values()) == pytest.approx(list(expected.values()), abs=EXACT)


def test_weighted_ece_is_brute_force_over_bins():
    x = problem(10, 1, "probs", np.float64)
    w = np.random.default_rng(4).exponential(size=N)
    conf, hit = x.mean.max(1), x.mean.argmax(1) == x.labels
    bins = np.ceil(conf * 15)
    gaps = [abs(np.sum((w * (hit - conf))[bins == b])) for b in range(1, 16)]
    predictions = cal.Classification.from_probs(x.mean, x.labels, weights=w)
    assert_close(predictions, {"ece": np.sum(gaps) / w.sum()}, EXACT)
