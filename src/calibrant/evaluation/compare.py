"""`compare`: models on the same rows, ranked by calibrated log-likelihood, with paired differences.

Raw scores rank models wrongly where their temperatures are not right (Ashukha et al. 2020): models are ranked by the
log-likelihood at the best temperature, every score is compared row by row, and what a comparison must not rest on is
noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.comparison.alignment import aligned
from calibrant.comparison.calibrated import CLEAN, SAME
from calibrant.comparison.pitfalls import Setup, guard, guard_sets
from calibrant.comparison.result import Comparison
from calibrant.comparison.splits import REPEATS
from calibrant.evaluation.compared_models import (
    Given,
    asked_for,
    check_clean,
    check_common_pool,
    check_flips,
    check_models,
    clean_sets,
    data_sets,
    names_of,
    shift_columns,
    temperature_of,
    with_pool,
)
from calibrant.evaluation.compared_notes import fit_notes, input_notes
from calibrant.evaluation.compared_sets import left_out_notes, over_sets
from calibrant.evaluation.comparing import Asked, Models, Progress, Scored, score_name
from calibrant.evaluation.equivalents import equivalents_of
from calibrant.evaluation.evaluate import described, version
from calibrant.evaluation.flips import RankFlips, rank_flips
from calibrant.evaluation.result import Evaluation, Result
from calibrant.evaluation.shifted import clean_rows, shifted_cll
from calibrant.predictions import InMemory
from calibrant.predictions.base import Note


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
    named. flips: how ranks by TACE change with bins and threshold. repeats: of halves. level, resamples, seed: of
    intervals, of the bootstrap and the flips of signs, and of everything random.

    What is returned has a result for each model and `comparison`: its `ranking`, `pairs`, `pair(first, second, score)`,
    `ranks` by every score, `equivalents` and more; it prints as tables, and `warnings` has the pitfalls.
    """
    columns = shift_columns(shift)
    asked = asked_for(
        names_of(scores), None if rank_by is None else score_name(rank_by), baseline,
        temperature_of(temperature, clean, columns is not None), repeats=repeats, draws=draws, units=units, level=level,
        resamples=resamples, seed=seed, threads=threads,
    )  # fmt: skip
    sets = data_sets(predictions)
    if len(sets) > 1 and pool is not None:
        check_common_pool(sets, pool)
    if flips:
        check_flips(sets)
    done = {}
    for place, (name, given) in enumerate(clean_sets(clean, sets).items()):
        tell = _within(progress, name, place, len(sets))
        done[name] = _one(sets[name], asked, pool, given, columns, flips, tell)
    also: dict[str, Any] = {"shift": list(columns)} if columns else {}
    if len(done) == 1:
        (only,) = done.values()
        return _evaluation(done, asked, also, only.comparison)
    over = over_sets({name: item.comparison for name, item in done.items()})
    return _evaluation(done, asked, {"datasets": list(sets)} | also, over, guard_sets(sets))


# ------------------------------------------------------------------------------------------ one data set
@dataclass(frozen=True)
class _Done:
    """What was found on one set of rows."""

    comparison: Comparison
    results: tuple[Result, ...]
    inputs: tuple[dict[str, object], ...]
    notes: tuple[Note, ...]
    scores: tuple[str, ...]
    flips: RankFlips | None = None


def _one(
    models: Models,
    asked: Asked,
    pool: str | InMemory | None,
    clean: Models | None,
    columns: tuple[str, str] | None,
    flips: bool,
    progress: Progress | None,
) -> _Done:
    pool_name, everyone = with_pool(models, pool)
    together, notes = aligned(everyone)
    together = _that_count(together)
    check_models({name: together[name] for name in models}, asked)
    whole = {name: together[name] for name in models}
    if asked.temperature == CLEAN and clean is None:
        together, known = clean_rows(together, columns)
        clean = {name: known[name] for name in models}
    models = {name: together[name] for name in models}
    if clean is not None:
        check_clean(models, clean)
    scored = Scored(models, asked, clean if asked.temperature == CLEAN else None, progress)
    comparison = _compared(scored, asked, pool_name)
    if pool_name is not None:
        comparison = equivalents_of(comparison, scored, together[pool_name], pool_name)
    if columns is not None:
        comparison = replace(comparison, shifted=shifted_cll(whole, columns, asked, clean))
    setup = Setup(
        models=models, scores=scored.scores, rank_by=scored.rank_by, units=asked.units, shift=columns, pool=pool_name,
        clean=clean, comparison=comparison, pool_predictions=None if pool_name is None else together[pool_name],
    )  # fmt: skip
    told = [*input_notes(models), *notes, *fit_notes(comparison, scored), *scored.paired.notes, *guard(setup)]
    return _Done(
        comparison,
        tuple(Result(name, scored.estimates(name)) for name in models),
        tuple(described(item) for item in models.values()),
        tuple(dict.fromkeys(told)),
        scored.scores,
        rank_flips(models, threads=asked.threads) if flips else None,
    )


def _that_count(models: dict[str, InMemory]) -> dict[str, InMemory]:
    """The rows that have a weight: those of none would still be dealt out to halves."""
    weights = next(iter(models.values())).weights
    if weights is None or weights.all():
        return models
    return {name: model[np.flatnonzero(weights)] for name, model in models.items()}


def _compared(scored: Scored, asked: Asked, pool: str | None) -> Comparison:
    return Comparison(
        rank_by=scored.rank_by,
        ranking=scored.ranks[scored.rank_by],
        pairs=scored.paired.pairs,
        ranks=scored.ranks,
        temperature=asked.temperature,
        splits={} if scored.splits is None else scored.splits.to_json(),
        temperatures={name: found.temperatures.tolist() for name, found in scored.calibrated.items()},
        best_temperature={name: found.temperature for name, found in scored.calibrated.items()},
        baseline=asked.baseline,
        pool=pool,
    )


# -------------------------------------------------------------------------------------------------- together
def _evaluation(
    done: Mapping[str, _Done],
    asked: Asked,
    also: dict[str, Any],
    comparison: Comparison,
    between: tuple[Note, ...] = (),
) -> Evaluation:
    results, inputs, notes = [], [], list(between)
    several = len(done) > 1
    for name, item in done.items():
        before = f"{name}/" * several
        results += [replace(result, input=before + result.input) for result in item.results]
        inputs += [{**facts, "name": before + str(facts["name"])} for facts in item.inputs]
        notes += [replace(note, message=f"{name}: {note.message}" if several else note.message) for note in item.notes]
    if comparison.summary is not None:
        notes += left_out_notes(comparison.summary)
    first = next(iter(done.values()))
    settings = {
        "command": "compare", "metrics": list(first.scores), "rank_by": comparison.rank_by,
        "baseline": asked.baseline, "pool": comparison.pool, "temperature": asked.temperature,
        "repeats": asked.repeats, "draws": asked.draws, "units": asked.units, "level": asked.level,
        "resamples": asked.resamples, "seed": asked.seed, "by": [],
    }  # fmt: skip
    return Evaluation(
        version=version(), settings=settings | also, inputs=tuple(inputs), results=tuple(results),
        warnings=tuple(dict.fromkeys(notes)), comparison=comparison, flips=None if several else first.flips,
        flips_by={name: item.flips for name, item in done.items() if several and item.flips is not None},
    )  # fmt: skip


def _within(progress: Progress | None, name: str, place: int, total: int) -> Progress | None:
    """Progress of one data set among several."""
    if progress is None or total == 1:
        return progress

    def tell(what: str, done: float, of: float) -> None:
        progress(f"{name}: {what}", place + done / max(of, 1.0), total)

    return tell
