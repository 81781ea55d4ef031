"""Laws of statistics of replicated labels, computed instead of sampled: classification and judged answers.

Given a member, labels of rows are independent. Hits of the predicted class are Bernoulli, so that counts of them are
Poisson-binomial and gaps of bins follow; mean scores have exact moments. The Bayesian law is the equal mixture over
members; read as independent there is one law, by the averaged prediction.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.calibration.norms import NORMS
from calibrant.checks.exact_gaps import BinnedHits, gap_law
from calibrant.checks.laws import Law, Mixture
from calibrant.checks.moments import by_cell, mixture_of_sums
from calibrant.checks.own import OWN
from calibrant.checks.plan import INDEPENDENT, Plan, Targets
from calibrant.checks.poisson_binomial import share_law
from calibrant.checks.statistics import Statistic
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.member_moments import member_classes, moment_table, moments_of
from calibrant.predictions import Judged
from calibrant.scores import proper

GAPS, SCORES, TABLES = frozenset({"ece", "mce", "tce"}), ("nll", "brier"), frozenset({"class_frequency", "confusion"})
MOST_POWER = 4.0
"""Power of gaps up to which the law of their sum is smooth enough for a grid."""
SURE = 1e-9
"""Standard deviation of a mean score under which no label was in doubt."""
ROUNDING = 1e-6
"""By how much a score that is not in doubt may be off, in single precision."""


class ExactClasses:
    """Accuracy, errors over bins of the top label, class frequencies, confusion, log score and Brier score."""

    def __init__(self, statistics: Sequence[Statistic], example: Any, plan: Plan, targets: Targets) -> None:
        """Nothing taken in yet."""
        self.statistics, self.plan, self.targets = statistics, plan, targets
        self.averaged = plan.reading == INDEPENDENT or plan.members == 1
        self.classes = getattr(example, "classes", 2)
        self.scored = any(s.name in SCORES for s in statistics)
        self.columns = sorted({_class_of(s) for s in statistics if s.name in TABLES})
        self.wanted: frozenset[Hashable] = frozenset()
        if self.averaged:
            self.wanted = frozenset(("class", k) for k in self.columns)
        self.kept: dict[str, list[np.ndarray]] = {}
        self.moments: Any = 0
        self.sums = {name: GroupSums() for name in ("weight", *SCORES)}
        self.impossible = np.zeros(targets.cells)

    @classmethod
    def takes(cls, statistic: Statistic, example: Any) -> bool:
        """Whether the law of the statistic can be computed."""
        if getattr(example, "soft", False) or example.task not in ("classification", "judged"):
            return False
        if statistic.spec is None:
            own = OWN.get(statistic.name)
            known = statistic.name in TABLES and own is not None and statistic.title == own.title
            return known and example.weights is None
        if statistic.name in SCORES:
            return not statistic.options.get("clip")
        counted = statistic.name == "accuracy" or (
            statistic.name in GAPS
            and statistic.options.get("of", "top") == "top"
            and not statistic.options.get("debias")
            and float(statistic.options.get("p", 1.0)) <= MOST_POWER
        )
        return counted and example.weights is None

    # --------------------------------------------------------------------------------------- taking in
    def add(self, block: Any, rows: Any, cells: np.ndarray, first: int) -> None:
        """Take in a block: what counts need is kept, in the order of rows; scores are summed."""
        del first
        names = {s.name for s in self.statistics}
        if not names <= set(SCORES):
            self._keep("cell", cells)
        if names & (GAPS | {"accuracy"}):
            self._keep("hit", rows.hit)
            self._keep("chance", rows.confidence[None] if self.averaged else rows.member_p)
        if names & GAPS:
            self._keep("confidence", rows.confidence)
        if names & TABLES:
            self._keep("label", block.labels)
            self._keep("predicted", rows.predicted)
            self._add_columns(block, rows)
        if self.scored:
            self._add_moments(block, rows, cells)
            self._add_scores(rows, cells)

    def _keep(self, name: str, values: np.ndarray) -> None:
        self.kept.setdefault(name, []).append(np.array(values))

    def _add_columns(self, block: Any, rows: Any) -> None:
        if self.averaged:
            columns = np.stack([rows.extras["class", k] for k in self.columns])[None]
            self._keep("column", columns)
            return
        for _, scores in block.score_blocks():
            self._keep("column", member_classes(scores, block.kind, np.array(self.columns), self.plan.threads))

    def _add_moments(self, block: Any, rows: Any, cells: np.ndarray) -> None:
        if isinstance(block, Judged):
            p = np.asarray(block.confidence, np.float64)
            blocks, kind = [(0, np.stack([1.0 - p, p], axis=-1))], "probs"
        else:
            blocks, kind = block.score_blocks(), block.kind
        for start, scores in blocks:
            part = slice(start, start + scores.shape[1])
            weights = None if rows.weights is None else rows.weights[part]
            self.moments = self.moments + moment_table(
                scores,
                kind,
                cells[part],
                self.targets.cells,
                averaged=self.averaged,
                weights=weights,
                threads=self.plan.threads,
            )

    def _add_scores(self, rows: Any, cells: np.ndarray) -> None:
        """What came true: the weighted sums of the scores, infinite log scores counted apart."""
        weights = np.ones(rows.n) if rows.weights is None else rows.weights
        nll = proper.nll(rows)
        possible = np.isfinite(nll) | (weights == 0)
        self.impossible += np.bincount(cells[~possible], minlength=self.targets.cells)
        self.sums["weight"].add(weights, cells)
        self.sums["nll"].add(weights * np.where(np.isfinite(nll), nll, 0.0), cells)
        self.sums["brier"].add(weights * proper.brier(rows), cells)

    # -------------------------------------------------------------------------------------------- laws
    def laws(self) -> list[dict[str, Law]]:
        """For each target, the law of each statistic by its key."""
        return [
            {statistic.key: self._law(statistic, target) for statistic in self.statistics}
            for target in (_Target(self, part) for part in self.targets.parts)
        ]

    def _law(self, statistic: Statistic, target: _Target) -> Law:
        if statistic.name in SCORES:
            return target.score(statistic.name, self.classes if statistic.options.get("per_class") else 1)
        if statistic.name in TABLES:
            return target.table(statistic)
        if statistic.name == "accuracy":
            return share_law(float(target.of("hit").sum()), target.n, target.of("chance"), self.plan.threads)
        power = math.inf
        if statistic.name != "mce":
            power = float(statistic.options["p"]) if statistic.name == "tce" else NORMS[str(statistic.options["norm"])]
        return gap_law(target.bins(int(statistic.options["bins"]), str(statistic.options["binning"])), power)

    @cached_property
    def whole(self) -> dict[str, np.ndarray]:
        """What was kept of all rows."""
        return {name: np.concatenate(parts, axis=-1) for name, parts in self.kept.items()}


class _Target:
    """Some of the cells of an engine that has taken in all rows."""

    def __init__(self, engine: ExactClasses, part: np.ndarray) -> None:
        self.engine, self.part = engine, part
        self.binned: dict[tuple[int, str], BinnedHits | None] = {}

    @cached_property
    def rows(self) -> np.ndarray | slice:
        """Which rows are of these cells."""
        chosen = np.zeros(self.engine.targets.cells, bool)
        chosen[self.part] = True
        return slice(None) if chosen.all() else chosen[self.engine.whole["cell"]]

    @property
    def n(self) -> int:
        """Their number."""
        return len(self.of("cell"))

    def of(self, name: str) -> np.ndarray:
        """What was kept of them."""
        return self.engine.whole[name][..., self.rows]

    def bins(self, bins: int, binning: str) -> BinnedHits | None:
        """Their hits by bins of the confidence, shared by the norms that are taken of them."""
        if (bins, binning) not in self.binned:
            known = (self.of("confidence"), self.of("hit"), self.of("chance"), bins, binning, self.engine.plan.threads)
            self.binned[bins, binning] = BinnedHits.of(*known) if self.n else None
        return self.binned[bins, binning]

    def table(self, statistic: Statistic) -> Law:
        """The law of the share of rows with a label, among those of a predicted class where one is named."""
        true = _class_of(statistic)
        able = np.ones(self.n, bool)
        if statistic.name == "confusion":
            able = self.of("predicted") == statistic.options["predicted"]
        chance = self.of("column")[:, self.engine.columns.index(true)][:, able]
        hits = float((self.of("label")[able] == true).sum())
        return share_law(hits, self.n, chance, self.engine.plan.threads)

    def score(self, name: str, divisor: float) -> Mixture:
        """The mixture of the members' laws of a mean score, by their moments."""
        cells = self.engine.targets.cells
        weight, observed = (math.fsum(by_cell(self.engine.sums[key], cells)[self.part]) for key in ("weight", name))
        if name == "nll" and self.engine.impossible[self.part].any():
            observed = math.inf
        first = 3 * SCORES.index(name)
        moments = moments_of(self.engine.moments[self.part].sum(axis=0)).astype(np.float64)[:, first : first + 3]
        return _settled(mixture_of_sums(observed, moments, weight * divisor, least=0.0))


def _settled(law: Mixture) -> Mixture:
    """Where no label was in doubt, what came true is what was expected but for rounding, or was thought impossible."""
    same = (law.sd <= SURE) & (np.abs(law.mean - law.observed) <= ROUNDING)
    mean, sd = np.where(same, law.observed, law.mean), np.where(same, 0.0, law.sd)
    return Mixture(law.observed, mean, sd, np.where(same, 0.0, law.skewness), least=law.least)


def _class_of(statistic: Statistic) -> int:
    return int(statistic.options["of" if statistic.name == "class_frequency" else "true"])
