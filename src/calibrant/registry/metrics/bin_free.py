"""Entries of the registry: calibration errors of one probability without fixed bins."""

from __future__ import annotations

from functools import partial

from calibrant.calibration.bin_free import cutoff_error, ks, mmce, sweep_ece, two_bin_error, weighted_mmce
from calibrant.calibration.smooth import kde_tce, smooth_ece
from calibrant.kernels.ks import ks as exact_ks
from calibrant.registry.metric import Option, refuse_weights
from calibrant.registry.metrics.calibration import BROECKER, LABELS, calibration_error
from calibrant.registry.state.pairs import OF, KeptPairs, class_columns, pairs_of
from calibrant.registry.state.sorted_state import runs_error

ALONG = "union of three test inversions along 30 cells of equal mass"
MANY_GRID, COARSE_GRID, MANY_TOLERANCE = 512, 64, 1e-4
"""Grid points for smoothing redrawn outcomes, and for smoothing a few cells; tolerance of both."""
DENSITY_GRID = 1 << 12


bin_free_error = partial(
    calibration_error, needs=LABELS, cost="sort", merge="rows", options=(OF,), required_columns=class_columns,
    short_pass=True,
)  # fmt: skip
"""The defaults of an entry of this file."""


def _ks(state: KeptPairs) -> float:
    """KS without sorting every row."""
    p, y, w, _ = state.given()
    return exact_ks(p, y, w, threads=1)


