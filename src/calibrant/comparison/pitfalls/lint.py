"""`lint`: find the pitfalls of a comparison, from predictions or from a stored evaluation, without computing scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from calibrant.comparison.pitfalls import PITFALLS, Setup, guard, guard_sets
from calibrant.comparison.validation import in_memory
from calibrant.errors import UsageError, did_you_mean, plain, show
from calibrant.pipeline.evaluate import inputs_of
from calibrant.pipeline.select_metrics import Input
from calibrant.predictions import InMemory
from calibrant.predictions.base import Note
from calibrant.registry import lookup
from calibrant.registry.comparison_scores import CALIBRATED
from calibrant.render.references import CURVES
from calibrant.results.evaluation import COMPARISON, SCHEMA, Evaluation, task_of
from calibrant.version import __version__

Given = Input | Mapping[str, Input] | Iterable[Input]
Models = Mapping[str, InMemory]


@dataclass(frozen=True, repr=False)
class Lint:
    """The pitfalls of a comparison; iterate over its notes.

    Like a list, it is true if there is at least one note; `clean` is true if there is none.
    """

    notes: tuple[Note, ...]

    @property
    def clean(self) -> bool:
        """Whether no pitfall was found."""
        return not self.notes

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the pitfalls, each once."""
        return tuple(dict.fromkeys(note.code for note in self.notes))

    def __iter__(self) -> Iterator[Note]:
        return iter(self.notes)

    def __len__(self) -> int:
        return len(self.notes)

    def to_json(self) -> dict[str, Any]:
        """`warnings` as in an evaluation file."""
        return {"schema": SCHEMA, "version": __version__, "warnings": [vars(note) for note in self.notes]}

    def __str__(self) -> str:
        if self.clean:
            return "no pitfall was found"
        return "\n".join(plain(f"{note.code}: {note.message} [{note.reference}]", 2000) for note in self.notes)

    def __repr__(self) -> str:
        return f"Lint({', '.join(self.codes) or 'clean'})"


