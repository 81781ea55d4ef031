"""Calibration errors and validators' statistics, as they are named: other libraries' values, and plain loops.

Libraries agree to 1e-9, torchmetrics and what is built on it (float32) to 2e-6, relplot (a coarse mesh) to 2e-3.
"""

import math
import warnings
from collections import defaultdict
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import calibrant as cal

EXACT, SINGLE, MESH = 1e-9, 2e-6, 2e-3
N = 600  # a multiple of 15, so that all kinds of equal-mass bins agree
KINDS = ["binary", "three", "ten", "hundred", "tied", "tied binary"]
UNTIED = KINDS[:4]


def problem(kind, seed=0):
    """Probabilities of a model that is too sure, labels, and predictions; tied ones are sixteenths."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    classes = {"binary": 2, "tied binary": 2, "three": 3, "tied": 4, "ten": 10, "hundred": 100}[kind]
    truth = rng.dirichlet(np.full(classes, 0.7), N)
    p = truth**1.6 / (truth**1.6).sum(1, keepdims=True)
    if kind.startswith("tied"):
        p = rng.multinomial(16, p) / 16
    labels = np.array([rng.choice(classes, p=row) for row in truth])
    top = p.argmax(1)
    return SimpleNamespace(
        p=p, labels=labels, classes=classes, predictions=cal.Classification.from_probs(p, labels),
        confidence=p.max(1), hit=(top == labels).astype(float), tied=kind.startswith("tied"),
    )  # fmt: skip


def assert_equal(predictions, expected, tolerance=EXACT):
    measured = cal.measure(predictions, list(expected))
    assert list(measured.values()) == pytest.approx(list(expected.values()), abs=tolerance)


# ------------------------------------------------------------------------------------------ libraries
@pytest.fixture(scope="module")
def uc():
    return pytest.importorskip("calibration")  # the package uncertainty-calibration


@pytest.fixture(scope="module")
def netcal():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("netcal.metrics")


@pytest.fixture(scope="module")
def relplot():
    return pytest.importorskip("relplot")


@pytest.fixture(scope="module")
def probmetrics():
    pytest.importorskip("relplot")
    return pytest.importorskip("probmetrics.metrics")


@pytest.mark.parametrize("kind", UNTIED)
def test_top_label_errors_of_uncertainty_calibration(uc, kind):
    x = problem(kind)

    def theirs(p, debias=False, bins=uc.get_equal_bins):
        return uc.lower_bound_scaling_ce(x.p, x.labels, p, debias, 15, bins, mode="top-label")

    expected = {
        "ece": uc.get_ece(x.p, x.labels),
        "ece(binning=mass)": uc.get_ece_em(x.p, x.labels),
        "tce": theirs(2, bins=uc.get_equal_prob_bins),
        "tce(debias=true)": theirs(2, True, uc.get_equal_prob_bins),
        "tce(p=3,binning=mass)": theirs(3),
        "tce(binning=mass,debias=true)": uc.get_top_calibration_error(x.p, x.labels),
        "aurc": 1 - uc.get_selective_stats(x.confidence, x.hit)[0],
    }
    assert_equal(x.predictions, expected)


@pytest.mark.parametrize("kind", UNTIED)
def test_marginal_errors_of_uncertainty_calibration(uc, kind):
    """A mean over classes under the root; each class's debiased square is clipped at 0 before that."""
    x = problem(kind)
    for p in (1, 2, 3):
        theirs = uc.lower_bound_scaling_ce(
            x.p, x.labels, p, debias=False, binning_scheme=uc.get_equal_prob_bins, mode="marginal"
        )
        assert_equal(x.predictions, {f"cwce(p={p},average=true)": theirs})
    if x.classes > 10:
        return
    classes = range(x.classes)
    for debias, spec in ((True, "tce(binning=mass,debias=true,of={})"), (False, "tce(binning=mass,of={})")):
        of_class = list(cal.measure(x.predictions, [spec.format(c) for c in classes]).values())
        theirs = uc.get_calibration_error(x.p, x.labels, debias=debias)
        assert math.sqrt(np.mean(np.square(of_class))) == pytest.approx(theirs, abs=EXACT)


@pytest.mark.parametrize("debias", [True, False])
def test_errors_of_few_distinct_values_in_uncertainty_calibration(uc, debias):
    """It takes a bin for each distinct value where there are few: as many equal-mass bins as there may be."""
    x = problem("tied binary")
    p, y = x.p[:, 1], x.labels
    assert uc.is_discrete(p)
    spec = f"tce(bins=100000,binning=mass,debias={str(debias).lower()},of=1)"
    assert_equal(x.predictions, {spec: uc.get_calibration_error(p, y, debias=debias)})


