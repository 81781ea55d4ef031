"""What a comparison is asked for: models by name, data sets, clean rows, a pool; checked before it is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.comparison import cll
from calibrant.comparison.calibrated import CLEAN, SAME
from calibrant.errors import LabelsError, UsageError, did_you_mean, show
from calibrant.evaluation.comparing import CALIBRATED, Asked, Models, of_classes
from calibrant.evaluation.evaluate import KINDS, inputs_of
from calibrant.predictions import Detection, InMemory
from calibrant.predictions.files.stream import Stream

Given = Mapping[str, Any] | Iterable[Any]
POOL = "pool"
"""What a pool is called that is not among the models."""
MOST_PAIRS = 5000
"""Beyond which pairs are compared with a baseline only: a hundred models have as many."""
BY_NAME = "give models by name, as in compare({'a': a, 'b': b})"


# --------------------------------------------------------------------------------------------------- models
def data_sets(predictions: Given) -> dict[str, Models]:
    """Models by name, in each data set by name; a single one that is not nested has no name."""
    if _nested(predictions):
        return {str(name): models_of(models, "compare") for name, models in predictions.items()}  # type: ignore[union-attr]
    return {"": models_of(predictions, "compare")}


def clean_sets(clean: Given | None, sets: Iterable[str]) -> dict[str, Models | None]:
    """The clean rows of every data set, given as the models are."""
    if clean is None:
        return dict.fromkeys(sets)
    names = list(sets)
    if names == [""] and not _nested(clean):
        return {"": models_of(clean, "clean")}
    known = clean if _nested(clean) else {}
    for name in names:
        if name not in known:
            came = "they are of no data set" if not known else f"there are none of {show(name)}"
            do = "give them as the models are: {data set: {model: predictions}}, or DATASET/NAME=FILE"
            raise UsageError("clean", expected="clean rows of the models of every data set", came=came, do=do)
    return {name: models_of(known[name], "clean") for name in names}  # type: ignore[index]


def _nested(given: Any) -> bool:
    return isinstance(given, Mapping) and bool(given) and all(isinstance(value, Mapping) for value in given.values())


def models_of(given: Any, subject: str) -> Models:
    """Models in memory, by name."""
    if isinstance(given, Mapping | list | tuple) and not len(given):
        raise UsageError(subject, expected="at least one model", came="got none", do=BY_NAME)
    out: dict[str, InMemory] = {}
    for item in inputs_of(given, subject):
        known = item.read() if isinstance(item, Stream) else item
        if isinstance(known, Detection):
            raise UsageError(
                subject, expected="predictions", came=f"{show(item.name)} are detection scores",
                do="`cal.detect` ranks scores, and its AUROC may be compared",
            )  # fmt: skip
        if not item.name.strip():
            raise UsageError(subject, expected="a name for every model", came="one is empty", do=BY_NAME)
        out[item.name] = known
    return out


def check_models(models: Models, asked: Asked) -> None:
    """Labels, the baseline, scores of the task, and not too many pairs."""
    for name, model in models.items():
        if not model.has_labels:
            raise LabelsError(name, expected="labels", came="there are none", do="give what came true for each row")
    if asked.baseline is not None and asked.baseline not in models:
        do = did_you_mean(asked.baseline, models)
        raise UsageError("baseline", expected="the name of a model", came=f"got {show(asked.baseline)}", do=do)
    pairs = len(models) * (len(models) - 1) // 2
    if asked.baseline is None and pairs > MOST_PAIRS:
        came = f"{len(models)} models have {pairs}"
        raise UsageError("compare", expected=f"at most {MOST_PAIRS} pairs", came=came, do="name a baseline")
    named = {*(asked.scores or ()), asked.rank_by}
    first = next(iter(models.values()))
    if named & set(CALIBRATED) and first.task == "regression":
        raise UsageError(
            "scores", expected="scores of numbers", came="a calibrated likelihood is one of classes",
            do="nll, crps and dss are usual",
        )  # fmt: skip
    _check_levels(models, named)


def _check_levels(models: Models, named: set[str | None]) -> None:
    """Pinball losses at levels of their own are no one score."""
    levels = [getattr(model, "levels", None) for model in models.values()]
    same = all(own is None for own in levels) or all(
        own is not None and levels[0] is not None and np.array_equal(own, levels[0]) for own in levels
    )
    if "pinball" in named and not same:
        raise UsageError(
            "pinball", expected="quantiles at the same levels", came="the models have levels of their own",
            do="name levels that all have, as in pinball(levels=3) or pinball(level=0.5)",
        )  # fmt: skip


def check_clean(models: Models, clean: Models) -> None:
    """Clean rows of every model, with labels and its classes."""
    for name, model in models.items():
        if name not in clean:
            do = did_you_mean(name, clean) if clean else "name it"
            raise UsageError("clean", expected=f"clean rows of {show(name)}", came="there are none", do=do)
        cll.check_clean(of_classes(model), clean[name])  # type: ignore[arg-type]


def with_pool(models: Models, pool: str | InMemory | None) -> tuple[str | None, Models]:
    """The pool's name, and the models with it; predictions that are among them are found again."""
    if pool is None:
        return None, models
    if isinstance(pool, str):
        if pool not in models:
            do = f"{did_you_mean(pool, models)}; or give a file, or predictions"
            raise UsageError("pool", expected="the name of a model", came=f"got {show(pool)}", do=do)
        return pool, models
    if not isinstance(pool, KINDS) or isinstance(pool, Detection):
        came = f"got {type(pool).__name__}"
        raise UsageError(
            "pool", expected="the name of a model, or predictions", came=came, do="give members of classes"
        )
    for name, model in models.items():
        if getattr(model, "scores", model) is getattr(pool, "scores", None):
            return name, models
    known = pool.read() if isinstance(pool, Stream) else pool
    name = POOL if known.name in ("predictions", *models) else known.name
    name = f"{name} (apart)" if name in models else name
    return name, {**models, name: known.named(name)}


