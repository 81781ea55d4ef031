"""Matrix scaling: softmax(Wz + b) of centred log-probabilities z, under off-diagonal and intercept penalties (ODIR).

z = ℓ − mean of ℓ over classes, which differ from the logits of a network by one number in each row and are the same
whether logits, log-probabilities or probabilities are given; on ℓ itself this would be Dirichlet calibration again.
Penalties: see `odir`. Guo, Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML; Kull et al.
(2019), Beyond temperature scaling, NeurIPS.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.recalibration.linear_maps import TOLERANCE
from calibrant.recalibration.odir import FullMap, OdirRecalibrator


@dataclass(frozen=True)
class MatrixMap(FullMap):
    """Wz + b, normalised."""

    @staticmethod
    def features(logs: np.ndarray) -> np.ndarray:
        """z = ℓ − mean(ℓ)."""
        return logs - logs.mean(axis=-1, keepdims=True)

    @property
    def acting(self) -> np.ndarray:
        """W without what adds one number to all new logits, and without what z, whose sum is 0, does not feel."""
        return self.weights - self.weights.mean(axis=0) - self.weights.mean(axis=1)[:, None] + self.weights.mean()

    @property
    def injective(self) -> bool:
        """Whether A = (I − 11ᵀ/C) W (I − 11ᵀ/C) has rank C − 1, the most that it can have.

        Every z whose sum is 0 belongs to one prediction, and two of them have one image iff A(z − z') = 0.
        """
        sizes = np.linalg.svd(self.acting, compute_uv=False)
        return bool(sizes[-2] > TOLERANCE * np.abs(self.weights).max())


@dataclass(eq=False, kw_only=True)
class MatrixScaling(OdirRecalibrator):
    """A linear map of centred log-probabilities, held near a diagonal one. The predicted class can change."""

    name = "matrix"
    title = "Matrix scaling"
    reference = (
        "Guo, Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML, with the penalties of "
        "Kull et al. (2019), Beyond temperature scaling, NeurIPS"
    )
    map_class = MatrixMap
