"""What every recalibrator must do: a method that is listed is tried by these tests and cannot escape them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import calibrant as cal
from calibrant.errors import CalibrantError, CalibrantWarning, ShapeError, UsageError
from calibrant.predictions.classification import two_class_scores
from calibrant.recalibration import load, methods_for, recalibrator
from calibrant.recalibration.class_rows import ClassRecalibrator
from calibrant.recalibration.lookup import METHODS, method_class

N, CLASSES = 600, 4
NETWORKS = {"diag", "op", "order_invariant"}
"""Fitted in PyTorch."""
NEAR = 1e-6
"""How closely probabilities agree that should be the same."""
IMPROPER = {"avu_temperature"}
"""What they minimise is no proper score: they need not gain by one, and say when rows became less likely."""
OF_CLASSES, OF_NUMBERS = methods_for("classification"), methods_for("regression")


def logits_of(n: int = N, classes: int = CLASSES, members: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident logits (M, n, C) of imperfect members, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0.0, 1.5, (n, classes))
    labels = np.array([rng.choice(classes, p=row) for row in softmax(truth, axis=1)])
    scores = 1.8 * (truth + rng.normal(0.0, 0.6, (members, n, classes)))
    return scores + rng.normal(size=(members, n, 1)), labels


def gaussian(n: int = N, members: int = 1, seed: int = 0) -> cal.Regression:
    """Predictions whose spread is half of what it should be."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(0.0, 2.0, (members, n)), rng.uniform(0.5, 2.0, (members, n))
    return cal.Regression.from_gaussian(mean, std / 2, mean[0] + std[0] * rng.normal(size=n))


def classes(**known: object) -> cal.Classification:
    scores, labels = logits_of(**known)
    return cal.Classification.from_logits(scores, labels)