def lint(
    what: Given | Mapping[str, Given] | Evaluation,
    *,
    scores: str | Iterable[str] | None = None,
    curves: str | Iterable[str] | None = None,
    rank_by: str | None = None,
    units: str | None = None,
    pool: str | InMemory | None = None,
    clean: Mapping[str, Any] | None = None,
) -> Lint:
    """Find the pitfalls of a comparison (see docs/pitfalls.md); a pitfall never raises an error.

    A stored evaluation has no predictions. If it holds a comparison, its settings, its notes and the significance of
    the best two models are used. Several inputs of `evaluate` are not a comparison: only metrics named there or here,
    and curves named here, are examined.

    Parameters
    ----------
    what
        Models by name, data sets by name with models by name in each, or an evaluation.
    scores : str or several, optional
        The scores that models are compared by: metric specs, "cll", "brier_ts", or names of curves. By default those
        of `compare`.
    curves : str or several, optional
        Names of curves that models are compared by, such as "accuracy_confidence".
    rank_by : str, optional
        The score that ranks; by default the first one.
    units : str, optional
        A column that identifies groups of dependent rows.
    pool : str or predictions, optional
        The pool of members for deep-ensemble equivalents, by name or as predictions.
    clean : mapping, optional
        By model (and by data set, if there are several), the rows that fit the temperature.

    Returns
    -------
    Lint
        The pitfalls, each with a code, a message and a reference.

    Examples
    --------
    >>> import calibrant as cal
    >>> one = cal.Classification.from_probs([0.1, 0.4, 0.8, 0.9], [0, 0, 1, 1])
    >>> two = cal.Classification.from_probs([0.2, 0.3, 0.6, 0.7], [0, 0, 1, 1])
    >>> cal.comparison.lint({"one": one, "two": two}, scores="cll,ece").codes
    ('biased-errors',)
    """
    named = lookup.split(scores) if isinstance(scores, str) else None if scores is None else list(scores)
    drawn = lookup.split(curves) if isinstance(curves, str) else list(curves or ())
    for text in drawn:
        if _base(text) not in CURVES:
            hint = did_you_mean(_base(text), CURVES)
            raise UsageError("curves", expected="the name of a curve", got=show(text), hint=hint)
    if named is not None:  # a name among the scores may be that of a curve
        only = [text for text in named if _base(text) in CURVES and _base(text) not in lookup.metrics()]
        drawn, named = [*drawn, *only], [text for text in named if text not in only]
    compared_by, ranked_by = _score_names(named), _score_name(rank_by) if rank_by else ""
    drawn = list(dict.fromkeys(text.strip() for text in drawn))
    if isinstance(what, Evaluation):
        if clean is not None or not (pool is None or isinstance(pool, str)):
            raise UsageError("lint", expected="an evaluation alone", got="predictions as well", hint="omit them")
        return _lint_evaluation(what, compared_by, tuple(drawn), ranked_by, units, pool)

    def pitfalls_of(models: Models, clean: Mapping[str, Input] | None) -> tuple[Note, ...]:
        if isinstance(pool, str) and pool not in models:
            hint = did_you_mean(pool, models)
            raise UsageError("pool", expected="the name of a model", got=show(pool), hint=hint)
        names = compared_by
        if names is None:
            is_regression = any(model.task == "regression" for model in models.values())
            names = () if is_regression else lookup.compared_by_default("classification")
        return guard(
            Setup(
                models=models, scores=names, rank_by=ranked_by or next(iter(names), ""), units=units,
                pool=pool if pool is None or isinstance(pool, str) else "pool", curves=tuple(drawn),
                clean=None if clean is None else {name: in_memory(item, "lint") for name, item in clean.items()},
                pool_predictions=None if isinstance(pool, str) else pool,
            )
        )  # fmt: skip

    if not (isinstance(what, Mapping) and what and all(isinstance(models, Mapping) for models in what.values())):
        return Lint(pitfalls_of(_models(what), clean))
    sets = {str(name): _models(models) for name, models in what.items()}
    if len(sets) == 1:
        return Lint(pitfalls_of(next(iter(sets.values())), clean))
    if not (pool is None or isinstance(pool, str)):
        expected, hint = "the name of a model of every data set", "use pool='NAME'"
        raise UsageError("pool", expected=expected, got="predictions", hint=hint)
    notes: list[Note] = []
    for name, models in sets.items():
        if clean is not None and not isinstance(clean.get(name), Mapping):
            got = f"none of {show(name)}"
            hint = "give them by data set: {data set: {model: predictions}}"
            raise UsageError("clean", expected="clean rows of every data set", got=got, hint=hint)
        own = pitfalls_of(models, None if clean is None else clean[name])
        notes += [replace(note, message=f"{name}: {note.message}") for note in own]
    return Lint((*notes, *guard_sets(sets)))


def _models(predictions: Any) -> Models:
    return {item.name: in_memory(item, "lint") for item in inputs_of(predictions, "lint")}


def _lint_evaluation(
    evaluation: Evaluation,
    named: tuple[str, ...] | None,
    curves: tuple[str, ...],
    rank_by: str,
    units: str | None,
    pool: str | None,
) -> Lint:
    settings = evaluation.settings
    comparison = evaluation.comparison if evaluation.kind == COMPARISON else None
    requested = settings.get("metrics", ())
    if named is None:
        named = _score_names(None if requested in ("default", "all", ["all"]) else requested) or ()
    shifted = "shift" in settings and comparison is None  # inputs are one model under shift
    before = tuple(note for note in evaluation.warnings if note.code in PITFALLS)
    setup = Setup(
        scores=() if shifted else named,
        rank_by=rank_by or ("" if comparison is None else comparison.rank_by),
        units=settings.get("units") if units is None else units,
        pool=comparison.pool if pool is None and comparison is not None else pool,
        comparison=comparison,
        curves=() if shifted else curves,
        members={str(item["name"]): 1 for item in evaluation.inputs},  # `compare` examined the members
        task="regression" if any(task_of(item) == "regression" for item in evaluation.inputs) else "classification",
    )
    added = [note for note in guard(setup) if note.code not in {each.code for each in before}]
    return Lint((*before, *added))


def _base(text: str) -> str:
    return text.partition("(")[0].strip()


def _score_names(scores: Any) -> tuple[str, ...] | None:
    if scores is None:
        return None
    named = lookup.split(scores) if isinstance(scores, str) else list(scores)
    return tuple(dict.fromkeys(_score_name(text) for text in named if text.strip() != "all"))


def _score_name(text: str) -> str:
    """The canonical form of a score."""
    return text.strip() if text.strip() in CALIBRATED else lookup.parse(text).text
