"""One comparison: models of the same rows, their scores row by row, ranks, pairs and equivalents."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.comparison.calibrated import SAME, Calibrated, calibrated, calibrated_by
from calibrant.comparison.paired import Paired, paired
from calibrant.comparison.records import Ranked, better_when_higher
from calibrant.comparison.splits import REPEATS, Splits, splits_of
from calibrant.errors import NotApplicable, UsageError, did_you_mean, show
from calibrant.evaluation.evaluate import evaluate, score_rows
from calibrant.evaluation.improvement import LEVELS
from calibrant.predictions import Classification, InMemory, Judged, Regression
from calibrant.registry.estimate import Estimate

CLL, BRIER_TS = "cll", "brier_ts"
CALIBRATED = (CLL, BRIER_TS)
"""Scores at the best temperature, which are no metrics of the registry: they need rows to fit it on."""
USUAL = "default"
"""What stands for the usual scores of the task, beside others."""
CLASSES = (CLL, "nll", BRIER_TS, "brier", "accuracy")
NUMBERS = ("nll", "crps", "dss", "mse")
Models = Mapping[str, InMemory]
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Asked:
    """How models are compared."""

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


def score_name(text: str) -> str:
    """One score in its canonical form."""
    if text.strip() in (*CALIBRATED, USUAL):
        return text.strip()
    name = text.partition("(")[0].strip()
    if name not in registry.metrics():
        known = [*CALIBRATED, *registry.metrics()]
        do = did_you_mean(name, known) if len(name) > 2 else "cll, nll, brier or accuracy are usual"
        raise UsageError("scores", expected="a score that there is", came=f"got {show(text)}", do=do)
    return registry.parse(text).text


def of_classes(model: InMemory) -> Classification | Judged:
    """The same, where it has a likelihood that a temperature can change."""
    if isinstance(model, Regression):
        raise UsageError(
            model.name, expected="classes or judged answers, which have a temperature", came="these are numbers",
            do="nll, crps and dss compare numbers",
        )  # fmt: skip
    return model


class Scored:
    """The scores of every model of one set of rows: by row where a score is their mean, else as values."""

    def __init__(
        self, models: Models, asked: Asked, clean: Models | None = None, progress: Progress | None = None
    ) -> None:
        self.models, self.asked, self.clean, self.progress = models, asked, clean, progress
        self.first = next(iter(models.values()))
        named = asked.scores or (USUAL,)
        usual = self._usual() if USUAL in named else ()
        self.scores = tuple(dict.fromkeys(s for name in named for s in (usual if name == USUAL else (name,))))
        self.rank_by = asked.rank_by or (CLL if CLL in self.scores else self.scores[0])
        if self.rank_by not in self.scores:
            self.scores = (*self.scores, self.rank_by)

    def _usual(self) -> tuple[str, ...]:
        """The usual scores of the task that all models can give."""
        if self.first.task in ("classification", "judged"):
            return CLASSES
        able = [name for name in NUMBERS if self._able(name)]
        levels: list[Any] = [getattr(model, "levels", None) for model in self.models.values()]
        if all(own is not None and np.array_equal(own, levels[0]) for own in levels):
            able.append("pinball")
        elif any(own is not None for own in levels):
            able += [name for name in LEVELS if self._able(name)][:1]
        if not able:
            raise UsageError(
                "compare",
                expected="a score that all models can give",
                came="there is none",
                do="name one with `scores`, as pinball(levels=9)",
            )
        return tuple(able)

    def _able(self, name: str) -> bool:
        """Whether all models can give a score."""
        spec = registry.parse(name)
        return not any(spec.metric.lacks(spec, model) for model in self.models.values())

    # --------------------------------------------------------------------------------------- rows
    @cached_property
    def units(self) -> np.ndarray | None:
        """The number (N,) of each row's unit."""
        if self.asked.units is None:
            return None
        return np.unique(self.first.column(self.asked.units), return_inverse=True)[1].ravel()

    @cached_property
    def splits(self) -> Splits | None:
        """The halves, where temperatures are those of the same rows."""
        if self.asked.temperature != SAME or not set(CALIBRATED) & set(self.scores):
            return None
        return splits_of(self.first.n, repeats=self.asked.repeats, seed=self.asked.seed, units=self.units)

    @cached_property
    def calibrated(self) -> dict[str, Calibrated]:
        """Every model at temperatures that were fitted on other rows."""
        if not set(CALIBRATED) & set(self.scores):
            return {}
        out = {}
        for place, (name, model) in enumerate(self.models.items()):
            self.tell(f"{name}: temperatures", place)
            if self.splits is not None:
                out[name] = calibrated(of_classes(model), self.splits, self.asked.threads)
            elif self.clean is not None:
                out[name] = calibrated_by(of_classes(model), of_classes(self.clean[name]), self.asked.threads)
        return out

    @cached_property
    def rows(self) -> dict[str, dict[str, np.ndarray]]:
        """Score → model → (N,), of scores that are means over rows."""
        out: dict[str, dict[str, np.ndarray]] = {}
        for score in self.scores:
            if score == CLL:
                out[score] = {name: found.log_likelihood for name, found in self.calibrated.items()}
            elif score == BRIER_TS:
                out[score] = {name: found.brier for name, found in self.calibrated.items()}
            elif self._of_rows(score):
                out[score] = {name: self._score(model, score) for name, model in self.models.items()}
        return out

    def _score(self, model: InMemory, score: str) -> np.ndarray:
        (found,) = score_rows(model, score, threads=self.asked.threads).values()
        return found

    def _of_rows(self, score: str) -> bool:
        """Whether a metric is a mean over rows; one that a model cannot give is refused."""
        for model in self.models.values():
            spec = registry.parse(score)
            reason = spec.metric.lacks(spec, model)
            if reason:
                raise NotApplicable(
                    f"{model.name}: {score}", expected="predictions that can give it", came=reason, do="leave it out"
                )
        try:
            self._score(self.first[np.arange(min(self.first.n, 2))], score)
        except NotApplicable:
            return False
        return True

    def tell(self, what: str, place: int) -> None:
        """Say what is being done."""
        if self.progress is not None:
            self.progress(what, place, len(self.models))

    # ------------------------------------------------------------------------------------- results
    @cached_property
    def paired(self) -> Paired:
        """Pairs and ranks by every score that is a mean over rows."""
        if not self.rows:
            return Paired(())
        self.tell("paired differences", len(self.models))
        a = self.asked
        return paired(
            self.rows, weights=self.first.weights, units=self.units, level=a.level, resamples=a.resamples, seed=a.seed,
            baseline=a.baseline, threads=a.threads,
        )  # fmt: skip

    @cached_property
    def beside(self) -> dict[str, tuple[Ranked, ...]]:
        """Ranks by scores that are no means over rows: values, without pairs or a probability of being best."""
        out = {}
        for score in self.scores:
            if score in self.rows:
                continue
            a = self.asked
            found = evaluate(
                dict(self.models), [score], units=a.units, level=a.level, resamples=min(a.resamples, 1000), seed=a.seed,
                threads=a.threads, curves=False, rows=0,
            )  # fmt: skip
            values = {result.input: result.metrics[score] for result in found.results if score in result.metrics}
            if len(values) < len(self.models):
                lost = {result.input: result.skipped.get(score, "") for result in found.results}
                name, why = next((name, why) for name, why in lost.items() if why)
                raise NotApplicable(
                    f"{name}: {score}", expected="predictions that can give it", came=why, do="leave it out"
                )
            out[score] = _by_value(score, values)
        return out

    @property
    def ranks(self) -> dict[str, tuple[Ranked, ...]]:
        """By every score, in the order in which they were named."""
        found = {**self.paired.ranks, **self.beside}
        return {score: found[score] for score in self.scores}

    def estimates(self, name: str) -> dict[str, Estimate]:
        """Every score of a model with its interval."""
        out = {}
        for score, ranked in self.ranks.items():
            found = next(item for item in ranked if item.model == name)
            level = self.asked.level if math.isfinite(found.low) else math.nan
            out[score] = Estimate(found.value, self.first.n, found.low, found.high, level, self._method(score, found))
        return out

    def _method(self, score: str, found: Ranked) -> str:
        if math.isnan(found.low):
            return "none"
        return "resampled" if score not in self.rows else "wilson" if score == "accuracy" else "studentised"


def _by_value(score: str, values: Mapping[str, Estimate]) -> tuple[Ranked, ...]:
    sign = -1.0 if better_when_higher(score) else 1.0
    keys = {name: math.inf if math.isnan(e.value) else sign * e.value for name, e in values.items()}
    out = []
    for name in sorted(keys, key=lambda name: keys[name]):
        rank = 1 + sum(other < keys[name] for other in keys.values())
        e = values[name]
        out.append(Ranked(name, rank, e.value, e.low, e.high, rank, rank, math.nan))
    return tuple(out)
