"""Entries of the registry: the parts of the Brier score, binned and bin-free."""

from __future__ import annotations

from collections.abc import Hashable

from calibrant.kernels.rows import PREDICTED_CLASS
from calibrant.predictions import Classification, Judged
from calibrant.registry.classwise import table_metric
from calibrant.registry.estimate import Estimate
from calibrant.registry.kept import corp_part
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.pairs import CLASSES, OF, pairs_of, wanted_class
from calibrant.registry.sharing import Reduced
from calibrant.scores import decomposition


def _brier_part(part: str, title: str, definition: str, direction: str) -> Metric:
    bins = Option("bins", 15, "equal-width bins of each class's probability", at_least=1, at_most=10_000)
    by = Option(
        "by",
        "bins",
        "predicted_class: the grouping of Ovadia's code",
        choices=("bins", "predicted_class"),
    )

    def grouped(spec: Spec) -> bool:
        return spec.options.get("by") == "predicted_class"

    def wanted(spec: Spec, predictions: Classification | Judged) -> frozenset[Hashable]:
        return frozenset({PREDICTED_CLASS if grouped(spec) else ("classwise", int(spec["bins"]))})

    def accumulate(spec: Spec, predictions: Classification | Judged) -> Reduced:
        (key,) = wanted(spec, predictions)
        split = decomposition.by_predicted_class if grouped(spec) else decomposition.from_table
        return table_metric(key, lambda state, settings: Estimate.of(getattr(split(state.table), part), state.n))

    return Metric(
        name=f"brier_{part}",
        title=title,
        definition=definition + " Brier = uncertainty − resolution + reliability + within, to rounding.",
        reference="Murphy (1973), J. Appl. Meteorology 12: 595-600; Stephenson, Coelho & Jolliffe (2008), Weather and "
        "Forecasting 23: 752-757",
        direction=direction,
        limits=(-2.0, 2.0) if part == "within" else (0.0, 2.0),
        needs=frozenset({"hard_labels"}),
        tasks=CLASSES,
        comparable=part == "uncertainty",
        bias=""
        if part == "uncertainty"
        else "Plug-in, depends on the bins and on n; no interval that covers is known.",
        cost="linear",
        merge="exact",
        options=(bins,) if part == "within" else (bins, by),
        wanted=wanted,
        accumulate=accumulate,
    )


BRIER_PARTS = (
    _brier_part(
        "reliability",
        "Brier reliability",
        "Σ_c Σ_b n_b/N (p̄ − ȳ)²: how far predictions are from frequencies. by=predicted_class groups as Ovadia's "
        "public code does, whose parts do not add up.",
        "lower",
    ),
    _brier_part(
        "resolution",
        "Brier resolution",
        "Σ_c Σ_b n_b/N (ȳ_b − ȳ)²: how far frequencies vary.",
        "higher",
    ),
    _brier_part(
        "uncertainty",
        "Brier uncertainty",
        "Σ_c ȳ_c(1 − ȳ_c): what the labels alone leave open.",
        "none",
    ),
    _brier_part(
        "within",
        "Brier within bins",
        "Within-bin variance of p minus twice its covariance with y.",
        "none",
    ),
)


def _corp_part(part: str, title: str, definition: str, direction: str) -> Metric:
    return Metric(
        name=f"corp_{part}",
        title=title,
        definition=definition + " Of mean (p − y)² over the pairs: score = miscalibration − discrimination + "
        "uncertainty, exactly and without bins.",
        reference="Dimitriadis, Gneiting & Jordan (2021), PNAS 118: e2016191118",
        direction=direction,
        limits=(0.0, 1.0),
        needs=frozenset({"labels"}),
        comparable=part == "uncertainty",
        bias="" if part == "uncertainty" else "Positive for a perfect model at any n, falling like n^(−2/3).",
        cost="sort",
        merge="rows",
        options=(OF,),
        wanted=wanted_class,
        accumulate=lambda spec, predictions: corp_part(pairs_of(spec, predictions), part),
    )


CORP_PARTS = (
    _corp_part("miscalibration", "CORP miscalibration", "What isotonic recalibration would gain.", "lower"),
    _corp_part(
        "discrimination",
        "CORP discrimination",
        "What the recalibrated predictions gain over the mean.",
        "higher",
    ),
    _corp_part("uncertainty", "CORP uncertainty", "The score of the mean of y.", "none"),
)

METRICS = (*BRIER_PARTS, *CORP_PARTS)
