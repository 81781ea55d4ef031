"""`compare`: models on the same rows, ranked by calibrated log-likelihood, with paired differences.

Raw scores rank models wrongly if their temperatures are not optimal (Ashukha et al. 2020). Models are therefore ranked
by the log-likelihood at the best temperature, every score is compared row by row, and pitfalls are reported.

Under shift, the temperature of clean rows is the one that is available in practice (Ovadia et al. 2019). A temperature
fitted on the shifted rows themselves, by test-time cross-validation, shows how good the predictions are apart from
calibration (Ashukha et al. 2020). The difference is the cost of miscalibration under shift. On clean rows both are
cross-fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.comparison.alignment import aligned
from calibrant.comparison.cross_validation import CLEAN, SAME, calibrated, calibrated_by
from calibrant.comparison.datasets import left_out_notes, over_datasets
from calibrant.comparison.ensemble_equivalent import equivalents_of
from calibrant.comparison.name_lists import listed
from calibrant.comparison.pitfalls import Setup, guard, guard_sets
from calibrant.comparison.ranking_stability import rank_flips
from calibrant.comparison.scoring import CLL, CompareSettings, Models, Progress, Scored, score_name, with_classes
from calibrant.comparison.split_temperatures import REPEATS, splits_of, unit_codes
from calibrant.comparison.validation import (
    Given,
    check_clean,
    check_common_pool,
    check_flips,
    check_models,
    check_settings,
    clean_sets,
    data_sets,
    score_names,
    shift_columns,
    with_pool,
)
from calibrant.errors import UsageError
from calibrant.pipeline.compilation import compile_ahead
from calibrant.pipeline.evaluate import calibration_verdict, describe_input
from calibrant.pipeline.measure import score_rows
from calibrant.predictions import InMemory
from calibrant.predictions.base import Note
from calibrant.recalibration.temperature_solver import BOUND
from calibrant.registry.comparison_scores import COMPARISON_SCORES
from calibrant.registry.estimate import Settings
from calibrant.registry.lookup import with_role
from calibrant.registry.state.accumulators import Moments
from calibrant.results.comparison import Comparison, ShiftedCll
from calibrant.results.evaluation import COMPARISON, Evaluation, Result
from calibrant.results.rank_flips import RankFlips
from calibrant.results.shift import COLUMNS, severities_of
from calibrant.version import __version__

LEAST = 1.0 / BOUND
RAW = COMPARISON_SCORES[CLL].raw
"""The loss before temperature scaling."""
GUO, OVADIA = "Guo et al. (2017), ICML", "Ovadia et al. (2019), NeurIPS 32"


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
    relevant_error: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Compare models on the same rows.

    Models are ranked by calibrated log-likelihood ("cll"), the log-likelihood at the best temperature. All scores are
    compared pair by pair with intervals and corrected p-values, and pitfalls of the comparison are reported as
    warnings.

    Parameters
    ----------
    predictions
        Models by name, or data sets by name with models by name in each. Rows are matched by `ids` if all models have
        them.
    scores : str or several, optional
        Metric specs, and "cll" and "brier_ts", which are computed at the best temperature. Scores that are not means
        over rows are ranked without pairs.
    rank_by : str, optional
        The score that ranks; by default "cll" if it is among the scores, else the first one.
    baseline : str, optional
        Compare every model with this one only.
    pool : str or predictions, optional
        Independently trained members, by name or as predictions; every model's deep-ensemble equivalent is the number
        of these members with the same calibrated log-likelihood.
    temperature : {"same", "clean"}
        "same": fit temperatures on the compared rows by test-time cross-validation. "clean": fit them on other rows,
        those given as `clean` or those with severity 0.
    clean : mapping, optional
        Clean predictions by model name.
    repeats : int
        Number of random splits into halves.
    draws : int
        Number of random orders of the pool's members.
    units : str, optional
        A column that identifies groups of dependent rows.
    shift : bool or (str, str)
        Compute the calibrated log-likelihood by type and severity of shift, from columns `shift` and `severity` or the
        named ones.
    flips : bool
        Report how ranks by TACE change with bins and threshold.
    level : float
        Confidence level of intervals.
    resamples : int
        Number of bootstrap resamples and of sign flips.
    relevant_error : float, optional
        The calibration error that matters in the verdict on each model, as in `evaluate`.
    seed : int
        Seed of everything random.
    threads : int, optional
        Number of threads; all cores by default.
    progress : callable, optional
        Called with a description, the work done and the total.

    Returns
    -------
    Evaluation
        One result per model with its `verdict` on calibration, which is that of `evaluate`, and `comparison` with
        `ranking`, `pairs`, `pair(first, second, score)`, `ranks` by every score and `equivalents`; pitfalls are in
        `warnings`.

    Examples
    --------
    >>> import calibrant as cal
    >>> labels = [0, 0, 1, 1, 0, 1]
    >>> sharp = cal.Classification.from_probs([0.1, 0.2, 0.8, 0.9, 0.6, 0.7], labels)
    >>> vague = cal.Classification.from_probs([0.4, 0.5, 0.6, 0.5, 0.6, 0.4], labels)
    >>> result = cal.compare({"sharp": sharp, "vague": vague}, "brier", resamples=100)
    >>> [item.model for item in result.comparison.ranking]
    ['sharp', 'vague']
    """
    columns = shift_columns(shift)
    settings = CompareSettings(
        score_names(scores), None if rank_by is None else score_name(rank_by), baseline, temperature, repeats, draws,
        units, level, resamples, seed, threads, relevant_error,
    )  # fmt: skip
    settings = check_settings(settings, clean, columns is not None)
    sets = data_sets(predictions)
    if len(sets) > 1 and pool is not None:
        check_common_pool(sets, pool)
    if flips:
        check_flips(sets)
    compared = {}
    if scores is None:
        compile_ahead(next(iter(next(iter(sets.values())).values())), COMPARISON, threads, progress)
    for position, (name, own_clean) in enumerate(clean_sets(clean, sets).items()):
        own_progress = _progress_within(progress, name, position, len(sets))
        compared[name] = _compare_set(sets[name], settings, pool, own_clean, columns, flips, own_progress)
    recorded: dict[str, Any] = {"shift": list(columns)} if columns else {}
    if len(sets) == 1:
        (only,) = compared.values()
        return _evaluation(compared, settings, recorded, only.comparison)
    over = over_datasets({name: item.comparison for name, item in compared.items()})
    return _evaluation(compared, settings, {"datasets": list(sets)} | recorded, over, guard_sets(sets))


