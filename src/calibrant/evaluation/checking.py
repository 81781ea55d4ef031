"""One input on its way through posterior predictive checks: rows are read once, and every engine takes them in."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.checks.check import Check, nearest_member
from calibrant.checks.class_replicates import ClassReplicates
from calibrant.checks.engine import Engine
from calibrant.checks.exact_classes import ExactClasses
from calibrant.checks.exact_regression import ExactGaussians
from calibrant.checks.gaussian_replicates import GaussianReplicates
from calibrant.checks.generic import Generic
from calibrant.checks.laws import Law
from calibrant.checks.plan import BAYESIAN, EXACT, Plan, Targets
from calibrant.checks.sample_replicates import SampleReplicates
from calibrant.checks.statistics import Statistic
from calibrant.errors import NotApplicable, UsageError
from calibrant.evaluation.choosing import Input
from calibrant.evaluation.grouping import Grouping, group_name
from calibrant.evaluation.multiplicity import benjamini_hochberg
from calibrant.evaluation.result import Group
from calibrant.kernels.philox import uniforms
from calibrant.kernels.resampling import CHECK_PLACE
from calibrant.kernels.rows import HITS_ONLY, rows_of
from calibrant.predictions import Classification, Regression
from calibrant.predictions.files.naming import naming
from calibrant.predictions.files.stream import Stream
from calibrant.recalibration.member_temperatures import MemberTemperatureScaling

PREDICTED = "predicted"
"""The grouping by predicted class, where no column has that name."""
MOST_CELLS = 10_000
SAMPLED: tuple[type[Engine], ...] = (ClassReplicates, GaussianReplicates, SampleReplicates, Generic)
COMPUTED: tuple[type[Engine], ...] = (ExactClasses, ExactGaussians)


@dataclass(frozen=True)
class Checked:
    """The rows of an input that are checked, after temperatures where they were fitted."""

    source: Input
    keep: np.ndarray | None = None
    """Which rows (N,) are checked; all where it is None."""
    scaling: MemberTemperatureScaling | None = None

    @property
    def name(self) -> str:
        """What the input is called."""
        return self.source.name

    @property
    def n(self) -> int:
        """The number of rows that are checked."""
        return self.source.n if self.keep is None else int(self.keep.sum())

    @property
    def example(self) -> Any:
        """Predictions of the same make."""
        example: Any = self.source.example
        return example if self.scaling is None else self.scaling.transform(example[:1])

    def column(self, name: str) -> np.ndarray:
        """A column of the rows that are checked."""
        values = self.source.column(name)
        return values if self.keep is None else values[self.keep]

    def has_column(self, name: str) -> bool:
        """Whether there is such a column."""
        try:
            self.source.column(name)
        except UsageError:
            return False
        return True

    def blocks(self, rows: int | None) -> Iterator[Any]:
        """The rows block by block."""
        start = 0
        blocks: Iterator[Any] = self.source.blocks(rows)
        for block in blocks:
            keep = None if self.keep is None else self.keep[start : start + block.n]
            start += block.n
            if keep is not None and not keep.all():
                if not keep.any():
                    continue
                block = block[np.flatnonzero(keep)]
            yield block if self.scaling is None else self.scaling.transform(block)


# --------------------------------------------------------------------------------------------------- cells
@dataclass(frozen=True)
class Cells:
    """The rows that no grouping tells apart, and the cells that each group consists of."""

    groupings: tuple[Grouping, ...]
    place: np.ndarray | None
    """The cell of each row by its columns; None where there are none."""
    count: int
    classes: int = 1
    """Predicted classes, where rows are told apart by them too."""
    targets: Targets = field(default_factory=Targets)
    groups: tuple[tuple[int, int], ...] = ()
    """Of each target but the first: its grouping, and its place there."""

    @classmethod
    def of(cls, groupings: Sequence[Grouping], classes: int) -> Cells:
        """From the groupings of an input; that by predicted class has no places yet."""
        known = [g for g in groupings if len(g.place)]
        table = np.stack([g.place for g in known]) if known else np.zeros((0, 0), np.int64)
        codes, place = np.unique(table, axis=1, return_inverse=True) if known else (np.zeros((0, 1), np.int64), None)
        by_class = classes if len(known) < len(groupings) else 1
        count = codes.shape[1]
        if count * by_class > MOST_CELLS:
            raise UsageError(
                "by",
                expected=f"at most {MOST_CELLS} groups together",
                came=f"there are {count * by_class}",
                do="check by one column at a time",
            )
        every = np.arange(count * by_class)
        parts, groups, row = [every], [], 0
        for number, grouping in enumerate(groupings):
            code = every // by_class if len(grouping.place) else every % by_class
            if len(grouping.place):
                code, row = codes[row][code], row + 1
            for k in range(len(grouping.names)):
                parts.append(every[code == k])
                groups.append((number, k))
        targets = Targets(count * by_class, tuple(parts))
        return cls(tuple(groupings), None if place is None else place.ravel(), count, by_class, targets, tuple(groups))

    def __call__(self, start: int, rows: Any) -> np.ndarray:
        """The cell of each row of a block."""
        place = np.zeros(rows.n, np.int64) if self.place is None else self.place[start : start + rows.n]
        return place * self.classes + rows.predicted if self.classes > 1 else place


# -------------------------------------------------------------------------------------------------- checks
@dataclass
class OneCheck:
    """The checks of one input, reading by reading."""

    checked: Checked
    statistics: list[Statistic]
    plans: list[Plan]
    cells: Cells
    block_rows: int | None = None
    tell: Callable[[str, float], None] = lambda what, share: None

    def run(self) -> list[list[dict[str, Check]]]:
        """For each plan and target, the check of each statistic."""
        example = self.checked.example
        engines = [list(_engines(self.statistics, example, plan, self.cells.targets)) for plan in self.plans]
        every = [engine for of_plan in engines for engine in of_plan]
        self._prepare(every)
        sizes = self._take_in(every)
        sizes_of = [int(sizes[part].sum()) for part in self.cells.targets.parts]
        return [self._checks(plan, of_plan, sizes_of) for plan, of_plan in zip(self.plans, engines, strict=True)]

    def _prepare(self, engines: list[Engine]) -> None:
        """Let engines that must know the scale of all rows see them once."""
        waiting = [engine for engine in engines if getattr(engine, "needs_preparing", False)]
        for block in self.checked.blocks(self.block_rows) if waiting else ():
            for engine in waiting:
                engine.prepare(block)  # type: ignore[attr-defined]

    def _take_in(self, engines: list[Engine]) -> np.ndarray:
        """Every block once; how many rows each cell has."""
        wanted = frozenset().union(*(engine.wanted for engine in engines))
        if not all(HITS_ONLY in engine.wanted for engine in engines):
            wanted -= {HITS_ONLY}  # the others need more
        sizes, start = np.zeros(self.cells.targets.cells, np.int64), 0
        for block in self.checked.blocks(self.block_rows):
            self.tell("drawing", start / self.checked.n)
            with naming(block.info.origin, block.info.first_row):
                rows = rows_of(block, wanted, threads=self.plans[0].threads)
            cells = self.cells(start, rows)
            sizes += np.bincount(cells, minlength=len(sizes))
            for engine in engines:
                engine.add(block, rows, cells, start)
            start += block.n
        return sizes

    def _checks(self, plan: Plan, engines: list[Engine], sizes: list[int]) -> list[dict[str, Check]]:
        laws = [engine.laws() for engine in engines]
        out = []
        for k, size in enumerate(sizes):
            found = {key: law for of_engine in laws for key, law in of_engine[k].items()}
            out.append({s.key: self._check(plan, k, s.key, found[s.key], size) for s in self.statistics})
        return out

    def _check(self, plan: Plan, target: int, key: str, law: Law, size: int) -> Check:
        found = Check.of(law, size, self._place(plan, target, key))
        members = plan.members if plan.reading == BAYESIAN else 1
        return replace(found, nearest=nearest_member(law, plan.source, members))

    def _place(self, plan: Plan, target: int, key: str) -> float:
        """The U of a randomised p-value: its own for each statistic, reading and group, by name and not by order."""
        named = (plan.reading, *self._names(target), key)
        word = zlib.crc32("\0".join(map(str, named)).encode())
        return float(uniforms(plan.seed, CHECK_PLACE, 0, 1, start=word)[0])

    def _names(self, target: int) -> tuple[Any, ...]:
        if not target:
            return ()
        number, k = self.cells.groups[target - 1]
        return self.cells.groupings[number].by, self.cells.groupings[number].names[k]

    def groups(self, found: list[list[dict[str, Check]]]) -> list[Group]:
        """The groups with their checks; p-values of a grouping are corrected for the number of its groups."""
        example, out = self.checked.example, []
        for number, grouping in enumerate(self.cells.groupings):
            targets = [k + 1 for k, (g, _) in enumerate(self.cells.groups) if g == number]
            readings = [_corrected([of_plan[k] for k in targets]) for of_plan in found]
            for place, k in enumerate(targets):
                first, *others = (reading[place] for reading in readings)
                size = next(iter(first.values())).n
                if size:
                    name = group_name(example, grouping.by, grouping.names[self.cells.groups[k - 1][1]])
                    out.append(Group(grouping.by, name, size, {}, first, others[0] if others else {}))
        return out


def _engines(statistics: list[Statistic], example: Any, plan: Plan, targets: Targets) -> Iterator[Engine]:
    """The engines that take the statistics between them, each the most special there is."""
    kinds = SAMPLED if plan.draws else COMPUTED
    taken: dict[type[Engine], list[Statistic]] = {}
    for statistic in statistics:
        kind = next((kind for kind in kinds if kind.takes(statistic, example)), None)
        if kind is None:
            raise NotApplicable(
                statistic.key,
                expected="a statistic whose law can be computed (accuracy, ece, nll, brier, picp, mse and their like)",
                came=f"it is not one of them, for these predictions, and draws={EXACT} was asked for",
                do="draw replicates instead: draws=1000",
            )
        taken.setdefault(kind, []).append(statistic)
    for kind, some in taken.items():
        yield kind(some, example, plan, targets)


def has_law(statistic: Statistic, example: Any) -> bool:
    """Whether the law of the statistic can be computed."""
    return any(kind.takes(statistic, example) for kind in COMPUTED)


def _corrected(groups: list[dict[str, Check]]) -> list[dict[str, Check]]:
    """The checks of the groups of one column, each with its q-value, statistic by statistic."""
    out = [dict(checks) for checks in groups]
    for key in groups[0] if groups else ():
        known = [k for k, checks in enumerate(groups) if checks[key].passed_interval is not None]
        if known:
            q_values = benjamini_hochberg(np.array([groups[k][key].test_p for k in known]))
            for k, q in zip(known, q_values.tolist(), strict=True):
                out[k][key] = replace(out[k][key], q_value=q)
    return out


# ------------------------------------------------------------------------------------------------ what is refused
def refuse_unfit(source: Input) -> None:
    """Predictions that cannot be checked: no labels to check against, or nothing that labels could be drawn from."""
    example = source.example
    if example.task == "detection":
        came, do = "these are scores of inside and outside rows", "check the predictions themselves"
    elif not example.has_labels or getattr(example, "soft", False):
        lacks = "y" if isinstance(example, Regression) else "hard labels"
        came, do = f"they have no {lacks}", "a check compares what was observed with what the model expects: add them"
    elif isinstance(example, Regression) and example.kind == "quantiles":
        came, do = "they are quantiles, from which no outcome can be drawn", "give a mean and std, or samples"
    else:
        return
    raise NotApplicable(source.name, expected="predictions that can be checked", came=came, do=do)


def grouped_by(checked: Checked, column: str) -> bool:
    """Whether the grouping is the one by predicted class."""
    return column == PREDICTED and not checked.has_column(column) and isinstance(checked.example, Classification)


def is_whole(source: Input, block_rows: int | None) -> bool:
    """Whether all rows come in one block."""
    return not isinstance(source, Stream) and (block_rows is None or block_rows >= source.n)
