"""Exact distributions of statistics of replicated labels: classification and judged answers.

Given a member, labels of rows are independent. Hits of the predicted class are Bernoulli, so their counts are
Poisson-binomial, which gives the gaps of bins; mean scores have exact moments. The Bayesian distribution is the equal
mixture over members; in the independent reading there is one distribution, that of the averaged prediction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.checks.distributions import Law, Mixture, by_cell, mixture_of_sums, share_law
from calibrant.checks.exact_binned import BinnedHits, gap_law
from calibrant.checks.label_statistics import CLASS_FREQUENCY, CONFUSION
from calibrant.checks.plan import Engine, Plan, Targets
from calibrant.checks.statistics import GAPS, Statistic
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.member_moments import member_classes, moment_table, moments_of
from calibrant.predictions import Judged
from calibrant.registry.metrics.proper import ACCURACY, BRIER, NLL
from calibrant.results.check import INDEPENDENT
from calibrant.scores import proper

SCORES, TABLES = (NLL, BRIER), (CLASS_FREQUENCY, CONFUSION)
MOST_POWER = 4.0
"""Largest power of gaps whose sum has a distribution smooth enough for a grid."""
SURE = 1e-9
"""Standard deviation of a mean score below which all labels are certain."""
ROUNDING = 1e-6
"""Rounding error of a mean score of certain labels, in single precision."""


class ExactClasses(Engine):
    """Accuracy, errors over bins of the top label, class frequencies, confusion, log score and Brier score."""

    def __init__(self, statistics: Sequence[Statistic], example: Any, plan: Plan, targets: Targets) -> None:
        super().__init__(statistics, example, plan, targets)
        self.averaged = plan.reading == INDEPENDENT or plan.members == 1
        self.classes = getattr(example, "classes", 2)
        of_gaps = {k for s in statistics if s.entry in GAPS and (k := s.class_of(example)) is not None}
        self.columns = sorted({_class_of(s) for s in statistics if s.entry in TABLES} | of_gaps)
        self.of_average = self.columns if self.averaged else sorted(of_gaps)
        self.required_columns = frozenset(("class", k) for k in self.of_average)
        self.kept: dict[str, list[np.ndarray]] = {}
        self.moments: Any = 0
        self.weight, self.sums = GroupSums(), [GroupSums() for _ in SCORES]
        self.impossible = np.zeros(targets.cells)

    @classmethod
    def supports(cls, statistic: Statistic, example: Any) -> bool:
        """Whether the exact distribution of the statistic is known."""
        if getattr(example, "soft", False) or example.task not in ("classification", "judged"):
            return False
        entry, options = statistic.entry, statistic.options
        if entry in SCORES:
            return not options.get("clip")
        counted = entry is ACCURACY or entry in TABLES
        if entry in GAPS:
            counted = not options.get("debias") and float(options.get("p", 1)) <= MOST_POWER
        return counted and example.weights is None

    def add(self, block: Any, rows: Any, cells: np.ndarray, first: int) -> None:
        """Add a block: columns that counts need are kept in row order; scores are summed."""
        entries = [s.entry for s in self.statistics]
        if any(entry not in SCORES for entry in entries):
            self._keep("cell", cells)
        if any(entry is ACCURACY or entry in GAPS for entry in entries):
            self._keep("hit", rows.hit)
            self._keep("chance", rows.confidence[None] if self.averaged else rows.member_p)
            self._keep("confidence", rows.confidence)
        for k in self.of_average:
            self._keep(f"class {k}", rows.extras["class", k])
        if self.columns:
            self._keep("label", block.labels)
            self._keep("predicted", rows.predicted)
            if self.averaged:
                self._keep("column", np.stack([rows.extras["class", k] for k in self.columns])[None])
            else:
                for _, scores in block.score_blocks():
                    p = member_classes(scores, block.kind, np.array(self.columns), self.plan.threads)
                    self._keep("column", p)
        if any(entry in SCORES for entry in entries):
            self._add_scores(block, rows, cells)

    def _keep(self, name: str, values: np.ndarray) -> None:
        self.kept.setdefault(name, []).append(np.array(values))

    def _add_scores(self, block: Any, rows: Any, cells: np.ndarray) -> None:
        """Add the moments of the scores of drawn labels, and the observed scores; infinite ones are counted."""
        if isinstance(block, Judged):
            p = np.asarray(block.confidence, np.float64)
            blocks, kind = [(0, np.stack([1.0 - p, p], axis=-1))], "probs"
        else:
            blocks, kind = block.score_blocks(), block.kind
        for start, scores in blocks:
            part = slice(start, start + scores.shape[1])
            weights = None if rows.weights is None else rows.weights[part]
            self.moments = self.moments + moment_table(
                scores, kind, cells[part], self.targets.cells, averaged=self.averaged, weights=weights,
                threads=self.plan.threads,
            )  # fmt: skip
        weights = np.ones(rows.n) if rows.weights is None else rows.weights
        nll = proper.nll(rows)
        possible = np.isfinite(nll) | (weights == 0)
        self.impossible += np.bincount(cells[~possible], minlength=self.targets.cells)
        self.weight.add(weights, cells)
        for sums, score in zip(self.sums, (np.where(np.isfinite(nll), nll, 0.0), proper.brier(rows)), strict=True):
            sums.add(weights * score, cells)

    def laws(self) -> list[dict[str, Law]]:
        """For each target, the distribution of each statistic by its key."""
        return [
            {statistic.key: self._law(statistic, target) for statistic in self.statistics}
            for target in (_Target(self, part) for part in self.targets.parts)
        ]

    def _law(self, statistic: Statistic, target: _Target) -> Law:
        if statistic.entry in SCORES:
            divisor = self.classes if statistic.options.get("per_class") else 1
            return target.score(SCORES.index(statistic.entry), divisor)
        if statistic.entry in TABLES:
            return target.table(statistic)
        if statistic.entry is ACCURACY:
            return share_law(float(target.of("hit").sum()), target.n, target.of("chance"), self.plan.threads)
        of = statistic.class_of(self.example)
        bins = target.bins(int(statistic.options["bins"]), str(statistic.options["binning"]), of)
        return gap_law(bins, statistic.gap_power)

    @cached_property
    def whole(self) -> dict[str, np.ndarray]:
        """The columns of all rows."""
        return {name: np.concatenate(parts, axis=-1) for name, parts in self.kept.items()}


class _Target:
    """Some of the cells of an engine to which all rows have been added."""

    def __init__(self, engine: ExactClasses, part: np.ndarray) -> None:
        self.engine, self.part = engine, part
        self.binned: dict[tuple[int, str, int | None], BinnedHits | None] = {}

    @cached_property
    def rows(self) -> np.ndarray | slice:
        """Which rows are in these cells."""
        chosen = np.zeros(self.engine.targets.cells, bool)
        chosen[self.part] = True
        return slice(None) if chosen.all() else chosen[self.engine.whole["cell"]]

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.of("cell"))

    def of(self, name: str) -> np.ndarray:
        """A column of these rows."""
        return self.engine.whole[name][..., self.rows]

    def bins(self, bins: int, binning: str, of: int | None = None) -> BinnedHits | None:
        """Hits by bins of confidence, or labels of a class by bins of its probability, shared by all norms."""
        if (bins, binning, of) not in self.binned:
            if of is None:
                columns = (self.of("confidence"), self.of("hit"), self.of("chance"))
            else:
                is_class = (self.of("label") == of).astype(np.float64)
                columns = (self.of(f"class {of}"), is_class, self.of("column")[:, self.engine.columns.index(of)])
            threads = self.engine.plan.threads
            self.binned[bins, binning, of] = BinnedHits.of(*columns, bins, binning, threads) if self.n else None
        return self.binned[bins, binning, of]

    def table(self, statistic: Statistic) -> Law:
        """The distribution of the fraction of rows with a label, and with a predicted class for `confusion`."""
        true = _class_of(statistic)
        eligible = np.ones(self.n, bool)
        if statistic.entry is CONFUSION:
            eligible = self.of("predicted") == statistic.options["predicted"]
        chance = self.of("column")[:, self.engine.columns.index(true)][:, eligible]
        hits = float((self.of("label")[eligible] == true).sum())
        return share_law(hits, self.n, chance, self.engine.plan.threads)

    def score(self, which: int, divisor: float) -> Mixture:
        """The mixture over members of the distribution of a mean score, from its moments."""
        engine, cells = self.engine, self.engine.targets.cells
        weight, observed = (math.fsum(by_cell(x, cells)[self.part]) for x in (engine.weight, engine.sums[which]))
        if SCORES[which] is NLL and engine.impossible[self.part].any():
            observed = math.inf
        moments = moments_of(engine.moments[self.part].sum(axis=0)).astype(np.float64)[:, 3 * which : 3 * which + 3]
        law = mixture_of_sums(observed, moments, weight * divisor, least=0.0)
        # with certain labels, the observed score is the expected one up to rounding, or the label was impossible
        same = (law.sd <= SURE) & (np.abs(law.mean - law.observed) <= ROUNDING)
        mean, sd = np.where(same, law.observed, law.mean), np.where(same, 0.0, law.sd)
        return Mixture(law.observed, mean, sd, np.where(same, 0.0, law.skewness), least=law.least)


def _class_of(statistic: Statistic) -> int:
    return int(statistic.options["of" if statistic.entry is CLASS_FREQUENCY else "true"])
