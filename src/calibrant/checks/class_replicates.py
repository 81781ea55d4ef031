"""Statistics of replicated labels of classifications and judged answers, from integer tables of draws.

A replicate of the accuracy or of a calibration error of the predicted class needs hits of bins of confidence alone;
one of a proper score needs the sum of a score of the label; the rest counts labels. Observed values go through the
same tables and the same formulas, so that ties are ties. Reference: Gopal (2021), algorithms 2 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from calibrant.calibration.norms import NORMS, norm
from calibrant.checks.class_tables import TABLE, Binned, Counters, KeptHits, LabelSums, WidthHits
from calibrant.checks.labels import limits_of
from calibrant.checks.laws import Law, Replicates
from calibrant.checks.own import OWN
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.statistics import Statistic
from calibrant.kernels.replicates import BRIER, NLL, SCORE_UNIT
from calibrant.kernels.rows import HITS_ONLY
from calibrant.scores.proper import rbs_factor

ERRORS = ("ece", "mce", "tce")
SCORES = ("nll", "brier", "rbs")
COUNTS = ("class_frequency", "confusion", "entropy")
WIDTH, KEPT = "width", "kept "


class ClassReplicates:
    """Draws of hit statistics, of means of proper scores and of counts of labels."""

    def __init__(self, statistics: Sequence[Statistic], example: Any, plan: Plan, targets: Targets) -> None:
        self.statistics, self.plan, self.targets = list(statistics), plan, targets
        self.classes = getattr(example, "classes", 2)
        self.binnings = self._binnings([s for s in statistics if s.spec is not None and s.name not in SCORES])
        width = sorted({bins for bins, binning in self.binnings.values() if binning == WIDTH})
        self.width = WidthHits(width, plan, targets) if width else None
        self.kept = KeptHits(plan, targets) if len(width) < len(set(self.binnings.values())) else None
        scored = any(s.spec is not None and s.name in SCORES for s in statistics)
        self.slots, counters = self._counters([s for s in statistics if s.spec is None])
        self.labels = LabelSums(scored, counters, plan, targets) if scored or counters.count else None
        self.wanted: frozenset[Hashable] = frozenset({HITS_ONLY}) if self.labels is None else frozenset()

    @classmethod
    def takes(cls, statistic: Statistic, example: Any) -> bool:
        """Hit statistics of the predicted class, means of proper scores, and counts of labels; hard labels only."""
        if (
            example.task not in ("classification", "judged")
            or not example.has_labels
            or getattr(example, "soft", False)
        ):
            return False
        spec, name = statistic.spec, statistic.name
        if spec is None:
            return name in COUNTS and statistic.title == OWN[name].title and example.task == "classification"
        if name in ERRORS:
            return spec["of"] == "top" and not spec.options.get("debias", False)
        return name in ("accuracy", "brier", "rbs") or (name == "nll" and spec["clip"] == 0)

    # -------------------------------------------------------------------------------------- what is needed
    def _binnings(self, statistics: list[Statistic]) -> dict[str, tuple[int, str]]:
        """Bins and binning of each hit statistic; the accuracy is read off any table, or has one bin of its own."""
        out = {s.key: self._binning(s) for s in statistics if s.name != "accuracy"}
        width = next((known for known in out.values() if known[1] == WIDTH), (1, WIDTH))
        return out | {s.key: width for s in statistics if s.name == "accuracy"}

    def _binning(self, statistic: Statistic) -> tuple[int, str]:
        """Bins and binning; many bins are kept apart, for a table of them would be large."""
        options = statistic.options
        bins, binning = int(options.get("bins", 1)), str(options.get("binning", WIDTH))
        large = bins * self.targets.cells * self.plan.draws > TABLE
        return bins, (KEPT if large and binning == WIDTH else "") + binning

    def _counters(self, statistics: list[Statistic]) -> tuple[dict[str, list[int]], Counters]:
        """The slots of each statistic of counts."""
        whole = any(s.name == "entropy" for s in statistics)
        named = {_class(s, "of") for s in statistics if s.name == "class_frequency"}
        classes = list(range(self.classes)) if whole else sorted(named)
        pairs = [(_class(s, "true"), _class(s, "predicted")) for s in statistics if s.name == "confusion"]
        slots: dict[str, list[int]] = {}
        for statistic in statistics:
            if statistic.name == "entropy":
                slots[statistic.key] = list(range(self.classes))
            elif statistic.name == "class_frequency":
                slots[statistic.key] = [classes.index(_class(statistic, "of"))]
            else:
                pair = _class(statistic, "true"), _class(statistic, "predicted")
                slots[statistic.key] = [len(classes) + pairs.index(pair)]
        return slots, Counters.of(classes, pairs, self.classes)

    # --------------------------------------------------------------------------------------------- rows
    def add(self, block: Any, rows: Any, cells: np.ndarray, first: int) -> None:
        """Take in a block."""
        limits, cells = limits_of(rows, self.plan), np.asarray(cells, np.int64)
        if self.width is not None:
            self.width.add(rows, limits, cells, first)
        if self.kept is not None:
            self.kept.add(rows, limits, cells, first)
        if self.labels is not None:
            self.labels.add(block, rows, limits, cells, first)

    # --------------------------------------------------------------------------------------------- laws
    def laws(self) -> list[dict[str, Law]]:
        """The replicates of each statistic, for each target."""
        return [self._of_target(part) for part in self.targets.parts]

    def _of_target(self, part: np.ndarray) -> dict[str, Law]:
        found = self._hit_values(part)
        out: dict[str, Law] = {}
        for statistic in self.statistics:
            values = found.get(statistic.key)
            if statistic.key not in self.binnings:
                values = self._label_values(statistic, part)
            if values is None:
                values = np.full(self.plan.draws + 1, np.nan)
            out[statistic.key] = Replicates(float(values[-1]), values[:-1])
        return out

    def _hit_values(self, part: np.ndarray) -> dict[str, np.ndarray]:
        """Every hit statistic of each replicate, and of what was observed, from the bins that it needs."""
        pieces: dict[str, list[np.ndarray]] = {}
        for needed in dict.fromkeys(self.binnings.values()):
            statistics = [s for s in self.statistics if self.binnings.get(s.key) == needed]
            for binned in self._binned(*needed, part):
                for statistic in statistics:
                    pieces.setdefault(statistic.key, []).append(_hit_value(statistic, binned))
        ends = {key: values[-1][-1:] for key, values in pieces.items()}
        return {key: np.concatenate([*(v[:-1] for v in values), ends[key]]) for key, values in pieces.items()}

    def _binned(self, bins: int, binning: str, part: np.ndarray) -> Iterator[Binned]:
        if binning == WIDTH and self.width is not None:
            return self.width.of(bins, part)
        return iter(()) if self.kept is None else self.kept.of(bins, binning.removeprefix(KEPT), part)

    def _label_values(self, statistic: Statistic, part: np.ndarray) -> np.ndarray | None:
        """A mean score, or a function of counts, of every replicate and of what was observed."""
        labels = self.labels
        if labels is None or not (total := labels.total(part)):
            return None
        if statistic.spec is None:
            shares = labels.count(self.slots[statistic.key], part) / total
            return _entropy(shares) if statistic.name == "entropy" else shares[0]
        mean = labels.score(NLL if statistic.name == "nll" else BRIER, part) * SCORE_UNIT / total
        if statistic.name == "nll":
            mean[-1] += labels.far_sum(part) / total
        elif statistic.name == "brier":
            mean /= self.classes if statistic.options["per_class"] else 1.0
        else:
            mean = rbs_factor(self.classes, float(statistic.options["p"])) * np.sqrt(mean)
        return mean


def _hit_value(statistic: Statistic, binned: Binned) -> np.ndarray:
    """Accuracy, or a norm of the gaps of bins."""
    if statistic.name == "accuracy":
        return binned.accuracy()
    options = statistic.options
    power = {"ece": NORMS[str(options.get("norm", "l1"))], "mce": math.inf}.get(statistic.name)
    return norm(binned.share, float(options["p"]) if power is None else power)(binned.signed())


def _entropy(shares: np.ndarray) -> np.ndarray:
    """−Σ f log f over classes (C, R + 1); the smallest first, so that the same shares of other classes tie."""
    shares = np.sort(shares, axis=0)
    return -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=0)


def _class(statistic: Statistic, option: str) -> int:
    return int(statistic.options[option])
