"""`compare`: models on the same rows, ranked by calibrated log-likelihood, with paired differences.

Raw scores rank models wrongly where their temperatures are not right (Ashukha et al. 2020): models are ranked by the
log-likelihood at the best temperature, every score is compared row by row, and what a comparison must not rest on is
noticed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from calibrant.comparison.alignment import aligned
from calibrant.comparison.calibrated import CLEAN, SAME
from calibrant.comparison.datasets import Summary, summary
from calibrant.comparison.equivalent import mean_equivalents
from calibrant.comparison.flips import holm
from calibrant.comparison.pitfalls import Setup, guard
from calibrant.comparison.records import MeanEquivalent, Pair, Ranked
from calibrant.comparison.result import Comparison
from calibrant.comparison.splits import REPEATS
from calibrant.errors import LabelsError, UsageError, did_you_mean, show
from calibrant.evaluation.comparing import CLL, Asked, Models, Progress, Scored, score_name, score_names
from calibrant.evaluation.equivalents import equivalents_of
from calibrant.evaluation.evaluate import described, inputs_of, version
from calibrant.evaluation.flips import rank_flips
from calibrant.evaluation.result import Evaluation, Result
from calibrant.evaluation.shifted import clean_rows, shifted_cll
from calibrant.intervals import normal_quantile
from calibrant.predictions import Detection, InMemory
from calibrant.predictions.base import Note
from calibrant.predictions.files.stream import Stream

POOL = "pool"
"""What a pool is called that is not among the models."""
Given = Mapping[str, Any] | Iterable[Any]


def compare(
    predictions: Given,
    scores: str | Iterable[str] | None = None,
    *,
    rank_by: str | None = None,
    baseline: str | None = None,
    pool: str | InMemory | None = None,
    temperature: str = SAME,
    clean: Given | None = None,
    repeats: int = REPEATS,
    draws: int = 10,
    units: str | None = None,
    shift: bool | tuple[str, str] = False,
    flips: bool = False,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Compare models on the same rows: ranks by calibrated log-likelihood, paired differences, equivalents, pitfalls.

    predictions: models by name, or data sets by name with models by name in each; rows are matched by `ids` where all
    have them. scores: spec strings, and `cll` and `brier_ts` at the best temperature; what is no mean over rows is
    ranked without pairs. rank_by: the score that ranks; cll, or the first one. baseline: compare every model with
    this one only. pool: the name or the predictions of independently trained members, in which every model's
    deep-ensemble equivalent is counted. temperature: of the "same" rows by test-time cross-validation, or of "clean"
    rows: `clean` predictions by model name, or the rows of severity 0. draws: random orders of the pool's members.
    units: a column of dependent rows. shift: calibrated likelihood by severity, columns `shift` and `severity` or those
    named. flips: how ranks by TACE change with bins and threshold.
    """
    asked = Asked(
        score_names(scores), None if rank_by is None else score_name(rank_by), baseline,
        _temperature(temperature, clean, bool(shift)), repeats, _whole(draws, "draws"), units, _share(level),
        _whole(resamples, "resamples", 20), seed, threads,
    )  # fmt: skip
    columns = _columns(shift)
    sets = _data_sets(predictions)
    if len(sets) > 1 and pool is not None and not isinstance(pool, str):
        raise UsageError("pool", expected="the name of a model of every data set", came="got predictions", do="name it")
    done = []
    for place, (name, models) in enumerate(sets.items()):
        tell = _within(progress, name, place, len(sets))
        given = None if clean is None else _models(clean[name] if len(sets) > 1 else clean, "clean")  # type: ignore[index]
        done.append(_one(models, asked, pool, given, columns, flips, tell))
    if len(done) == 1:
        return _evaluation(done, asked, {"shift": list(columns)} if columns else {}, done[0].comparison)
    over = _over({name: item.comparison for name, item in zip(sets, done, strict=True)})
    return _evaluation(done, asked, {"datasets": list(sets)}, over, list(sets))


# ------------------------------------------------------------------------------------------ one data set
@dataclass(frozen=True)
class _Done:
    """What was found on one set of rows."""

    comparison: Comparison
    results: tuple[Result, ...]
    inputs: tuple[dict[str, object], ...]
    notes: tuple[Note, ...]
    scores: tuple[str, ...]
    flips: Any = None


