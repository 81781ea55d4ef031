"""Entries of the registry: calibration errors."""

from __future__ import annotations

from calibrant.predictions import Classification, Judged
from calibrant.registry.binned_error import BinnedError
from calibrant.registry.kept import MassBinnedError
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.pairs import OF, pairs_of, wanted_class


def _ece(spec: Spec, predictions: Classification | Judged) -> BinnedError | MassBinnedError:
    kind = BinnedError if spec["binning"] == "width" else MassBinnedError
    return kind(pairs_of(spec, predictions), bins=int(spec["bins"]), norm=str(spec["norm"]))


ECE = Metric(
    name="ece",
    title="Expected calibration error",
    definition="Σ_b n_b/N |mean y − mean p| over bins of the pairs (confidence, correct), or (p_c, label is c) with "
    "of=. Bins are ((b−1)/B, b/B]; binning=mass cuts between distinct values. norm=l2 takes the root of the mean "
    "square, norm=max the largest gap.",
    reference="Naeini, Cooper & Hauskrecht (2015), AAAI 29; Bröcker & Smith (2007), Weather and Forecasting 22: "
    "651-661, for the null band",
    direction="lower",
    limits=(0.0, 1.0),
    needs=frozenset({"labels"}),
    comparable=False,
    bias="Plug-in, biased upwards: a perfect model is positive at any n (see the null band), by an amount that differs "
    "between models, bins and n. A lower bound of the calibration error in the limit.",
    cost="linear",
    merge="exact",
    keeps_rows=lambda spec: spec["binning"] == "mass",
    interval="union of two test inversions (norm=max has none)",
    options=(
        Option("bins", 15, "number of bins", at_least=1, at_most=100_000),
        Option("binning", "width", "equal width or equal mass", choices=("width", "mass")),
        Option("norm", "l1", "l1, l2 or max", choices=("l1", "l2", "max")),
        OF,
    ),
    wanted=wanted_class,
    light=True,
    accumulate=_ece,
)

METRICS = (ECE,)
