"""Reproductions: papers, their tables, and the functions that compute them. The list is available without PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from calibrant.errors import UsageError, did_you_mean, show

Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Statement:
    """A claim of a paper, and whether it was reproduced with each seed."""

    claim: str
    reproduced: tuple[bool, ...]
    """For each seed."""

    @property
    def holds(self) -> bool:
        """Whether it was reproduced with every seed."""
        return all(self.reproduced)

    @property
    def outcome(self) -> str:
        """The outcome in words."""
        count, of = sum(self.reproduced), len(self.reproduced)
        if not count:
            return "not reproduced"
        if of == 1:
            return "reproduced"
        return "reproduced with every seed" if count == of else f"reproduced with {count} of {of} seeds"

    def to_json(self) -> dict[str, Any]:
        """The statement as JSON values; the keys are those of files."""
        return {"said": self.claim, "holds": self.holds, "found": list(self.reproduced)}


class Reproduction(Protocol):
    """The result of a recipe: what the command line prints."""

    @property
    def title(self) -> str:
        """The table and the settings."""

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The claims of the paper."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the numbers."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were written."""

    @property
    def missing_package(self) -> str:
        """Why there are no figures: the missing package; empty if none is missing."""

    def tables(self) -> Sequence[Any]:
        """Tables with the paper's numbers and ours."""

    def dumps(self) -> str:
        """The result as JSON text."""


@dataclass(frozen=True)
class Recipe:
    """One table of a paper: its content, and the module with the function that computes it."""

    paper: str
    table: str
    content: str
    module: str

    @property
    def out(self) -> str:
        """The default output folder."""
        return f"calibrant-{self.paper}-{self.table}"

    def run(
        self, out: str | Path | None = None, *, seeds: int = 3, quick: bool = False, device: str = "auto",
        progress: Progress | None = None,
    ) -> Reproduction:  # fmt: skip
        """Compute the table, or its missing parts in the folder."""
        make: Callable[..., Reproduction] = getattr(import_module(self.module), self.table)
        return make(Path(out or self.out), seeds=seeds, quick=quick, device=device, progress=progress)


PAPERS = {
    "gopal": "Gopal (2021): Why calibration error is wrong given model uncertainty",
}
RECIPES = (
    Recipe(
        "gopal",
        "table1",
        "checks of calibration error on simulated data, in and out of distribution; with figures 3, 4, 5 and 10",
        "calibrant.bench.gopal",
    ),
)


def recipes(paper: str | None = None) -> tuple[Recipe, ...]:
    """All recipes, or those of a paper."""
    if paper is None:
        return RECIPES
    if paper not in PAPERS:
        raise UsageError("paper", expected="a known paper", got=show(paper), hint=did_you_mean(paper, PAPERS))
    return tuple(recipe for recipe in RECIPES if recipe.paper == paper)


def recipe(paper: str, table: str) -> Recipe:
    """The recipe of a table."""
    known = {each.table: each for each in recipes(paper)}
    if table not in known:
        hint = did_you_mean(table, known)
        raise UsageError(f"table of {paper}", expected="a known table", got=show(table), hint=hint)
    return known[table]
