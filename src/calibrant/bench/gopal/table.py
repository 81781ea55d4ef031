"""Table 1 of the paper beside ours: p-values and sharpness of three readings, in and out of distribution.

By the paper's rule a check passes where the observed value lies within the range of the replicates.

Reference: Gopal (2021), table 1 and section 4.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from calibrant.bench.gopal.plan import STATISTIC, Plan, plan_from
from calibrant.bench.gopal.readings import INDEPENDENT, PAPER, READINGS, SETS, Place, passes_in_paper
from calibrant.bench.gopal.statements import Checks, statements_of
from calibrant.bench.recipes import Statement
from calibrant.checks.check import INTERVAL, RANGE, Check
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.stored import read_stored
from calibrant.predictions.base import Note
from calibrant.version import __version__

SCHEMA = 1
DIGITS = {"p_value": 3, "sharpness": 4}
"""What the table has of a check, and in how many digits."""
SUMMED: Mapping[str, Callable[[list[float]], float]] = {"median": median, "lowest": min, "highest": max}
NOTE = (
    "sharpness of the independent reading is known without any model: 0.425·levels/rows (Cramér–von Mises), 0.042 for "
    "1000 rows and 0.0042 for 10 000; the paper's 0.002 and 0.001 cannot both be of these sizes, so it is the order of "
    "its values that can be compared"
)


@dataclass(frozen=True)
class Table1:
    """The checks of every seed, beside those of the paper."""

    plan: Plan
    seeds: tuple[Checks, ...]
    inputs: tuple[Mapping[str, Any], ...] = ()
    """The predictions that were checked: name, rows, members, SHA-256."""
    warnings: tuple[Note, ...] = ()
    files: tuple[Path, ...] = ()
    lacks: str = ""
    """What is not installed, so that there are no figures and no page."""

    @classmethod
    def of(cls, plan: Plan, evaluations: Mapping[tuple[int, str, str], Evaluation]) -> Table1:
        """From what `check` found, by seed, model and set."""
        found = []
        for seed in range(plan.seeds):
            checks = {}
            for reading, where in PAPER:
                result = evaluations[seed, READINGS[reading], where].results[0]
                checks[reading, where] = (result.independent if reading == INDEPENDENT else result.checks)[STATISTIC]
            found.append(checks)
        inputs = tuple(item for evaluation in evaluations.values() for item in evaluation.inputs)
        warnings = tuple(note for evaluation in evaluations.values() for note in evaluation.warnings)
        return cls(plan, tuple(found), inputs, warnings)

    @property
    def title(self) -> str:
        """What it is, and by which settings."""
        return self.plan.title

    @property
    def statements(self) -> tuple[Statement, ...]:
        """What the paper says of its table, found or not."""
        return statements_of(self.seeds)

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of the numbers."""
        return (NOTE,)

    # ------------------------------------------------------------------------------------------- tables
    def tables(self) -> list[Table]:
        """The paper's numbers above ours, and how many seeds pass."""
        return [self._numbers(), self._passes()]

    def _numbers(self) -> Table:
        heads = ("", "", "in: p-value", "sharpness", "out: p-value", "sharpness")
        rows: list[tuple[str, ...]] = []
        breaks = []
        for reading in READINGS:
            breaks += [len(rows)] if rows else []
            rows += [(reading if not k else "", whose, *cells) for k, (whose, cells) in enumerate(self._of(reading))]
        return Table("", heads, tuple(rows), left=2, breaks=frozenset(breaks))

    def _of(self, reading: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The rows of a reading: the paper's, ours, and the median and range of ours."""
        yield "paper", tuple(text for where in SETS for text in _printed(*PAPER[reading, where]))
        every = [[getattr(each[reading, where], name) for each in self.seeds] for where in SETS for name in DIGITS]
        digits = list(DIGITS.values()) * len(SETS)
        for whose, of in SUMMED.items() if len(self.seeds) > 1 else ():
            yield whose, tuple(f"{of(values):.{few}f}" for few, values in zip(digits, every, strict=True))
        for seed in range(len(self.seeds)):
            yield f"seed {seed}", tuple(f"{values[seed]:.{few}f}" for few, values in zip(digits, every, strict=True))

    def _passes(self) -> Table:
        heads = ("", "set", "observed", "paper", "within range", "within 95 %")
        rows = []
        for reading, where in PAPER:
            checks = [each[reading, where] for each in self.seeds]
            paper = "passes" if passes_in_paper((reading, where)) else "fails"
            counts = [f"{sum(bool(c.passed(rule)) for c in checks)} of {len(checks)}" for rule in (RANGE, INTERVAL)]
            rows.append((reading, where, f"{median(c.observed for c in checks):.4f}", paper, *counts))
        return Table("Seeds with which the check passes", heads, tuple(rows), left=2)

    def markdown(self) -> str:
        """Tables and statements for a page."""
        lines = [f"# {self.title}", ""]
        for table in self.tables():
            lines += [*([f"{table.title}:", ""] if table.title else []), *_pipes(table), ""]
        lines += ["What the paper says of it:", ""]
        lines += [f"- {one.said}: **{one.told}**" for one in self.statements]
        return "\n".join([*lines, "", *(f"Note: {note}." for note in self.notes)]) + "\n"

    # -------------------------------------------------------------------------------------------- files
    def to_json(self) -> dict[str, Any]:
        """As table1.json has it."""
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
        summed = {name: {"median": median(v), "low": min(v), "high": max(v)} for name, v in numbers.items()}
        return {
            "reading": reading,
            "set": where,
            "paper": {"p_value": p, "sharpness": sharpness, "passed_range": passes_in_paper((reading, where))},
            "seeds": [{"seed": seed, **check.to_json()} for seed, check in enumerate(checks)],
            **summed,
        }

    def dumps(self) -> str:
        """The JSON as text."""
        return json.dumps(self.to_json(), indent=1, allow_nan=False)

    @classmethod
    def load(cls, path: str | Path) -> Table1:
        """What a table1.json holds."""
        return read_stored(
            path, cls._from_json, expected="table1.json of a finished run", do="make it with `calibrant reproduce`"
        )

    @classmethod
    def _from_json(cls, data: dict[str, Any]) -> Table1:
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}")
        plan = plan_from(data["settings"])
        found: list[dict[Place, Check]] = [{} for _ in range(plan.seeds)]
        for cell in data["results"]:
            for told in cell["seeds"]:
                found[told["seed"]][cell["reading"], cell["set"]] = Check.from_json(told)
        return cls(plan, tuple(found), tuple(data["inputs"]), tuple(Note(**item) for item in data["warnings"]))

    def __str__(self) -> str:
        return self.markdown()


def _pipes(table: Table) -> list[str]:
    """A table of Markdown; nothing in it comes from elsewhere, so nothing is escaped."""
    sides = [" --- " if table.is_text(k) else " ---: " for k in range(len(table.heads))]
    head, *rows = (f"| {' | '.join(row)} |" for row in (table.heads, *table.rows))
    return [head, f"|{'|'.join(sides)}|", *rows]


def _printed(p: float, sharpness: float) -> tuple[str, str]:
    """As the paper prints them."""
    return f"{p:.3f}" if p < 1.0 else "1.0", f"{sharpness:.3f}"
