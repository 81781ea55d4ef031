"""Predictions that tests of comparison share."""

import numpy as np
import pytest


@pytest.fixture
def simulated():
    """simulated(members, n, classes): logits (M, N, C) of over-confident members, and labels."""

    def make(members, n, classes, seed=0, scale=1.7):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(n, classes)) * 1.5
        labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        return scale * (z + 0.8 * rng.normal(size=(members, n, classes))), labels

    return make
