"""The checks of one input: its rows are read once, and every engine adds them to its statistics."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.checks.class_replicates import ClassReplicates
from calibrant.checks.classwise_replicates import ClasswiseReplicates
from calibrant.checks.exact_classes import ExactClasses
from calibrant.checks.exact_regression import ExactGaussians
from calibrant.checks.gaussian_replicates import GaussianReplicates
from calibrant.checks.generic import Generic
from calibrant.checks.p_values import check_against, nearest_member
from calibrant.checks.plan import Engine, Plan, Targets
from calibrant.checks.sample_replicates import SampleReplicates
from calibrant.checks.statistics import Statistic
from calibrant.errors import NotApplicable, UsageError, error_context
from calibrant.kernels.philox import uniforms
from calibrant.kernels.resampling import CHECK_PLACE
from calibrant.kernels.rows import HITS_ONLY, rows_of
from calibrant.pipeline.groups import Grouping, group_name
from calibrant.pipeline.multiple_testing import corrected
from calibrant.pipeline.select_metrics import Input
from calibrant.predictions import Classification, Regression
from calibrant.recalibration.methods.member_temperatures import MemberTemperatureScaling
from calibrant.results.check import BAYESIAN, Check
from calibrant.results.evaluation import Group

PREDICTED = "predicted"
"""The grouping by predicted class, unless a column has that name."""
MOST_CELLS = 10_000


SAMPLED: tuple[type[Engine], ...] = (
    ClassReplicates,
    ClasswiseReplicates,
    GaussianReplicates,
    SampleReplicates,
    Generic,
)
COMPUTED: tuple[type[Engine], ...] = (ExactClasses, ExactGaussians)


@dataclass(frozen=True)
class CheckedRows:
    """The rows of an input that are checked, with their temperatures if some were fitted."""

    source: Input
    keep: np.ndarray | None = None
    """Which rows (N,) are checked; None for all of them."""
    scaling: MemberTemperatureScaling | None = None

    @property
    def name(self) -> str:
        """The name of the input."""
        return self.source.name

    @property
    def n(self) -> int:
        """The number of rows that are checked."""
        return self.source.n if self.keep is None else int(self.keep.sum())

    @property
    def example(self) -> Any:
        """Predictions of the same type and settings."""
        example: Any = self.source.example
        return example if self.scaling is None else self.scaling.transform(example[:1])

    def column(self, name: str) -> np.ndarray:
        """A column of the rows that are checked."""
        values = self.source.column(name)
        return values if self.keep is None else values[self.keep]

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


@dataclass(frozen=True)
class Cells:
    """A cell holds the rows that no grouping separates; every group is a set of cells."""

    groupings: tuple[Grouping, ...]
    cell: np.ndarray | None
    """The cell (N,) of each row by columns; None if nothing is grouped by columns."""
    classes: int = 1
    """The number of predicted classes, if cells are split by predicted class too; else 1."""
    targets: Targets = field(default_factory=Targets)
    groups: tuple[tuple[int, int], ...] = ()
    """For each target after the first: its grouping, and its position there."""

    @classmethod
    def of(cls, groupings: Sequence[Grouping], classes: int) -> Cells:
        """The cells of some groupings; the grouping by predicted class has no `place` yet."""
        by_column = [g for g in groupings if len(g.place)]
        table = np.stack([g.place for g in by_column]) if by_column else np.zeros((0, 0), np.int64)
        codes, cell = np.unique(table, axis=1, return_inverse=True) if by_column else (np.zeros((0, 1), np.int64), None)
        by_class = classes if len(by_column) < len(groupings) else 1
        count = codes.shape[1] * by_class
        if count > MOST_CELLS:
            expected = f"at most {MOST_CELLS} combinations of groups"
            raise UsageError("by", expected=expected, got=f"{count}", hint="check by one column at a time")
        every = np.arange(count)
        parts, groups, row = [every], [], 0
        for number, grouping in enumerate(groupings):
            code = every // by_class if len(grouping.place) else every % by_class
            if len(grouping.place):
                code, row = codes[row][code], row + 1
            for k in range(len(grouping.names)):
                parts.append(every[code == k])
                groups.append((number, k))
        targets = Targets(count, tuple(parts))
        return cls(tuple(groupings), None if cell is None else cell.ravel(), by_class, targets, tuple(groups))

    def __call__(self, start: int, rows: Any) -> np.ndarray:
        """The cell of each row of a block."""
        cell = np.zeros(rows.n, np.int64) if self.cell is None else self.cell[start : start + rows.n]
        return cell * self.classes + rows.predicted if self.classes > 1 else cell


@dataclass
class InputCheck:
    """The checks of one input by each reading."""

    rows: CheckedRows
    statistics: list[Statistic]
    plans: list[Plan]
    cells: Cells
    block_rows: int | None = None
    report: Callable[[str, float], None] = lambda what, share: None

    def run(self) -> list[list[dict[str, Check]]]:
        """For each plan and target, the check of each statistic."""
        targets = self.cells.targets
        by_plan = [choose_engines(self.statistics, self.rows.example, plan, targets) for plan in self.plans]
        every = [engine for engines in by_plan for engine in engines]
        to_prepare = [engine for engine in every if engine.needs_preparing]
        for block in self.rows.blocks(self.block_rows) if to_prepare else ():
            for engine in to_prepare:
                engine.prepare(block)
        columns = frozenset().union(*(engine.required_columns for engine in every))
        if not all(HITS_ONLY in engine.required_columns for engine in every):
            columns -= {HITS_ONLY}
        cell_sizes, start = np.zeros(targets.cells, np.int64), 0
        for block in self.rows.blocks(self.block_rows):
            self.report("drawing", start / self.rows.n)
            with error_context(block.info.origin, block.info.first_row):
                rows = rows_of(block, columns, threads=self.plans[0].threads)
            cells = self.cells(start, rows)
            cell_sizes += np.bincount(cells, minlength=targets.cells)
            for engine in every:
                engine.add(block, rows, cells, start)
            start += block.n
        sizes = [int(cell_sizes[part].sum()) for part in targets.parts]
        out = []
        for plan, engines in zip(self.plans, by_plan, strict=True):
            laws = [engine.laws() for engine in engines]
            members = plan.members if plan.reading == BAYESIAN else 1
            of_plan = []
            for target, size in enumerate(sizes):
                by_key = {key: law for of_engine in laws for key, law in of_engine[target].items()}
                names: tuple[Any, ...] = ()
                if target:
                    number, k = self.cells.groups[target - 1]
                    names = self.cells.groupings[number].by, self.cells.groupings[number].names[k]
                checks = {}
                for key in (statistic.key for statistic in self.statistics):
                    # the U of the randomised p-value depends on reading, group and statistic by name, not by order
                    word = zlib.crc32("\0".join(map(str, (plan.reading, *names, key))).encode())
                    u = float(uniforms(plan.seed, CHECK_PLACE, 0, 1, start=word)[0])
                    nearest = nearest_member(by_key[key], plan.source, members)
                    checks[key] = replace(check_against(by_key[key], size, u), nearest=nearest)
                of_plan.append(checks)
            out.append(of_plan)
        return out

    def groups(self, checks: list[list[dict[str, Check]]]) -> list[Group]:
        """The groups with their checks; p-values are corrected for the number of groups of a grouping."""
        out = []
        for number, grouping in enumerate(self.cells.groupings):
            targets = [k + 1 for k, (g, _) in enumerate(self.cells.groups) if g == number]
            readings = [corrected([of_plan[k] for k in targets], _test_p) for of_plan in checks]
            for position, k in enumerate(targets):
                first, *others = (reading[position] for reading in readings)
                size = next(iter(first.values())).n
                if size:
                    name = group_name(self.rows.example, grouping.by, grouping.names[self.cells.groups[k - 1][1]])
                    out.append(Group(grouping.by, name, size, {}, first, others[0] if others else {}))
        return out


def _test_p(check: Check) -> float:
    return math.nan if check.passed_interval is None else check.test_p


def choose_engines(statistics: list[Statistic], example: Any, plan: Plan, targets: Targets) -> list[Engine]:
    """The engines that compute the statistics between them, each statistic by the most specialised one."""
    by_type: dict[type[Engine], list[Statistic]] = {}
    for statistic in statistics:
        types = SAMPLED if plan.draws else COMPUTED
        usable = (engine for engine in types if engine.supports(statistic, example))
        engine = next((engine for engine in usable if engine.fits(statistic, example, plan, targets)), None)
        if engine is None:
            expected = "a statistic with an exact distribution (accuracy, ece, nll, brier, picp, mse and others)"
            got = "none is known for these predictions with draws=exact"
            raise NotApplicable(statistic.key, expected=expected, got=got, hint="use draws=1000")
        by_type.setdefault(engine, []).append(statistic)
    return [engine(some, example, plan, targets) for engine, some in by_type.items()]


def has_exact_law(statistic: Statistic, example: Any) -> bool:
    """Whether the distribution of the statistic can be computed without sampling."""
    return any(engine.supports(statistic, example) for engine in COMPUTED)


def refuse_uncheckable(source: Input) -> None:
    """Refuse predictions without labels, or from which labels cannot be drawn."""
    example = source.example
    if example.task == "detection":
        got, hint = "detection scores", "check the predictions themselves"
    elif not example.has_labels or getattr(example, "soft", False):
        labels = "y" if isinstance(example, Regression) else "hard labels"
        got, hint = f"no {labels}", f"add {labels}: a check compares observed with expected outcomes"
    elif isinstance(example, Regression) and example.kind == "quantiles":
        got, hint = "quantiles, from which no outcome can be drawn", "give a mean and std, or samples"
    else:
        return
    raise NotApplicable(source.name, expected="predictions that can be checked", got=got, hint=hint)


def groups_by_prediction(rows: CheckedRows, column: str) -> bool:
    """Whether the grouping is the one by predicted class, rather than by a column of that name."""
    if column != PREDICTED or not isinstance(rows.example, Classification):
        return False
    try:
        rows.source.column(column)
    except UsageError:
        return True
    return False