@dataclass(frozen=True)
class _SetComparison:
    """The comparison on one data set."""

    comparison: Comparison
    results: tuple[Result, ...]
    inputs: tuple[dict[str, object], ...]
    notes: tuple[Note, ...]
    scores: tuple[str, ...]
    flips: RankFlips | None = None


def _compare_set(
    models: Models,
    settings: CompareSettings,
    pool: str | InMemory | None,
    clean: Models | None,
    columns: tuple[str, str] | None,
    flips: bool,
    progress: Progress | None,
) -> _SetComparison:
    """The comparison of the models of one data set."""
    given = models
    pool_name, with_the_pool = with_pool(models, pool)
    together, notes = aligned(with_the_pool)
    weights = next(iter(together.values())).weights
    if weights is not None and not weights.all():  # rows of weight 0 must not be split into halves
        together = {name: model[np.flatnonzero(weights)] for name, model in together.items()}
    whole = {name: together[name] for name in models}
    check_models(whole, settings)
    if settings.temperature == CLEAN and clean is None:
        together, at_zero = _clean_rows(together, columns)
        clean = {name: at_zero[name] for name in models}
    models = {name: together[name] for name in models}
    if clean is not None:
        check_clean(models, clean)
    scored = Scored(models, settings, clean if settings.temperature == CLEAN else None, progress)
    comparison = Comparison(
        rank_by=scored.rank_by,
        ranking=scored.ranks[scored.rank_by],
        pairs=scored.paired.pairs,
        ranks=scored.ranks,
        temperature=settings.temperature,
        splits={} if scored.splits is None else scored.splits.to_json(),
        temperatures={name: item.temperatures.tolist() for name, item in scored.calibrated.items()},
        best_temperature={name: item.temperature for name, item in scored.calibrated.items()},
        unstable=tuple(name for name in scored.calibrated if scored.unstable(name)),
        baseline=settings.baseline,
        pool=pool_name,
    )
    if pool_name is not None:
        comparison = equivalents_of(comparison, scored, together[pool_name], pool_name)
    if columns is not None:
        comparison = replace(comparison, shifted=_shifted_cll(whole, columns, settings, clean))
    setup = Setup(
        models=models, scores=scored.scores, rank_by=scored.rank_by, units=settings.units, shift=columns,
        pool=pool_name, clean=clean, comparison=comparison,
        pool_predictions=None if pool_name is None else together[pool_name],
    )  # fmt: skip
    input_notes = [
        replace(note, message=note.message if note.message.startswith(f"{name}:") else f"{name}: {note.message}")
        for name, model in models.items()
        for note in model.notes()
    ]
    fit_notes = [note for name in scored.calibrated for note in _bound_notes(scored, name)]
    if comparison.shifted and all(cell.clean != cell.clean for cell in comparison.shifted):
        text = "no rows of severity 0 and no clean predictions (--clean, clean=): likelihoods under shift only have"
        fit_notes.append(Note("no-clean-rows", f"{text} temperatures of the same rows", OVADIA))
    fit_notes += _instability_notes(comparison)
    judging = Settings(settings.level, seed=settings.seed, threads=settings.threads)
    verdicts = {}
    for place, (name, model) in enumerate(models.items()):
        scored.report(f"{name}: calibration", place)
        # in the order of its file, if all of its rows are compared, for the bits that `evaluate` stores
        judged = given[name] if given[name].n == model.n else model
        verdicts[name] = calibration_verdict(judged, judging, settings.units, settings.relevant_error)
    every_note = [*input_notes, *notes, *fit_notes, *scored.paired.notes, *guard(setup)]
    return _SetComparison(
        comparison,
        tuple(Result(name, scored.estimates(name), verdict=verdicts[name]) for name in models),
        tuple(describe_input(item) for item in models.values()),
        tuple(dict.fromkeys(every_note)),
        scored.scores,
        rank_flips(models, threads=settings.threads) if flips else None,
    )


