"""The scores of models on the same rows: by row, as ranks and as paired differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.comparison.cross_validation import SAME, Calibrated, calibrated, calibrated_by
from calibrant.comparison.paired import Paired, paired, snapped
from calibrant.comparison.split_temperatures import REPEATS, Splits, splits_of, unit_codes
from calibrant.errors import NotApplicable, UsageError, did_you_mean, show
from calibrant.pipeline.evaluate import EvaluateOptions, run_evaluation
from calibrant.pipeline.measure import score_rows
from calibrant.predictions import Classification, InMemory, Judged, Regression
from calibrant.recalibration.temperature_solver import BOUND
from calibrant.registry import lookup
from calibrant.registry.comparison_scores import CALIBRATED
from calibrant.registry.estimate import Estimate
from calibrant.registry.state.accumulators import Moments
from calibrant.results.comparison import Ranked, better_when_higher

CLL, BRIER_TS = CALIBRATED
MAX_SPREAD = 1.5
"""The ratio of the quartiles of the temperatures of halves above which a fit is unstable."""
MAX_LOSS = 0.05
"""The share of the likelihood that a fitted temperature may cost before it counts as unstable."""
DEFAULT = "default"
"""The name of the default scores of the task, among other scores."""
Models = Mapping[str, InMemory]
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class CompareSettings:
    """The settings of a comparison."""

    scores: tuple[str, ...] | None = None
    rank_by: str | None = None
    baseline: str | None = None
    temperature: str = SAME
    repeats: int = REPEATS
    draws: int = 10
    units: str | None = None
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0
    threads: int | None = None
    relevant_error: float | None = None


def score_name(text: str) -> str:
    """The canonical form of a score."""
    if text.strip() in (*CALIBRATED, DEFAULT):
        return text.strip()
    name = text.partition("(")[0].strip()
    if name not in lookup.metrics():
        hint = "use cll, nll, brier or accuracy"
        hint = did_you_mean(name, [*CALIBRATED, *lookup.metrics()]) if len(name) > 2 else hint
        raise UsageError("scores", expected="the name of a score", got=show(text), hint=hint)
    return lookup.parse(text).text


def with_classes(model: InMemory) -> Classification | Judged:
    """The model itself; regression, to which no temperature applies, is refused."""
    if isinstance(model, Regression):
        expected = "classification or judged predictions, which have a temperature"
        raise UsageError(model.name, expected=expected, got="regression predictions", hint="use nll, crps or dss")
    return model


def _unsupported(score: str, model: InMemory) -> str:
    """Why predictions do not support a score; empty if they do."""
    spec = lookup.parse(score)
    reason = spec.metric.unsupported_reason(spec, model)
    return reason.text if reason else ""


def _refusal(name: str, score: str, why: str) -> NotApplicable:
    return NotApplicable(f"{name}: {score}", expected="predictions that support it", got=why, hint="omit it")


class Scored:
    """The scores of every model on one set of rows: by row if the score is a mean over rows, else as values."""

    def __init__(
        self, models: Models, settings: CompareSettings, clean: Models | None = None, progress: Progress | None = None
    ) -> None:
        self.models, self.settings, self.clean, self.progress = models, settings, clean, progress
        self.first = next(iter(models.values()))
        names = settings.scores or (DEFAULT,)
        defaults = self._default_scores() if DEFAULT in names else ()
        self.scores = tuple(dict.fromkeys(s for name in names for s in (defaults if name == DEFAULT else (name,))))
        self.rank_by = settings.rank_by or (CLL if CLL in self.scores else self.scores[0])
        if self.rank_by not in self.scores:
            self.scores = (*self.scores, self.rank_by)

    def _default_scores(self) -> tuple[str, ...]:
        """The default scores of the task that all models support; without a confidence, those that need none."""
        if not all(getattr(model, "has_confidence", True) for model in self.models.values()):
            names = lookup.with_role("comparison", self.first.task)
            return tuple(name for name in names if not lookup.find(name).needs_confidence)
        if self.first.task in ("classification", "judged"):
            return lookup.compared_by_default(self.first.task)

        def is_supported(name: str) -> bool:
            return not any(_unsupported(name, model) for model in self.models.values())

        supported = [name for name in lookup.compared_by_default(self.first.task) if is_supported(name)]
        at_own_levels, *at_shared_levels = lookup.with_role("quantile_score")
        levels: list[Any] = [getattr(model, "levels", None) for model in self.models.values()]
        if all(own is not None and np.array_equal(own, levels[0]) for own in levels):
            supported.append(at_own_levels)
        elif any(own is not None for own in levels):
            supported += [name for name in at_shared_levels if is_supported(name)][:1]
        if not supported:
            expected, hint = "a default score that all models support", "name one, such as --scores 'pinball(levels=9)'"
            raise UsageError("compare", expected=expected, got="none", hint=hint)
        return tuple(supported)

    @cached_property
    def units(self) -> np.ndarray | None:
        """The number (N,) of the unit of each row."""
        return unit_codes(self.first, self.settings.units)

    @cached_property
    def splits(self) -> Splits | None:
        """The halves, if temperatures are fitted on the same rows."""
        if self.settings.temperature != SAME or not set(CALIBRATED) & set(self.scores):
            return None
        return splits_of(self.first.n, repeats=self.settings.repeats, seed=self.settings.seed, units=self.units)

    @cached_property
    def calibrated(self) -> dict[str, Calibrated]:
        """Every model at temperatures fitted on rows that they do not score."""
        if not set(CALIBRATED) & set(self.scores):
            return {}
        out = {}
        for place, (name, model) in enumerate(self.models.items()):
            self.report(f"{name}: temperatures", place)
            if self.splits is not None:
                out[name] = calibrated(with_classes(model), self.splits, self.settings.threads)
            elif self.clean is not None:
                out[name] = calibrated_by(with_classes(model), with_classes(self.clean[name]), self.settings.threads)
        return out

    def unstable(self, name: str) -> bool:
        """Whether the halves are too small to fit a temperature: fits differ, end at a bound or lower the CLL."""
        item = self.calibrated[name]
        if self.splits is None:
            return False
        low, high = np.quantile(item.temperatures, [0.25, 0.75])
        means = []
        for rows in (item.before, item.log_likelihood):
            moments = Moments()
            moments.add(rows, self.first.weights, None, spread=False)
            means.append(moments.mean())
        before, after = means
        at_bound = low <= 1.0 / BOUND or high >= BOUND
        return bool(at_bound or high > MAX_SPREAD * low or before - after > MAX_LOSS * -before)

    @cached_property
    def rows(self) -> dict[str, dict[str, np.ndarray]]:
        """Score → model → (N,), for scores that are means over rows."""
        out: dict[str, dict[str, np.ndarray]] = {}
        for score in self.scores:
            if score == CLL:
                out[score] = {name: item.log_likelihood for name, item in self.calibrated.items()}
            elif score == BRIER_TS:
                out[score] = {name: item.brier for name, item in self.calibrated.items()}
            elif self._is_mean_over_rows(score):
                out[score] = {name: self._score(model, score) for name, model in self.models.items()}
        return out

    def _score(self, model: InMemory, score: str) -> np.ndarray:
        (rows,) = score_rows(model, score, threads=self.settings.threads).values()
        return rows

    def _is_mean_over_rows(self, score: str) -> bool:
        """Whether a metric is a mean over rows; one that a model does not support is refused."""
        for model in self.models.values():
            if reason := _unsupported(score, model):
                raise _refusal(model.name, score, reason)
        try:
            self._score(self.first[np.arange(min(self.first.n, 2))], score)
        except NotApplicable:
            return False
        return True

    def report(self, what: str, place: int) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(what, place, len(self.models))

    @cached_property
    def paired(self) -> Paired:
        """Pairs and ranks by every score that is a mean over rows."""
        if not self.rows:
            return Paired(())
        self.report("paired differences", len(self.models))
        a = self.settings
        return paired(
            self.rows, weights=self.first.weights, units=self.units, level=a.level, resamples=a.resamples, seed=a.seed,
            baseline=a.baseline, threads=a.threads,
        )  # fmt: skip

    @cached_property
    def ranks_by_value(self) -> dict[str, tuple[Ranked, ...]]:
        """Ranks by scores that are not means over rows, without pairs or a probability of being best."""
        out = {}
        for score in self.scores:
            if score in self.rows:
                continue
            s = self.settings
            options = EvaluateOptions(
                units=s.units, level=s.level, resamples=min(s.resamples, 1000), seed=s.seed, threads=s.threads,
                curves=False, worst_rows=0,
            )  # fmt: skip
            results = run_evaluation(dict(self.models), [score], options).results
            values = {result.input: result.metrics[score] for result in results if score in result.metrics}
            if len(values) < len(self.models):
                skipped = {result.input: result.skipped.get(score) for result in results}
                name, why = next((name, why) for name, why in skipped.items() if why)
                raise _refusal(name, score, str(why))
            sign = -1.0 if better_when_higher(score) else 1.0
            signed = np.array([math.inf if math.isnan(e.value) else sign * e.value for e in values.values()])
            keys = dict(zip(values, snapped(signed).tolist(), strict=True))
            ranked = []
            for name in sorted(keys, key=lambda name: keys[name]):
                rank = 1 + sum(other < keys[name] for other in keys.values())
                e = values[name]
                ranked.append(Ranked(name, rank, e.value, e.low, e.high, rank, rank, math.nan))
            out[score] = tuple(ranked)
        return out

    @property
    def ranks(self) -> dict[str, tuple[Ranked, ...]]:
        """By every score, in the order in which they are named."""
        ranks = {**self.paired.ranks, **self.ranks_by_value}
        return {score: ranks[score] for score in self.scores}

    def estimates(self, name: str) -> dict[str, Estimate]:
        """Every score of a model with its interval."""
        out = {}
        for score, ranked in self.ranks.items():
            own = next(item for item in ranked if item.model == name)
            level = self.settings.level if math.isfinite(own.low) else math.nan
            hit_rate = score == lookup.with_role("hit_rate")[0]
            method = "resampled" if score not in self.rows else "wilson" if hit_rate else "studentised"
            method = "none" if math.isnan(own.low) else method
            out[score] = Estimate(own.value, self.first.n, own.low, own.high, level, method)
        return out
