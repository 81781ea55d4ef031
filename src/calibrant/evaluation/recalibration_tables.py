"""Recalibrations as tables: the method and its fit, and the candidates that it was chosen from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.evaluation.choice import Choice
from calibrant.evaluation.improvement_tables import gain_table
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.wording import number

MOST_SHOWN = 4
"""Parameters that are shown in a line."""


def recalibration_tables(evaluation: Evaluation) -> list[Table]:
    """What a recalibration gained, its fit, and what it was chosen from; none where there was none."""
    out = [] if evaluation.improvement is None else [gain_table(evaluation.improvement)]
    facts = evaluation.recalibration
    if facts is None:
        return out
    chosen = [_choice_table(facts["choice"])] if "choice" in facts else []
    return [*out, *([_fit_table(facts)] if facts["n_parameters"] else []), *chosen]


def _fit_table(facts: Mapping[str, Any]) -> Table:
    """One row a map: of all rows, or of each member."""
    rows = []
    for place, fit in enumerate(facts["fits"]):
        name = "map" if len(facts["fits"]) == 1 else f"member {place}"
        state = "converged" if fit["converged"] else "not settled"
        state = "at a bound" if fit["at_bound"] else state
        ends = [math.nan if fit[key] is None else fit[key] for key in ("before", "after")]
        rows.append((name, _parameters(facts, place), *(number(end) for end in ends), state))
    crossed = f" · {facts['cross_fitted']} folds; here the map of all rows" if "cross_fitted" in facts else ""
    title = f"{facts['title']} by {facts['loss']} · fitted on {facts['fitted_on']}{crossed}"
    return Table(title, ("fit", "parameters", "before", "after", "state"), tuple(rows), left=2)


def _parameters(facts: Mapping[str, Any], place: int) -> str:
    """The few numbers of a map, or how many there are."""
    maps = facts["parameters"]
    found = [] if maps is None else list(_numbers(maps[place]))
    if not found or len(found) > MOST_SHOWN:
        each = facts["n_parameters"] // max(len(facts["fits"]), 1)
        return f"{each} number{'s' * (each != 1)}"
    return ", ".join(f"{name} {number(value)}" for name, value in found)


def _numbers(fields: Mapping[str, Any]) -> Any:
    """Every number of a map with its name."""
    for name, value in fields.items():
        if isinstance(value, bool | str) or value is None or name.startswith("least_"):  # bounds, not parameters
            continue
        if isinstance(value, list):
            flat = [item for item in value if not isinstance(item, list)]
            yield from ((f"{name}[{k}]", float(item)) for k, item in enumerate(flat))
            if len(flat) != len(value):
                yield from ((name, math.nan),) * (MOST_SHOWN + 1)
        else:
            yield name, float(value)


def choice_table(choice: Choice) -> Table:
    """The candidates, the best first."""
    return _choice_table(choice.to_json())


def _choice_table(choice: Mapping[str, Any]) -> Table:
    rows = []
    for place, item in enumerate(choice["candidates"]):
        if item["failed"]:
            rows.append((item["method"], "failed", "", ""))
            continue
        score, behind, error = (math.inf if item[key] is None else item[key] for key in ("score", "behind", "error"))
        rows.append((item["method"], number(score), *(("", "") if not place else (number(behind), number(error)))))
    title = f"Candidates · {choice['score']} over {choice['folds']} folds (seed {choice['seed']})"
    return Table(title, ("method", choice["score"], "behind the best", "standard error"), tuple(rows))
