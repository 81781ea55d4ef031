"""`lint`: the pitfall guard alone, over predictions or over a stored evaluation; it computes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from calibrant import registry
from calibrant.comparison.pitfalls import PITFALLS, Setup, guard
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
Given = Input | Mapping[str, Input] | Iterable[Input]


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
    what: Given | Evaluation,
    *,
    scores: str | Iterable[str] | None = None,
    rank_by: str | None = None,
    units: str | None = None,
    pool: str | InMemory | None = None,
    clean: Mapping[str, Input] | None = None,
) -> Lint:
    """What a comparison of these models would rest on and must not; see docs/pitfalls.md. A pitfall is never an error.

    what: models by name, or an evaluation. scores: what models are compared by, spec strings, cll and brier_ts; those
    that `compare` takes by default. rank_by: the first of them by default. units: a column of dependent rows. pool: the
    members that equivalents are counted in, by name or as predictions. clean: by model, rows that fit a temperature.

    Of an evaluation the predictions are not at hand. One with a comparison tells what it was made by, what it had
    noticed and whether the best two differ. Several inputs of `evaluate` are not yet compared models: only metrics that
    were named there, or here, are looked at.
    """
    if isinstance(what, Evaluation):
        if clean is not None or not (pool is None or isinstance(pool, str)):
            raise UsageError("lint", expected="names beside an evaluation", came="got predictions", do="leave them out")
        return _of_evaluation(what, _named(scores), rank_by, units, pool)
    models = {item.name: _read(item) for item in inputs_of(what, "lint")}
    if isinstance(pool, str) and pool not in models:
        do = did_you_mean(pool, models)
        raise UsageError("pool", expected="the name of a model", came=f"got {show(pool)}", do=do)
    named = _named(scores)
    if named is None:
        named = () if any(model.task == "regression" for model in models.values()) else USUAL
    apart = None if pool is None or isinstance(pool, str) else pool
    setup = Setup(
        models=models,
        scores=named,
        rank_by=_name(rank_by) if rank_by else next(iter(named), ""),
        units=units,
        pool=pool if isinstance(pool, str) else None if apart is None else "pool",
        clean=None if clean is None else {name: _read(item) for name, item in clean.items()},
        pool_predictions=apart,
    )
    return Lint(guard(setup))


def _of_evaluation(
    found: Evaluation, named: tuple[str, ...] | None, rank_by: str | None, units: str | None, pool: str | None
) -> Lint:
    settings, comparison = found.settings, found.comparison
    given = settings.get("metrics", ())
    if named is None:
        named = _named(None if given in ("default", "all", ["all"]) else given) or ()
    if "shift" in settings and comparison is None:  # inputs are one model under shift
        named = ()
    before = tuple(note for note in found.warnings if note.code in PITFALLS)
    counts = {str(item["name"]): int(item["members"]) for item in found.inputs}
    compared = comparison is not None and "datasets" not in settings
    setup = Setup(
        scores=named,
        rank_by=_name(rank_by) if rank_by else "" if comparison is None else comparison.rank_by,
        units=units or settings.get("units"),
        pool=pool or (None if comparison is None else comparison.pool),
        comparison=comparison,
        members=counts if compared else dict.fromkeys(counts, 1),
        task="regression" if any("kind" in item for item in found.inputs) else "classification",
    )
    again = [note for note in guard(setup) if note.code not in {known.code for known in before}]
    return Lint((*before, *again))


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
