"""Statistics of batches that are computed anew: of rows as they are in training, for each network its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from calibrant.errors import CalibrantWarning  # noqa: E402
from calibrant.methods import SWAG, Augmentation, Task, Training, Vanilla  # noqa: E402
from calibrant.methods.batch_norm_refresh import refresh  # noqa: E402
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
    made = Vanilla(Training(epochs=1, batch=30, precision="float64")).fit(task, NETWORK, start="fresh")
    (state,) = refresh(made.template, made.states, task, torch.device("cpu"))
    return (state[f"inner.0.running_{name}"] for name in ("mean", "var")), state


def test_rows_are_varied_as_in_training(bright):
    (mean, var), state = statistics(bright)
    augment = bright.augment
    order = torch.randperm(90, generator=stream("refresh", "order"))
    varied = augment.cut(augment.pad_images(bright.x), bright.train[order], augment.draw(90, stream("refresh")))
    seen = (varied.double() - state["x_mean"]) / state["x_std"]
    torch.testing.assert_close(mean, seen.mean((0, 2, 3)))
    torch.testing.assert_close(var, seen.transpose(0, 1).flatten(1).var(1))
    assert (mean < -0.5).all()  # plain images have a mean of zero: borders are seen


def test_without_variations_rows_are_as_they_are(bright):
    (mean, _), _ = statistics(replace(bright, augment=None))
    torch.testing.assert_close(mean, torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0.0)


def test_rows_that_lie_class_by_class_are_shuffled(bright):
    """Batches of one class would have the spread within a class alone."""
    x = (20.0 * np.repeat(np.arange(2), 600)[:, None] + np.random.default_rng(1).normal(size=(1200, 3))).astype(
        np.float32
    )
    task = Task.classification(x, np.repeat(np.arange(2), 600), classes=2, standardise=False)
    network = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    made = Vanilla(Training(epochs=1, batch=60, rate=0.01)).fit(task, network, start="fresh")
    (state,) = refresh(made.template, made.states, task, torch.device("cpu"))
    np.testing.assert_allclose(state["inner.0.running_var"], x.var(0), rtol=0.05)


def test_layers_that_cannot_be_batched_are_refreshed_one_by_one():
    class Choosing(nn.Module):
        """A network with a choice that depends on its data."""

        def __init__(self):
            super().__init__()
            self.norm, self.last = nn.BatchNorm1d(4), nn.Linear(4, 3)

        def forward(self, x):
            made = self.last(self.norm(x))
            return made if bool(made.abs().max() > 0) else made + 1.0

    rng = np.random.default_rng(2)
    task = Task.classification(rng.normal(size=(513, 4)), np.arange(513) % 3, classes=3)
    made = SWAG(Training(epochs=4, batch=57), start=1, draws=3).fit
    with pytest.warns(CalibrantWarning, match="one after another"):
        posterior = made(task, lambda: Choosing())
    assert np.isfinite(posterior.predict(task.x).scores).all()
