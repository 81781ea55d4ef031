"""`measure` and `score_rows`: the names `all` and `default` stand for the metrics that apply."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import calibrant as cal
from calibrant.errors import NotApplicable
from calibrant.predictions import Evaluable

N = 60


def _classes(count: int, members: int = 1, **columns: np.ndarray) -> cal.Classification:
    rng = np.random.default_rng(count)
    z = rng.normal(size=(members, N, count))
    return cal.Classification.from_logits(z[0] if members == 1 else z, rng.integers(0, count, N), **columns)


def _unlabelled() -> cal.Classification:
    return cal.Classification.from_logits(np.random.default_rng(0).normal(size=(N, 3)))


def _soft() -> cal.Classification:
    q = np.random.default_rng(0).dirichlet([1, 1, 1], N)
    return cal.Classification.from_probs(np.full((N, 3), 1 / 3), label_probs=q)


def _judged() -> cal.Judged:
    rng = np.random.default_rng(0)
    return cal.Judged.from_confidence(rng.random(N), rng.random(N) < 0.5)


def _detection() -> cal.Detection:
    rng = np.random.default_rng(0)
    return cal.Detection.from_scores(rng.random(N), rng.random(N) + 0.5)


def _gaussian() -> cal.Regression:
    rng = np.random.default_rng(0)
    return cal.Regression.from_gaussian(rng.normal(size=N), std=np.ones(N), y=rng.normal(size=N))


def _quantiles() -> cal.Regression:
    rng = np.random.default_rng(0)
    return cal.Regression.from_quantiles(np.sort(rng.normal(size=(N, 3))), [0.1, 0.5, 0.9], rng.normal(size=N))


KINDS: dict[str, Callable[[], Evaluable]] = {
    "binary": lambda: _classes(2), "three classes": lambda: _classes(3), "twelve classes": lambda: _classes(12),
    "members": lambda: _classes(3, members=4), "weights": lambda: _classes(3, weights=np.arange(1.0, N + 1)),
    "no labels": _unlabelled, "soft labels": _soft, "judged": _judged, "detection": _detection,
    "gaussian": _gaussian, "quantiles": _quantiles,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_default_and_all_skip_what_does_not_apply(kind: str) -> None:
    predictions = KINDS[kind]()
    unnamed, default = cal.measure(predictions), cal.measure(predictions, "default")
    assert unnamed
    np.testing.assert_equal(default, unnamed)
    everything = cal.measure(predictions, "all")
    assert set(default) <= set(everything)
    np.testing.assert_equal({text: everything[text] for text in default}, default)


def test_a_named_metric_that_does_not_apply_is_refused_beside_the_defaults() -> None:
    with pytest.raises(NotApplicable, match="top_k"):
        cal.measure(_classes(2), "default,top_k(k=5)")


def test_score_rows_of_all_metrics_gives_those_that_are_means() -> None:
    scores = cal.score_rows(_classes(3), "all")
    assert {"nll", "brier"} <= set(scores)
    assert "ece" not in scores
    with pytest.raises(NotApplicable, match="ece"):
        cal.score_rows(_classes(3), "default,ece")