@pytest.mark.parametrize("kind", KINDS)
def test_mmce_of_netcal(netcal, kind):
    """No bins, so ties are no matter; one column of probabilities is taken for the confidence of class 1 there."""
    x = problem(kind)
    assert_equal(x.predictions, {"mmce": netcal.MMCE().measure(x.p, x.labels)})


@pytest.mark.parametrize("kind", ["binary", "three", "ten"])
def test_equal_mass_errors_of_netcal(netcal, kind):
    x = problem(kind)
    expected = {
        "ece(binning=mass)": netcal.ECE(15, equal_intervals=False).measure(x.confidence, x.hit),
        "mce(binning=mass)": netcal.MCE(15, equal_intervals=False).measure(x.confidence, x.hit),
    }
    assert_equal(x.predictions, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_smooth_ece_of_relplot(relplot, kind):
    """Its mesh and its ten halvings of the bandwidth limit the agreement; rows at 0 and 1 count half there."""
    x = problem(kind)
    for p, y in ((x.confidence, x.hit > 0), (x.p[:, 1], x.labels == 1)):
        half = np.where((p == 0) | (p == 1), 0.5, 1.0)
        judged = cal.Judged.from_confidence(p, y, weights=half)
        assert_equal(judged, {"smooth_ece": relplot.smECE(p, y * 1.0)}, MESH)
        if not x.tied:
            assert_equal(cal.Judged.from_confidence(p, y), {"smooth_ece": relplot.smECE(p, y * 1.0)}, MESH)


def test_binned_ece_of_relplot(relplot):
    x = problem("binary")
    theirs = relplot.metrics.binnedECE(x.p[:, 1], x.labels, nbins=10)
    assert_equal(x.predictions, {"ece(bins=10,of=1)": theirs})


NAMES = {
    "ece-15": "ece", "rmsce-15": "ece(norm=l2)", "mce-15": "mce", "smece": "smooth_ece", "brier": "brier",
    "logloss": "nll", "accuracy": "accuracy",
}  # fmt: skip


@pytest.mark.parametrize("kind", UNTIED[:3])
def test_metrics_of_probmetrics(probmetrics, kind):
    """Errors are of (p_1, label) for two classes, of the confidence for more; classes that have rows count there."""
    import torch

    x = problem(kind)
    assert len(np.unique(x.labels)) == x.classes
    found = probmetrics.Metrics.from_names(list(NAMES)).compute_all_from_labels_probs(
        torch.tensor(x.labels), torch.tensor(x.p)
    )
    for name, spec in NAMES.items():
        if x.classes == 2 and "ce" in spec and spec != "accuracy":
            spec = spec.replace(")", ",of=1)") if ")" in spec else f"{spec}(of=1)"
        assert_equal(x.predictions, {spec: float(found[name])}, MESH if name == "smece" else SINGLE)


def test_ks_of_probmetrics(probmetrics):
    """Right for two classes without ties; with more it compares labels 0, 1, 2 … with p_1."""
    import torch

    x = problem("binary")
    theirs = probmetrics.KolmogorovSmirnovCalibrationMetric().compute_from_labels_probs(
        torch.tensor(x.labels), torch.tensor(x.p)
    )
    assert_equal(x.predictions, {"ks(of=1)": float(theirs)}, SINGLE)


@pytest.mark.parametrize("of", ["top", "1"])
@pytest.mark.parametrize("kind", ["binary", "three", "tied binary"])
def test_cox_line_of_scikit_learn(kind, of):
    from sklearn.linear_model import LogisticRegression

    x = problem(kind)
    p, y = (x.confidence, x.hit) if of == "top" else (x.p[:, 1], x.labels == 1)
    logit = np.log(np.clip(p, 1e-7, 1 - 1e-7)) - np.log1p(-np.clip(p, 1e-7, 1 - 1e-7))
    line = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(logit[:, None], y)
    expected = {f"slope(of={of})": line.coef_[0, 0], f"intercept(of={of})": line.intercept_[0]}
    assert_equal(x.predictions, expected, 1e-6)


@pytest.mark.parametrize("of", ["top", "1"])
@pytest.mark.parametrize("kind", ["binary", "three", "ten"])
def test_statistics_of_validators(kind, of):
    x = problem(kind)
    p, y = (x.confidence, x.hit) if of == "top" else (x.p[:, 1], x.labels == 1)
    groups = np.array_split(np.argsort(p), 10)
    hosmer_lemeshow = sum((y[g].sum() - p[g].sum()) ** 2 / (p[g].sum() * (1 - p[g].mean())) for g in groups)
    z = ((y - p) * (1 - 2 * p)).sum() / math.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum())
    expected = {
        f"o_e(of={of})": y.sum() / p.sum(),
        f"spiegelhalter_z(of={of})": z,
        f"hosmer_lemeshow(of={of})": hosmer_lemeshow,
    }
    assert_equal(x.predictions, expected, 1e-8)


