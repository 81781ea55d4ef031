"""The references for everything that an evaluation used: metrics, intervals, curves, checks, recalibration.

References are free text from the registry and the methods; `works_of` returns the bibliography entries they name. Text
that comes from a loaded file (warnings, the method of a recalibration) is only searched for known works.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from calibrant.bibliography import Work, cited_works
from calibrant.errors import plain
from calibrant.registry.comparison_scores import COMPARISON_SCORES
from calibrant.registry.lookup import metrics
from calibrant.registry.metrics.calibration import BROECKER
from calibrant.registry.metrics.regression_calibration import CZADO, KULESHOV
from calibrant.registry.metrics.selective import KRISHNAN, NADEEM
from calibrant.results import improvement as gains
from calibrant.results import rank_flips
from calibrant.results.comparison import HOLM
from calibrant.results.evaluation import COMPARISON, RECALIBRATION

if TYPE_CHECKING:
    from calibrant.results.evaluation import Evaluation

OVADIA = "Ovadia et al. (2019), NeurIPS 32"
GRUBER = "Gruber & Buettner (2022), NeurIPS 35"
LAKSHMINARAYANAN = "Lakshminarayanan, Pritzel & Blundell (2017), NeurIPS 30"
EFRON = "Efron (1982), The jackknife, the bootstrap and other resampling plans, SIAM, chapter 6"
INTERVALS = {
    "wilson": "Wilson (1927), JASA 22: 209-212, for the interval",
    "studentised-hall": "Hall (1992), On the removal of skewness by transformation, JRSS B 54: 221-228",
    "delong-logit": "DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44: 837-845, for the interval",
    "poisson-bootstrap": "Hanley & MacGibbon (2006), Computer Methods and Programs in Biomedicine 83: 57-62",
    "jackknife": "Efron & Stein (1981), Annals of Statistics 9: 586-596",
    "studentised": "", "wald": "", "wald-log": "", "blocks": "", "test-inversion": "", "none": "",
    "influence-logit": EFRON, "influence-score": EFRON, "order-statistics": "",
}  # fmt: skip
"""By interval method, suffixes ignored; empty for textbook methods and our own."""
CURVES = {
    "reliability": BROECKER,
    "corp": "Dimitriadis, Gneiting & Jordan (2021), PNAS 118: e2016191118",
    "accuracy_confidence": f"{OVADIA}, figure 2",
    "rejection": NADEEM,
    "risk_coverage": "Geifman & El-Yaniv (2017), NeurIPS 30",
    "avu": KRISHNAN,
    "pit": f"Dawid (1984), JRSS A 147: 278-292; {CZADO}",
    "calibration": f"{KULESHOV}; {CZADO}",
    "central_coverage": f"{KULESHOV}; {CZADO}",
    "mix": f"{LAKSHMINARAYANAN}; {OVADIA}, figure 4",
    "mutual_information": "Depeweg et al. (2018), ICML 35: 1184-1193",
    "functions": "Gopal (2021), appendix F, figure 10",
    "confidence": "", "entropy": "", "scores": "", "width": "",
}  # fmt: skip
"""By curve name without options; histograms have none."""
CHECKS = (
    "Gopal (2021), Why calibration error is wrong given model uncertainty, arXiv 2112.01477; Rubin (1984), Annals of "
    "Statistics 12: 1151-1172; Gelman, Meng & Stern (1996), Statistica Sinica 6: 733-760"
)
EXACT = "Hong (2013), Computational Statistics & Data Analysis 59: 41-51"
"""For exact distributions of correct answers."""
GROUPS = "Benjamini & Hochberg (1995), JRSS B 57: 289-300"
SHIFT = f"{OVADIA}, appendix E; {KRISHNAN}, tables T1 to T4"
LADDER = f"{GRUBER}, theorem 3.1"
SIZES = f"{GRUBER}, figures 1 and 3"
FLIPS = f"Ernst (2004), Statistical Science 19: 676-685; {HOLM}"
"""For p-values of pairs."""
BOOTSTRAP = "Hall (1992), The bootstrap and Edgeworth expansion, section 3.6"
"""For intervals of pairs."""
EQUIVALENTS = "Rubin (1981), Annals of Statistics 9: 130-134; Busing et al. (1999), Statistics and Computing 9: 3-8"
"""For intervals of deep-ensemble equivalents."""
DATASETS = "Demšar (2006), JMLR 7: 1-30; Pratt (1959), JASA 54: 655-667"
MAX_REFERENCE = 600
"""Characters."""


def references_of(evaluation: Evaluation) -> tuple[str, ...]:
    """The references of everything used, as free text without duplicates."""
    texts = (plain(text, MAX_REFERENCE).strip() for text in _references(evaluation) if isinstance(text, str))
    return tuple(dict.fromkeys(filter(None, texts)))


def works_of(evaluation: Evaluation) -> tuple[Work, ...]:
    """The bibliography entries that these references name, in the same order without duplicates."""
    return cited_works(references_of(evaluation))


def facts_used(evaluation: Evaluation) -> list[str]:
    """The scores of a comparison that are not metrics but have a definition of their own."""
    if evaluation.kind != COMPARISON:
        return []
    comparison = evaluation.comparison
    each = [comparison, *comparison.datasets.values()]
    scores = {score for item in each for score in (item.rank_by, *item.ranks)}
    scores |= {"dee"} if any(item.equivalents for item in each) else set()
    return [name for name in COMPARISON_SCORES if name in scores]


def _references(evaluation: Evaluation) -> Iterator[Any]:
    """The references of everything used, part by part."""
    specs = [spec for result in evaluation.results for spec in (*result.metrics, *result.checks)]
    specs += [spec for result in evaluation.results for group in result.groups for spec in group.metrics]
    specs += [spec for item in evaluation.sizes for spec in item.specs]
    if evaluation.kind == COMPARISON:
        specs += [evaluation.comparison.rank_by, *evaluation.comparison.ranks]
    known = metrics()
    yield from (known[name].reference for name in map(_name, specs) if name in known)
    yield from (COMPARISON_SCORES[name].reference for name in facts_used(evaluation))

    for result in evaluation.results:
        estimates = [*result.metrics.values(), *(one for group in result.groups for one in group.metrics.values())]
        yield from (_interval(one.method) for one in estimates)
        yield from (CURVES.get(_name(name), "") for name in result.curves)
        if result.ladder is not None:
            yield LADDER
        checks = [*result.checks.values(), *result.independent.values()]
        checks += [check for group in result.groups for check in group.checks.values()]
        if checks:
            yield CHECKS
        if any(check.method == "exact" for check in checks):
            yield EXACT
        if any(map(_finite, [*(one.q_value for one in estimates), *(check.q_value for check in checks)])):
            yield GROUPS

    if evaluation.kind == RECALIBRATION:
        yield evaluation.recalibration.get("reference")
    if evaluation.improvement is not None:
        yield gains.REFERENCE
        yield from (_interval(gain.method) for gain in evaluation.improvement.gains.values())
    if evaluation.sizes or (evaluation.improvement is not None and evaluation.improvement.sizes is not None):
        yield SIZES
    if evaluation.shift:
        yield SHIFT
    if evaluation.passed:
        yield CHECKS
    if evaluation.flips is not None:
        yield rank_flips.REFERENCE

    if evaluation.kind == COMPARISON:
        each = [evaluation.comparison, *evaluation.comparison.datasets.values()]
        pairs = [pair for item in each for pair in item.pairs]
        if any(_finite(pair.p_holm) for pair in pairs):
            yield FLIPS
        if any(_finite(pair.low) for pair in pairs):
            yield BOOTSTRAP
        if any(item.equivalents for item in each):
            yield EQUIVALENTS
        if any(item.shifted for item in each):
            yield OVADIA
        if evaluation.comparison.summary is not None:
            yield DATASETS
    yield from (note.reference for note in evaluation.warnings)


def _name(spec: str) -> str:
    return spec.partition("(")[0].strip()


def _interval(method: Any) -> str:
    """The reference of an interval method; a suffix such as -approximate does not matter."""
    return next((text for name, text in INTERVALS.items() if f"{method}-".startswith(f"{name}-")), "")


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
