"""Entries of the registry: calibration errors over bins of one probability."""

from __future__ import annotations

import math
from functools import partial

from calibrant.calibration.binning import BinTable
from calibrant.calibration.norms import NORMS, Statistic, debiased_square, norm
from calibrant.kernels.rows import RANK
from calibrant.predictions import Classification, Judged
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.state.accumulators import Reduced
from calibrant.registry.state.binned_state import MakeStatistic, binned_error
from calibrant.registry.state.pairs import (
    OF,
    Pairs,
    RankedPairs,
    TopMassPairs,
    UncertaintyPairs,
    class_columns,
    mass_binned_error,
    pairs_of,
)

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
calibration_error = partial(
    Metric, family="calibration errors", axis="confidence", direction="lower", limits=(0.0, 1.0), comparable=False,
    has_null_band=True,
)  # fmt: skip
"""The defaults of an entry of a calibration error."""
BROECKER = "Bröcker & Smith (2007), Weather and Forecasting 22: 651-661, for the null band"


def over_bins(spec: Spec, pairs: Pairs, power: float) -> Reduced:
    """The norm of the gaps over the bins of the spec; the largest gap has no interval."""

    def make(table: BinTable) -> Statistic:
        return norm(table.share, power)

    return _binned(spec, pairs, make, None if math.isinf(power) else make)


def _binned(spec: Spec, pairs: Pairs, make: MakeStatistic, inverted: MakeStatistic | None) -> Reduced:
    kind = mass_binned_error if spec.options.get("binning") == "mass" else binned_error
    return kind(pairs, int(spec["bins"]), make, inverted)


def _keeps(spec: Spec) -> bool:
    return spec["binning"] == "mass"


pair_error = partial(
    calibration_error, needs=LABELS, cost="linear", merge="exact", keeps_rows=_keeps, required_columns=class_columns,
    short_pass=True,
)  # fmt: skip
"""The defaults of an error over bins of the pairs (confidence, correct)."""

ECE = pair_error(
    name="ece",
    label="ECE",
    title="Expected calibration error",
    definition="Σ_b n_b/N |mean y − mean p| over bins of the pairs (confidence, correct), or (p_c, label is c) with "
    "of=. Bins are ((b−1)/B, b/B]; binning=mass cuts between distinct values. norm=l2 takes the root of the mean "
    "square, norm=max the largest gap.",
    reference=f"{NAEINI}; {BROECKER}",
    bias=PLUG_IN,
    roles={
        "main": 4,
        "group": 4,
        "group_column": 9,
        "recalibration": 6,
        "sample_size": 2,
        "check": 2,
        "demo": 4,
        "verdict_error": 1,
        "shift_trend": 2,
        "test_binary": 3,
        "test_classes": 1,
        "test_judged": 3,
    },
    expected=0.0,
    relevant_error=0.02,
    interval=f"{UNION} (norm=max and more than 4096 bins have none)",
    options=(BINS, BINNING, NORM, OF),
    accumulate=lambda spec, predictions: over_bins(spec, pairs_of(spec, predictions), NORMS[str(spec["norm"])]),
)

MCE = pair_error(
    name="mce",
    label="MCE",
    title="Maximum calibration error",
    definition="max_b |mean y − mean p| over the bins of `ece` that have rows.",
    reference=f"{NAEINI}; {BROECKER}",
    bias="Plug-in, with the largest upward bias: a single row in its bin can determine it. Compare it with the null "
    "band.",
    interval="none with known coverage",
    options=(BINS, BINNING, OF),
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


TCE = pair_error(
    name="tce",
    label="TCE",
    title="Top-label calibration error",
    definition="(Σ_b n_b/N |mean y − mean p|^p)^(1/p) over the bins of `ece`; p=1 is `ece`. debias=true (p=2) "
    "subtracts ȳ(1 − ȳ)/(n_b − 1) from each squared gap, ignores bins of fewer than two rows, and clips the sum at 0.",
    reference="Kumar, Liang & Ma (2019), NeurIPS 32: 3792-3803",
    bias=PLUG_IN + " debias=true removes most of the bias, but has a larger variance and is often 0.",
    roles={
        "recalibration(binning=mass,debias=true)": 7,
        "sample_size(bins=100)": 3,
        "sample_size(binning=mass,debias=true)": 4,
        "verdict_error": 2,
    },
    interval=f"{UNION}, of the plug-in also where it is debiased",
    options=(
        Option("p", 2.0, "power of the gaps", at_least=1.0, at_most=100.0),
        BINS,
        BINNING,
        Option("debias", False, "subtract the expected noise from squared gaps"),
        OF,
    ),
    refuses=_tce_refuses,
    accumulate=_tce,
)


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
    required_columns=lambda spec, predictions: frozenset(
        {RANK, ("top_mass" if spec["form"] == "within" else "ranked", int(spec["k"]))}
    ),
    accumulate=lambda spec, predictions: over_bins(
        spec,
        TopMassPairs(int(spec["k"])) if spec["form"] == "within" else RankedPairs(int(spec["k"])),
        NORMS[str(spec["norm"])],
    ),
)

UCE = calibration_error(
    name="uce",
    title="Uncertainty calibration error",
    definition="Σ_b n_b/N |error rate − mean uncertainty| over bins of the uncertainty, entropy/log C.",
    reference="Laves et al. (2019), NeurIPS workshop on Bayesian deep learning; Krishnan & Tickoo (2020), appendix C.3",
    needs=LABELS,
    tasks=frozenset({"classification"}),
    bias="Not 0 for a perfect model even without noise: entropy is not an error rate. The null band is the range of a "
    "perfect model, and the p-value is two-sided: values below the band are significant too.",
    cost="linear",
    merge="exact",
    interval=UNION,
    options=(BINS,),
    accumulate=lambda spec, predictions: over_bins(spec, UncertaintyPairs(predictions.classes), 1.0),
)

METRICS = (ECE, MCE, TCE, TOP_K_ECE, UCE)