def fitted(name: str, predictions, **options):
    """Fit without minding warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return method_class(name)(**options).fit(predictions)


def probs(predictions) -> np.ndarray:
    """Predicted probabilities (M, n, C), confidences (M, n), or the quantiles of numbers."""
    if isinstance(predictions, cal.Judged):
        return predictions.confidence
    if isinstance(predictions, cal.Regression):
        if predictions.mean is not None:
            return np.stack([predictions.mean, predictions.std])
        return predictions.quantiles if predictions.quantiles is not None else predictions.samples
    if predictions.scores.shape[2] == 1:
        predictions = replace(predictions, scores=two_class_scores(predictions.scores[:, :, 0], predictions.kind))
    if predictions.kind == "probs":
        return predictions.scores / predictions.scores.sum(axis=2, keepdims=True)
    return softmax(predictions.scores.astype(np.float64), axis=2)


def says_so(made) -> bool:
    """Whether the fit told that its rows became less likely."""
    return "likelihood-fell" in [note.code for note in made.notes()]


@pytest.fixture(params=list(METHODS))
def name(request):
    if request.param in NETWORKS:
        pytest.importorskip("torch")
    return request.param


@pytest.fixture
def moving(name):
    """A method that fits something."""
    if name == "none":
        pytest.skip("nothing is fitted")
    return name


@pytest.fixture
def class_name(name):
    if name not in OF_CLASSES:
        pytest.skip("a method of another kind")
    return name


@pytest.fixture
def usual(name):
    return classes() if name in OF_CLASSES else gaussian()


# ------------------------------------------------------------------------------------------- facts
def test_facts(name, usual):
    method = method_class(name)
    made = fitted(name, usual)
    assert method.name == name
    assert len(method.title) > 3
    assert len(method.reference) > 10
    assert made.n_parameters >= (name != "none")
    assert isinstance(made.injective, bool)
    assert isinstance(made.accuracy_preserving, bool)
    assert recalibrator(made.spec).options() == made.options()
    assert made.report.n == usual.n
    assert made.converged


def test_repr_is_one_line_with_settings_and_parameters(name, usual):
    """Unfitted: the settings; fitted: the parameters and the number of rows too, long vectors abbreviated."""
    unfitted = method_class(name)()
    settings = {key: value for key, value in unfitted.options().items() if (key, value) != ("members", "average")}
    class_name = type(unfitted).__name__
    assert repr(unfitted) == f"{class_name}({', '.join(f'{key}={value!r}' for key, value in settings.items())})"
    made = fitted(name, usual)
    text = repr(made)
    assert text.startswith(repr(unfitted) + ": ")
    assert text.endswith(f"fitted on {usual.n} rows")
    assert all(f"{key}=" in text for key in made.parameters()[0])
    assert "\n" not in text
    assert len(text) < 500
    if name == "temperature":
        assert text == f"TemperatureScaling(): temperature={made.temperature:.4g}, fitted on {usual.n} rows"


def test_repr_of_members_lists_their_parameters(class_name):
    text = repr(fitted(class_name, classes(members=3, n=300), **({} if class_name == "none" else {"members": "each"})))
    assert "\n" not in text
    if class_name == "temperature":
        assert text.startswith("TemperatureScaling(members='each'): temperature=[")
        assert text.count(",") == 3


def test_what_is_asked_before_a_fit_is_refused(name, usual):
    made = method_class(name)()
    for ask in (lambda: made.injective, lambda: made.n_parameters, lambda: made.transform(usual)):
        with pytest.raises(UsageError, match="call fit first"):
            ask()


def test_the_loss_falls(moving, usual):
    report = fitted(moving, usual).report
    assert report.after < report.before


def test_held_out_rows_gain(moving):
    """These predictions are far too confident, which every method mends that minimises a proper score."""
    fit, test = (classes(n=2000, seed=k) if moving in OF_CLASSES else gaussian(2000, seed=k) for k in (1, 2))
    score = "brier" if moving in OF_CLASSES else "pinball(levels=19)"
    made = fitted(moving, fit)
    gained = cal.measure(made.transform(test), [score])[score] < cal.measure(test, [score])[score]
    assert gained or (moving in IMPROPER and says_so(made))


# ------------------------------------------------------------------------------ declared properties
@pytest.mark.parametrize("members", ["average", "each"])
def test_the_predicted_class_stays_where_that_is_promised(class_name, members):
    train, test = classes(members=3), classes(members=3, n=3000, seed=5)
    known = next(o for o in method_class(class_name).declared_options() if o.name == "members")
    if members not in known.choices:
        with pytest.raises(UsageError, match=f"{class_name}.*members"):
            method_class(class_name)(members=members)
        return
    made = fitted(class_name, train, members=members)
    before = test.average() if made.members == "average" and class_name != "none" else test
    after = made.transform(test)
    assert made.accuracy_preserving in (False, len(made.maps) == 1)  # the class of an average may change
    if all(each.keeps_order for each in made.maps):
        np.testing.assert_array_equal(probs(after).argmax(axis=2), probs(before).argmax(axis=2))
    assert after.members == before.members


def test_the_mean_stays_where_that_is_promised(name):
    if name not in OF_NUMBERS:
        pytest.skip("a method of another kind")
    made = fitted(name, gaussian())
    if made.accuracy_preserving:
        np.testing.assert_array_equal(made.transform(gaussian(50, seed=3)).mean, gaussian(50, seed=3).mean)


@pytest.mark.parametrize("columns", [2, CLASSES])
def test_injective_maps_keep_predictions_apart(class_name, columns):
    """Of predictions that differ, random ones and ones that differ along a line, no two are sent to one.

    Images that come as logarithms are compared as such: two probabilities next to 1 may be one float.
    """
    made = fitted(class_name, classes(classes=columns))
    if not made.injective:
        pytest.skip("the fitted map is not said to be injective")
    rng = np.random.default_rng(3)
    line = np.linspace(-4.0, 4.0, 400)[:, None] * rng.normal(size=(1, columns)) + rng.normal(size=(1, columns))
    points = softmax(np.concatenate([line, rng.normal(0.0, 3.0, (400, columns))]), axis=1)
    after = made.transform(cal.Classification.from_probs(points))
    images = probs(after)[0] if after.kind == "probs" else log_softmax(after.scores[0], axis=1)
    apart = np.abs(points[:, None] - points[None]).max(axis=2) > 1e-2
    close = np.abs(images[:, None] - images[None]).max(axis=2) < 1e-13
    assert not (apart & close).any()


# ----------------------------------------------------------------------------------- same in, same out
def test_logits_and_probabilities_give_the_same_fit(class_name):
    scores, labels = logits_of()
    logs = log_softmax(scores, axis=2)
    given = [
        cal.Classification.from_logits(scores, labels),
        cal.Classification.from_logits(scores + 7.0, labels),
        cal.Classification.from_log_probs(logs, labels),
        cal.Classification.from_probs(np.exp(logs), labels),
    ]
    first, *others = (probs(fitted(class_name, each).transform(given[0])) for each in given)
    for other in others:
        np.testing.assert_allclose(other, first, atol=NEAR)


def test_one_number_and_two_columns_give_the_same_fit(class_name):
    scores, labels = logits_of(classes=2)
    one = cal.Classification.from_logits(scores[0, :, 1] - scores[0, :, 0], labels)
    two = cal.Classification.from_logits(scores, labels)
    made, other = (probs(fitted(class_name, each).transform(each)) for each in (one, two))
    np.testing.assert_allclose(made, other, atol=NEAR)


def test_the_order_of_rows_does_not_matter(name, usual):
    order = np.random.default_rng(1).permutation(usual.n)
    straight, mixed = (probs(fitted(name, each).transform(usual)) for each in (usual, usual[order]))
    np.testing.assert_allclose(mixed, straight, atol=NEAR, rtol=NEAR)


def test_single_precision_gives_the_same_fit(name, usual):
    if name in OF_CLASSES:
        single = replace(usual, scores=usual.scores.astype(np.float32))
    else:
        single = replace(usual, mean=usual.mean.astype(np.float32), std=usual.std.astype(np.float32))
    wide, narrow = (probs(fitted(name, each).transform(usual)) for each in (usual, single))
    np.testing.assert_allclose(narrow, wide, atol=1e-4, rtol=1e-4)


def test_weights_are_repeated_rows(name, usual):
    counts = np.random.default_rng(2).integers(0, 4, usual.n)
    weighted = replace(usual, info=replace(usual.info, weights=counts.astype(np.float64)))
    try:
        found = fitted(name, weighted)
    except UsageError as refusal:
        assert "weights" in str(refusal)  # noqa: PT017
        return
    repeated = usual[np.repeat(np.arange(usual.n), counts)]
    np.testing.assert_allclose(
        probs(found.transform(usual)), probs(fitted(name, repeated).transform(usual)), atol=NEAR, rtol=NEAR
    )


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_what_is_saved_comes_back(name, usual, suffix, tmp_path):
    made = fitted(name, usual)
    path = made.save(tmp_path / f"map{suffix}")
    back = load(path)
    assert type(back) is type(made)
    assert back.options() == made.options()
    assert back.reports == made.reports
    assert (back.injective, back.n_parameters) == (made.injective, made.n_parameters)
    np.testing.assert_array_equal(probs(back.transform(usual)), probs(made.transform(usual)))


# ------------------------------------------------------------------------------------------- odd rows
def _odd_sets() -> dict[str, cal.Classification]:
    scores, labels = logits_of(n=300)
    right, wrong = scores[0].argmax(axis=1), (scores[0].argmax(axis=1) + 1) % CLASSES
    return {
        "all right": cal.Classification.from_logits(scores, right),
        "all wrong": cal.Classification.from_logits(scores, wrong),
        "no class 2": cal.Classification.from_logits(scores[:, labels != 2], labels[labels != 2]),
        "one class": cal.Classification.from_logits(scores, np.zeros(300, int)),
        "ten rows": cal.Classification.from_logits(scores[:, :10], labels[:10]),
        "one row": cal.Classification.from_logits(scores[:, :1], labels[:1]),
        "all alike": cal.Classification.from_logits(np.zeros((1, 50, CLASSES)), labels[:50]),
        "certain": cal.Classification.from_probs(np.eye(CLASSES)[labels], (labels + (np.arange(300) < 30)) % CLASSES),
    }


@pytest.mark.parametrize("which", list(_odd_sets()))
def test_odd_sets_are_fitted_or_refused(class_name, which):
    """Predictions come out that are probabilities; what is doubtful was warned of, or refused in one line."""
    odd, test = _odd_sets()[which], classes(n=200, seed=9)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", CalibrantWarning)
        try:
            made = method_class(class_name)().fit(odd)
        except CalibrantError as refusal:
            assert "\n" not in str(refusal)  # noqa: PT017
            return
    after = probs(made.transform(test))
    assert np.isfinite(after).all()
    np.testing.assert_allclose(after.sum(axis=2), 1.0, atol=1e-6)
    assert made.report.after <= made.report.before + 1e-9
    doubtful = [fit for fit in made.reports if not fit.converged or fit.at_bound or not fit.moved]
    assert len(seen) >= len(doubtful) * (class_name != "none")
    if made.accuracy_preserving:
        np.testing.assert_array_equal(after.argmax(axis=2), probs(test).argmax(axis=2))


@pytest.mark.parametrize("how", ["three rows", "no error", "far off"])
def test_odd_numbers_are_fitted_or_refused(name, how):
    if name not in OF_NUMBERS:
        pytest.skip("a method of another kind")
    usual = gaussian(200)
    odd = {
        "three rows": usual[:3],
        "no error": replace(usual, y=usual.mean[0].copy()),
        "far off": replace(usual, y=usual.y + 1e6),
    }[how]
    try:
        made = fitted(name, odd)
    except CalibrantError as refusal:
        assert "\n" not in str(refusal)  # noqa: PT017
        return
    assert np.isfinite(probs(made.transform(usual))).all()
    assert not made.report.after > made.report.before


# -------------------------------------------------------------------------------------------- inputs
def test_what_is_known_of_rows_stays(name):
    known = {"ids": np.arange(N), "weights": np.ones(N), "columns": {"site": np.arange(N) % 3}}
    scores, labels = logits_of()
    usual = gaussian()
    given = (
        cal.Classification.from_logits(scores, labels, **known)
        if name in OF_CLASSES
        else cal.Regression.from_gaussian(usual.mean, usual.std, usual.y, **known)
    )
    after = fitted(name, classes() if name in OF_CLASSES else usual).transform(given)
    assert after.name == given.name
    for key in ("ids", "site", "labels" if name in OF_CLASSES else "y"):
        np.testing.assert_array_equal(after.column(key), given.column(key))
    assert after.info.meta["recalibration"]["method"] == name


def test_judged_answers_are_recalibrated(moving):
    if "judged" not in method_class(moving).tasks:
        pytest.skip("a method of another kind")
    rng = np.random.default_rng(4)
    confidence = rng.beta(5.0, 1.5, 3000)
    judged = cal.Judged.from_confidence(confidence, rng.random(3000) < confidence**2)
    made = fitted(moving, judged)
    after = made.transform(judged)
    assert isinstance(after, cal.Judged)
    np.testing.assert_array_equal(after.correct, judged.correct)
    gained = cal.measure(after, ["brier"])["brier"] < cal.measure(judged, ["brier"])["brier"]
    assert gained or (moving in IMPROPER and says_so(made))


def test_rows_without_labels_are_transformed_but_not_fitted(name, usual):
    blind = replace(usual, labels=None) if name in OF_CLASSES else replace(usual, y=None)
    with pytest.raises(CalibrantError, match="labels"):
        method_class(name)().fit(blind)
    made = fitted(name, usual)
    np.testing.assert_array_equal(probs(made.transform(blind)), probs(made.transform(usual)))


def test_other_classes_are_refused(class_name):
    made = fitted(class_name, classes())
    with pytest.raises(ShapeError, match="the 4 classes of the fit"):
        made.transform(classes(classes=3))


def test_members_apart(class_name):
    """A map for each member is what each would have had alone."""
    method = method_class(class_name)
    if not issubclass(method, ClassRecalibrator) or class_name == "member_temperatures":  # fitted together
        pytest.skip("members are fitted together")
    three = classes(members=3)
    made = fitted(class_name, three, members="each")
    alone = probs(fitted(class_name, three.member(1)).transform(three.member(1)))
    np.testing.assert_allclose(probs(made.transform(three))[1], alone[0], atol=1e-12)
    with pytest.raises(ShapeError, match="3 members"):
        made.transform(three.member(0))


@pytest.mark.parametrize("kind", ["number", "stream", "other task"])
def test_what_is_no_input_is_refused(name, kind, usual):
    if len(method_class(name).tasks) == 3 and kind == "other task":
        pytest.skip("it is of every kind")
    other = gaussian() if name in OF_CLASSES else classes()
    given = {"number": 3, "stream": iter([usual]), "other task": other}[kind]
    with pytest.raises(UsageError, match=name):
        method_class(name)().fit(given)
