"""Errors of classes on replicated labels: tables of draws say what the metrics say of every set of labels."""

import itertools

import numpy as np
import pytest

import calibrant as cal
from calibrant.checks.class_replicates import ClassReplicates
from calibrant.checks.classwise_replicates import ClasswiseReplicates
from calibrant.checks.generic import Generic
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.statistics import statistics_of
from calibrant.kernels.rows import rows_of

TWO = [
    "ece(of=1)",
    "ece(of=0,bins=7)",
    "ece(of=1,binning=mass,bins=5)",
    "mce(of=1)",
    "tce(of=1,p=3)",
    "accuracy",
    "ece",
]
MANY = ["cwce", "sce(bins=7)", "cwce(p=3,average=true)", "ece(of=2)", "mce(of=1,bins=5)"]
TARGETS = Targets(3, (np.arange(3), np.array([1]), np.array([0, 2])))


def predictions(classes, weighted, members=3, n=90):
    rng = np.random.default_rng(classes)
    logits = 1.5 * rng.normal(size=(members, n, classes))
    labels = (logits[0] + rng.gumbel(size=(n, classes))).argmax(axis=1)
    weights = rng.integers(0, 3, n) / 2.0 if weighted else None
    return cal.Classification.from_logits(logits, labels, weights=weights), rng.integers(0, 3, n)


def laws(engine, specs, p, cells, reading, cuts=(), threads=1):
    plan = Plan(reading, 20, 4, p.members, threads, not cuts)
    made = engine(statistics_of(specs, p), p, plan, TARGETS)
    for first, last in itertools.pairwise([0, *cuts, p.n]):
        block = p[first:last]
        made.add(block, rows_of(block, made.required_columns, threads=threads), cells[first:last], first)
    return made.laws()


CASES = [(ClassReplicates, TWO, 2), (ClasswiseReplicates, MANY[:3], 2), (ClasswiseReplicates, MANY, 4)]
CASES += [(ClasswiseReplicates, MANY, 60)]


@pytest.mark.parametrize("reading", ["bayesian", "independent"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("engine", "specs", "classes"), CASES)
def test_tables_say_what_the_metrics_say_of_every_draw(engine, specs, classes, weighted, reading):
    p, cells = predictions(classes, weighted)
    assert all(engine.supports(statistic, p) for statistic in statistics_of(specs, p))
    mine, plain = (laws(kind, specs, p, cells, reading) for kind in (engine, Generic))
    for key in mine[0]:
        for a, b in zip(mine, plain, strict=True):
            np.testing.assert_allclose(a[key].values, b[key].values, atol=1e-7, err_msg=key)
            np.testing.assert_allclose(a[key].observed, b[key].observed, atol=1e-7, err_msg=key)


@pytest.mark.parametrize(("engine", "specs", "classes"), CASES[:3])
def test_blocks_and_threads_change_no_bit(engine, specs, classes):
    p, cells = predictions(classes, weighted=True)
    one = laws(engine, specs, p, cells, "bayesian")
    for how in ({"cuts": (7, 50)}, {"threads": 2}):
        other = laws(engine, specs, p, cells, "bayesian", **how)
        for a, b in zip(one, other, strict=True):
            assert all(np.array_equal(a[key].values, b[key].values) for key in a)


def test_a_target_without_rows_has_no_values():
    p, cells = predictions(4, weighted=False)
    found = laws(ClasswiseReplicates, MANY, p, np.where(cells == 1, 0, cells), "bayesian")[1]
    assert all(np.isnan(law.observed) and np.isnan(law.values).all() for law in found.values())


def test_what_the_engine_takes():
    p, _ = predictions(4, weighted=False)
    refused = ["ece", "ece(of=1,binning=mass)", "tce(of=1,debias=true)", "brier", "tace"]
    assert not any(ClasswiseReplicates.supports(statistic, p) for statistic in statistics_of(refused, p))
    many = cal.Classification.from_logits(np.zeros((2, 4000)), [0, 1])
    (statistic,) = statistics_of(MANY[:1], many)
    assert not ClasswiseReplicates.fits(statistic, many, Plan("bayesian", 10_000, 0, 1), Targets())