def test_p_values_of_a_right_model_are_the_classical_ones():
    """Labels redrawn against χ² with as many degrees as groups (nothing was fitted), and against the normal."""
    rng = np.random.default_rng(7)
    p = rng.beta(2, 2, 3000)
    for _ in range(3):
        judged = cal.Judged.from_confidence(p, rng.random(3000) < p)
        found = cal.evaluate(judged, "hosmer_lemeshow,spiegelhalter_z").results[0]
        one = found["hosmer_lemeshow"]
        assert one.p_value == pytest.approx(min(1.0, 2 * stats.chi2.sf(one.value, 10)), abs=0.1)
        two = found["spiegelhalter_z"]
        assert two.p_value == pytest.approx(2 * stats.norm.sf(abs(two.value)), abs=0.05)


# ---------------------------------------------------------------------------------------- plain loops
def width_bins(p, bins):
    """Rows of each bin ((b − 1)/B, b/B]."""
    rows = defaultdict(list)
    for i, value in enumerate(p):
        rows[max(math.ceil(value * bins), 1)].append(i)
    return list(rows.values())


def mass_bins(p, bins):
    """Rows of equal counts; of distinct values, whose number the bins divide."""
    order = [int(i) for i in np.argsort(p)]
    size = len(p) // bins
    assert size * bins == len(p)
    return [order[k * size : (k + 1) * size] for k in range(bins)]


def gaps(p, y, groups):
    """(share of the rows, |mean y − mean p|) of each bin."""
    return [(len(g) / len(p), abs(sum(y[i] - p[i] for i in g)) / len(g)) for g in groups]


def power_mean(found, power):
    return sum(share * gap**power for share, gap in found) ** (1 / power)


