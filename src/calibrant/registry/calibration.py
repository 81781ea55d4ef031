"""Entries of the registry: calibration errors over bins of one probability."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import partial

from calibrant.calibration.binned import BinTable
from calibrant.calibration.norms import NORMS, Statistic, debiased_square, norm
from calibrant.kernels.rows import RANK
from calibrant.predictions import Classification, Judged
from calibrant.registry.binned_error import MakeStatistic, binned_error
from calibrant.registry.kept import mass_binned_error
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.pairs import OF, Pairs, RankedPairs, TopMassPairs, UncertaintyPairs, pairs_of, wanted_class
from calibrant.registry.sharing import Reduced

LABELS = frozenset({"labels"})
HARD = frozenset({"hard_labels"})
BINS = Option("bins", 15, "number of bins", at_least=1, at_most=100_000)
BINNING = Option("binning", "width", "equal width or equal mass", choices=("width", "mass"))
NORM = Option("norm", "l1", "l1, l2 or max", choices=tuple(NORMS))
PLUG_IN = (
    "Plug-in, biased upwards: a perfect model is positive at any n (see the null band), by an amount that differs "
    "between models, bins and n. A lower bound of the calibration error in the limit."
)
UNION = "union of two test inversions"
NAEINI = "Naeini, Cooper & Hauskrecht (2015), AAAI 29"
calibration_error = partial(Metric, direction="lower", limits=(0.0, 1.0), comparable=False, redraws=True)
"""The entry of a calibration error: what all of them have in common."""
BROECKER = "Bröcker & Smith (2007), Weather and Forecasting 22: 651-661, for the null band"


def over_bins(spec: Spec, pairs: Pairs, power: float) -> Reduced:
    """The norm of the gaps over the bins that the spec asks for; the largest gap has no interval."""

    def make(table: BinTable) -> Statistic:
        return norm(table.share, power)

    return _binned(spec, pairs, make, None if math.isinf(power) else make)


def _binned(spec: Spec, pairs: Pairs, make: MakeStatistic, inverted: MakeStatistic | None) -> Reduced:
    kind = mass_binned_error if spec.options.get("binning") == "mass" else binned_error
    return kind(pairs, int(spec["bins"]), make, inverted)


def _keeps(spec: Spec) -> bool:
    return spec["binning"] == "mass"


ECE = calibration_error(
    name="ece",
    title="Expected calibration error",
    definition="Σ_b n_b/N |mean y − mean p| over bins of the pairs (confidence, correct), or (p_c, label is c) with "
    "of=. Bins are ((b−1)/B, b/B]; binning=mass cuts between distinct values. norm=l2 takes the root of the mean "
    "square, norm=max the largest gap.",
    reference=f"{NAEINI}; {BROECKER}",
    needs=LABELS,
    bias=PLUG_IN,
    cost="linear",
    merge="exact",
    keeps_rows=_keeps,
    interval=f"{UNION} (norm=max and more than 4096 bins have none)",
    options=(BINS, BINNING, NORM, OF),
    wanted=wanted_class,
    light=True,
    accumulate=lambda spec, predictions: over_bins(spec, pairs_of(spec, predictions), NORMS[str(spec["norm"])]),
)

MCE = calibration_error(
    name="mce",
    title="Maximum calibration error",
    definition="max_b |mean y − mean p| over the bins of `ece` that have rows.",
    reference=f"{NAEINI}; {BROECKER}",
    needs=LABELS,
    bias="Plug-in, biased upwards, most of all: one row alone in its bin can decide it. Look at the null band.",
    cost="linear",
    merge="exact",
    keeps_rows=_keeps,
    interval="none that is known to cover",
    options=(BINS, BINNING, OF),
    wanted=wanted_class,
    light=True,
    accumulate=lambda spec, predictions: over_bins(spec, pairs_of(spec, predictions), math.inf),
)


def _tce(spec: Spec, predictions: Classification | Judged) -> Reduced:
    pairs, power = pairs_of(spec, predictions), float(spec["p"])
    if not spec["debias"]:
        return over_bins(spec, pairs, power)
    return _binned(spec, pairs, debiased_square, lambda table: norm(table.share, 2.0))


def _tce_refuses(spec: Spec, predictions: Classification | Judged) -> str | None:
    if spec["debias"] and spec["p"] != 2.0:
        return "debias=true is known for p=2 only"
    if spec["debias"] and predictions.weights is not None:
        return "debias=true has no weighted form"
    if spec["debias"] and getattr(predictions, "soft", False):
        return "debias=true needs hard labels"
    return None


TCE = calibration_error(
    name="tce",
    title="Top-label calibration error",
    definition="(Σ_b n_b/N |mean y − mean p|^p)^(1/p) over the bins of `ece`; p=1 is `ece`. debias=true (p=2) takes "
    "ȳ(1 − ȳ)/(n_b − 1) off each squared gap, bins of fewer than two rows counting nothing, and clips the sum at 0.",
    reference="Kumar, Liang & Ma (2019), NeurIPS 32: 3792-3803",
    needs=LABELS,
    bias=PLUG_IN + " debias=true takes most of it away, at the price of more spread and of zeros.",
    cost="linear",
    merge="exact",
    keeps_rows=_keeps,
    interval=f"{UNION}, of the plug-in also where it is debiased",
    options=(
        Option("p", 2.0, "power of the gaps", at_least=1.0, at_most=100.0),
        BINS,
        BINNING,
        Option("debias", False, "take off what noise adds to squared gaps"),
        OF,
    ),
    refuses=_tce_refuses,
    wanted=wanted_class,
    light=True,
    accumulate=_tce,
)


def _top_pairs(spec: Spec) -> Pairs:
    return TopMassPairs(int(spec["k"])) if spec["form"] == "within" else RankedPairs(int(spec["k"]))


def _top_wanted(spec: Spec, predictions: Classification | Judged) -> frozenset[Hashable]:
    key = "top_mass" if spec["form"] == "within" else "ranked"
    return frozenset({RANK, (key, int(spec["k"]))})


TOP_K_ECE = calibration_error(
    name="top_k_ece",
    title="Expected calibration error over the top k",
    definition="`ece` of the pairs (mass of the k most probable classes, label is among them); form=rank takes "
    "(probability of the k-th most probable class, label is that class).",
    reference="Gupta et al. (2021), ICLR 9, section 4.1",
    needs=HARD,
    tasks=frozenset({"classification"}),
    bias=PLUG_IN,
    cost="linear",
    merge="exact",
    keeps_rows=_keeps,
    interval=f"{UNION} (norm=max has none)",
    options=(
        Option("k", 5, "number of classes", at_least=1),
        BINS,
        BINNING,
        NORM,
        Option("form", "within", "all of the top k, or the k-th alone", choices=("within", "rank")),
    ),
    wanted=_top_wanted,
    accumulate=lambda spec, predictions: over_bins(spec, _top_pairs(spec), NORMS[str(spec["norm"])]),
)

UCE = calibration_error(
    name="uce",
    title="Uncertainty calibration error",
    definition="Σ_b n_b/N |error rate − mean uncertainty| over bins of the uncertainty, entropy/log C.",
    reference="Laves et al. (2019), NeurIPS workshop on Bayesian deep learning; Krishnan & Tickoo (2020), appendix C.3",
    needs=LABELS,
    tasks=frozenset({"classification"}),
    bias="Not 0 for a perfect model even without noise: entropy is not an error rate. The null band holds what a "
    "perfect model would give, and the p-value is two-sided: a value below it is no good sign either.",
    cost="linear",
    merge="exact",
    interval=UNION,
    options=(BINS,),
    accumulate=lambda spec, predictions: over_bins(spec, UncertaintyPairs(predictions.classes), 1.0),
)

METRICS = (ECE, MCE, TCE, TOP_K_ECE, UCE)
