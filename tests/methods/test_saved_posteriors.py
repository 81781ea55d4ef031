"""Posteriors that earlier versions saved load, and predict what they predicted then (tests/methods/saved)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from methods.small_methods import values  # noqa: E402
from torch import nn  # noqa: E402
from training.cases import Normalised  # noqa: E402

from calibrant.methods import load  # noqa: E402

FOLDER = Path(__file__).parent / "saved"
SAVED = sorted(path.stem for path in FOLDER.glob("*.safetensors"))
OWN = {
    "own_swag": Normalised(),
    "own_laplace_diagonal": Normalised(),
    "own_augmented": nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 3)),
}


@pytest.mark.parametrize("name", SAVED)
def test_posteriors_of_earlier_versions_load_and_predict_the_same(name):
    posterior = load(FOLDER / f"{name}.safetensors", OWN.get(name))
    with np.load(FOLDER / "expected.npz") as stored:
        expected, x = stored[name], stored[f"{name}.x"]
    np.testing.assert_allclose(values(posterior.predict(x, len(expected))), expected, rtol=1e-10, atol=1e-12)
