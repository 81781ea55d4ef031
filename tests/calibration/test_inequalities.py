"""What holds between calibration errors whatever the rows are: proven inequalities of the plug-ins, tried at random.

With residuals r = e_label − p of a row, d that of the top class, and bins that errors share:

- a bin's squared mean residual is at most its mean square, so CWCE₂² ≤ Σ_c mean r_c² = Brier, and TCE₂² ≤ mean d²;
- Σ_c r_c = 0, so ‖r‖² ≥ d²·C/(C − 1): √((C − 1)/C·Brier) bounds TCE₂ and KS, tighter than √Brier;
- |Σ d| ≤ Σ |d| over any cells: the mean gap bounds ECE, KS, the sweep and the smooth error from below, and the error
  with every run of equal confidences as a cell bounds them from above;
- of confidences above ½ with an edge at ½, the upper cells of a class hold only rows that predict it, so that Jensen's
  inequality gives CWCE_p ≥ TCE_p. Without that it is false: the counter-example is below.
- MMCE is the largest |mean d·f(p)| over f of norm 1 in the space of its kernel, where the constant 1 has the squared
  norm 1 + (p_max − p_min)/0.8, and the kernel is at most 1.
"""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cal
from calibrant.kernels.rows import rows_of
from calibrant.registry.lookup import parse

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, database=None)
FEW = settings(EXAMPLES, max_examples=12)
ROUNDING = 1e-9  # tables of classes are sums in steps of 2⁻⁴⁰


