"""What is kept along the way, against the iterates themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from training.cases import QUICK, SMALL, runs_of, stacked, table  # noqa: E402

from calibrant.training.callbacks import WeightMoments, WeightSnapshots  # noqa: E402
from calibrant.training.loop import TrainingLoop  # noqa: E402

EPOCHS = (2, 3, 5, 6, 7)


@pytest.fixture(scope="module")
def callback_results():
    """Two networks, watched in two ways and copied after every epoch."""
    task = table()
    runs = runs_of(task, 2)
    stack, _ = stacked(task, SMALL, runs)
    callbacks = [WeightMoments(EPOCHS, 3), WeightSnapshots(EPOCHS), WeightSnapshots(range(8))]
    TrainingLoop(stack, runs, replace(QUICK, epochs=8), callbacks=callbacks).run()
    return stack, callbacks


@pytest.mark.parametrize("k", [0, 1])
def test_moments_are_those_of_the_iterates(callback_results, k):
    _, (moments, snapshots, _) = callback_results
    mean, variance, deviations = moments.of(k)
    iterates = snapshots.of(k)
    assert len(deviations) == 3
    for name in mean:
        walk = np.array([state[name].numpy() for state in iterates])
        assert np.ptp(walk, axis=0).max() > 1e-3
        np.testing.assert_allclose(mean[name], walk.mean(0), atol=1e-13)
        np.testing.assert_allclose(variance[name], walk.var(0), atol=1e-15)
        for j in range(3):
            upto = j + 3
            np.testing.assert_allclose(deviations[j][name], walk[upto - 1] - walk[:upto].mean(0), atol=1e-13)


def test_snapshots_are_taken_after_the_epochs_that_were_named(callback_results):
    stack, (_, some, every) = callback_results
    for k in range(2):
        walk = every.of(k)
        for state, epoch in zip(some.of(k), EPOCHS, strict=True):
            assert all(torch.equal(state[name], walk[epoch][name]) for name in state)
        assert all(torch.equal(value, stack.state(k)[name]) for name, value in walk[-1].items())
        assert not torch.equal(walk[0]["inner.output.weight"], walk[1]["inner.output.weight"])


def test_snapshots_are_copies(callback_results):
    _, (_, some, _) = callback_results
    some.of(0)[0]["inner.output.weight"].zero_()
    assert some.of(0)[0]["inner.output.weight"].any()


@pytest.mark.parametrize(
    "make", [lambda: WeightMoments(EPOCHS, 3), lambda: WeightMoments(EPOCHS, 0), lambda: WeightSnapshots(EPOCHS)]
)
@pytest.mark.parametrize("stop", [0, 2, 3, 6])
def test_what_was_kept_comes_back_in_the_middle(callback_results, make, stop):
    """Watch the first epochs, store, restore into another watcher, and watch the rest."""
    stack, (_, _, every) = callback_results
    whole, before, after = make(), make(), make()

    def look(callback, epoch):
        walk = [every.of(k)[epoch] for k in range(2)]
        stack.restore({name: torch.stack([state[name] for state in walk]) for name in walk[0]})
        callback.after_epoch(stack, epoch)

    for epoch in range(8):
        look(whole, epoch)
        if epoch < stop:
            look(before, epoch)
    after.restore({name: value.clone() for name, value in before.state().items()})
    for epoch in range(stop, 8):
        look(after, epoch)
    one, other = whole.state(), after.state()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
