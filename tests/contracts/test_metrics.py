"""What every registered metric must hold; a new one is tried here without being asked.

Bits may not depend on the order of rows, on blocks, threads or memory layout.
"""

import json
import math
from dataclasses import astuple, replace

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal
from calibrant.kernels.records import take
from calibrant.kernels.rows import rows_of
from calibrant.registry.estimate import Settings
from calibrant.registry.lookup import parse

METRICS = cal.metrics()
SETTINGS = Settings(resamples=40)
N = 131


def classification(classes, members, weighted, dtype=np.float64, kind="logits", decimals=1):
    """Scores in tenths, or whole numbers, that are tied: order has something to spoil."""
    rng = np.random.default_rng([classes, members])
    z = np.round(2 * rng.normal(size=(members, N, classes)), decimals)
    if kind == "probs":
        z = np.exp(z) / np.exp(z).sum(2, keepdims=True)
    labels = rng.integers(0, classes, N)
    weights = rng.exponential(size=N) if weighted else None
    return cal.Classification.build(kind, z.astype(dtype), labels, weights=weights)


def judged(members, weighted):
    rng = np.random.default_rng(members)
    weights = rng.exponential(size=N) if weighted else None
    return cal.Judged.from_confidence(np.round(rng.random((members, N)), 2), rng.integers(0, 2, N), weights=weights)


def regression(kind, weighted, members=1, dtype=np.float64):
    """Numbers in tenths, so that samples and outcomes are tied."""
    rng = np.random.default_rng(members)
    mean = np.round(rng.normal(size=(members, N)), 1).astype(dtype)
    std = (0.1 + np.round(rng.exponential(size=(members, N)), 1)).astype(dtype)
    y = np.round(mean.mean(axis=0) + rng.normal(size=N), 1).astype(dtype)
    known = {"y": y, "weights": rng.exponential(size=N) if weighted else None}
    if kind == "gaussian":
        return cal.Regression.from_gaussian(mean, std, **known)
    if kind == "samples":
        draws = np.round(mean[0] + std[0] * rng.normal(size=(11, N)), 1).astype(dtype)
        return cal.Regression.from_samples(draws, **known)
    levels = np.array([0.025, 0.25, 0.5, 0.975])
    return cal.Regression.from_quantiles(mean[0][:, None] + (levels - 0.5).astype(dtype), levels, **known)


def detection(weighted):
    """Scores in tenths, that are tied."""
    rng = np.random.default_rng(0)
    score = np.round(rng.normal(size=N) + np.repeat([0.0, 1.0], [80, N - 80]), 1)
    weights = rng.exponential(size=N) if weighted else None
    return cal.Detection.from_scores(score[:80], score[80:], weights=weights)


def examples(weighted):
    """Enough kinds of input that every metric applies to one of them, each kernel being used."""
    return [
        classification(2, 2, weighted),
        classification(2, 1, weighted, decimals=0),
        classification(10, 1, weighted),
        classification(10, 3, weighted, kind="probs"),
        classification(60, 1, weighted),
        classification(60, 3, weighted),
        judged(1, weighted),
        judged(2, weighted),
        regression("gaussian", weighted),
        regression("gaussian", weighted, members=3),
        regression("samples", weighted),
        regression("quantiles", weighted),
        detection(weighted),
    ]


EXAMPLES = {weighted: examples(weighted) for weighted in (False, True)}


def spec_of(name):
    """The metric with its defaults, but for k, which must be below two classes too."""
    return parse(f"{name}(k=1)" if "k" in {option.name for option in METRICS[name].options} else name)


def cases(name, weighted=False):
    """The spec of a metric and the examples that it applies to."""
    metric = METRICS[name]
    spec = spec_of(name)
    found = [p for p in EXAMPLES[weighted] if metric.unsupported_reason(spec, p) is None]
    if not found and weighted:  # one without a weighted form says so
        assert any("weighted form" in str(metric.unsupported_reason(spec, p)) for p in EXAMPLES[True])
        return spec, []
    assert found, f"no example can give {name}: add one to `examples`"
    return spec, found


def estimate(predictions, spec, **settings):
    return evaluate_with(predictions, [spec.text], resamples=40, **settings)[spec.text]


