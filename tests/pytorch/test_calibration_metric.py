"""CalibrationMetric: the numbers of `evaluate`, one process or two, and a null band of the right level."""

import pytest
import torch
import torch.multiprocessing as multiprocessing

import calibrant as cal
from calibrant.errors import CalibrantError
from calibrant.torch import CalibrationMetric

ROWS, CLASSES = 600, 5


def data(seed=0, rows=ROWS):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, CLASSES, generator=generator) * 2
    labels = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]
    return logits, labels


def evaluated(logits, labels):
    predictions = cal.Classification.from_logits(logits.double(), labels)
    return cal.measure(predictions, "accuracy,nll,brier,ece")


@pytest.mark.parametrize("batches", [1, 7, 600])
def test_it_has_the_numbers_of_evaluate(batches):
    logits, labels = data()
    metric = CalibrationMetric()
    for one, two in zip(logits.tensor_split(batches), labels.tensor_split(batches), strict=True):
        metric.update(one, two)
    found, expected = metric.compute(), evaluated(logits, labels)
    assert int(found["n"]) == ROWS
    for name in ("accuracy", "nll", "brier", "ece"):
        assert float(found[name]) == pytest.approx(expected[name], abs=1e-12)


def _worker(rank, world, address, queue):
    torch.distributed.init_process_group("gloo", init_method=f"file://{address}", rank=rank, world_size=world)
    logits, labels = data()
    metric = CalibrationMetric()
    for start in range(rank * 50, ROWS, world * 50):  # as a distributed sampler deals batches out
        metric.update(logits[start : start + 50], labels[start : start + 50])
    found = metric.compute()
    if rank == 0:
        queue.put({name: float(value) for name, value in found.items()})
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_two_processes_give_the_answer_of_one(tmp_path):
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    workers = [
        context.Process(target=_worker, args=(rank, 2, str(tmp_path / "store"), queue)) for rank in range(2)
    ]  # fmt: skip
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    together = queue.get()
    single = CalibrationMetric()
    single.update(*data())
    for name, value in single.compute().items():
        exact = name in ("n", "accuracy")
        assert together[name] == (float(value) if exact else pytest.approx(float(value), abs=1e-6))


def test_null_band_holds_at_its_level():
    """ECE of calibrated models is inside the band in about 95% of data sets, and outside for an overconfident one."""
    inside, runs = 0, 400
    for seed in range(runs):
        metric = CalibrationMetric()
        metric.update(*data(seed + 1, 500))
        found = metric.compute()
        inside += float(found["ece_null_low"]) <= float(found["ece"]) <= float(found["ece_null_high"])
    assert 0.92 <= inside / runs <= 0.98
    logits, labels = data(0, 500)
    metric = CalibrationMetric()
    metric.update(logits * 2, labels)
    found = metric.compute()
    assert float(found["ece"]) > float(found["ece_null_high"])


def test_reset_dtype_and_bins():
    logits, labels = data()
    metric = CalibrationMetric(bins=10)
    metric.update(logits.half(), labels)
    metric.reset()
    metric.update(logits, labels)
    predictions = cal.Classification.from_logits(logits.double(), labels)
    expected = cal.measure(predictions, "ece(bins=10)")["ece(bins=10)"]
    assert float(metric.compute()["ece"]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        (torch.zeros(3), torch.zeros(3, dtype=torch.int64)),
        (torch.zeros(3, 2), torch.zeros(2, dtype=torch.int64)),
        (torch.zeros(3, 2), torch.tensor([0, 1, 2])),
        (torch.zeros(3, 2), torch.tensor([0, 1, -100])),
        (torch.zeros(3, 2), torch.zeros(3)),
    ],
)
def test_mistakes(logits, labels):
    with pytest.raises(CalibrantError):
        CalibrationMetric().update(logits, labels)
    with pytest.raises(CalibrantError):
        CalibrationMetric(bins=0)
