"""Engines run by hand, as `check` runs them: block by block, over cells and targets; and what a statistic is."""

from __future__ import annotations

from typing import Any

import numpy as np

import calibrant as cal
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.statistics import Statistic, statistics_of
from calibrant.kernels.rows import rows_of
from calibrant.results.check import BAYESIAN

ONE = Targets()


def replicated(
    kind: Any,
    p: cal.Regression,
    plan: Plan,
    names: Any,
    targets: Targets = ONE,
    cells: Any = None,
    step: int | None = None,
) -> list[dict[str, Any]]:
    """What an engine of outcomes says of each target, of blocks of `step` rows."""
    engine = kind(statistics_of(names, p), p, plan, targets)
    cells = np.zeros(p.n, np.int64) if cells is None else cells
    step = step or p.n
    for start in range(0, p.n, step) if engine.needs_preparing else ():
        engine.prepare(p[start : start + step])
    for start in range(0, p.n, step):
        engine.add(p[start : start + step], None, cells[start : start + step], start)
    return engine.laws()


def computed(kind: Any, predictions: Any, specs: Any, reading: str = BAYESIAN, **how: Any) -> list[dict[str, Any]]:
    """What an engine of computed laws says of each target; it knows all of the statistics."""
    cells, threads = how.get("cells"), how.get("threads", 1)
    statistics = statistics_of(specs, predictions)
    assert all(kind.supports(statistic, predictions) for statistic in statistics)
    plan = Plan(reading, 0, 0, predictions.members, threads)
    engine = kind(statistics, predictions, plan, how.get("targets", ONE))
    cells, first = np.zeros(predictions.n, np.int64) if cells is None else cells, 0
    for part in predictions.blocks(how.get("block")):
        engine.add(part, rows_of(part, engine.required_columns, threads=threads), cells[first : first + part.n], first)
        first += part.n
    return engine.laws()


def value(statistic: Statistic, p: cal.Regression) -> float:
    """The statistic of the outcomes that the predictions carry."""
    if statistic.spec is None:
        return float(statistic.function(p.y, p))  # type: ignore[misc]
    return cal.measure(p, statistic.key)[statistic.key]
