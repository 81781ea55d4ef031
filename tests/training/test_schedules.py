"""Schedules of the learning rate against the formulas of the papers, and what must hold at every moment."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from calibrant.errors import UsageError  # noqa: E402
from calibrant.training.schedules import (  # noqa: E402
    Constant,
    Cosine,
    Halving,
    LinearDecay,
    Steps,
    ThenTriangular,
    WarmSteps,
)

OVADIA = Steps((80, 120, 160, 180), (0.1, 0.01, 0.001, 0.0005), 200)
SHARES = st.floats(0.0, 1.0)
FALLING = [Constant(), OVADIA, Halving(7), LinearDecay(), LinearDecay(0.2, 0.8, 0.1), Cosine()]


# ------------------------------------------------------------------------------------- formulas of papers
@pytest.mark.parametrize(
    ("epoch", "factor"),
    [
        (0, 1.0), (79, 1.0), (79.99, 1.0), (80, 0.1), (119.9, 0.1), (120, 0.01), (159.9, 0.01), (160, 0.001),
        (179.9, 0.001), (180, 0.0005), (199.9, 0.0005),
    ],
)  # fmt: skip
def test_steps_of_ovadia(epoch, factor):
    """Ovadia et al. (2019), appendix A.2; a training of other length falls at the same shares of it."""
    assert OVADIA.factor(epoch / 200, 200) == factor
    assert OVADIA.factor(epoch / 200, 50) == factor
    for_all = Steps(OVADIA.epochs, OVADIA.factors)
    assert for_all.factor(epoch / 300, 300) == factor


@pytest.mark.parametrize("total", [10, 300, 400])
def test_linear_decay_of_ashukha(total):
    """Ashukha et al. (2020), equation 6."""
    for epoch in [k * total / 100 for k in range(101)]:
        share = epoch / total
        if share <= 0.5:
            expected = 1.0
        elif share < 0.9:
            expected = 1.0 - 0.99 * (share - 0.5) / 0.4
        else:
            expected = 0.01
        assert LinearDecay().factor(share, total) == pytest.approx(expected, abs=1e-12)


def test_halving_of_gopal():
    """Gopal (2021), appendix F: 500 epochs, half of the rate after every 100."""
    found = [Halving(100).factor(epoch / 500, 500) for epoch in (0, 99, 100, 199, 200, 300, 400, 499)]
    assert found == [1.0, 1.0, 0.5, 0.5, 0.25, 0.125, 0.0625, 0.0625]


def test_warm_steps_of_ovadia():
    """Ovadia et al. (2019), appendix A.3: up over 5 epochs, a tenth at 30, 60 and 80 of 90."""
    said = {0: 0.0, 1: 0.2, 2.5: 0.5, 5: 1.0, 29: 1.0, 30: 0.1, 59.9: 0.1, 60: 0.01, 80: 0.001, 89: 0.001}
    for epoch, factor in said.items():
        assert WarmSteps().factor(epoch / 90, 90) == pytest.approx(factor, abs=1e-9)


@pytest.mark.parametrize(("cycles", "length"), [(1, 40), (4, 30), (5, 8)])
def test_cosine_cycles_of_huang_and_zhang(cycles, length):
    """α₀/2 · (cos(π mod(k − 1, ⌈K/M⌉) / ⌈K/M⌉) + 1) at step k of K = M · length; and as PyTorch has it."""
    steps = cycles * length
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    restarts = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimiser, length)
    for step in range(steps):
        found = Cosine(cycles).factor(step / steps, cycles)
        period = math.ceil(steps / cycles)
        assert found == pytest.approx(0.5 * (math.cos(math.pi * (step % period) / period) + 1.0), abs=1e-8)
        assert found == pytest.approx(restarts.get_last_lr()[0], abs=1e-8)
        optimiser.step()
        restarts.step()


@settings(max_examples=200)
@given(st.integers(1, 60), st.integers(1, 20))
def test_every_cycle_begins_at_the_full_rate(cycles, length):
    epochs = cycles * length
    for cycle in range(cycles):
        begun = cycle * length
        assert Cosine(cycles).factor(begun / epochs, epochs) == pytest.approx(1.0, abs=1e-6)
        if length > 1:
            assert Cosine(cycles).factor((begun + length - 1) / epochs, epochs) < 0.6


def test_the_saw_of_garipov():
    """Down in the first half of a cycle, up in the second: α(i) = (1 − 2t)α₁ + 2tα₂ up to t = ½, then back."""
    saw, epochs = ThenTriangular(LinearDecay(), 8, 0.5, 0.01, 4), 20
    for step in range(120):
        epoch = 8 + step / 10
        t = (epoch - 8) % 4 / 4
        expected = (1 - 2 * t) * 0.5 + 2 * t * 0.01 if t <= 0.5 else (2 - 2 * t) * 0.01 + (2 * t - 1) * 0.5
        assert saw.factor(epoch / epochs, epochs) == pytest.approx(expected, abs=1e-7)


def test_before_the_saw_the_schedule_runs_as_if_it_was_all():
    saw = ThenTriangular(LinearDecay(), 8, 0.5, 0.01, 4)
    for epoch in (0, 1.5, 4, 5.25, 7, 7.9):
        assert saw.factor(epoch / 20, 20) == pytest.approx(LinearDecay().factor(epoch / 8, 8), abs=1e-12)


def test_without_a_cycle_the_rate_stays():
    flat = ThenTriangular(Cosine(), 6, 0.3, 0.3, 0)
    assert {flat.factor(epoch / 10, 10) for epoch in (6, 6.5, 7, 9.99)} == {0.3}
    assert flat.factor(5.9 / 10, 10) < 0.01


# ------------------------------------------------------------------------------- what holds at every moment
@pytest.mark.parametrize("schedule", FALLING, ids=lambda each: each.name)
@given(SHARES, SHARES)
def test_these_only_fall(schedule, one, other):
    early, late = sorted((one, other))
    assert 1.0 >= schedule.factor(early, 90) >= schedule.factor(late, 90) - 1e-12 >= -1e-12


@pytest.mark.parametrize(
    ("schedule", "steepest"),
    [
        (LinearDecay(), 0.99 / 0.4),
        (LinearDecay(0.0, 1.0, 0.0), 1.0),
        (Cosine(), math.pi / 2),
        (Cosine(warm_up=0.2), 5.0),
        (ThenTriangular(Constant(), 10, 1.0, 0.1, 4), 0.9 * 90 / 2),
    ],
    ids=str,
)
@given(SHARES, st.floats(0.0, 0.01))
def test_these_never_jump(schedule, steepest, t, step):
    gap = abs(schedule.factor(min(t + step, 1.0), 90) - schedule.factor(t, 90))
    assert gap <= steepest * step + 1e-6


@given(st.floats(0.01, 0.9), st.integers(1, 6))
def test_a_warm_up_rises_to_the_full_rate_in_the_first_cycle_alone(share, cycles):
    warm = Cosine(cycles, share)
    end = share / cycles
    assert warm.factor(0.0, 10) == pytest.approx(0.0, abs=1e-6)
    assert warm.factor(end / 2, 10) == pytest.approx(0.5, abs=1e-6)
    assert warm.factor(end * (1 + 1e-7), 10) == pytest.approx(1.0, abs=1e-6)
    assert warm.factor((1 - 1e-5) / cycles, 10) == pytest.approx(0.0, abs=1e-3)
    later = (1 + share / 2) / cycles
    if cycles > 1:
        assert warm.factor(later, 10) == pytest.approx(Cosine(cycles).factor(later, 10), abs=1e-6)


@given(SHARES, st.integers(1, 8).map(lambda k: 2 * k), st.floats(0.1, 1.0), st.floats(0.0, 0.1))
def test_the_saw_stays_between_its_ends(t, cycle, high, low):
    factor = ThenTriangular(Constant(), 10, high, low, cycle).factor(t, 40)
    assert factor == 1.0 if t * 40 < 9.9 else low - 1e-12 <= factor <= max(high, 1.0 if t * 40 < 10 else high) + 1e-12


# ------------------------------------------------------------------------------------ settings, refusals
def test_settings_tell_schedules_apart():
    known = [*FALLING, Cosine(2), Cosine(2, 0.1), WarmSteps(), ThenTriangular(Cosine(), 3, 0.5, 0.1, 2)]
    known += [ThenTriangular(LinearDecay(), 3, 0.5, 0.1, 2), ThenTriangular(Cosine(), 4, 0.5, 0.1, 2)]
    texts = {json.dumps(schedule.settings(), sort_keys=True) for schedule in known}
    assert len(texts) == len(known)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Steps((10, 20), (0.1,)),
        lambda: Steps((20, 10), (0.1, 0.01)),
        lambda: Cosine(0),
        lambda: Cosine(2.5),
        lambda: Cosine(warm_up=1.0),
        lambda: Cosine(warm_up=math.nan),
        lambda: LinearDecay(0.5, 0.5),
        lambda: Halving(0),
    ],
)
def test_what_is_no_schedule_is_refused(make):
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value).isprintable()