def same(a, b):
    """Bit for bit, NaN equal to NaN."""
    return all(x == y or (x != x and y != y) for x, y in zip(astuple(a), astuple(b), strict=True))


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weighted(request):
    return request.param


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("units", [None, "unit"])
def test_order_of_rows_changes_no_bit(name, weighted, units):
    """Of values, intervals and null bands: words are drawn for rows in an order of their own, or for units."""
    spec, found = cases(name, weighted)
    for example in found:
        predictions = replace(example, info=replace(example.info, columns={"unit": np.arange(N) // 4}))
        whole = estimate(predictions, spec, units=units)
        for seed in range(3):
            shuffled = predictions[np.random.default_rng(seed).permutation(N)]
            assert same(estimate(shuffled, spec, units=units), whole)


@pytest.mark.parametrize("name", METRICS)
def test_blocks_change_no_bit(name, weighted):
    """Rows read one at a time, in three blocks and in seven."""
    spec, found = cases(name, weighted)
    for predictions in found:
        whole = estimate(predictions, spec)
        for block in (1, math.ceil(N / 3), math.ceil(N / 7)):
            assert same(estimate(predictions, spec, block_rows=block), whole), (predictions, block)


@pytest.mark.parametrize("name", METRICS)
def test_memory_layout_changes_no_bit(name):
    """Fortran order, every second row of a larger array, the other byte order."""
    spec, found = cases(name)
    for predictions in found:
        if not isinstance(predictions, cal.Classification):
            continue
        scores, labels = predictions.scores, predictions.labels
        strided = np.repeat(scores, 2, axis=1)[:, ::2]
        swapped = scores.astype(scores.dtype.newbyteorder())
        for other in (np.asfortranarray(scores), strided, swapped):
            made = cal.Classification.build(predictions.kind, other, labels)
            assert same(estimate(made, spec), estimate(predictions, spec))


@pytest.mark.parametrize("name", METRICS)
def test_float32_agrees_with_float64(name, weighted):
    """The same float32 numbers in both precisions; no probability is at a bin edge."""
    spec, found = cases(name, weighted)
    tried = 0
    if not found or found[0].task == "detection":  # without a weighted form, or held in float64 whatever it came in
        return
    for kind, members in [("gaussian", 3), ("samples", 1)]:
        narrow = regression(kind, weighted, members, np.float32)
        if spec.metric.unsupported_reason(spec, narrow) is None:
            tried += 1
            wide = narrow
            for key in ("y", "mean", "std", "samples"):
                if getattr(wide, key) is not None:
                    wide = replace(wide, **{key: getattr(wide, key).astype(np.float64)})
            a, b = (cal.measure(p, [spec.text])[spec.text] for p in (narrow, wide))
            assert a == pytest.approx(b, abs=1e-12)
    for classes, members, kind in [(2, 2, "logits"), (2, 2, "probs"), (10, 1, "logits"), (60, 3, "logits")]:
        rng = np.random.default_rng([classes, members])
        z = (2 * rng.normal(size=(members, N, classes))).astype(np.float32)
        x = np.exp(z) / np.exp(z).sum(2, keepdims=True) if kind == "probs" else z
        labels, w = rng.integers(0, classes, N), rng.exponential(size=N) if weighted else None
        narrow, wide = (
            cal.Classification.build(kind, x.astype(dtype), labels, weights=w) for dtype in (np.float32, np.float64)
        )
        if spec.metric.unsupported_reason(spec, narrow) is None:
            tried += 1
            a, b = (cal.measure(p, [spec.text])[spec.text] for p in (narrow, wide))
            assert a == pytest.approx(b, abs=2e-6, rel=2e-6)
    assert tried


@pytest.mark.parametrize("name", METRICS)
def test_values_lie_in_their_range_and_can_be_stored(name, weighted):
    spec, found = cases(name, weighted)
    low, high = METRICS[name].limits
    for predictions in found:
        e = estimate(predictions, spec)
        assert low <= e.value <= high
        assert e.n == N
        assert math.isnan(e.low) or low <= e.low <= e.high <= high
        assert (e.method == "none") == math.isnan(e.low)
        stored = json.loads(json.dumps(e.to_json(), allow_nan=False))
        assert same(cal.Estimate.from_json(stored), e)


@pytest.mark.parametrize("name", METRICS)
def test_value_does_not_depend_on_its_company(name, weighted):
    """Alone, without intervals, and among all others."""
    spec, found = cases(name, weighted)
    for predictions in found:
        company = [other for other in METRICS if METRICS[other].unsupported_reason(parse(other), predictions) is None]
        alone = cal.measure(predictions, [spec.text])[spec.text]
        among = cal.measure(predictions, [spec.text, *company])[spec.text]
        assert estimate(predictions, spec).value == pytest.approx(alone, abs=1e-12)
        assert among == pytest.approx(alone, abs=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_merging_parts_equals_adding_all_rows(name, weighted):
    """Two machines with a part of the rows each, merged in order: the same estimate to the last bit."""
    spec, found = cases(name, weighted)
    for predictions in found:
        cut = N // 3
        wanted = spec.metric.required_columns(spec, predictions)
        whole = rows_of(predictions, wanted)
        parts = [take(whole, np.arange(cut)), take(whole, np.arange(cut, N))]
        if any(table.ndim > 1 for table in whole.extras.values()):  # tables of sums are of all rows of a pass
            parts = [rows_of(part, wanted) for part in (predictions[:cut], predictions[cut:])]
        together, first, second = (spec.metric.accumulate(spec, predictions) for _ in range(3))
        together.add(whole)
        first.add(parts[0])
        second.add(parts[1])
        first.merge(second)
        a, b = first.result(SETTINGS), together.result(SETTINGS)
        if METRICS[name].merge == "exact" and any(table.ndim > 1 for table in whole.extras.values()) and weighted:
            assert a.value == pytest.approx(b.value, abs=1e-9)  # weights are held as shares of the largest
        else:
            assert same(a, b)


@pytest.mark.parametrize("name", METRICS)
def test_labels_that_are_missing_are_a_reason_not_a_fault(name):
    spec, found = cases(name)
    unlabelled = cal.Classification.from_logits(EXAMPLES[False][0].scores)
    if found[0].task == "regression":
        unlabelled = replace(found[0], y=None)
    elif found[0].task == "detection":
        return  # where a row is from is what a detection is made of
    reason = METRICS[name].unsupported_reason(spec, unlabelled)
    if reason is None:
        assert math.isfinite(cal.measure(unlabelled, [spec.text])[spec.text])
    else:
        assert reason.text.startswith("it needs ")
        assert reason.code.startswith("needs_")
        with pytest.raises(cal.CalibrantError, match=reason.text):
            cal.measure(unlabelled, [spec.text])


# ------------------------------------------------------------------------------------------ threads
@pytest.mark.parametrize(
    ("members", "n", "classes", "dtype"),
    [(2, 1 << 18, 2, np.float32), (1, 25_000, 43, np.float64), (1, 20_000, 60, np.float32), (3, 6_000, 60, np.float32)],
)
def test_threads_change_no_bit(members, n, classes, dtype):
    """Over a million elements, where threads begin: every metric that applies, in one thread, two and five."""
    rng = np.random.default_rng(classes)
    z = rng.standard_normal((members, n, classes), np.float32).astype(dtype)
    predictions = cal.Classification.from_logits(z, rng.integers(0, classes, n), weights=rng.random(n) + 0.5)
    assert z.size >= 1 << 20
    classes_only = [name for name, metric in METRICS.items() if "classification" in metric.tasks]
    specs = [spec_of(name).text for name in classes_only if METRICS[name].cost != "quadratic"]
    specs += ["brier_reliability(by=predicted_class)", "ce(rows=500)", "skce(rows=500)"]
    one, *others = (cal.evaluate(predictions, specs, resamples=20, threads=threads).dumps() for threads in (1, 2, 5))
    assert all(other == one for other in others)


def test_threads_and_blocks_together_change_no_bit():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((1 << 18, 4), np.float32)
    predictions = cal.Classification.from_logits(z, rng.integers(0, 4, 1 << 18))
    specs = "accuracy,nll,brier,ece,entropy,margin,brier_reliability"
    whole = cal.evaluate(predictions, specs, resamples=20, threads=1)
    for blocks, threads in ((3, 2), (7, 1), (7, 2)):
        rows = math.ceil((1 << 18) / blocks)
        assert evaluate_with(predictions, specs, resamples=20, threads=threads, block_rows=rows) == whole
