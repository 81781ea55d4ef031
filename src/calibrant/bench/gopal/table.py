"""Table 1 of the paper and our reproduction: p-values and sharpness of three readings, in and out of distribution.

By the paper's rule, a check passes if the observed value lies within the range of the replicates.

Reference: Gopal (2021), table 1 and section 4.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from calibrant.bench.gopal.paper import (
    INDEPENDENT,
    PAPER,
    READINGS,
    SETS,
    Checks,
    Place,
    passes_in_paper,
    statements_of,
)
from calibrant.bench.gopal.plan import STATISTIC, Plan, plan_from
from calibrant.bench.papers import Statement
from calibrant.predictions.base import Note
from calibrant.render.table import Table
from calibrant.results.check import INTERVAL, RANGE, Check
from calibrant.results.evaluation import Evaluation
from calibrant.results.json import read_stored
from calibrant.version import __version__

SCHEMA = 1
DIGITS = {"p_value": 3, "sharpness": 4}
"""The columns of the table for each check, and their digits."""
SUMMARIES: Mapping[str, Callable[[list[float]], float]] = {"median": median, "lowest": min, "highest": max}
NOTE = (
    "sharpness of the independent reading is known without any model: 0.425·levels/rows (Cramér–von Mises), 0.042 for "
    "1000 rows and 0.0042 for 10 000; the paper's 0.002 and 0.001 cannot both be of these sizes, so it is the order of "
    "its values that can be compared"
)


@dataclass(frozen=True)
class Table1:
    """The checks of every seed, to compare with the paper."""

    plan: Plan
    seeds: tuple[Checks, ...]
    inputs: tuple[Mapping[str, Any], ...] = ()
    """The predictions that were checked: name, rows, members, SHA-256."""
    warnings: tuple[Note, ...] = ()
    files: tuple[Path, ...] = ()
    missing_package: str = ""
    """Why there are no figures and no report: the missing package."""

    @classmethod
    def of(cls, plan: Plan, evaluations: Mapping[tuple[int, str, str], Evaluation]) -> Table1:
        """From the results of `check`, by seed, model and set."""
        seeds = []
        for seed in range(plan.seeds):
            checks = {}
            for reading, where in PAPER:
                result = evaluations[seed, READINGS[reading], where].results[0]
                checks[reading, where] = (result.independent if reading == INDEPENDENT else result.checks)[STATISTIC]
            seeds.append(checks)
        inputs = tuple(item for evaluation in evaluations.values() for item in evaluation.inputs)
        warnings = tuple(note for evaluation in evaluations.values() for note in evaluation.warnings)
        return cls(plan, tuple(seeds), inputs, warnings)

    @property
    def title(self) -> str:
        """The table and its settings."""
        return self.plan.title

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The claims of the paper."""
        return statements_of(self.seeds)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the numbers."""
        return (NOTE,)

    # ------------------------------------------------------------------------------------------- tables
    def tables(self) -> list[Table]:
        """The paper's numbers above ours, and the number of seeds that pass."""
        rows = []
        for reading, where in PAPER:
            checks = [each[reading, where] for each in self.seeds]
            paper = "passes" if passes_in_paper((reading, where)) else "fails"
            counts = [f"{sum(bool(c.passed(rule)) for c in checks)} of {len(checks)}" for rule in (RANGE, INTERVAL)]
            rows.append((reading, where, f"{median(c.observed for c in checks):.4f}", paper, *counts))
        heads = ("", "set", "observed", "paper", "within range", "within 95%")
        passes = Table("Seeds with which the check passes", heads, tuple(rows), left=2)
        numbers: list[tuple[str, ...]] = []
        breaks = []
        for reading in READINGS:
            breaks += [len(numbers)] if numbers else []
            lines = enumerate(self._rows(reading))
            numbers += [(reading if not k else "", source, *cells) for k, (source, cells) in lines]
        heads = ("", "", "in: p-value", "sharpness", "out: p-value", "sharpness")
        return [Table("", heads, tuple(numbers), left=2, breaks=frozenset(breaks)), passes]

    def _rows(self, reading: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The rows of a reading: the paper's, ours, and the median and range of ours."""
        published = [PAPER[reading, where] for where in SETS]
        yield "paper", tuple(cell for p, s in published for cell in (f"{p:.3f}" if p < 1.0 else "1.0", f"{s:.3f}"))
        every = [[getattr(each[reading, where], name) for each in self.seeds] for where in SETS for name in DIGITS]
        digits = list(DIGITS.values()) * len(SETS)
        for name, summary in SUMMARIES.items() if len(self.seeds) > 1 else ():
            yield name, tuple(f"{summary(values):.{few}f}" for few, values in zip(digits, every, strict=True))
        for seed in range(len(self.seeds)):
            yield f"seed {seed}", tuple(f"{values[seed]:.{few}f}" for few, values in zip(digits, every, strict=True))

    def markdown(self) -> str:
        """Tables and claims as Markdown."""
        lines = [f"# {self.title}", ""]
        for table in self.tables():
            rules = [" --- " if table.is_text(k) else " ---: " for k in range(len(table.heads))]
            head, *rows = (f"| {' | '.join(row)} |" for row in (table.heads, *table.rows))
            lines += [f"{table.title}:", ""] if table.title else []
            lines += [head, f"|{'|'.join(rules)}|", *rows, ""]
        lines += ["Claims of the paper:", ""]
        lines += [f"- {one.claim}: **{one.outcome}**" for one in self.statements]
        return "\n".join([*lines, "", *(f"Note: {note}." for note in self.notes)]) + "\n"

    # -------------------------------------------------------------------------------------------- files
    def to_json(self) -> dict[str, Any]:
        """The content of table1.json."""
        return {
            "schema": SCHEMA,
            "version": __version__,
            "title": self.title,
            "settings": self.plan.to_json(),
            "inputs": [dict(item) for item in self.inputs],
            "results": [self._cell(reading, where) for reading, where in PAPER],
            "statements": [one.to_json() for one in self.statements],
            "warnings": [vars(note) for note in self.warnings],
        }

    def _cell(self, reading: str, where: str) -> dict[str, Any]:
        checks = [each[reading, where] for each in self.seeds]
        p, sharpness = PAPER[reading, where]
        numbers = {name: [getattr(check, name) for check in checks] for name in ("observed", *DIGITS)}
        summaries = {name: {"median": median(v), "low": min(v), "high": max(v)} for name, v in numbers.items()}
        return {
            "reading": reading,
            "set": where,
            "paper": {"p_value": p, "sharpness": sharpness, "passed_range": passes_in_paper((reading, where))},
            "seeds": [{"seed": seed, **check.to_json()} for seed, check in enumerate(checks)],
            **summaries,
        }

    def dumps(self) -> str:
        """The JSON as text."""
        return json.dumps(self.to_json(), indent=1, allow_nan=False)

    @classmethod
    def load(cls, path: str | Path) -> Table1:
        """Load a table1.json."""
        hint = "run `calibrant reproduce gopal table1`"
        return read_stored(path, cls._from_json, expected="table1.json of a finished run", hint=hint)

    @classmethod
    def _from_json(cls, data: dict[str, Any]) -> Table1:
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}")
        plan = plan_from(data["settings"])
        seeds: list[dict[Place, Check]] = [{} for _ in range(plan.seeds)]
        for cell in data["results"]:
            for check in cell["seeds"]:
                seeds[check["seed"]][cell["reading"], cell["set"]] = Check.from_json(check)
        return cls(plan, tuple(seeds), tuple(data["inputs"]), tuple(Note(**item) for item in data["warnings"]))

    def __str__(self) -> str:
        return self.markdown()
