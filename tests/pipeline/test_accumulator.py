"""Accumulator: any batches give the bits of one `evaluate`, merges too; without rows the sums agree exactly."""

import numpy as np
import pytest
import torch

import calibrant as cal
from calibrant.errors import CalibrantError, UsageError

N, C = 1000, 4


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, C)).astype(np.float32), rng.integers(0, C, N), rng.uniform(0.5, 2, N)


@pytest.mark.parametrize("batches", [1, 7, 1000])
def test_batches_give_the_bits_of_evaluate(data, batches):
    logits, labels, weights = data
    whole = cal.evaluate(cal.Classification.from_logits(logits, labels, weights=weights))
    accumulator = cal.Accumulator("logits")
    for rows in np.array_split(np.arange(N), batches):
        accumulator.add(logits[rows], labels[rows], weights[rows])
    assert accumulator.result().to_json()["results"] == whole.to_json()["results"]
    assert accumulator.nbytes == logits.nbytes + labels.nbytes + weights.nbytes


def test_result_at_any_moment_and_members(data):
    logits, labels, _ = data
    accumulator = cal.Accumulator("logits", "nll,ece")
    members = np.stack([logits, logits[::-1]])
    for end in (300, 700, N):
        start = accumulator.n
        accumulator.add(members[:, start:end], labels[start:end])
        expected = cal.evaluate(cal.Classification.from_logits(members[:, :end], labels[:end]), "nll,ece")
        assert accumulator.result()["nll"] == expected["nll"]
        assert accumulator.result()["ece"] == expected["ece"]


@pytest.mark.parametrize("rows", [True, False])
def test_merged_accumulators_have_all_rows(data, rows):
    logits, labels, _ = data
    one, two = (cal.Accumulator("logits", "nll,brier,accuracy", rows=rows) for _ in range(2))
    one.add(logits[:400], labels[:400])
    two.add(logits[400:], labels[400:])
    one.merge(two)
    expected = cal.evaluate(cal.Classification.from_logits(logits, labels), "nll,brier,accuracy")
    assert one.n == N
    for name in ("nll", "brier", "accuracy"):
        assert one.result()[name] == expected[name]
    two.reset()
    assert two.n == 0
    assert one.result()["nll"] == expected["nll"]


@pytest.mark.parametrize("batches", [1, 7, 1000])
def test_without_rows_sums_are_exact_and_memory_is_constant(data, batches):
    logits, labels, _ = data
    accumulator = cal.Accumulator("logits", rows=False)
    for rows in np.array_split(np.arange(N), batches):
        accumulator.add(logits[rows], labels[rows])
    result, whole = accumulator.result().results[0], cal.evaluate(cal.Classification.from_logits(logits, labels))
    assert {"accuracy", "nll", "brier"} <= set(result.metrics)
    for name, estimate in result.metrics.items():
        assert estimate == whole[name]
    assert accumulator.nbytes == 0
    assert "misclassification_auroc" in result.skipped
    assert "rows=True" in str(result.skipped["ece"])


def test_other_libraries_and_dlpack(data):
    logits, labels, _ = data

    class Capsule:
        """An array that speaks DLPack alone."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    expected = cal.evaluate(cal.Classification.from_logits(logits, labels), "nll")["nll"]
    for wrap in (
        torch.from_numpy,
        Capsule,
        lambda array: torch.from_numpy(array).clone().requires_grad_(array.dtype.kind == "f"),
    ):
        accumulator = cal.Accumulator("logits", "nll")
        accumulator.add(wrap(logits), wrap(labels))
        assert accumulator.result()["nll"] == expected


def test_confidences_and_probabilities(data):
    logits, labels, weights = data
    confidence, right = np.clip(weights / 2, 0, 1), labels == 0
    accumulator = cal.Accumulator("confidence", "brier")
    accumulator.add(confidence, right)
    assert (
        accumulator.result()["brier"] == cal.evaluate(cal.Judged.from_confidence(confidence, right), "brier")["brier"]
    )
    accumulator = cal.Accumulator("probs", "brier")
    with pytest.raises(CalibrantError):
        accumulator.add(logits, labels)
    assert accumulator.n == 0


def test_batches_are_copied(data):
    logits, labels, _ = data
    buffer = logits[:100].copy()
    accumulator = cal.Accumulator("logits", "nll")
    accumulator.add(buffer, labels[:100])
    before = accumulator.result()["nll"].value
    buffer[:] = 0.0
    assert accumulator.result()["nll"].value == before


def test_mistakes(data):
    logits, labels, weights = data
    accumulator = cal.Accumulator("logits", "nll")
    with pytest.raises(UsageError, match="call add"):
        accumulator.result()
    accumulator.add(logits[:10], labels[:10])
    with pytest.raises(UsageError, match="weights in every batch"):
        accumulator.add(logits[:10], labels[:10], weights[:10])
    with pytest.raises(UsageError, match="batches like the first"):
        accumulator.add(logits[:10, :3], labels[:10] % 3)
    with pytest.raises(UsageError, match="logit"):
        cal.Accumulator("logit")
    with pytest.raises(UsageError, match="an accumulator of"):
        accumulator.merge(cal.Accumulator("probs", "nll"))
    assert accumulator.n == 10