def _one(
    models: Models,
    asked: Asked,
    pool: str | InMemory | None,
    clean: Models | None,
    columns: tuple[str, str] | None,
    flips: bool,
    progress: Progress | None,
) -> _Done:
    pool_name, with_pool = _with_pool(models, pool)
    together, notes = aligned(with_pool)
    models = {name: together[name] for name in models}
    _check(models, asked)
    whole = models
    if asked.temperature == CLEAN and clean is None:
        models, clean = clean_rows(models, columns)
    if clean is not None:
        _check_names(models, clean)
    scored = Scored(models, asked, clean if asked.temperature == CLEAN else None, progress)
    comparison = Comparison(
        rank_by=scored.rank_by,
        ranking=scored.ranks[scored.rank_by],
        pairs=scored.paired.pairs,
        ranks=scored.ranks,
        temperature=asked.temperature,
        splits={} if scored.splits is None else scored.splits.to_json(),
        temperatures={name: found.temperatures.tolist() for name, found in scored.calibrated.items()},
        best_temperature={name: found.temperature for name, found in scored.calibrated.items()},
        baseline=asked.baseline,
        pool=pool_name,
    )
    if pool_name is not None:
        comparison = equivalents_of(comparison, scored, together[pool_name], pool_name)
    if columns is not None:
        comparison = replace(comparison, shifted=shifted_cll(whole, columns, asked, clean))
    setup = Setup(
        models=models, scores=scored.scores, rank_by=scored.rank_by, units=asked.units, pool=pool_name, clean=clean,
        comparison=comparison, pool_predictions=None if pool_name is None else together[pool_name],
    )  # fmt: skip
    facts = tuple(described(item) for item in models.values())
    found = rank_flips(models, threads=asked.threads) if flips else None
    results = tuple(Result(name, scored.estimates(name)) for name in models)
    told = (*notes, *scored.paired.notes, *guard(setup))
    return _Done(comparison, results, facts, told, scored.scores, found)


def _with_pool(models: Models, pool: str | InMemory | None) -> tuple[str | None, Models]:
    """The pool's name, and the models with it; predictions that are among them are found again."""
    if pool is None:
        return None, models
    if isinstance(pool, str):
        if pool not in models:
            do = did_you_mean(pool, models)
            raise UsageError("pool", expected="the name of a model", came=f"got {show(pool)}", do=do)
        return pool, models
    for name, model in models.items():
        if getattr(model, "scores", model) is getattr(pool, "scores", None):
            return name, models
    name = POOL if POOL not in models else f"{POOL} (apart)"
    return name, {**models, name: pool.named(name)}


def _check(models: Models, asked: Asked) -> None:
    for name, model in models.items():
        if not model.has_labels:
            raise LabelsError(name, expected="labels", came="there are none", do="give what came true for each row")
    if asked.baseline is not None and asked.baseline not in models:
        do = did_you_mean(asked.baseline, models)
        raise UsageError("baseline", expected="the name of a model", came=f"got {show(asked.baseline)}", do=do)
    needs = {CLL, "brier_ts"} & set(asked.scores or ()) or asked.rank_by in (CLL, "brier_ts")
    if needs and next(iter(models.values())).task == "regression":
        raise UsageError(
            "scores", expected="scores of numbers", came="a calibrated likelihood is one of classes",
            do="nll, crps and dss are usual",
        )  # fmt: skip


def _check_names(models: Models, clean: Models) -> None:
    for name in models:
        if name not in clean:
            do = did_you_mean(name, clean) if clean else "name it"
            raise UsageError("clean", expected=f"clean rows of {show(name)}", came="there are none", do=do)


# ----------------------------------------------------------------------------------------- many data sets
def _over(each: Mapping[str, Comparison]) -> Comparison:
    """The summary over data sets as the comparison, theirs in it."""
    first = next(iter(each.values()))
    found = summary(each, first.rank_by)
    scores = [score for score in first.ranks if all(score in item.ranks for item in each.values())]
    return Comparison(
        rank_by=first.rank_by,
        ranking=_mean_ranks(found, each),
        pairs=tuple(pair for score in scores for pair in _mean_pairs(summary(each, score), each)),
        temperature=first.temperature,
        baseline=first.baseline,
        pool=first.pool,
        datasets=each,
        summary=found,
        mean_equivalents=_mean_curves(each),
    )


def _mean_curves(each: Mapping[str, Comparison]) -> dict[str, tuple[MeanEquivalent, ...]]:
    """Equivalents against the number of members, averaged over the data sets that have them."""
    names = dict.fromkeys(name for item in each.values() for name in item.equivalent_curves)
    return {
        name: mean_equivalents(item.equivalent_curves[name] for item in each.values() if name in item.equivalent_curves)
        for name in names
    }


def _mean_ranks(found: Summary, each: Mapping[str, Comparison]) -> tuple[Ranked, ...]:
    """Models by their mean rank; the share of data sets in which a model is the best, its best and worst rank."""
    out = []
    for item in found.models:
        own = [
            ranked.rank for comparison in each.values() for ranked in comparison.ranking if ranked.model == item.model
        ]
        rank = 1 + sum(other.mean_rank < item.mean_rank for other in found.models)
        value, share = item.mean_value, item.best / len(each)
        out.append(Ranked(item.model, rank, value, math.nan, math.nan, min(own), max(own), share))
    return tuple(out)


