"""Validation of the arguments of `compare`: models by name, data sets, clean rows, a pool, settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.comparison import calibrated_likelihood
from calibrant.comparison.cross_validation import CLEAN, SAME
from calibrant.comparison.scoring import CompareSettings, Models, score_name, with_classes
from calibrant.errors import MAX_SEED, LabelsError, UsageError, check_choice, check_range, did_you_mean, show
from calibrant.pipeline.evaluate import KINDS, inputs_of
from calibrant.pipeline.select_metrics import Input
from calibrant.predictions import Detection, InMemory
from calibrant.predictions.files.stream import Stream
from calibrant.registry import lookup
from calibrant.registry.comparison_scores import CALIBRATED

Given = Mapping[str, Any] | Iterable[Any]
POOL = "pool"
"""The name of a pool that is not among the models."""
MOST_PAIRS = 5000
"""The largest number of pairs, that of a hundred models, without a baseline."""
BY_NAME = "give models by name, as in compare({'a': a, 'b': b})"


def data_sets(predictions: Given) -> dict[str, Models]:
    """Models by name in each data set by name; a single data set that is not nested has no name."""
    if _nested(predictions):
        return {str(name): models_of(models, "compare") for name, models in predictions.items()}  # type: ignore[union-attr]
    return {"": models_of(predictions, "compare")}


def clean_sets(clean: Given | None, sets: Iterable[str]) -> dict[str, Models | None]:
    """The clean rows of every data set, given like the models."""
    if clean is None:
        return dict.fromkeys(sets)
    names = list(sets)
    if names == [""] and not _nested(clean):
        return {"": models_of(clean, "clean")}
    by_set = clean if _nested(clean) else {}
    for name in names:
        if name not in by_set:
            got = f"none of {show(name)}" if by_set else "predictions without data sets"
            hint = "give them like the models: {data set: {model: predictions}}, or DATASET/NAME=FILE"
            raise UsageError("clean", expected="clean rows of the models of every data set", got=got, hint=hint)
    return {name: models_of(by_set[name], "clean") for name in names}  # type: ignore[index]


def _nested(given: Any) -> bool:
    return isinstance(given, Mapping) and bool(given) and all(isinstance(value, Mapping) for value in given.values())


def models_of(given: Any, subject: str) -> Models:
    """Models in memory, by name."""
    if isinstance(given, Mapping | list | tuple) and not len(given):
        raise UsageError(subject, expected="at least one model", got="none", hint=BY_NAME)
    out: dict[str, InMemory] = {}
    for item in inputs_of(given, subject):
        predictions = in_memory(item, subject)
        if not item.name.strip():
            raise UsageError(subject, expected="a name for every model", got="an empty name", hint=BY_NAME)
        out[item.name] = predictions
    return out


def in_memory(item: Input, subject: str) -> InMemory:
    """Predictions in memory; detection scores are refused."""
    predictions = item.read() if isinstance(item, Stream) else item
    if isinstance(predictions, Detection):
        got, hint = f"detection scores {show(item.name)}", "compare the AUROC of cal.detect"
        raise UsageError(subject, expected="predictions", got=got, hint=hint)
    return predictions


def check_models(models: Models, settings: CompareSettings) -> None:
    """Check labels, the baseline, the number of pairs, and that all models support the scores."""
    for name, model in models.items():
        if not model.has_labels:
            raise LabelsError(name, expected="labels", got="none", hint="add the observed outcome of each row")
    if settings.baseline is not None and settings.baseline not in models:
        hint = did_you_mean(settings.baseline, models)
        raise UsageError("baseline", expected="the name of a model", got=show(settings.baseline), hint=hint)
    pairs = len(models) * (len(models) - 1) // 2
    if settings.baseline is None and pairs > MOST_PAIRS:
        hint = "name a baseline: --baseline NAME, baseline='NAME'"
        raise UsageError("compare", expected=f"at most {MOST_PAIRS} pairs of models", got=f"{pairs}", hint=hint)
    scores = {*(settings.scores or ()), settings.rank_by}
    first = next(iter(models.values()))
    if scores & set(CALIBRATED) and first.task == "regression":
        got = "calibrated likelihood, which is defined for classes"
        raise UsageError("scores", expected="scores of regression", got=got, hint="use nll, crps or dss")
    levels = [getattr(model, "levels", None) for model in models.values()]
    same = all(own is None for own in levels) or all(
        own is not None and levels[0] is not None and np.array_equal(own, levels[0]) for own in levels
    )
    quantile_score = lookup.with_role("quantile_score")[0]
    if quantile_score in scores and not same:
        hint = "name levels that all models have, such as pinball(levels=3) or pinball(level=0.5)"
        raise UsageError(quantile_score, expected="quantiles at the same levels", got="different levels", hint=hint)


def check_clean(models: Models, clean: Models) -> None:
    """Check that every model has clean rows, with labels and its classes."""
    for name, model in models.items():
        if name not in clean:
            hint = did_you_mean(name, clean) if clean else f"use clean={{{name!r}: predictions}}"
            raise UsageError("clean", expected=f"clean rows of {show(name)}", got="none", hint=hint)
        calibrated_likelihood.check_clean(with_classes(model), clean[name])  # type: ignore[arg-type]


def with_pool(models: Models, pool: str | InMemory | None) -> tuple[str | None, Models]:
    """The pool's name, and the models with the pool; predictions that are one of the models keep its name."""
    if pool is None:
        return None, models
    if isinstance(pool, str):
        if pool not in models:
            hint = f"{did_you_mean(pool, models)}; or give a file, or predictions"
            raise UsageError("pool", expected="the name of a model", got=show(pool), hint=hint)
        return pool, models
    if not isinstance(pool, KINDS) or isinstance(pool, Detection):
        got = type(pool).__name__
        hint = "give an ensemble of classifiers"
        raise UsageError("pool", expected="the name of a model, or predictions", got=got, hint=hint)
    for name, model in models.items():
        if getattr(model, "scores", model) is getattr(pool, "scores", None):
            return name, models
    predictions = pool.read() if isinstance(pool, Stream) else pool
    name = POOL if predictions.name in ("predictions", *models) else predictions.name
    name = f"{name} (apart)" if name in models else name
    return name, {**models, name: predictions.named(name)}