def check_common_pool(sets: Mapping[str, Models], pool: Any) -> None:
    """Of several data sets a pool is a model of each."""
    expected = "the name of a model of every data set"
    if not isinstance(pool, str):
        raise UsageError("pool", expected=expected, came="got predictions", do="name it")
    for name, models in sets.items():
        if pool not in models:
            came = f"got {show(pool)}, which {show(name)} lacks"
            do = f"{did_you_mean(pool, models)}; or give its file as a model of each"
            raise UsageError("pool", expected=expected, came=came, do=do)


def check_flips(sets: Mapping[str, Models]) -> None:
    """Ranks by TACE need classes, and something to rank."""
    for models in sets.values():
        tasks = {model.task for model in models.values()} - {"classification"}
        came = f"these are {tasks.pop()}" if tasks else "there is one model" if len(models) < 2 else ""
        if came:
            raise UsageError("--flips (flips=True)", expected="classes and two models", came=came, do="leave it out")


# -------------------------------------------------------------------------------------------------- settings
def asked_for(
    scores: tuple[str, ...] | None, rank_by: str | None, baseline: str | None, temperature: str, **numbers: Any
) -> Asked:
    """Settings that have been checked."""
    level, seed, threads = (numbers[key] for key in ("level", "seed", "threads"))
    if not isinstance(level, float) or not 0.0 < level < 1.0:
        raise UsageError("level", expected="a number between 0 and 1", came=f"got {show(level)}", do="0.95 is usual")
    if not _is_whole(seed) or not 0 <= seed < 1 << 64:
        do = "0 is usual"
        raise UsageError("seed", expected="a whole number from 0 to 2^64 - 1", came=f"got {show(seed)}", do=do)
    if threads is not None and (not _is_whole(threads) or threads < 1):
        raise UsageError("threads", expected="at least 1", came=f"got {show(threads)}", do="leave it out for all")
    for name, least in (("draws", 1), ("resamples", 20)):
        if not _is_whole(numbers[name]) or not least <= numbers[name] <= 1_000_000:
            said = f"a whole number from {least} to 1000000"
            raise UsageError(
                name, expected=said, came=f"got {show(numbers[name])}", do="leave it out for the usual one"
            )
    return Asked(scores, rank_by, baseline, temperature, **numbers)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def temperature_of(name: str, clean: Any, shift: bool) -> str:
    """Of which rows temperatures are."""
    if name not in (SAME, CLEAN):
        do = "'same' cross-fits it on the rows that are scored, 'clean' takes it from other rows"
        raise UsageError("temperature", expected="same or clean", came=f"got {show(name)}", do=do)
    if name == SAME and clean is not None and not shift:
        came, do = "got 'same'", "leave one out"
        raise UsageError("clean", expected="temperature='clean', or shift, beside it", came=came, do=do)
    return name


def shift_columns(shift: Any) -> tuple[str, str] | None:
    """The columns of type and severity, where likelihood under shift is asked for."""
    if isinstance(shift, bool):
        return ("shift", "severity") if shift else None
    if not isinstance(shift, tuple | list) or len(shift) != 2:
        do = 'write shift=("shift", "severity")'
        raise UsageError("shift", expected="true, or two columns: type and severity", came=f"got {show(shift)}", do=do)
    return str(shift[0]), str(shift[1])


def names_of(scores: Any) -> tuple[str, ...] | None:
    """The scores that were named, in their canonical form; those at the best temperature have names of their own."""
    from calibrant.evaluation.comparing import score_name

    if scores is None:
        return None
    if not isinstance(scores, str) and (isinstance(scores, KINDS) or not isinstance(scores, Iterable)):
        came = f"got {type(scores).__name__}"
        raise UsageError("compare", expected="all models in the first argument, then scores", came=came, do=BY_NAME)
    named = [part for text in ([scores] if isinstance(scores, str) else scores) for part in registry.split(str(text))]
    if not named:
        raise UsageError("scores", expected="at least one score", came="got none", do="leave it out for the usual ones")
    return tuple(dict.fromkeys(score_name(text) for text in named))
