"""Deep-ensemble equivalents of the models of a comparison, and likelihood against the number of members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from calibrant.comparison.equivalent import Model, equivalent_curve, equivalents, model_of, pool_curve, shares_of
from calibrant.comparison.records import CllCurve, Equivalent
from calibrant.comparison.result import Comparison
from calibrant.comparison.splits import splits_of
from calibrant.evaluation.comparing import Scored, of_classes
from calibrant.predictions import InMemory


def equivalents_of(comparison: Comparison, scored: Scored, pool: InMemory, name: str) -> Comparison:
    """The comparison with the equivalent of every model, and those of its first members where it has several.

    Likelihoods are those of test-time cross-validation, whatever temperature the comparison ranks by. All members of a
    model have one equivalent, and so one interval: the last of its curve is that of the model.
    """
    a = scored.asked
    splits = scored.splits or splits_of(pool.n, repeats=a.repeats, seed=a.seed, units=scored.units)
    scored.tell(f"{name}: curve of the pool", len(scored.models))
    curve, rows = by_pool = pool_curve(
        of_classes(pool), splits, draws=a.draws, units=scored.units, seed=a.seed, threads=a.threads
    )
    how: dict[str, Any] = {
        "units": scored.units, "level": a.level, "resamples": a.resamples, "seed": a.seed, "threads": a.threads,
    }  # fmt: skip
    models: dict[str, Model] = {}
    curves: dict[str, tuple[Equivalent, ...]] = {}
    for place, (key, model) in enumerate(scored.models.items()):
        if key == name:
            continue
        scored.tell(f"{key}: equivalent", place)
        known = scored.calibrated[key].log_likelihood if scored.splits is not None and scored.calibrated else None
        models[key] = model_of(of_classes(model), splits, rows=known, units=scored.units, threads=a.threads)
        if model.members > 1:
            curves[key] = equivalent_curve(of_classes(model), by_pool, splits, **how)
    found = equivalents(list(models.values()), curve, rows, shares_of(of_classes(pool)), **how) if models else ()
    worth = dict(zip(models, found, strict=True))
    return replace(
        comparison,
        pool=name,
        equivalents=worth,
        equivalent_curves={key: (*items[:-1], worth[key]) for key, items in curves.items()},
        curves={name: _named(curve, name)},
    )


def _named(curve: CllCurve, name: str) -> CllCurve:
    return replace(curve, name=name)
