"""The references of everything that an evaluation used: metrics, intervals, curves, checks, and what was made of them.

References are free text, as the registry and the methods have them; `works_of` gives the works that they name. What a
loaded evaluation says of itself (warnings, the method of a recalibration) is text of others: it is only searched for
works that are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from calibrant.bibliography import Work, cited
from calibrant.comparison.facts import FACTS
from calibrant.comparison.paired import HOLM
from calibrant.errors import plain
from calibrant.evaluation import flips, gains
from calibrant.registry import metrics
from calibrant.registry.calibration import BROECKER
from calibrant.registry.regression_calibration import CZADO, KULESHOV
from calibrant.registry.selective import KRISHNAN, NADEEM

if TYPE_CHECKING:
    from calibrant.comparison.result import Comparison
    from calibrant.evaluation.result import Evaluation, Result

OVADIA = "Ovadia et al. (2019), NeurIPS 32"
GRUBER = "Gruber & Buettner (2022), NeurIPS 35"
LAKSHMINARAYANAN = "Lakshminarayanan, Pritzel & Blundell (2017), NeurIPS 30"
INTERVALS = {
    "wilson": "Wilson (1927), JASA 22: 209-212, for the interval",
    "studentised-hall": "Hall (1992), On the removal of skewness by transformation, JRSS B 54: 221-228",
    "delong-logit": "DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44: 837-845, for the interval",
    "poisson-bootstrap": "Hanley & MacGibbon (2006), Computer Methods and Programs in Biomedicine 83: 57-62",
    "jackknife": "Efron & Stein (1981), Annals of Statistics 9: 586-596",
    "studentised": "", "wald": "", "wald-log": "", "blocks": "", "test-inversion": "", "none": "",
}  # fmt: skip
"""By the method of an interval, whatever is said behind it; nothing where it is in every textbook, or our own."""
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
"""By the name of a curve without its options; histograms have none."""
CHECKS = (
    "Gopal (2021), Why calibration error is wrong given model uncertainty, arXiv 2112.01477; Rubin (1984), Annals of "
    "Statistics 12: 1151-1172; Gelman, Meng & Stern (1996), Statistica Sinica 6: 733-760"
)
EXACT = "Hong (2013), Computational Statistics & Data Analysis 59: 41-51"
"""Of laws of hits that are computed."""
GROUPS = "Benjamini & Hochberg (1995), JRSS B 57: 289-300"
SHIFT = f"{OVADIA}, appendix E; {KRISHNAN}, tables T1 to T4"
LADDER = f"{GRUBER}, theorem 3.1"
SIZES = f"{GRUBER}, figures 1 and 3"
FLIPS = f"Ernst (2004), Statistical Science 19: 676-685; {HOLM}"
"""Of p-values of pairs."""
BOOTSTRAP = "Hall (1992), The bootstrap and Edgeworth expansion, section 3.6"
"""Of intervals of pairs."""
EQUIVALENTS = "Rubin (1981), Annals of Statistics 9: 130-134; Busing et al. (1999), Statistics and Computing 9: 3-8"
"""Of intervals of equivalents."""
DATASETS = "Demšar (2006), JMLR 7: 1-30; Pratt (1959), JASA 54: 655-667"
LONGEST = 600
"""Characters of a reference."""


def references_of(evaluation: Evaluation) -> tuple[str, ...]:
    """The references of what was used, as free text, in the order of an evaluation's parts, each once."""
    found = chain(
        _metrics(evaluation),
        *(_result(result) for result in evaluation.results),
        _parts(evaluation),
        () if evaluation.comparison is None else _compared(evaluation.comparison),
        (note.reference for note in evaluation.warnings),
    )
    texts = (plain(text, LONGEST).strip() for text in found if isinstance(text, str))
    return tuple(dict.fromkeys(filter(None, texts)))


def works_of(evaluation: Evaluation) -> tuple[Work, ...]:
    """The works that these references name, in the same order, each once."""
    return cited(references_of(evaluation))


def facts_used(evaluation: Evaluation) -> list[str]:
    """Which scores and numbers of a comparison are no metrics but have facts of their own."""
    comparison = evaluation.comparison
    if comparison is None:
        return []
    each = [comparison, *comparison.datasets.values()]
    scores = {score for item in each for score in (item.rank_by, *item.ranks)}
    scores |= {"equivalent"} if any(item.equivalents for item in each) else set()
    return [name for name in FACTS if name in scores]


# ------------------------------------------------------------------------------------------- by part
def _metrics(evaluation: Evaluation) -> Iterator[str]:
    """Of everything that was measured, checked or compared by, of groups and subsets too."""
    specs = [spec for result in evaluation.results for spec in (*result.metrics, *result.checks)]
    specs += [spec for result in evaluation.results for group in result.groups for spec in group.metrics]
    specs += [spec for item in evaluation.sizes for spec in item.specs]
    specs += [spec for item in (evaluation.comparison,) if item is not None for spec in (item.rank_by, *item.ranks)]
    known = metrics()
    yield from (known[name].reference for name in map(_name, specs) if name in known)
    yield from (FACTS[name].reference for name in facts_used(evaluation))


def _result(result: Result) -> Iterator[str]:
    """Of intervals, curves, the ladder, checks, and the correction for many groups."""
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


def _parts(evaluation: Evaluation) -> Iterator[Any]:
    """Of what was made of results: recalibration and its gain, subsets, shift, rank flips."""
    if evaluation.recalibration is not None:
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
        yield flips.REFERENCE


def _compared(comparison: Comparison) -> Iterator[str]:
    """Of tests and intervals of pairs, equivalents, likelihood under shift, and summaries over data sets."""
    each = [comparison, *comparison.datasets.values()]
    pairs = [pair for item in each for pair in item.pairs]
    if any(_finite(pair.p_holm) for pair in pairs):
        yield FLIPS
    if any(_finite(pair.low) for pair in pairs):
        yield BOOTSTRAP
    if any(item.equivalents for item in each):
        yield EQUIVALENTS
    if any(item.shifted for item in each):
        yield OVADIA
    if comparison.summary is not None:
        yield DATASETS


def _name(spec: str) -> str:
    return spec.partition("(")[0].strip()


def _interval(method: Any) -> str:
    """Of the method of an interval; what is said behind its name, such as -approximate, does not matter."""
    said = f"{method}-"
    return next((text for name, text in INTERVALS.items() if said.startswith(f"{name}-")), "")


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
