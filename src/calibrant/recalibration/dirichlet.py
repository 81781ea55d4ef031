"""Dirichlet calibration: softmax(Wℓ + b) of log-probabilities ℓ, under off-diagonal and intercept penalties (ODIR).

It is the map that makes predictions calibrated whose distribution within each class is a Dirichlet distribution.
Penalties: see `odir`. Kull, Perelló Nieto, Kängsepp, Silva Filho, Song & Flach (2019), Beyond temperature scaling:
obtaining well-calibrated multi-class probabilities with Dirichlet calibration, NeurIPS.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.recalibration.linear_maps import TOLERANCE
from calibrant.recalibration.odir import FullMap, OdirRecalibrator


@dataclass(frozen=True)
class DirichletMap(FullMap):
    """Wℓ + b, normalised."""

    @staticmethod
    def features(logs: np.ndarray) -> np.ndarray:
        """ℓ itself."""
        return logs

    @property
    def injective(self) -> bool:
        """Whether the null space of A = (I − 11ᵀ/C)W is one line, along a vector without entries of both signs.

        Two predictions with ℓ − ℓ' = δ have one image iff Aδ = 0. Such a δ ≠ 0 is a difference of two predictions iff
        it has entries of both signs: only then has Σ p e^(−δ) = Σ p a solution. A has rank C − 1 at most; in a null
        space of two dimensions there always is a δ whose sum is 0, which has both signs.
        """
        _, sizes, right = np.linalg.svd(self.acting)
        flat = right[-1] * np.sign(right[-1][np.abs(right[-1]).argmax()])
        return bool(sizes[-2] > TOLERANCE * np.abs(self.weights).max() and flat.min() >= -TOLERANCE)


@dataclass(eq=False, kw_only=True)
class DirichletCalibration(OdirRecalibrator):
    """A linear map of log-probabilities, held near a diagonal one. The predicted class can change."""

    name = "dirichlet"
    title = "Dirichlet calibration"
    reference = (
        "Kull, Perelló Nieto, Kängsepp, Silva Filho, Song & Flach (2019), Beyond temperature scaling: obtaining "
        "well-calibrated multi-class probabilities with Dirichlet calibration, NeurIPS"
    )
    map_class = DirichletMap