@st.composite
def problems(draw, members=True, weighted=True, classes=None, confident=False):
    """Predictions and a number of bins: few or many classes, ties, zeros and ones, labels that fit or do not."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, c = draw(st.integers(1, 60)), classes or draw(st.integers(2, 8))
    m = draw(st.integers(1, 3)) if members else 1
    p = rng.dirichlet(np.full(c, draw(st.sampled_from([0.05, 0.5, 2.0]))), (m, n))
    if confident:
        p = 0.499 * p + 0.501 * np.eye(c)[rng.integers(0, c, n)]
    if draw(st.booleans()) and not confident:
        p = np.round(p, 1)
        p[..., 0] += 1.0 - p.sum(axis=-1)
        p = np.abs(p) / np.abs(p).sum(axis=-1, keepdims=True)
    mean = p.mean(axis=0)
    drawn = (mean.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(max=c - 1)
    labels = draw(st.sampled_from([drawn, rng.integers(0, c, n), mean.argmax(axis=1), mean.argmin(axis=1)]))
    weights = rng.exponential(size=n) if weighted and draw(st.booleans()) else None
    return cal.Classification.from_probs(p, labels, weights=weights), draw(st.integers(1, 20))


def plain(predictions):
    """Probability of the label, weights that sum to 1, confidences and hits, as the library reads them."""
    rows = rows_of(predictions)
    w = np.ones(rows.n) if predictions.weights is None else np.asarray(predictions.weights, float)
    return rows.label_p, w / w.sum(), rows.confidence, rows.hit.astype(float)


def by_runs(conf, hit, w):
    """Σ |Σ w(hit − conf)| over rows of equal confidence: the finest cells there are."""
    _, place = np.unique(conf, return_inverse=True)
    return np.abs(np.bincount(place, w * (hit - conf))).sum()


@EXAMPLES
@given(problems())
def test_the_ladder_is_never_crossed(problem):
    predictions, bins = problem
    c = predictions.classes
    names = {
        "bs": "brier", "rbs": "rbs", "ks": "ks", "ece": f"ece(bins={bins})", "tce": f"tce(bins={bins})",
        "cwce": f"cwce(bins={bins})", "cwce1": f"cwce(p=1,bins={bins})", "rel": f"brier_reliability(bins={bins})",
    }  # fmt: skip
    found = cal.measure(predictions, list(names.values()))
    v = {key: found[spec] for key, spec in zip(names, found, strict=True)}
    of_label, w, conf, hit = plain(predictions)
    gap = abs(float((w * (conf - hit)).sum()))
    top = math.sqrt(v["bs"] * (c - 1) / c) + 1e-6  # a Brier score is right to 1e-15, its root to 1e-7
    assert v["rbs"] == pytest.approx(math.sqrt(v["bs"]), abs=1e-12)
    assert v["cwce"] <= math.sqrt(v["bs"]) + 1e-6
    assert v["cwce1"] <= math.sqrt(c * v["bs"]) + 1e-6
    assert v["cwce1"] <= 2.0 * float((w * (1.0 - of_label)).sum()) + ROUNDING
    assert max(v["tce"], v["ks"]) <= top
    assert gap - ROUNDING <= v["ece"] <= v["tce"] + ROUNDING
    assert gap - ROUNDING <= v["ks"]
    assert v["cwce"] ** 2 == pytest.approx(v["rel"], abs=1e-7)


@EXAMPLES
@given(problems())
def test_norms_rise_with_their_power(problem):
    predictions, bins = problem
    for binning in ("width", "mass"):
        given_bins = f"bins={bins},binning={binning}"
        ladder = [f"ece({given_bins})", *(f"tce(p={p},{given_bins})" for p in (1, 1.5, 2, 3, 10)), f"mce({given_bins})"]
        values = np.array(list(cal.measure(predictions, ladder).values()))
        assert values[0] == pytest.approx(values[1], abs=ROUNDING)
        assert (np.diff(values) >= -ROUNDING).all()
        norms = cal.measure(predictions, [f"ece({given_bins},norm={n})" for n in ("l1", "l2", "max")])
        assert list(norms.values()) == pytest.approx(values[[0, 3, -1]].tolist(), abs=ROUNDING)


@EXAMPLES
@given(problems())
def test_no_cells_give_more_than_the_runs_of_equal_confidence(problem):
    predictions, bins = problem
    _, w, conf, hit = plain(predictions)
    gap, most = abs(float((w * (hit - conf)).sum())), by_runs(conf, hit, w)
    cells = cal.measure(predictions, [f"ece(bins={bins})", f"ece(bins={bins},binning=mass)", "sweep_ece", "ks"])
    for value in cells.values():
        assert gap - ROUNDING <= value <= most + ROUNDING
    smooth, mmce = cal.measure(predictions, ["smooth_ece", "mmce"]).values()
    assert gap - 1e-6 <= smooth <= most + 1e-6
    assert gap / math.sqrt(1.0 + np.ptp(conf) / 0.8) - ROUNDING <= mmce <= most + ROUNDING


@EXAMPLES
@given(problems(confident=True, members=False), st.integers(1, 12), st.sampled_from([1, 2, 3]))
def test_classes_bound_the_top_label_where_every_confidence_exceeds_a_half(problem, half, power):
    predictions, _ = problem
    options = f"p={power},bins={2 * half}"
    tce, cwce = cal.measure(predictions, [f"tce({options})", f"cwce({options})"]).values()
    assert cwce >= tce - 1e-6


# ------------------------------------------------------------------------------- the counter-example
def symmetrised(repeats=1):
    """Mass 2/7, 3/7 and 2/7 at three predictions and their permutations; all class-wise frequencies are right."""
    kinds = [((4, 3, 3), {0: 20}), ((4, 6, 0), {1: 30}), ((3, 6, 1), {0: 18, 2: 2})]
    probs, labels = [], []
    for order in permutations(range(3)):
        for tenths, counts in kinds:
            for label, count in counts.items():
                probs += [[tenths[k] / 10 for k in order]] * (count * repeats)
                labels += [order.index(label)] * (count * repeats)
    return cal.Classification.from_probs(probs, labels)


@pytest.mark.parametrize("bins", [8, 9, 11, 13, 16, 17, 33, 64, 101])
def test_classes_may_be_calibrated_where_the_top_label_is_not(bins):
    """Of the .6 that are predicted 3/5 come true, of all that are not the top label too: gaps of it cancel there."""
    found = cal.measure(symmetrised(), [f"{name}(bins={bins})" for name in ("cwce", "sce", "tce", "ece")])
    cwce, sce, tce, ece = found.values()
    assert cwce == pytest.approx(0, abs=1e-9)
    assert sce == pytest.approx(0, abs=1e-9)
    assert tce == pytest.approx(math.sqrt(2 / 7 * 0.6**2), abs=1e-12) == pytest.approx(0.321, abs=5e-4)
    assert ece == pytest.approx(2 / 7 * 0.6)


def test_the_counter_example_is_not_a_matter_of_noise():
    found = cal.evaluate(symmetrised(), "cwce(bins=16),tce(bins=16)", resamples=100)
    assert found["cwce(bins=16)"].low == 0.0
    assert found["cwce(bins=16)"].p_value > 0.9
    assert found["tce(bins=16)"].low > 0.2
    assert found["tce(bins=16)"].p_value < 0.02


# ---------------------------------------------------------------------------------------- identities
@EXAMPLES
@given(problems(), st.sampled_from([1, 1.5, 2, 4]))
def test_sums_and_means_over_classes(problem, power):
    predictions, bins = problem
    c = predictions.classes
    total, mean = cal.measure(
        predictions, [f"cwce(p={power},bins={bins})", f"cwce(p={power},bins={bins},average=true)"]
    ).values()
    assert mean == pytest.approx(total / c ** (1 / power), abs=ROUNDING)
    first, sce = cal.measure(predictions, [f"cwce(p=1,bins={bins})", f"sce(bins={bins})"]).values()
    assert sce == pytest.approx(first / c, abs=ROUNDING)


@EXAMPLES
@given(problems(weighted=False))
def test_adaptive_errors(problem):
    predictions, bins = problem
    of_label, *_ = plain(predictions)
    specs = {
        "ace": f"ace(bins={bins})", "tace": f"tace(threshold=0,bins={bins})", "some": f"tace(bins={bins})",
        "printed": f"ace(bins={bins},printed=true)", "kept": f"tace(bins={bins},weights=kept)",
        "one": "ace(bins=1)", "none": "tace(threshold=1)",
    }  # fmt: skip
    found = cal.measure(predictions, list(specs.values()))
    v = {key: found[parse(spec).text] for key, spec in specs.items()}
    assert v["ace"] == v["tace"]
    assert v["printed"] == pytest.approx(v["ace"] / bins, abs=ROUNDING)
    assert v["some"] <= v["kept"] + ROUNDING
    assert v["ace"] <= 2.0 * (1.0 - of_label).mean() / predictions.classes + ROUNDING
    assert v["one"] <= v["ace"] + ROUNDING
    assert v["none"] == 0.0


@EXAMPLES
@given(problems(weighted=False))
def test_debiased_squares_are_never_larger(problem):
    predictions, bins = problem
    for options in (f"bins={bins}", f"bins={bins},binning=mass"):
        plug_in, debiased = cal.measure(predictions, [f"tce({options})", f"tce({options},debias=true)"]).values()
        assert 0.0 <= debiased <= plug_in + ROUNDING


@EXAMPLES
@given(problems(classes=2, members=False), st.sampled_from([1, 2, 3]))
def test_two_classes_are_one_twice(problem, power):
    """Where no probability is at an edge, at which the bins of p and of 1 − p are not mirror images."""
    predictions, bins = problem
    p = predictions.scores[0]
    scaled = p * bins
    if (np.abs(scaled - np.rint(scaled)) < 1e-9)[(p > 0) & (p < 1)].any():
        return
    options = f"p={power},bins={bins}"
    specs = [f"cwce({options})", f"tce({options},of=0)", f"tce({options},of=1)"]
    cwce, *both = cal.measure(predictions, specs).values()
    assert both[0] == pytest.approx(both[1], abs=ROUNDING)
    assert cwce == pytest.approx(2 ** (1 / power) * both[1], abs=1e-6)


@EXAMPLES
@given(problems())
def test_selective_prediction(problem):
    predictions, _ = problem
    _, w, _, hit = plain(predictions)
    specs = "aurc,e_aurc,aac,avu,avu_auc,p_accurate_certain,p_uncertain_inaccurate,accuracy"
    v = cal.measure(predictions, specs)
    assert -ROUNDING <= v["e_aurc"] <= v["aurc"] + ROUNDING <= 1 + 2 * ROUNDING
    for name in specs.split(","):
        assert math.isnan(v[name]) or -ROUNDING <= v[name] <= 1 + ROUNDING
    wrong = float((w * (1.0 - hit)).sum())
    assert math.isnan(v["p_uncertain_inaccurate"]) == (wrong == 0.0)
    if predictions.weights is None:
        assert v["e_aurc"] <= v["aurc"] - best_aurc(1.0 - hit) + ROUNDING


def best_aurc(error):
    """The mean of the error rates of the first i rows where errors come last."""
    return (np.sort(error).cumsum() / np.arange(1, len(error) + 1)).mean()


# ---------------------------------------------------------------------------- what stands beside values
ALL = [
    "ece", "mce", "tce", "tce(debias=true)", "top_k_ece(k=1)", "uce", "sweep_ece", "kde_tce", "ks", "mmce",
    "mmce(weighted=true)", "smooth_ece", "cwce", "cwce(p=1)", "sce", "ace", "tace", "slope", "intercept", "o_e", "ici",
    "hosmer_lemeshow", "spiegelhalter_z", "aurc", "avu", "misclassification_auroc",
]  # fmt: skip


@FEW
@given(problems(), st.sampled_from([0.5, 0.95]))
def test_intervals_and_null_bands_are_in_order(problem, level):
    predictions, _ = problem
    result = cal.evaluate(predictions, ALL, resamples=20, level=level).results[0]
    for spec, e in result.metrics.items():
        low, high = cal.metrics()[spec.split("(")[0]].limits
        assert math.isnan(e.low) == math.isnan(e.high) == (e.method == "none"), spec
        assert math.isnan(e.low) or low <= e.low <= e.high <= high, (spec, e)
        assert math.isnan(e.null_low) or e.null_low <= e.null_high, (spec, e)
        assert math.isnan(e.p_value) or 0.0 < e.p_value <= 1.0, (spec, e)
        assert math.isnan(e.detectable) or e.detectable >= 0.0, (spec, e)


@FEW
@given(problems(weighted=False))
def test_a_value_above_every_redrawn_one_has_the_smallest_p_value(problem):
    """And one at or under the lower end of the null band does not call the model miscalibrated."""
    predictions, _ = problem
    for spec in ("ece", "tce", "ks", "cwce", "hosmer_lemeshow"):
        e = cal.evaluate(predictions, spec, resamples=40)[spec]
        if not math.isfinite(e.value):
            continue
        if e.value > e.null_high + ROUNDING:
            assert e.p_value <= 0.05 + 2 / 41
        if e.value < e.null_low - ROUNDING:
            assert e.p_value == 1.0
