"""`lint`: the pitfall guard alone, over predictions or over a stored evaluation; it computes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from calibrant import registry
from calibrant.comparison.pitfalls import PITFALLS, Setup, guard, guard_sets
from calibrant.comparison.setup import CALIBRATED
from calibrant.errors import UsageError, did_you_mean, plain, show
from calibrant.evaluation.choosing import Input
from calibrant.evaluation.evaluate import inputs_of, version
from calibrant.evaluation.result import SCHEMA, Evaluation
from calibrant.predictions import Detection, InMemory
from calibrant.predictions.base import Note
from calibrant.predictions.files.stream import Stream

USUAL = ("cll", "nll", "brier_ts", "brier", "accuracy")
"""What classes are compared by where nothing is named."""
CURVES = (
    "reliability", "corp", "confidence", "entropy", "mutual_information", "accuracy_confidence", "rejection",
    "risk_coverage", "avu", "pit", "calibration", "central_coverage", "width", "functions", "scores", "mix",
)  # fmt: skip
"""Names of the curves of an evaluation; that of a metric too means the metric, where scores are named."""
Given = Input | Mapping[str, Input] | Iterable[Input]
Models = Mapping[str, InMemory]


@dataclass(frozen=True)
class Lint:
    """The pitfalls that were met; iterate over its notes. Like a list it is true where there is one: ask `clean`."""

    notes: tuple[Note, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
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
        return {"schema": SCHEMA, "version": version(), "warnings": [vars(note) for note in self.notes]}

    def __str__(self) -> str:
        if self.clean:
            return "no pitfall was found"
        return "\n".join(plain(f"{note.code}: {note.message} [{note.reference}]", 2000) for note in self.notes)

    __repr__ = __str__


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
    """What a comparison of these models would rest on and must not; see docs/pitfalls.md. A pitfall is never an error.

    what: models by name, data sets by name with models by name in each, or an evaluation. scores: what models are
    compared by, spec strings, cll and brier_ts, or names of curves; those that `compare` takes by default. curves:
    names of curves that models are compared by, such as `accuracy_confidence`. rank_by: the first of the scores by
    default. units: a column of dependent rows. pool: the members that equivalents are counted in, by name or as
    predictions. clean: by model (of several data sets in each), rows that fit a temperature.

    Of an evaluation the predictions are not at hand. One with a comparison tells what it was made by, what it had
    noticed and whether the best two differ. Several inputs of `evaluate` are not yet compared models: only metrics that
    were named there, or here, are looked at, and only curves that are named here.
    """
    named, drawn = _told_apart(scores, curves)
    by = _By(named, drawn, _name(rank_by) if rank_by else None, units)
    if isinstance(what, Evaluation):
        if clean is not None or not (pool is None or isinstance(pool, str)):
            raise UsageError("lint", expected="names beside an evaluation", came="got predictions", do="leave them out")
        return _of_evaluation(what, by, pool)
    sets = _data_sets(what)
    if len(sets) == 1:
        return Lint(guard(_setup(next(iter(sets.values())), by, pool, clean)))
    return _of_sets(sets, by, pool, clean)


def _of_sets(sets: dict[str, Models], by: _By, pool: str | InMemory | None, clean: Mapping[str, Any] | None) -> Lint:
    """Data sets one by one, and together."""
    if not (pool is None or isinstance(pool, str)):
        raise UsageError("pool", expected="the name of a model of every data set", came="got predictions", do="name it")
    notes: list[Note] = []
    for name, models in sets.items():
        if clean is not None and not isinstance(clean.get(name), Mapping):
            came = f"there are none of {show(name)}"
            raise UsageError("clean", expected="clean rows of every data set", came=came, do="give them by data set")
        found = guard(_setup(models, by, pool, None if clean is None else clean[name]))
        notes += [replace(note, message=f"{name}: {note.message}") for note in found]
    return Lint((*notes, *guard_sets(sets)))


@dataclass(frozen=True)
class _By:
    """What models are compared by."""

    scores: tuple[str, ...] | None
    curves: tuple[str, ...]
    rank_by: str | None
    units: str | None


def _data_sets(what: Any) -> dict[str, Models]:
    """Models by name, in each data set by name; one set has no name."""
    if isinstance(what, Mapping) and what and all(isinstance(models, Mapping) for models in what.values()):
        return {str(name): _models(models) for name, models in what.items()}
    return {"": _models(what)}


def _models(given: Any) -> Models:
    return {item.name: _read(item) for item in inputs_of(given, "lint")}


def _setup(models: Models, by: _By, pool: str | InMemory | None, clean: Mapping[str, Input] | None) -> Setup:
    if isinstance(pool, str) and pool not in models:
        do = did_you_mean(pool, models)
        raise UsageError("pool", expected="the name of a model", came=f"got {show(pool)}", do=do)
    named = by.scores
    if named is None:
        named = () if any(model.task == "regression" for model in models.values()) else USUAL
    apart = None if pool is None or isinstance(pool, str) else pool
    return Setup(
        models=models,
        scores=named,
        rank_by=by.rank_by or next(iter(named), ""),
        units=by.units,
        pool=pool if isinstance(pool, str) else None if apart is None else "pool",
        clean=None if clean is None else {name: _read(item) for name, item in clean.items()},
        curves=by.curves,
        pool_predictions=apart,
    )


def _of_evaluation(found: Evaluation, by: _By, pool: str | None) -> Lint:
    settings, comparison, named = found.settings, found.comparison, by.scores
    given = settings.get("metrics", ())
    if named is None:
        named = _named(None if given in ("default", "all", ["all"]) else given) or ()
    shifted = "shift" in settings and comparison is None  # inputs are one model under shift
    before = tuple(note for note in found.warnings if note.code in PITFALLS)
    setup = Setup(
        scores=() if shifted else named,
        rank_by=by.rank_by or ("" if comparison is None else comparison.rank_by),
        units=settings.get("units") if by.units is None else by.units,
        pool=comparison.pool if pool is None and comparison is not None else pool,
        comparison=comparison,
        curves=() if shifted else by.curves,
        members={str(item["name"]): 1 for item in found.inputs},  # compare had the members at hand, and told of them
        task="regression" if any("kind" in item for item in found.inputs) else "classification",
    )
    again = [note for note in guard(setup) if note.code not in {known.code for known in before}]
    return Lint((*before, *again))


def _told_apart(scores: Any, curves: Any) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Scores and curves; a name among the scores that only a curve has is one."""
    named = registry.split(scores) if isinstance(scores, str) else None if scores is None else list(scores)
    drawn = registry.split(curves) if isinstance(curves, str) else list(curves or ())
    for text in drawn:
        if _base(text) not in CURVES:
            do = did_you_mean(_base(text), CURVES)
            raise UsageError("curves", expected="the name of a curve", came=f"got {show(text)}", do=do)
    if named is not None:
        only = [text for text in named if _base(text) in CURVES and _base(text) not in registry.metrics()]
        drawn, named = [*drawn, *only], [text for text in named if text not in only]
    return _named(named), tuple(dict.fromkeys(text.strip() for text in drawn))


def _base(text: str) -> str:
    return text.partition("(")[0].strip()


def _named(scores: Any) -> tuple[str, ...] | None:
    if scores is None:
        return None
    named = registry.split(scores) if isinstance(scores, str) else list(scores)
    return tuple(dict.fromkeys(_name(text) for text in named if text.strip() != "all"))


def _name(text: str) -> str:
    """A score in its canonical form; an error where there is none of this name."""
    return text.strip() if text.strip() in CALIBRATED else registry.parse(text).text


def _read(item: Input) -> InMemory:
    known = item.read() if isinstance(item, Stream) else item
    if isinstance(known, Detection):
        do = "scores of `detect` may be compared by AUROC"
        raise UsageError("lint", expected="predictions", came=f"{show(known.name)} are detection scores", do=do)
    return known
