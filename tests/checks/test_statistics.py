"""What can be checked, by name, by function, and what is refused."""

import numpy as np
import pytest

import calibrant as cal
from calibrant.checks.label_statistics import OWN
from calibrant.checks.statistics import statistics_of


@pytest.fixture
def classes():
    rng = np.random.default_rng(0)
    return cal.Classification.from_logits(rng.normal(size=(3, 50, 4)), rng.integers(0, 4, 50), classes=list("abcd"))


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    return cal.Regression.from_gaussian(rng.normal(size=(3, 40)), np.ones((3, 40)), rng.normal(size=40))


def test_defaults_are_those_of_the_task(classes, numbers):
    assert [s.key for s in statistics_of(None, classes)] == ["accuracy", "ece", "nll", "brier", "cwce"]
    of_class = [s.key for s in statistics_of(None, classes, "b")][5:]
    assert of_class == ["ece(of=b)", "class_frequency(of=b)"]
    assert [s.key for s in statistics_of(None, numbers)] == ["calibration_error", "picp", "mse", "nll", "crps", "mean"]
    binary = cal.Classification.from_probs([0.1, 0.7], [0, 1])
    keys = ["accuracy", "ece", "nll", "brier", "ece(of=1)", "class_frequency(of=1)"]
    assert [s.key for s in statistics_of(None, binary)] == keys
    samples = cal.Regression.from_samples(np.zeros((5, 4)) + np.arange(5)[:, None], np.zeros(4))
    assert "nll" not in [s.key for s in statistics_of(None, samples)]


def test_a_name_without_its_class_stands_for_all(classes):
    keys = [s.key for s in statistics_of("class_frequency,confusion(true=b)", classes)]
    assert keys == [f"class_frequency(of={k})" for k in "abcd"] + [f"confusion(true=b,predicted={k})" for k in "abcd"]


def test_each_is_checked_once_and_functions_of_one_name_get_a_number(classes):
    first, second = (lambda y, p: 0.0), (lambda y, p: 1.0)
    keys = [s.key for s in statistics_of(["ece", "ece(bins=15)", first, second, first], classes)]
    assert keys == ["ece", "<lambda>", "<lambda>#2"]


def test_metrics_keep_their_names(classes):
    def ece(y, p):
        return 0.0

    def entropy(y, p):
        return 0.0

    found = statistics_of([ece, "ece", "entropy", "entropy", entropy], classes)
    assert [s.key for s in found] == ["ece#2", "ece", "entropy", "entropy#2"]
    assert found[0].function is ece
    assert found[1].spec is not None


def test_own_statistics_are_of_labels(classes, numbers):
    labels, averaged = classes.labels, classes.average()
    found = {s.key: s.function(labels, averaged) for s in statistics_of("class_frequency,confusion,entropy", classes)}
    shares = np.bincount(labels, minlength=4) / 50
    predicted = averaged.scores[0].argmax(1)
    assert [found[f"class_frequency(of={k})"] for k in "abcd"] == pytest.approx(shares)
    assert found["entropy"] == pytest.approx(-(shares * np.log(shares)).sum())
    assert found["confusion(true=c,predicted=b)"] == pytest.approx(np.mean((labels == 2) & (predicted == 1)))
    assert sum(v for k, v in found.items() if k.startswith("confusion")) == pytest.approx(1.0)
    y = numbers.y
    found = {s.key: s.function(y, numbers) for s in statistics_of("mean,min,max,quantile(level=0.25)", numbers)}
    assert list(found.values()) == pytest.approx([y.mean(), y.min(), y.max(), np.quantile(y, 0.25)])


@pytest.mark.parametrize("name", sorted(OWN))
def test_many_sets_of_labels_at_once_are_the_same(name, classes, numbers):
    predictions = classes if "classification" in OWN[name].tasks else numbers
    given = predictions.labels if predictions is classes else predictions.y
    many = np.stack([np.roll(given, k) for k in range(3)])
    for statistic in statistics_of(name, predictions):
        averaged = classes.average() if predictions is classes else predictions
        one_by_one = [statistic.function(labels, averaged) for labels in many]
        assert statistic.function(many, averaged) == pytest.approx(one_by_one)


def test_weights_count_in_shares_and_means(classes):
    weights = np.random.default_rng(1).random(50)
    weighted = cal.Classification.from_logits(classes.scores, classes.labels, weights=weights)
    (share,) = statistics_of("class_frequency(of=1)", weighted)
    found = share.function(weighted.labels, weighted.average())
    assert found == pytest.approx(weights[classes.labels == 1].sum() / weights.sum())


@pytest.mark.parametrize(("wanted", "said"), [
    ("acuracy", "did you mean 'accuracy'?"),
    ("clas_frequency", "did you mean 'class_frequency'?"),
    ("mutual_information", "it does not depend on labels"),
    ("crps", "it is not defined for classification"),
    ("mean", "got classification predictions"),
    ("ece(bin=3)", "one of its options"),
    ("class_frequency(of=z)", "a class name or a number below 4"),
    ("class_frequency(class=1)", "one of its options: of"),
    ([], "at least one, got none"),
    ([3], "got int"),
])  # fmt: skip
def test_what_is_refused_says_why(classes, wanted, said):
    with pytest.raises(cal.CalibrantError) as refused:
        statistics_of(wanted, classes)
    assert said in str(refused.value)


def test_too_many_cells_are_not_spelt_out():
    many = cal.Classification.from_logits(np.zeros((5, 11)), np.arange(5))
    with pytest.raises(cal.CalibrantError, match="at most 100 cells at a time, got 121"):
        statistics_of("confusion", many)
