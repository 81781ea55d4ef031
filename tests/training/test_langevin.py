"""Langevin noise against the normal law that it must leave: linear models with known noise, all rows in a step.

U(θ) = L + ½decay|θ|² is quadratic with curvature A. θ ← θ − η∇U + √(2ηT/n) z then has a normal law in the long run: its
mean is argmin U, its variance along an eigenvector of A with eigenvalue λ is T/(nλ(1 − ηλ/2)), that of exp(−nU/T) as
η → 0.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from training.cases import rows_of, runs_of, stacked  # noqa: E402

from calibrant.errors import UsageError  # noqa: E402
from calibrant.methods import CyclicalSGLD, FixedGaussian, Task, Training  # noqa: E402
from calibrant.networks import MLP  # noqa: E402
from calibrant.training.callbacks import WeightSnapshots  # noqa: E402
from calibrant.training.loop import TrainingLoop  # noqa: E402
from calibrant.training.schedules import Constant  # noqa: E402

N, NOISE, DECAY, CHAINS = 50, 0.8, 0.2, 50
BURNT, APART, DRAWS = 40, 12, 20
RATE = 0.2


@cache
def task_of():
    """Two columns that depend on each other, and a number."""
    x = rows_of(N, 2)
    x[:, 1] = 0.6 * x[:, 0] + 0.8 * x[:, 1]
    return Task.regression(torch.from_numpy(x), x @ [2.0, -1.0] + rows_of(N, seed=2), likelihood=FixedGaussian(NOISE))


def law_of(temperature, rate):
    """Mean and covariance of (w₁, w₂, b) that the chains have in the long run, by linear algebra."""
    task = task_of()
    z, u = ((v - v.mean(0)) / v.std(0) for v in (task.x.numpy(), task.y.numpy()))
    phi = np.column_stack([z, np.ones(N)])
    curvature = phi.T @ phi / (N * NOISE**2) + DECAY * np.eye(3)
    mean = np.linalg.solve(curvature, phi.T @ u / (N * NOISE**2))
    values, vectors = np.linalg.eigh(curvature)
    variances = temperature / (N * values * (1.0 - rate * values / 2.0))
    return mean, (vectors * variances) @ vectors.T, values


@cache
def chains(temperature, rate, noisy=True, momentum=0.9, count=CHAINS):
    """Draws (count, DRAWS, 3) of chains, by the noise of the method, in which momentum must not take part."""
    epochs, task = BURNT + APART * DRAWS, task_of()
    training = Training(epochs=epochs, batch=N, rate=rate, decay=DECAY, momentum=momentum, precision="float64")
    method = CyclicalSGLD(training, cycles=1, samples=epochs, temperature=temperature)
    runs = runs_of(task, count, rate, DECAY)
    stack, _ = stacked(task, MLP(2, 1, ()), runs)
    kept = WeightSnapshots(range(BURNT + APART - 1, epochs, APART))
    noise = method.noise(N) if noisy else None
    TrainingLoop(stack, runs, replace(training, schedule=Constant()), callbacks=[kept], noise=noise).run()
    states = [
        [*state["inner.output.weight"][0], *state["inner.output.bias"]] for k in range(count) for state in kept.of(k)
    ]
    return np.array(states).reshape(count, DRAWS, 3)


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_chains_have_the_law_of_the_posterior(temperature):
    draws = chains(temperature, RATE).reshape(-1, 3)
    mean, covariance, values = law_of(temperature, RATE)
    assert (1.0 - RATE * values.min()) ** APART < 0.2
    m, spread = len(draws) / 1.5, np.sqrt(np.diag(covariance))  # draws of one chain depend on each other a little
    assert (np.abs(draws.mean(0) - mean) < 5.0 * spread / np.sqrt(m)).all()
    tolerance = 5.0 * np.sqrt((np.outer(spread, spread) ** 2 + covariance**2) / m)
    assert (tolerance < 0.4 * np.outer(spread, spread)).all()
    assert (np.abs(np.cov(draws.T, bias=True) - covariance) < tolerance).all()


def test_the_step_widens_the_law_as_it_should():
    """At ηλ = 1 the variance along the steepest direction is twice that of the posterior: seen, and as computed."""
    _, fine, values = law_of(1.0, 0.0)
    rate = 1.0 / values.max()
    vector = np.linalg.eigh(fine)[1][:, 0]
    exact = vector @ fine @ vector
    found = (chains(1.0, rate).reshape(-1, 3) @ vector).var()
    assert found == pytest.approx(2.0 * exact, rel=5.0 * np.sqrt(2.0 / (CHAINS * DRAWS)))


def test_noise_is_normal():
    """Fourth moments of standardised draws."""
    draws = chains(1.0, RATE).reshape(-1, 3)
    white = np.linalg.solve(np.linalg.cholesky(np.cov(draws.T)), (draws - draws.mean(0)).T)
    assert (np.abs((white**4).mean(1) - 3.0) < 5.0 * np.sqrt(24.0 / len(draws))).all()


def test_chains_share_no_noise():
    """The draws of one chain say nothing of those of the next."""
    draws = chains(1.0, RATE)[..., 0]
    assert abs(np.corrcoef(draws[:-1].ravel(), draws[1:].ravel())[0, 1]) < 5.0 / np.sqrt(CHAINS * DRAWS / 1.5)
    assert len(np.unique(draws)) == draws.size


def test_without_temperature_there_is_no_noise():
    np.testing.assert_array_equal(chains(0.0, RATE, count=2), chains(0.0, RATE, noisy=False, count=2))
    mean, _, _ = law_of(0.0, RATE)
    np.testing.assert_allclose(chains(0.0, RATE, momentum=0.0, count=2)[:, -1], [mean, mean], atol=1e-9)


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_takes_no_part_in_a_phase_of_noise(nesterov):
    training = Training(epochs=5, batch=N, rate=0.1, decay=DECAY, nesterov=nesterov, precision="float64")
    states = []
    for momentum in (0.0, 0.9):
        method = CyclicalSGLD(replace(training, momentum=momentum), cycles=1, samples=5)
        states.append(method.fit(task_of(), MLP(2, 1, ()), 4).states)
    for plain, moving in zip(*states, strict=True):
        for name, value in plain.items():
            torch.testing.assert_close(moving[name], value, rtol=0.0, atol=1e-12)


def test_clipping_is_refused_as_clipped_gradients_have_another_law():
    with pytest.raises(UsageError, match="training without gradient clipping"):
        CyclicalSGLD(Training(epochs=4, clip=1.0), cycles=2, samples=1)


def test_the_default_temperature_is_the_noise_of_ashukha():
    """√(2η) over the number of steps of an epoch, with 50,000 rows in batches of 128."""
    method = CyclicalSGLD(Training(epochs=100))
    steps, rate = -(-50_000 // 128), 0.07
    assert method.noise(50_000)(99) * np.sqrt(rate) == pytest.approx(np.sqrt(2.0 * rate) / steps, rel=1e-12)
    assert method.temperature == pytest.approx(0.33, abs=0.005)
