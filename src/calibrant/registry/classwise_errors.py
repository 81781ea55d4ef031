"""Entries of the registry: calibration errors of every class."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import numpy as np

from calibrant.calibration.norms import Statistic, power_norm
from calibrant.predictions import Classification
from calibrant.registry.calibration import BINS, BROECKER, HARD, PLUG_IN, calibration_error
from calibrant.registry.classwise import Cells, Entries, Table, cells_of_table, classwise_error, table_metric
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.pairs import CLASSES
from calibrant.registry.sharing import Reduced

NIXON = "Nixon et al. (2019), CVPR workshop on uncertainty and robustness"
TEXT_UNION = (
    "union of four test inversions, cells of different classes taken for independent: of three classes and more it "
    "covers 88 to 99 %, least for bad models; none with weights or units"
)


# ------------------------------------------------------------------------------ bins of equal width
def classwise_wanted(spec: Spec, predictions: Classification) -> frozenset[Hashable]:
    """The table of sums per class and bin."""
    del predictions
    return frozenset({("classwise", int(spec["bins"]))})


def _cwce(spec: Spec, predictions: Classification) -> Reduced:
    power = float(spec.options.get("p", 1.0))
    classes = predictions.classes if spec.options.get("average", True) else 1
    (key,) = classwise_wanted(spec, predictions)
    return table_metric(key, partial(_of_table, power=power, divisor=classes))


def _of_table(state: Table, settings: Settings, power: float, divisor: int) -> Estimate:
    def make(cells: Cells) -> Statistic:
        plain = power_norm(cells.share, power)
        factor = (cells.copies / divisor) ** (1.0 / power)
        return lambda signed: factor * plain(signed)

    cells, drawn = cells_of_table(state.table)
    value = float(make(cells)(cells.signed))
    if not settings.intervals or state.weighted or state.by_unit:
        return Estimate.of(value, state.n)
    top = 2.0 ** (1.0 / power) if divisor == 1 else 1.0
    return classwise_error(drawn, value, state.n, make(drawn), settings, top)


CWCE = calibration_error(
    name="cwce",
    title="Class-wise calibration error",
    definition="(Σ_c Σ_b n_cb/N |mean 1{label = c} − mean p_c|^p)^(1/p) over bins of equal width of each p_c: the sum "
    "over classes. average=true divides by C before the root.",
    reference="Kull et al. (2019), NeurIPS 32: 12316-12326; Kumar, Liang & Ma (2019), NeurIPS 32: 3792-3803",
    limits=(0.0, 2.0),
    needs=HARD,
    tasks=CLASSES,
    bias=PLUG_IN
    + " Worse than ECE: noise of all classes adds up. Zero does not mean that the top label is calibrated.",
    cost="linear",
    merge="exact",
    interval=TEXT_UNION,
    options=(
        Option("p", 2.0, "power of the gaps", at_least=1.0, at_most=100.0),
        BINS,
        Option("average", False, "mean over classes instead of their sum"),
    ),
    wanted=classwise_wanted,
    light=True,
    accumulate=_cwce,
)

SCE = calibration_error(
    name="sce",
    title="Static calibration error",
    definition="Σ_c Σ_b n_cb/(N·C) |mean 1{label = c} − mean p_c|: cwce(p=1,average=true).",
    reference=NIXON,
    needs=HARD,
    tasks=CLASSES,
    bias=PLUG_IN + " The more classes, the smaller: do not compare across their number.",
    cost="linear",
    merge="exact",
    interval=TEXT_UNION,
    options=(BINS,),
    wanted=classwise_wanted,
    light=True,
    accumulate=_cwce,
)


# ----------------------------------------------------------------------------- bins of equal counts
def _threshold(spec: Spec) -> float:
    return float(spec.options.get("threshold", 0.0))


def _entries_wanted(spec: Spec, predictions: Classification) -> frozenset[Hashable]:
    del predictions
    return frozenset({("above", _threshold(spec))})


def _tace(spec: Spec, predictions: Classification) -> Reduced:
    key = ("above", _threshold(spec))
    return Reduced(key, Entries(key), partial(_of_entries, spec=spec, classes=predictions.classes))


def _of_entries(state: Entries, settings: Settings, spec: Spec, classes: int) -> Estimate:
    cells, kept, of_class = state.cells(int(spec["bins"]))
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


def _tace_refuses(spec: Spec, predictions: Classification) -> str | None:
    del spec
    return "bins of equal counts have no weighted form" if predictions.weights is not None else None


def _adaptive(name: str, title: str, definition: str, *options: Option) -> Metric:
    return calibration_error(
        name=name,
        title=title,
        definition=definition
        + " Each class's probabilities are sorted and cut into bins of equal counts, ties together, the last taking "
        "what is left; Σ_c Σ_b n_cb/(N·C) |mean 1{label = c} − mean p_c|. weights=kept divides by the entries kept of "
        "the class instead of N; printed=true by the number of bins too, as printed by Ashukha et al. (2020), eq. 2.",
        reference=f"{NIXON}; Ashukha et al. (2020), ICLR 8; {BROECKER}",
        needs=HARD,
        tasks=CLASSES,
        bias=PLUG_IN + " Ranks of models turn with the bins and the threshold (Ashukha et al. 2020, figure 7).",
        cost="sort",
        merge="rows",
        interval=TEXT_UNION.replace("; none with weights or units", "; none with units"),
        options=(
            *options,
            BINS,
            Option(
                "weights", "all", "share of a bin: among all rows, or among the entries kept", choices=("all", "kept")
            ),
            Option("printed", False, "divide by the number of bins too"),
        ),
        refuses=_tace_refuses,
        wanted=_entries_wanted,
        light=True,
        every_class=True,
        accumulate=_tace,
    )


METRICS = (
    CWCE,
    SCE,
    _adaptive("ace", "Adaptive calibration error", "Of all positive probabilities."),
    _adaptive(
        "tace",
        "Thresholded adaptive calibration error",
        "Of the probabilities above a threshold.",
        Option("threshold", 0.001, "probabilities at or below it are left out", at_least=0.0, at_most=1.0),
    ),
)
