"""Entries of the registry: calibration errors of one probability without fixed bins."""

from __future__ import annotations

from functools import partial
from typing import Any

from calibrant.calibration.cumulative import ks
from calibrant.calibration.density import kde_tce
from calibrant.calibration.kernel import mmce, weighted_mmce
from calibrant.calibration.smooth import smooth_ece
from calibrant.calibration.sweep import sweep_ece
from calibrant.kernels.ks import ks as exact_ks
from calibrant.predictions import Classification, Judged
from calibrant.registry.calibration import BROECKER, LABELS, calibration_error
from calibrant.registry.kept import KeptPairs
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.pairs import OF, pairs_of, wanted_class
from calibrant.registry.runs_error import OfRuns, runs_error
from calibrant.registry.sharing import Reduced

ALONG = "union of three test inversions along 30 cells of equal mass"
MANY_GRID, COARSE_GRID, MANY_TOLERANCE = 512, 64, 1e-4
"""Points of the grid on which redrawn outcomes are smoothed, and those of a few cells; and how exactly."""
DENSITY_GRID = 1 << 12


def _entry(name: str, title: str, definition: str, reference: str, **facts: Any) -> Metric:
    """What these errors have in common."""
    options = facts.pop("options", ())
    return calibration_error(
        name=name,
        title=title,
        definition=definition,
        reference=f"{reference}; {BROECKER}",
        needs=facts.pop("needs", LABELS),
        cost="sort",
        merge="rows",
        options=(*options, OF),
        wanted=wanted_class,
        light=True,
        **facts,
    )


def _plain(of_runs: OfRuns, **settings: Any) -> Any:
    """The accumulator of a function of runs without options."""

    def accumulate(spec: Spec, predictions: Classification | Judged) -> Reduced:
        return runs_error(pairs_of(spec, predictions), of_runs, **settings)

    return accumulate


def _ks(state: KeptPairs) -> float:
    """Without sorting every row."""
    p, y, w, _ = state.given()
    return exact_ks(p, y, w, threads=1)


def _mmce(spec: Spec, predictions: Classification | Judged) -> Reduced:
    return runs_error(
        pairs_of(spec, predictions), weighted_mmce if spec["weighted"] else mmce, interval=not spec["weighted"]
    )


def _sweep(spec: Spec, predictions: Classification | Judged) -> Reduced:
    return runs_error(pairs_of(spec, predictions), partial(sweep_ece, order=float(spec["p"])), interval=False)


def _unweighted(spec: Spec, predictions: Classification | Judged) -> str | None:
    del spec
    return "its bandwidth has no weighted form" if predictions.weights is not None else None


def _kde(spec: Spec, predictions: Classification | Judged) -> Reduced:
    order = float(spec["p"])
    return runs_error(
        pairs_of(spec, predictions),
        partial(kde_tce, order=order),
        of_many=partial(kde_tce, order=order, grid=DENSITY_GRID),
        interval=False,
    )


METRICS = (
    _entry(
        "sweep_ece",
        "Sweep calibration error",
        "Σ_b n_b/N |mean y − mean p| over the largest number of equal-mass bins up to which mean outcomes never fall.",
        "Roelofs et al. (2022), AISTATS 25: 4036-4054",
        bias="Plug-in, less biased than `ece` with fixed bins, and not free of it.",
        interval="none that is known to cover",
        options=(Option("p", 1.0, "power of the gaps", at_least=1.0, at_most=100.0),),
        accumulate=_sweep,
    ),
    _entry(
        "kde_tce",
        "Kernel-density calibration error",
        "(∫|z − acc(z)|^p f(z) dz)^(1/p), densities f(z), f(z | correct) by a triweight kernel, reflected at 0 and 1.",
        "Zhang, Kailkhura & Han (2020), ICML 37: 11117-11128",
        bias="Depends on its bandwidth, std(p | correct)·(2N)^(−1/5); crosses every other estimate.",
        interval="none that is known to cover",
        options=(Option("p", 2.0, "power of the gaps", at_least=1.0, at_most=100.0),),
        refuses=_unweighted,
        accumulate=_kde,
    ),
    _entry(
        "ks",
        "Kolmogorov–Smirnov calibration error",
        "max_t |Σ_{p ≤ t} (p − y)|/N, at the ends of runs of equal p: no bins to choose.",
        "Gupta et al. (2021), ICLR 9",
        bias="Biased upwards like |mean of N terms|: by less than binned errors, and hardly with n once there is "
        "something to see. Gaps of opposite sign at neighbouring p cancel.",
        interval=ALONG,
        accumulate=_plain(ks, value=_ks),
    ),
    _entry(
        "mmce",
        "Maximum mean calibration error",
        "(Σ_ij (y_i − p_i)(y_j − p_j) k(p_i, p_j)/N²)^½ with k = exp(−|p_i − p_j|/0.4). weighted=true: the "
        "class-balanced form.",
        "Kumar, Sarawagi & Jain (2018), ICML 35: 2805-2814",
        bias="Biased upwards: the terms i = j are squares.",
        limits=(0.0, 2.0),  # the class-balanced form adds the gap of right answers to that of wrong ones
        interval=f"{ALONG}; none for weighted=true",
        options=(Option("weighted", False, "balance right and wrong answers"),),
        accumulate=_mmce,
    ),
    _entry(
        "smooth_ece",
        "Smooth calibration error",
        "∫|r_σ(t)| dt of the residuals y − p smoothed by a Gaussian kernel reflected at 0 and 1, at the bandwidth σ "
        "that equals the result.",
        "Błasiok & Nakkiran (2024), ICLR 12",
        bias="Biased upwards for a perfect model, falling like n^(−1/3); a consistent measure of the distance from "
        "calibration within constant factors.",
        interval=ALONG,
        accumulate=_plain(
            smooth_ece,
            of_many=partial(smooth_ece, grid=MANY_GRID, tolerance=MANY_TOLERANCE),
            of_coarse=partial(smooth_ece, grid=COARSE_GRID, tolerance=MANY_TOLERANCE),
        ),
    ),
)
