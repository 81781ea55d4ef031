"""Entries of the registry: calibration errors of every class."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from calibrant.calibration.norms import Statistic, power_norm
from calibrant.kernels.rows import JOINT, PROBS
from calibrant.predictions import Classification
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Metric, Option, Spec, refuse_weights
from calibrant.registry.metrics.calibration import BINS, BROECKER, HARD, LABELS, PLUG_IN, calibration_error
from calibrant.registry.state.accumulators import Reduced
from calibrant.registry.state.class_rows import MOST_REDRAWN, class_rows_metric
from calibrant.registry.state.classwise_state import (
    Cells,
    Entries,
    Table,
    cells_of_table,
    classwise_error,
    is_joint,
    table_metric,
)
from calibrant.registry.state.pairs import CLASSES

NIXON = "Nixon et al. (2019), CVPR workshop on uncertainty and robustness"
TEXT_UNION = (
    "union of four test inversions, with the joint covariance of all cells; above 320 cells (classes times bins) those "
    "of different classes are treated as independent, and it is marked as approximate; none with weights or units"
)


# ------------------------------------------------------------------------------ bins of equal width
def classwise_columns(spec: Spec, predictions: Classification) -> frozenset[Hashable]:
    """The table of sums per class and bin."""
    del predictions
    return frozenset({("classwise", int(spec["bins"]))})


def joint_columns(spec: Spec, predictions: Classification) -> frozenset[Hashable]:
    """The sums of each two cells, unless there are too many, or weights, with which there is no interval.

    Of few rows the probabilities too, because labels are then redrawn row by row.
    """
    bins = int(spec["bins"])
    if predictions.weights is not None or not is_joint(predictions.classes, bins):
        return frozenset()
    few = predictions.n * predictions.classes <= MOST_REDRAWN
    return frozenset({(JOINT, bins), PROBS} if few else {(JOINT, bins)})


def _cwce(spec: Spec, predictions: Classification) -> Reduced:
    power = float(spec.options.get("p", 1.0))
    classes = predictions.classes if spec.options.get("average", True) else 1
    (key,) = classwise_columns(spec, predictions)
    return table_metric(key, partial(_of_table, power=power, divisor=classes))


def _of_table(state: Table, settings: Settings, power: float, divisor: int) -> Estimate:
    def make(cells: Cells) -> Statistic:
        plain = power_norm(cells.share, power)
        factor = (cells.copies / divisor) ** (1.0 / power)
        return lambda signed: factor * plain(signed)

    cells, drawn = cells_of_table(state.table, state.joint)
    value = float(make(cells)(cells.signed))
    if not settings.intervals or state.weighted or state.by_unit:
        return Estimate.of(value, state.n)
    top = 2.0 ** (1.0 / power) if divisor == 1 else 1.0
    gaps = state.redrawn_gaps(settings) if drawn.joint is not None else None
    if gaps is not None:
        gaps = gaps[:, np.flatnonzero(state.table.astype(np.float64)[0].ravel() > 0)]
    return classwise_error(drawn, value, state.n, make(drawn), settings, top, gaps)


class_error = partial(
    calibration_error, family="multiclass calibration errors", axis="all classes", needs=HARD, tasks=CLASSES,
    interval=TEXT_UNION, short_pass=True,
)  # fmt: skip
binned_class_error = partial(
    class_error, cost="linear", merge="exact", required_columns=classwise_columns,
    interval_columns=joint_columns, accumulate=_cwce,
)  # fmt: skip
CWCE = binned_class_error(
    name="cwce",
    label="CWCE",
    title="Class-wise calibration error",
    definition="(Σ_c Σ_b n_cb/N |mean 1{label = c} − mean p_c|^p)^(1/p) over bins of equal width of each p_c: the sum "
    "over classes. average=true divides by C before the root.",
    reference="Kull et al. (2019), NeurIPS 32: 12316-12326; Kumar, Liang & Ma (2019), NeurIPS 32: 3792-3803",
    limits=(0.0, 2.0),
    bias=PLUG_IN
    + " Larger bias than ECE: the noise of all classes adds up. Zero does not mean that the top label is calibrated.",
    expected=0.0,
    relevant_error=0.05,
    roles={"recalibration": 8, "sample_size": 7, "sample_size(bins=100)": 8, "test_classes": 2},
    options=(
        Option("p", 2.0, "power of the gaps", at_least=1.0, at_most=100.0),
        BINS,
        Option("average", False, "mean over classes instead of their sum"),
    ),
)

CWCE_OF_ROWS = replace(
    CWCE, name=f"{CWCE.name}_of_rows", needs=LABELS, merge="rows",
    interval_columns=lambda spec, predictions: frozenset(),
    required_columns=lambda spec, predictions: frozenset(("class", k) for k in range(predictions.classes)),
    accumulate=lambda spec, predictions: class_rows_metric(predictions.classes, int(spec["bins"]), float(spec["p"])),
)  # fmt: skip
"""The same of whole predictions: the test behind the verdict with weights, units or soft labels."""

SCE = binned_class_error(
    name="sce",
    title="Static calibration error",
    definition="Σ_c Σ_b n_cb/(N·C) |mean 1{label = c} − mean p_c|: cwce(p=1,average=true).",
    reference=NIXON,
    bias=PLUG_IN + " It decreases with the number of classes: do not compare data sets with different numbers.",
    options=(BINS,),
)


# ----------------------------------------------------------------------------- bins of equal counts
def _threshold(spec: Spec) -> float:
    return float(spec.options.get("threshold", 0.0))


def _tace(spec: Spec, predictions: Classification) -> Reduced:
    key = ("above", _threshold(spec))
    return Reduced(key, Entries(key), partial(_of_entries, spec=spec, classes=predictions.classes))


def _of_entries(state: Entries, settings: Settings, spec: Spec, classes: int) -> Estimate:
    cells, kept, of_class = state.cells(int(spec["bins"]), classes, settings.intervals)
    divisor = classes * (int(spec["bins"]) if spec["printed"] else 1)
    scale = (state.n / kept if spec["weights"] == "kept" else np.ones(len(kept))) / divisor

    def make(scale: np.ndarray) -> Statistic:
        return lambda signed: np.abs(signed * scale).sum(axis=-1)

    value = float(make(scale)(cells.signed))
    if not settings.intervals or state.by_unit:
        return Estimate.of(value, state.n)
    if classes == 2 and (of_class == 1).any():  # the gaps of two classes mirror each other: one is drawn, and doubled
        second = np.flatnonzero(of_class == 1)
        cells, scale = cells.take(second, copies=2), 2.0 * scale[second]
    return classwise_error(cells, value, state.n, make(scale), settings, 1.0)


def _adaptive(definition: str, options: tuple[Option, ...] = (), **facts: Any) -> Metric:
    return class_error(
        definition=definition
        + " Each class's probabilities are sorted and cut into bins of equal counts, ties together, the last with "
        "the remainder; Σ_c Σ_b n_cb/(N·C) |mean 1{label = c} − mean p_c|. weights=kept divides by the number of "
        "entries of the class above the threshold instead of N; printed=true by the number of bins too, as "
        "printed by Ashukha et al. (2020), eq. 2.",
        reference=f"{NIXON}; Ashukha et al. (2020), ICLR 8; {BROECKER}",
        bias=PLUG_IN + " Rankings of models depend on the bins and the threshold (Ashukha et al. 2020, figure 7).",
        cost="sort",
        merge="rows",
        interval=TEXT_UNION.replace("; none with weights or units", "; none with units"),
        options=(
            *options,
            BINS,
            Option(
                "weights",
                "all",
                "weight of a bin: its share of all rows, or of the entries above the threshold",
                choices=("all", "kept"),
            ),
            Option("printed", False, "divide by the number of bins too"),
        ),
        **facts,
        refuses=refuse_weights("bins of equal counts have no weighted form"),
        required_columns=lambda spec, predictions: frozenset({("above", _threshold(spec))}),
        needs_all_classes=True,
        accumulate=_tace,
    )


METRICS = (
    CWCE,
    SCE,
    _adaptive(name="ace", label="ACE", title="Adaptive calibration error", definition="Of all positive probabilities."),
    _adaptive(
        name="tace",
        label="TACE",
        title="Thresholded adaptive calibration error",
        definition="Of the probabilities above a threshold.",
        options=(Option("threshold", 0.001, "probabilities up to it are ignored", at_least=0.0, at_most=1.0),),
    ),
)
