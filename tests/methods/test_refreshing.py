"""Statistics of batches that are computed anew: of rows as they are in training, for each network its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from calibrant.methods import Augmentation, Task, Training, Vanilla  # noqa: E402
from calibrant.methods.refreshing import refresh  # noqa: E402
from calibrant.training.seeds import stream  # noqa: E402

NETWORK = nn.Sequential(nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2 * 36, 3))


@pytest.fixture(scope="module")
def bright():
    """Bright images, to which a black border makes a difference."""
    rng = np.random.default_rng(0)
    x = rng.integers(150, 250, (90, 2, 6, 6)).astype(np.uint8)
    return Task.classification(x, np.arange(90) % 3, classes=3, augment=Augmentation(2))


def statistics(task):
    """Running mean and variance of the first layer after a refresh, and what its inputs are standardised by."""
    made = Vanilla(Training(epochs=1, batch=30, precision="float64")).fit(task, NETWORK)
    (state,) = refresh(made.template, made.states, task, torch.device("cpu"))
    return (state[f"inner.0.running_{name}"] for name in ("mean", "var")), state


def test_rows_are_varied_as_in_training(bright):
    (mean, var), state = statistics(bright)
    augment = bright.augment
    varied = augment.cut(augment.bordered(bright.x), bright.train, augment.draw(90, stream("refresh")))
    seen = (varied.double() - state["x_mean"]) / state["x_std"]
    torch.testing.assert_close(mean, seen.mean((0, 2, 3)))
    torch.testing.assert_close(var, seen.transpose(0, 1).flatten(1).var(1))
    assert (mean < -0.5).all()  # plain images have a mean of zero: borders are seen


def test_without_variations_rows_are_as_they_are(bright):
    (mean, _), _ = statistics(replace(bright, augment=None))
    torch.testing.assert_close(mean, torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0.0)
