"""The simulated data follow the law that the paper states."""

import numpy as np
import pytest
from scipy.special import ndtr

from calibrant.bench.gopal.data import HIGH, LOW, PURPOSES, draw, removed, truth
from calibrant.bench.gopal.plan import Plan
from calibrant.bench.gopal.runner import rows_of

N = 20_000
SIGMAS = 4.0


@pytest.fixture(scope="module", params=PURPOSES)
def rows(request):
    return request.param, draw(3, request.param, N)


def test_rows_are_outside_the_removed_region_or_all_inside(rows):
    purpose, found = rows
    assert len(found.x) == len(found.y) == N
    inside = (found.x >= -1.5) & (found.x <= 0.0)
    assert inside.all() if purpose == "out" else not inside.any()


def test_the_noise_has_variance_one_half_and_the_mean_is_the_parabola(rows):
    _, found = rows
    noise = found.y - (found.x**2 - 2.0 * found.x + 1.0)
    assert abs(noise.mean()) < SIGMAS * np.sqrt(0.5 / N)
    assert abs(noise.var() - 0.5) < SIGMAS * 0.5 * np.sqrt(2.0 / N)
    assert abs(np.corrcoef(noise**2, found.x)[0, 1]) < SIGMAS / np.sqrt(N)


def test_x_is_normal_but_for_what_was_removed(rows):
    purpose, found = rows
    gap = ndtr(HIGH) - ndtr(LOW)
    for at in (-2.0, -1.0, -0.5, 0.5, 1.5):
        inside = np.clip(at, LOW, HIGH)
        below = ndtr(inside) - ndtr(LOW)
        law = below / gap if purpose == "out" else (ndtr(at) - below) / (1.0 - gap)
        share = np.mean(found.x < at)
        assert abs(share - law) <= SIGMAS * np.sqrt(law * (1.0 - law) / N) + 1e-12, at


def test_rows_are_a_function_of_seed_and_purpose_alone():
    first, again = draw(0, "in", 50), draw(0, "in", 50)
    assert np.array_equal(first.x, again.x)
    assert np.array_equal(first.y, again.y)
    others = [draw(seed, purpose, 50).y for seed in (0, 1) for purpose in PURPOSES]
    assert len({other.tobytes() for other in others}) == 6


def test_the_paper_has_1000_rows_in_and_10000_rows_out_of_distribution():
    plan = Plan.of()
    assert (plan.rows, len(rows_of(plan, "in", 0)[0]), len(rows_of(plan, "out", 0)[0])) == (10_000, 1000, 10_000)
    assert removed(rows_of(plan, "out", 1)[0]).all()
    assert not removed(rows_of(plan, "in", 1)[0]).any()
    assert truth(np.array([-1.0, 1.0])).tolist() == [4.0, 0.0]