def _instability_notes(comparison: Comparison) -> list[Note]:
    """A note on the models whose temperatures are unstable."""
    if not comparison.unstable:
        return []
    text = f"{listed(comparison.unstable)}: temperatures of half of the rows differ too much, or make the likelihood"
    hint = "compare by nll and brier, use more rows, or fit it on other rows (--temperature clean)"
    return [Note("unstable-temperature", f"{text} worse, so CLL cannot be relied on: {hint}", GUO)]


def _clean_rows(models: Models, columns: tuple[str, str] | None) -> tuple[dict[str, InMemory], dict[str, InMemory]]:
    """The shifted rows and the clean rows of every model, by severity."""
    name, hint = (columns or COLUMNS)[1], "use --clean NAME=FILE, clean={'NAME': predictions}"
    shifted, clean = {}, {}
    for key, model in models.items():
        if name not in model.info.columns:
            expected, got = f"clean predictions, or the column '{name}'", f"no such column in {model.name}"
            raise UsageError("temperature='clean'", expected=expected, got=got, hint=hint)
        at_zero = severities_of(model.column(name), name) == 0.0
        if not at_zero.any() or at_zero.all():
            got = f"{int(at_zero.sum())} of {model.n} rows of {model.name} with severity 0"
            raise UsageError("temperature='clean'", expected="clean and shifted rows", got=got, hint=hint)
        shifted[key], clean[key] = model[~at_zero], model[at_zero]
    return shifted, clean


def _shifted_cll(
    models: Models, columns: tuple[str, str], settings: CompareSettings, clean: Models | None
) -> tuple[ShiftedCll, ...]:
    """Every model at every type and severity of shift."""

    def mean(rows: np.ndarray, part: InMemory) -> float:
        moments = Moments()
        moments.add(rows, part.weights, None, spread=False)
        return moments.mean()

    kind, severity = columns
    first = next(iter(models.values()))
    levels = severities_of(first.column(severity), severity)
    kinds = np.where(levels == 0.0, "clean", first.column(kind).astype(str))
    out = []
    for name, model in models.items():
        at_zero = model[levels == 0.0] if (levels == 0.0).any() else None
        fitted = at_zero if clean is None else clean[name]
        for level, shift in sorted({(float(s), str(k)) for s, k in zip(levels, kinds, strict=True)}):
            part = model[(levels == level) & (kinds == shift)]
            (nll,) = score_rows(part, RAW, threads=settings.threads).values()
            codes, same = unit_codes(part, settings.units), None  # None if a cell cannot be split
            if (part.n if codes is None else int(codes.max()) + 1) > 1:
                splits = splits_of(part.n, repeats=settings.repeats, seed=settings.seed, units=codes)
                same = calibrated(with_classes(part), splits, settings.threads)
            by_clean = same if level == 0.0 else None
            if level != 0.0 and fitted is not None:
                by_clean = calibrated_by(with_classes(part), with_classes(fitted), settings.threads)
            both = (same, by_clean)
            values = (math.nan if item is None else mean(item.log_likelihood, part) for item in both)
            temperatures = (math.nan if item is None else item.temperature for item in both)
            out.append(ShiftedCll(name, shift, level, part.n, -mean(nll, part), *values, *temperatures))
    return tuple(out)


