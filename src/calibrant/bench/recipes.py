"""What can be reproduced: papers, their tables, and the functions that make them.

Nothing is loaded before it is asked for: the list is there without PyTorch.
"""

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
    """What a paper says of its results, and whether it was found with each seed."""

    said: str
    found: tuple[bool, ...]

    @property
    def holds(self) -> bool:
        """Whether it was found with every seed."""
        return all(self.found)

    @property
    def told(self) -> str:
        """In words."""
        count, of = sum(self.found), len(self.found)
        if not count:
            return "not found"
        if of == 1:
            return "found"
        return "found with every seed" if count == of else f"found with {count} of {of} seeds"

    def to_json(self) -> dict[str, Any]:
        """As it stands in a file."""
        return {"said": self.said, "holds": self.holds, "found": list(self.found)}


class Reproduction(Protocol):
    """What a recipe gives back, as far as the program prints it."""

    @property
    def title(self) -> str:
        """What was reproduced, and by which settings."""

    @property
    def statements(self) -> tuple[Statement, ...]:
        """What the paper says, found or not."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of the numbers."""

    @property
    def files(self) -> tuple[Path, ...]:
        """What was written for people to read."""

    @property
    def lacks(self) -> str:
        """What is not installed, so that there are no charts; empty where nothing is missing."""

    def tables(self) -> Sequence[Any]:
        """Ours beside the paper's, as tables that can be rendered."""

    def dumps(self) -> str:
        """All of it as JSON."""


@dataclass(frozen=True)
class Recipe:
    """One table of a paper: what it shows, and the function `home.name` that makes it."""

    paper: str
    table: str
    says: str
    home: str

    @property
    def out(self) -> str:
        """The folder that it is written to where none is named."""
        return f"calibrant-{self.paper}-{self.table}"

    def run(
        self, out: str | Path | None = None, *, seeds: int = 3, quick: bool = False, device: str = "auto",
        progress: Progress | None = None,
    ) -> Reproduction:  # fmt: skip
        """Make the table, or what is missing of it in its folder."""
        make: Callable[..., Reproduction] = getattr(import_module(self.home), self.table)
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
        raise UsageError("paper", expected="a known one", came=f"got {show(paper)}", do=did_you_mean(paper, PAPERS))
    return tuple(recipe for recipe in RECIPES if recipe.paper == paper)


def recipe(paper: str, table: str) -> Recipe:
    """The recipe of a table."""
    known = {one.table: one for one in recipes(paper)}
    if table not in known:
        raise UsageError(
            f"table of {paper}", expected="a known one", came=f"got {show(table)}", do=did_you_mean(table, known)
        )
    return known[table]