def _mean_pairs(found: Summary, each: Mapping[str, Comparison]) -> list[Pair]:
    """Mean differences as pairs: of these data sets, their p-values those that the intervals imply."""
    rows = {name: next((pair.n for pair in item.pairs), 0) for name, item in each.items()}
    half = np.array([(pair.high - pair.low) / 2.0 for pair in found.pairs])
    scale = normal_quantile(found.pairs[0].level) if found.pairs else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2.0 * ndtr(-np.abs([pair.difference for pair in found.pairs]) / half * scale)
    corrected = holm(p)
    return [
        Pair(
            found.rank_by, pair.first, pair.second, pair.difference, pair.low, pair.high, pair.level, float(p[k]),
            float(p[k]), float(corrected[k]), sum(rows.values()),
        )
        for k, pair in enumerate(found.pairs)
    ]  # fmt: skip


def _evaluation(
    done: list[_Done], asked: Asked, also: dict[str, Any], comparison: Comparison, names: list[str] | None = None
) -> Evaluation:
    prefix = [""] if names is None else [f"{name}/" for name in names]
    results, inputs, notes = [], [], []
    for before, item in zip(prefix, done, strict=True):
        results += [replace(result, input=before + result.input) for result in item.results]
        inputs += [{**facts, "name": before + str(facts["name"])} for facts in item.inputs]
        told = [replace(note, message=f"{before.rstrip('/')}: {note.message}") for note in item.notes]
        notes += told if before else list(item.notes)
    settings = {
        "command": "compare", "metrics": list(done[0].scores), "rank_by": comparison.rank_by,
        "baseline": asked.baseline, "pool": comparison.pool, "temperature": asked.temperature,
        "repeats": asked.repeats, "draws": asked.draws, "units": asked.units, "level": asked.level,
        "resamples": asked.resamples, "seed": asked.seed, "by": [],
    }  # fmt: skip
    flips = done[0].flips if len(done) == 1 else None
    return Evaluation(
        version=version(), settings=settings | also, inputs=tuple(inputs), results=tuple(results),
        warnings=tuple(dict.fromkeys(notes)), comparison=comparison, flips=flips,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ asked for
def _data_sets(predictions: Given) -> dict[str, Models]:
    """Models by name, in each data set by name; one set has no name."""
    if isinstance(predictions, Mapping) and predictions and all(isinstance(v, Mapping) for v in predictions.values()):
        return {str(name): _models(models, "compare") for name, models in predictions.items()}
    return {"": _models(predictions, "compare")}


def _models(given: Any, subject: str) -> Models:
    out: dict[str, InMemory] = {}
    for item in inputs_of(given, subject):
        known = item.read() if isinstance(item, Stream) else item
        if isinstance(known, Detection):
            raise UsageError(
                subject, expected="predictions", came=f"{show(item.name)} are detection scores",
                do="`cal.detect` ranks scores, and its AUROC may be compared",
            )  # fmt: skip
        out[item.name] = known
    if not out:
        raise UsageError(subject, expected="at least one model", came="got none", do="give predictions by name")
    return out


def _temperature(name: str, clean: Any, shift: bool) -> str:
    if name not in (SAME, CLEAN):
        do = "'same' cross-fits it on the rows that are scored, 'clean' takes it from other rows"
        raise UsageError("temperature", expected="same or clean", came=f"got {show(name)}", do=do)
    if name == SAME and clean is not None and not shift:
        came, do = "got 'same'", "leave one out"
        raise UsageError("clean", expected="temperature='clean', or shift, beside it", came=came, do=do)
    return name


def _columns(shift: bool | tuple[str, str]) -> tuple[str, str] | None:
    if isinstance(shift, bool):
        return ("shift", "severity") if shift else None
    if isinstance(shift, str) or len(shift) != 2:
        do = 'write shift=("shift", "severity")'
        raise UsageError("shift", expected="true, or two columns: type and severity", came=f"got {show(shift)}", do=do)
    return str(shift[0]), str(shift[1])


def _whole(value: int, name: str, least: int = 1, most: int = 1_000_000) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        said = f"a whole number from {least} to {most}"
        raise UsageError(name, expected=said, came=f"got {show(value)}", do="leave it out for the usual one")
    return int(value)


def _share(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise UsageError("level", expected="a number between 0 and 1", came=f"got {level}", do="0.95 is usual")
    return float(level)


def _within(progress: Progress | None, name: str, place: int, total: int) -> Progress | None:
    """Progress of one data set among several."""
    if progress is None or total == 1:
        return progress

    def tell(what: str, done: float, of: float) -> None:
        progress(f"{name}: {what}", place + done / max(of, 1.0), total)

    return tell
