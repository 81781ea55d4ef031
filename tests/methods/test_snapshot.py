"""Snapshot ensembles, fast geometric ensembling and cyclical SGLD: members are kept where the rate is lowest."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from training.cases import QUICK, SMALL, apart, same_bits, table  # noqa: E402

from calibrant.errors import UsageError  # noqa: E402
from calibrant.methods import CyclicalSGLD, FastGeometricEnsemble, SnapshotEnsemble, Training, Vanilla  # noqa: E402
from calibrant.training.schedules import Constant, Cosine, LinearDecay  # noqa: E402

STEPS = 20
"""Of an epoch, as the tests look at it."""


def factors(method):
    """The factor of the rate at every step (epochs, STEPS)."""
    epochs = method.training.epochs
    shares = [(epoch + step / STEPS) / epochs for epoch in range(epochs) for step in range(STEPS)]
    return np.array([method.training.schedule.factor(share, epochs) for share in shares]).reshape(epochs, STEPS)


def kept(method):
    return method.callbacks()[0].epochs


# --------------------------------------------------------------------------------------------- snapshots
@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(2, 12), st.data())
def test_snapshots_are_taken_at_the_end_of_each_cycle(cycles, length, data):
    skip = data.draw(st.integers(0, cycles - 1))
    method = SnapshotEnsemble(Training(epochs=cycles * length), cycles=cycles, skip=skip)
    rates, epochs = factors(method), kept(method)
    assert len(epochs) == cycles - skip
    for cycle, epoch in zip(range(skip, cycles), epochs, strict=True):
        own = rates[cycle * length : (cycle + 1) * length]
        assert epoch == cycle * length + length - 1
        assert rates[epoch, -1] == own.min()


@settings(max_examples=60)
@given(st.integers(1, 60), st.integers(2, 12))
def test_cycles_that_are_no_whole_epochs_are_refused(epochs, cycles):
    """The rate would be high again before the epoch is over, after which a member is kept."""
    for make in (SnapshotEnsemble, partial(CyclicalSGLD, samples=1)):
        if epochs % cycles:
            with pytest.raises(UsageError, match="cycles"):
                make(Training(epochs=epochs), cycles=cycles)
        else:
            assert len(kept(make(Training(epochs=epochs), cycles=cycles))) == cycles


def test_a_cycle_is_a_training_of_its_own():
    """The first member is what one cosine over so many epochs gives; the last is where training ends."""
    training = replace(QUICK, epochs=6)
    made = SnapshotEnsemble(training, cycles=3).fit(table(), SMALL, 5)
    first = Vanilla(replace(training, epochs=2, schedule=Cosine())).fit(table(), SMALL, 5)
    last = Vanilla(replace(training, schedule=Cosine(3))).fit(table(), SMALL, 5)
    assert made.max_members == 3
    for k, other in ((0, first), (2, last)):
        for name, value in other.states[0].items():
            torch.testing.assert_close(made.states[k][name], value, rtol=0.0, atol=1e-12)


def test_members_that_are_skipped_are_the_first():
    training = replace(QUICK, epochs=6)
    whole = SnapshotEnsemble(training, cycles=3).fit(table(), SMALL)
    some = SnapshotEnsemble(training, cycles=3, skip=1).fit(table(), SMALL)
    whole.states = whole.states[1:]
    assert same_bits(whole, some)


# ------------------------------------------------------------------------------------ fast geometric ensembling
@settings(max_examples=40)
@given(st.integers(1, 20), st.integers(1, 4).map(lambda k: 2 * k), st.integers(1, 20))
def test_geometric_members_are_taken_where_the_rate_is_lowest(start, cycle, more):
    epochs = start + cycle // 2 + more
    method = FastGeometricEnsemble(Training(epochs=epochs, schedule=LinearDecay()), start=start, cycle=cycle)
    rates = np.append(factors(method).ravel(), method.training.schedule.factor(1.0, epochs))
    for k, epoch in enumerate(kept(method)):
        ended = (epoch + 1) * STEPS
        assert epoch + 1 == start + cycle // 2 + k * cycle
        assert rates[ended] == pytest.approx(method.low, abs=1e-6)
        own = rates[(start + k * cycle) * STEPS : (start + (k + 1) * cycle) * STEPS]
        assert rates[ended] == pytest.approx(own.min(), abs=1e-6)
        assert own.max() == pytest.approx(method.high, abs=1e-6)
    assert start + cycle // 2 + len(kept(method)) * cycle > epochs


def test_a_geometric_member_is_where_a_training_of_that_length_ends():
    training = replace(QUICK, epochs=8, schedule=Constant())
    method = FastGeometricEnsemble(training, start=3, cycle=2, high=0.5, low=0.1)
    made = method.fit(table(), SMALL)
    assert made.max_members == 3
    for k, epochs in enumerate((4, 6, 8)):
        alone = Vanilla(replace(method.training, epochs=epochs)).fit(table(), SMALL)
        for name, value in alone.states[0].items():
            torch.testing.assert_close(made.states[k][name], value, rtol=0.0, atol=1e-12)


# ------------------------------------------------------------------------------------------- cyclical SGLD
@settings(max_examples=40)
@given(st.integers(1, 8), st.integers(1, 10), st.data())
def test_noise_and_members_are_in_the_last_epochs_of_each_cycle(cycles, length, data):
    samples, skip = data.draw(st.integers(1, length)), data.draw(st.integers(0, cycles - 1))
    method = CyclicalSGLD(Training(epochs=cycles * length), cycles=cycles, samples=samples, skip=skip, temperature=0.5)
    noise, rates = method.noise(50), factors(method)
    noisy = [epoch for epoch in range(cycles * length) if noise(epoch) > 0.0]
    assert {noise(epoch) for epoch in noisy} == {np.sqrt(2.0 * 0.5 / 50)}
    assert noisy == [c * length + length - samples + j for c in range(cycles) for j in range(samples)]
    assert kept(method) == noisy[skip * samples :]
    for cycle in range(cycles):
        own = rates[cycle * length : (cycle + 1) * length].mean(1)
        assert own[length - samples :].max() <= own[: length - samples].min(initial=1.0)


def test_without_noise_and_momentum_langevin_members_are_those_of_gradient_descent():
    training = replace(QUICK, epochs=6, momentum=0.0)
    cold = CyclicalSGLD(training, cycles=3, samples=1, temperature=0.0).fit(table(), SMALL)
    snapshots = SnapshotEnsemble(training, cycles=3).fit(table(), SMALL)
    assert apart(cold, snapshots) == 0.0


def test_noise_makes_members_differ_more_the_hotter_they_are():
    training = replace(QUICK, epochs=4, momentum=0.0)
    walks = []
    for temperature in (0.0, 1e-4, 1.0):
        made = CyclicalSGLD(training, cycles=1, samples=2, temperature=temperature).fit(table(), SMALL)
        walks.append((made.states[1]["inner.output.weight"] - made.states[0]["inner.output.weight"]).norm().item())
    assert walks[0] < walks[1] < walks[2]


def test_other_seeds_have_other_noise():
    method = CyclicalSGLD(replace(QUICK, rate=1e-9, momentum=0.0, decay=0.0), cycles=1, samples=3, temperature=1e12)
    ways = []
    for seed in (0, 1):
        states = method.fit(table(), SMALL, seed).states
        ways.append((states[2]["inner.hidden.1.weight"] - states[1]["inner.hidden.1.weight"]).flatten())
    assert ways[0].std() > 1.0
    assert abs(np.corrcoef(ways[0], ways[1])[0, 1]) < 0.6


# ------------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    "make",
    [
        lambda: SnapshotEnsemble(QUICK, cycles=0),
        lambda: SnapshotEnsemble(QUICK, cycles=4),
        lambda: SnapshotEnsemble(QUICK, cycles=2, skip=2),
        lambda: SnapshotEnsemble(QUICK, cycles=2, skip=-1),
        lambda: FastGeometricEnsemble(QUICK, start=1, cycle=3),
        lambda: FastGeometricEnsemble(QUICK, start=1, cycle=0),
        lambda: FastGeometricEnsemble(QUICK, start=3, cycle=2),
        lambda: FastGeometricEnsemble(QUICK, start=0, cycle=2),
        lambda: CyclicalSGLD(QUICK, cycles=0),
        lambda: CyclicalSGLD(QUICK, cycles=1, samples=4),
        lambda: CyclicalSGLD(QUICK, cycles=1, samples=0),
        lambda: CyclicalSGLD(QUICK, cycles=3, samples=1, skip=3),
        lambda: CyclicalSGLD(QUICK, cycles=1, samples=1, temperature=-1.0),
        lambda: CyclicalSGLD(replace(QUICK, optimiser="adam"), cycles=1, samples=1),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make):
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value).isprintable()