METRICS = (
    bin_free_error(
        name="sweep_ece",
        title="Sweep calibration error",
        definition="Σ_b n_b/N |mean y − mean p| over the largest number of equal-mass bins up to which "
        "mean outcomes never fall.",
        reference=f"Roelofs et al. (2022), AISTATS 25: 4036-4054; {BROECKER}",
        bias="Plug-in; less biased than `ece` with fixed bins, but not unbiased.",
        roles={"verdict_error": 4},
        interval="none with known coverage",
        options=(Option("p", 1.0, "power of the gaps", at_least=1.0, at_most=100.0), OF),
        accumulate=lambda spec, predictions: runs_error(
            pairs_of(spec, predictions), partial(sweep_ece, order=float(spec["p"])), interval=False
        ),
    ),
    bin_free_error(
        name="kde_tce",
        title="Kernel-density calibration error",
        definition="(∫|z − acc(z)|^p f(z) dz)^(1/p), densities f(z), f(z | correct) by a triweight "
        "kernel, reflected at 0 and 1.",
        reference=f"Zhang, Kailkhura & Han (2020), ICML 37: 11117-11128; {BROECKER}",
        bias="Depends on its bandwidth, std(p | correct)·(2N)^(−1/5); crosses every other estimate.",
        roles={"sample_size": 5, "verdict_error": 5},
        interval="none with known coverage",
        options=(Option("p", 2.0, "power of the gaps", at_least=1.0, at_most=100.0), OF),
        refuses=refuse_weights("its bandwidth has no weighted form"),
        accumulate=lambda spec, predictions: runs_error(
            pairs_of(spec, predictions),
            partial(kde_tce, order=float(spec["p"])),
            of_many=partial(kde_tce, order=float(spec["p"]), grid=DENSITY_GRID),
            interval=False,
        ),
    ),
    bin_free_error(
        name="ks",
        label="KS",
        title="Kolmogorov–Smirnov calibration error",
        definition="max_t |Σ_{p ≤ t} (p − y)|/N, at the ends of runs of equal p: no bins to choose.",
        reference=f"Gupta et al. (2021), ICLR 9; {BROECKER}",
        bias="Biased upwards like |mean of N terms|: less than binned errors, and hardly for miscalibrated models. "
        "Gaps of opposite sign at neighbouring p cancel.",
        roles={"main": 22, "group": 5, "recalibration": 9, "sample_size": 6, "verdict_error": 7, "demo": 5},
        interval=ALONG,
        accumulate=lambda spec, predictions: runs_error(pairs_of(spec, predictions), ks, value=_ks),
    ),
    bin_free_error(
        name="cutoff_error",
        aliases=("kuiper", "ecce_r"),
        title="Cutoff calibration error",
        definition="sup over intervals I of |mean((y − p)·1{p in I})|: the range of the cumulative residuals.",
        reference=f"Rossellini et al. (2025), COLT 38; Arrieta-Ibarra et al. (2022), JMLR 23; {BROECKER}",
        bias="Biased upwards like `ks`, which looks at intervals that begin at 0 alone: between `ks` and twice `ks`.",
        interval=ALONG,
        accumulate=lambda spec, predictions: runs_error(pairs_of(spec, predictions), cutoff_error),
    ),
    bin_free_error(
        name="two_bin_error",
        aliases=("atb",),
        title="Averaged two-bin calibration error",
        definition="∫₀¹ (Σ_{p < q} (p − y)/N)² + (Σ_{p ≥ q} (p − y)/N)² dq: squared gaps of two bins, averaged over "
        "the boundary q.",
        reference=f"Hartline, Hu & Wu (2026), COLT 39, PMLR 336: 3185-3223; {BROECKER}",
        limits=(0.0, 1.0),
        bias="Truthful: its expectation is lowest for the true probabilities, where it is Σ p(1 − p)/N². On the scale "
        "of squares.",
        interval="none with known coverage",
        refuses=refuse_weights("its expectation has no weighted form"),
        accumulate=lambda spec, predictions: runs_error(pairs_of(spec, predictions), two_bin_error, interval=False),
    ),
    bin_free_error(
        name="utility_error",
        title="Utility calibration error at a threshold",
        definition="sup over intervals I of |mean((y − p)·1{p in I, p ≥ threshold})|: realised against predicted "
        "utility of acting where p ≥ threshold, for the utility y − threshold of an action.",
        reference=f"Rossellini et al. (2025), COLT 38; {BROECKER}",
        bias="Biased upwards like `cutoff_error`, which it is at threshold 0.",
        interval="none with known coverage",
        options=(Option("threshold", 0.5, "act where p is at least this", at_least=0.0, at_most=1.0), OF),
        accumulate=lambda spec, predictions: runs_error(
            pairs_of(spec, predictions), partial(cutoff_error, threshold=float(spec["threshold"])), interval=False
        ),
    ),
    bin_free_error(
        name="mmce",
        label="MMCE",
        title="Maximum mean calibration error",
        definition="(Σ_ij (y_i − p_i)(y_j − p_j) k(p_i, p_j)/N²)^½ with k = exp(−|p_i − p_j|/0.4). weighted=true: the "
        "class-balanced form.",
        reference=f"Kumar, Sarawagi & Jain (2018), ICML 35: 2805-2814; {BROECKER}",
        limits=(0.0, 2.0),  # the class-balanced form adds the gap of right answers to that of wrong ones
        bias="Biased upwards: the terms i = j are squares.",
        roles={"verdict_error": 6},
        interval=f"{ALONG}; none for weighted=true",
        options=(Option("weighted", False, "balance right and wrong answers"), OF),
        accumulate=lambda spec, predictions: runs_error(
            pairs_of(spec, predictions), weighted_mmce if spec["weighted"] else mmce, interval=not spec["weighted"]
        ),
    ),
    bin_free_error(
        name="smooth_ece",
        aliases=("smece",),
        title="Smooth calibration error",
        definition="∫|r_σ(t)| dt of the residuals y − p smoothed by a Gaussian kernel reflected at 0 and 1, at the "
        "bandwidth σ that equals the result.",
        reference=f"Błasiok & Nakkiran (2024), ICLR 12; {BROECKER}",
        bias="Biased upwards for a perfect model, falling like n^(−1/3); a consistent measure of the distance from "
        "calibration within constant factors.",
        roles={"main": 7, "verdict_error": 3},
        interval=ALONG,
        accumulate=lambda spec, predictions: runs_error(
            pairs_of(spec, predictions),
            smooth_ece,
            of_many=partial(smooth_ece, grid=MANY_GRID, tolerance=MANY_TOLERANCE),
            of_coarse=partial(smooth_ece, grid=COARSE_GRID, tolerance=MANY_TOLERANCE),
        ),
    ),
)