def check_common_pool(sets: Mapping[str, Models], pool: Any) -> None:
    """Check that the pool of several data sets is a model of each."""
    expected = "the name of a model of every data set"
    if not isinstance(pool, str):
        raise UsageError("pool", expected=expected, got="predictions", hint="use pool='NAME'")
    for name, models in sets.items():
        if pool not in models:
            got = f"{show(pool)}, which {show(name)} lacks"
            hint = f"{did_you_mean(pool, models)}; or give its file as a model of each"
            raise UsageError("pool", expected=expected, got=got, hint=hint)


def check_flips(sets: Mapping[str, Models]) -> None:
    """Check that there are at least two classifiers, whose ranks by TACE can change."""
    for models in sets.values():
        tasks = {model.task for model in models.values()} - {"classification"}
        got = f"{tasks.pop()} predictions" if tasks else "one model" if len(models) < 2 else ""
        if got:
            expected, hint = "at least two classification models", "omit --flips"
            raise UsageError("--flips (flips=True)", expected=expected, got=got, hint=hint)


def check_settings(settings: CompareSettings, clean: Any, shift: bool) -> CompareSettings:
    """The settings, checked as far as they do not depend on the models."""
    threads = settings.threads
    if threads is not None:
        threads = check_range("threads", threads, 1, integer=True, hint="omit it to use all cores")
    check_choice("temperature", settings.temperature, (SAME, CLEAN))
    if settings.temperature == SAME and clean is not None and not shift:
        hint = "use temperature='clean', or omit clean"
        raise UsageError("clean", expected="temperature='clean' or shift", got="temperature='same'", hint=hint)
    if settings.relevant_error is not None:
        hint = "use relevant_error=0.02"
        check_range("relevant_error", settings.relevant_error, 0, 1, inclusive="neither", hint=hint)
    return replace(
        settings,
        level=check_range("level", settings.level, 0, 1, inclusive="neither", hint="use level=0.95"),
        seed=check_range("seed", settings.seed, 0, MAX_SEED, integer=True, hint="use seed=0"),
        threads=threads,
        draws=check_range("draws", settings.draws, 1, 1_000_000, integer=True, hint="use draws=10"),
        resamples=check_range("resamples", settings.resamples, 20, 1_000_000, integer=True, hint="use resamples=2000"),
    )


def shift_columns(shift: Any) -> tuple[str, str] | None:
    """The columns of type and severity; None without shift."""
    if isinstance(shift, bool):
        return ("shift", "severity") if shift else None
    if not isinstance(shift, tuple | list) or len(shift) != 2:
        hint = 'use shift=("shift", "severity")'
        raise UsageError("shift", expected="True, or the columns of type and severity", got=show(shift), hint=hint)
    return str(shift[0]), str(shift[1])


def score_names(scores: Any) -> tuple[str, ...] | None:
    """The canonical forms of the requested scores."""
    if scores is None:
        return None
    if not isinstance(scores, str) and (isinstance(scores, KINDS) or not isinstance(scores, Iterable)):
        got = type(scores).__name__
        raise UsageError("compare", expected="all models in the first argument, then scores", got=got, hint=BY_NAME)
    names = [part for text in ([scores] if isinstance(scores, str) else scores) for part in lookup.split(str(text))]
    if not names:
        raise UsageError("scores", expected="at least one score", got="none", hint="omit it for the default scores")
    return tuple(dict.fromkeys(score_name(text) for text in names))