@pytest.mark.parametrize("bins", [1, 4, 15, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_the_confidence(kind, bins):
    x = problem(kind)
    groups = width_bins(x.confidence, bins)
    found = gaps(x.confidence, x.hit, groups)
    square = 0.0
    for g, (share, gap) in zip(groups, found, strict=True):
        if len(g) > 1:
            accuracy = sum(x.hit[g]) / len(g)
            square += share * (gap**2 - accuracy * (1 - accuracy) / (len(g) - 1))
    expected = {
        f"ece(bins={bins})": power_mean(found, 1),
        f"ece(bins={bins},norm=l2)": power_mean(found, 2),
        f"mce(bins={bins})": max(gap for _, gap in found),
        f"tce(bins={bins})": power_mean(found, 2),
        f"tce(p=3,bins={bins})": power_mean(found, 3),
        f"tce(p=1.5,bins={bins})": power_mean(found, 1.5),
        f"tce(bins={bins},debias=true)": math.sqrt(max(square, 0.0)),
    }
    assert_equal(x.predictions, expected)


@pytest.mark.parametrize("bins", [1, 6, 15, 600])
@pytest.mark.parametrize("kind", UNTIED)
def test_errors_over_equal_counts(kind, bins):
    x = problem(kind)
    found = gaps(x.confidence, x.hit, mass_bins(x.confidence, bins))
    expected = {
        f"ece(bins={bins},binning=mass)": power_mean(found, 1),
        f"mce(bins={bins},binning=mass)": max(gap for _, gap in found),
        f"tce(p=3,bins={bins},binning=mass)": power_mean(found, 3),
    }
    assert_equal(x.predictions, expected)


@pytest.mark.parametrize("bins", [4, 15])
@pytest.mark.parametrize("kind", KINDS)
def test_uncertainty_calibration_error(kind, bins):
    """Of the entropy in units of log C."""
    x = problem(kind)
    uncertainty = stats.entropy(x.p, axis=1) / math.log(x.classes)
    uncertainty = np.clip(uncertainty, 0, 1)
    found = gaps(uncertainty, 1 - x.hit, width_bins(uncertainty, bins))
    assert_equal(x.predictions, {f"uce(bins={bins})": power_mean(found, 1)})


@pytest.mark.parametrize("bins", [4, 15])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_over_the_top_k(kind, bins):
    """Equally probable classes: the first counts as more probable."""
    x = problem(kind)
    order = np.argsort(-x.p, axis=1, kind="stable")
    expected = {}
    for k in {1, min(3, x.classes - 1)}:
        mass = np.array([math.fsum(row[o[:k]]) for row, o in zip(x.p, order, strict=True)])
        within = np.array([label in o[:k] for label, o in zip(x.labels, order, strict=True)], float)
        found = gaps(mass, within, width_bins(np.minimum(mass, 1.0), bins))
        expected[f"top_k_ece(k={k},bins={bins})"] = power_mean(found, 1)
        expected[f"top_k_ece(k={k},bins={bins},norm=max)"] = max(gap for _, gap in found)
        one = x.p[np.arange(N), order[:, k - 1]]
        found = gaps(one, (order[:, k - 1] == x.labels) * 1.0, width_bins(one, bins))
        expected[f"top_k_ece(k={k},bins={bins},form=rank)"] = power_mean(found, 1)
    assert_equal(x.predictions, expected)


def classwise(x, bins):
    return [pair for c in range(x.classes) for pair in gaps(x.p[:, c], x.labels == c, width_bins(x.p[:, c], bins))]


@pytest.mark.parametrize(("kind", "bins"), [(kind, bins) for kind in KINDS for bins in (4, 15, 16)])
def test_class_wise_errors(kind, bins):
    """Also where two classes do not mirror each other, at the edges of bins."""
    x = problem(kind)
    found = classwise(x, bins)
    expected = {f"sce(bins={bins})": power_mean(found, 1) / x.classes}
    for p in (1, 2, 3):
        expected[f"cwce(p={p},bins={bins})"] = power_mean(found, p)
        expected[f"cwce(p={p},bins={bins},average=true)"] = power_mean(found, p) / x.classes ** (1 / p)
    assert_equal(x.predictions, expected)


def adaptive(x, bins, threshold, kept_rows=False):
    """Each class: entries above the threshold in order, equal counts, the last bin longer, ties with their first."""
    total = 0.0
    for c in range(x.classes):
        entries = sorted((float(p), float(y == c)) for p, y in zip(x.p[:, c], x.labels, strict=True) if p > threshold)
        if not entries:
            continue
        count = min(bins, len(entries))
        size = len(entries) // count
        cells = defaultdict(list)
        for i, (p, y) in enumerate(entries):
            first = next(j for j in range(i + 1) if entries[j][0] == p) if x.tied else i
            cells[min(first // size, count - 1)].append(y - p)
        total += sum(abs(sum(cell)) for cell in cells.values()) / (len(entries) if kept_rows else N)
    return total / x.classes


@pytest.mark.parametrize("bins", [7, 15])
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "hundred"])
def test_adaptive_errors(kind, bins):
    x = problem(kind)
    assert_equal(
        x.predictions,
        {
            f"ace(bins={bins})": adaptive(x, bins, 0.0),
            f"ace(bins={bins},weights=kept)": adaptive(x, bins, 0.0, True),
            f"tace(bins={bins})": adaptive(x, bins, 0.001),
            f"tace(bins={bins},printed=true)": adaptive(x, bins, 0.001) / bins,
            f"tace(threshold=0.25,bins={bins})": adaptive(x, bins, 0.25),
            f"tace(threshold=0.25,bins={bins},weights=kept)": adaptive(x, bins, 0.25, True),
            f"tace(threshold=0.999,bins={bins})": adaptive(x, bins, 0.999),
        },
    )


def test_adaptive_error_of_more_bins_than_entries():
    x = problem("ten")
    threshold = float(np.sort(x.p[:, 0])[-8])
    assert 0 < (x.p > threshold).sum(0).min() < 15
    assert_equal(x.predictions, {f"tace(threshold={threshold!r})": adaptive(x, 15, threshold)})


@pytest.mark.parametrize("of", ["top", "0", "1"])
@pytest.mark.parametrize("kind", ["binary", "three", "tied", "tied binary"])
def test_errors_without_bins(kind, of):
    x = problem(kind)
    p, y = (x.confidence, x.hit) if of == "top" else (x.p[:, int(of)], (x.labels == int(of)) * 1.0)
    kernel = np.exp(-np.abs(p[:, None] - p) / 0.4)
    right, wrong = y * (1 - p) / y.sum(), (1 - y) * p / (1 - y).sum()
    expected = {
        f"ks(of={of})": max(abs(sum((p - y)[p <= t])) for t in p) / N,
        f"mmce(of={of})": math.sqrt((y - p) @ kernel @ (y - p)) / N,
        f"mmce(weighted=true,of={of})": math.sqrt((right - wrong) @ kernel @ (right - wrong)),
    }
    assert_equal(x.predictions, expected)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("kind", UNTIED)
def test_sweep(kind, p):
    """Cuts at the whole numbers nearest to k·N/B, until an accuracy falls."""
    x = problem(kind)
    order = np.argsort(x.confidence)
    kept = [order]
    for bins in range(2, N):
        cuts = [math.floor(k * N / bins + 0.5) for k in range(1, bins)]
        groups = np.split(order, cuts)
        accuracy = [x.hit[g].mean() for g in groups]
        if any(b < a for a, b in pairwise(accuracy)):
            break
        kept = groups
    assert_equal(x.predictions, {f"sweep_ece(p={p})": power_mean(gaps(x.confidence, x.hit, kept), p)})
