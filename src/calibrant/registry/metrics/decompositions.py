"""Entries of the registry: the parts of the Brier score, binned and bin-free."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from calibrant.kernels.rows import PREDICTED_CLASS
from calibrant.predictions import Classification, Judged
from calibrant.registry.estimate import Estimate
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.state.accumulators import Reduced
from calibrant.registry.state.classwise_state import table_metric
from calibrant.registry.state.pairs import CLASSES, OF, class_columns, corp_part, pairs_of
from calibrant.scores import decomposition


def _brier_part(name: str, definition: str, **facts: Any) -> Metric:
    part = name.removeprefix("brier_")
    bins = Option("bins", 15, "equal-width bins of each class's probability", at_least=1, at_most=10_000)
    grouping = ("bins", "predicted_class")
    by = Option("by", "bins", "predicted_class: the grouping of Ovadia's code", choices=grouping)

    def grouped(spec: Spec) -> bool:
        return spec.options.get("by") == "predicted_class"

    def columns(spec: Spec, predictions: Classification | Judged) -> frozenset[Hashable]:
        return frozenset({PREDICTED_CLASS if grouped(spec) else ("classwise", int(spec["bins"]))})

    def accumulate(spec: Spec, predictions: Classification | Judged) -> Reduced:
        (key,) = columns(spec, predictions)
        split = decomposition.by_predicted_class if grouped(spec) else decomposition.from_table
        return table_metric(key, lambda state, settings: Estimate.of(getattr(split(state.table), part), state.n))

    return Metric(
        name=name,
        family="decompositions",
        definition=definition + " Brier = uncertainty − resolution + reliability + within, to rounding.",
        reference="Murphy (1973), J. Appl. Meteorology 12: 595-600; Stephenson, Coelho & Jolliffe (2008), Weather and "
        "Forecasting 23: 752-757",
        limits=(-2.0, 2.0) if part == "within" else (0.0, 2.0),
        needs=frozenset({"hard_labels"}),
        tasks=CLASSES,
        comparable=part == "uncertainty",
        bias="" if part == "uncertainty" else "Plug-in, depends on the bins and on n; no interval with known coverage.",
        cost="linear",
        merge="exact",
        options=(bins,) if part == "within" else (bins, by),
        required_columns=columns,
        accumulate=accumulate,
        **facts,
    )


def _corp_part(name: str, definition: str, **facts: Any) -> Metric:
    part = name.removeprefix("corp_")
    return Metric(
        name=name,
        family="decompositions",
        definition=definition + " Of mean (p − y)² over the pairs: score = miscalibration − discrimination + "
        "uncertainty, exactly and without bins.",
        reference="Dimitriadis, Gneiting & Jordan (2021), PNAS 118: e2016191118",
        limits=(0.0, 1.0),
        needs=frozenset({"labels"}),
        comparable=part == "uncertainty",
        bias="" if part == "uncertainty" else "Positive for a perfect model at any n, falling like n^(−2/3).",
        cost="sort",
        merge="rows",
        options=(OF,),
        required_columns=class_columns,
        accumulate=lambda spec, predictions: corp_part(pairs_of(spec, predictions), part),
        **facts,
    )


METRICS = (
    _brier_part(
        name="brier_reliability",
        title="Brier reliability",
        definition="Σ_c Σ_b n_b/N (p̄ − ȳ)²: how far predictions are from frequencies. by=predicted_class groups as "
        "Ovadia's public code does, whose parts do not add up.",
        direction="lower",
    ),
    _brier_part(
        name="brier_resolution",
        title="Brier resolution",
        definition="Σ_c Σ_b n_b/N (ȳ_b − ȳ)²: how far frequencies vary.",
        direction="higher",
    ),
    _brier_part(
        name="brier_uncertainty",
        title="Brier uncertainty",
        definition="Σ_c ȳ_c(1 − ȳ_c): the variance of the labels.",
        direction="none",
    ),
    _brier_part(
        name="brier_within",
        title="Brier within bins",
        definition="Within-bin variance of p minus twice its covariance with y.",
        direction="none",
    ),
    _corp_part(
        name="corp_miscalibration",
        title="CORP miscalibration",
        definition="The gain of isotonic recalibration.",
        direction="lower",
    ),
    _corp_part(
        name="corp_discrimination",
        title="CORP discrimination",
        definition="The gain of the recalibrated predictions over the mean of y.",
        direction="higher",
    ),
    _corp_part(
        name="corp_uncertainty", title="CORP uncertainty", definition="The score of the mean of y.", direction="none"
    ),
)