def _evaluation(
    compared: Mapping[str, _SetComparison],
    settings: CompareSettings,
    extra_settings: dict[str, Any],
    comparison: Comparison,
    set_notes: tuple[Note, ...] = (),
) -> Evaluation:
    results, inputs, notes = [], [], list(set_notes)
    several = len(compared) > 1
    for name, item in compared.items():
        before = f"{name}/" * several
        results += [replace(result, input=before + result.input) for result in item.results]
        inputs += [{**facts, "name": before + str(facts["name"])} for facts in item.inputs]
        notes += [replace(note, message=f"{name}: {note.message}" if several else note.message) for note in item.notes]
    if comparison.summary is not None:
        notes += left_out_notes(comparison.summary)
    first = next(iter(compared.values()))
    recorded = {
        "command": "compare", "metrics": list(first.scores), "rank_by": comparison.rank_by,
        "baseline": settings.baseline, "pool": comparison.pool, "temperature": settings.temperature,
        "repeats": settings.repeats, "draws": settings.draws, "units": settings.units, "level": settings.level,
        "resamples": settings.resamples, "seed": settings.seed, "by": [],
    }  # fmt: skip
    if settings.relevant_error is not None:
        recorded["relevant_error"] = settings.relevant_error
    return Evaluation(
        version=__version__, settings=recorded | extra_settings, inputs=tuple(inputs), results=tuple(results),
        warnings=tuple(dict.fromkeys(notes)), comparison=comparison, flips=None if several else first.flips,
        flips_by={name: item.flips for name, item in compared.items() if several and item.flips is not None},
        kind=COMPARISON,
    )  # fmt: skip


def _progress_within(progress: Progress | None, name: str, position: int, total: int) -> Progress | None:
    """Progress of one data set among several."""
    if progress is None or total == 1:
        return progress

    def report(what: str, done: float, of: float) -> None:
        progress(f"{name}: {what}", position + done / max(of, 1.0), total)

    return report


def _bound_notes(scored: Scored, name: str) -> list[Note]:
    """A note if temperatures end at their bound, with the reason: impossible labels, or halves without an error."""
    temperatures = scored.calibrated[name].temperatures
    low, high = int((temperatures == LEAST).sum()), int((temperatures == BOUND).sum())
    if not low + high:
        return []
    ends = "1/64 or 64" if low and high else "64" if high else "1/64"
    text = f"{name}: in {low + high} of {temperatures.size} fits the temperature ends at {ends}"
    rows = scored.models[name] if scored.clean is None else scored.clean[name]
    nll, hits = score_rows(rows, [RAW, with_role("hit_rate")[0]], threads=scored.settings.threads).values()
    effect = "so this bound determines the calibrated likelihood"
    if impossible := int(np.isposinf(nll).sum()):
        labels = f"{impossible} labels of {rows.n} have" if impossible > 1 else f"one label of {rows.n} has"
        text += f", {effect}: {labels} probability 0 at any temperature; give every class a positive probability"
    else:
        half = np.zeros((1, rows.n)) if scored.splits is None else scored.splits.half
        at = np.argwhere(temperatures == LEAST)
        all_correct = len(at) and all((hits[half[repeat] == part] == 1.0).all() for repeat, part in at)
        text += " (every row that it is fitted on is correct)" if all_correct else ""
        text += f", {effect}: use more rows, or fit it on other rows (--temperature clean)"
    return [Note("temperature-at-bound", text, GUO)]
