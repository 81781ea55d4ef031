"""Intervals by test inversion: against a plain search over a grid of errors, profile by profile."""

import numpy as np
import pytest

from calibrant.calibration.inversion import detectable, union_of_inversions

NOISE = np.random.default_rng(0).normal(size=(4000, 8))


def ece(signed):
    return np.abs(signed).sum(axis=-1)


def grid_search(profile, noise, observed, level):
    """The smallest and largest error on a grid along the profile whose central range holds the observed one."""
    unit = profile / np.abs(profile).sum()
    errors = np.linspace(0.0, 2.0 * observed, 1601)
    inside = []
    for error in errors:
        low, high = np.quantile(ece(error * unit + noise), [0.5 - level / 2, 0.5 + level / 2])
        inside.append(low <= observed <= high)
    return errors[inside][0], errors[inside][-1]


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_interval_is_the_union_over_the_gaps_and_their_soft_threshold(level):
    """Few of the gaps are beyond 1.5 standard errors: along those alone, errors are seen at a smaller size."""
    errors = 0.01 * np.array([1.0, 1.2, 0.8, 1.0, 1.1, 0.9, 1.0, 1.0])
    signed = errors * np.array([4.0, -2.6, 2.0, -1.6, 1.4, -1.2, 1.0, -0.8])
    share, noise = np.full(8, 1 / 8), NOISE * errors
    beyond = np.array([2.5, -1.1, 0.5, -0.1, 0.0, 0.0, 0.0, 0.0]) * errors
    ends = [grid_search(profile, noise, ece(signed), level) for profile in (signed, beyond)]
    found = union_of_inversions(
        signed, share, errors**2, ece, level=level, draws=4000, seed=0, null_holds=False, noise=noise
    )
    step = 2 * ece(signed) / 1600
    assert found.low == pytest.approx(min(low for low, _ in ends), abs=1.5 * step)
    assert found.high == pytest.approx(max(high for _, high in ends), abs=1.5 * step)
    assert abs(ends[0][0] - ends[1][0]) > 5 * step  # the profiles differ, so that each is seen


def test_the_interval_widens_by_a_further_profile_alone():
    errors, share = np.full(8, 0.01), np.full(8, 1 / 8)
    signed = 0.01 * np.array([5.0, -0.5, 0.5, -0.5, 0.5, -0.5, 0.5, -0.5])
    known = {"level": 0.95, "draws": 4000, "seed": 0, "null_holds": False, "noise": NOISE * errors}
    without = union_of_inversions(signed, share, errors**2, ece, **known)
    flat = union_of_inversions(signed, share, errors**2, ece, also=[share], **known)
    step = 2 * ece(signed) / 1600
    assert without.high + 10 * step < flat.high
    assert flat.high == pytest.approx(grid_search(share, NOISE * errors, ece(signed), 0.95)[1], abs=1.5 * step)
    assert flat.low == pytest.approx(without.low)


def test_the_detectable_error_is_detected_four_times_in_five():
    null, share = 0.01 * NOISE, np.full(8, 1 / 8)
    upper = float(np.quantile(ece(null), 0.975))
    size = detectable(null, share, ece, upper)
    assert np.mean(ece(null - size * share) > upper) == pytest.approx(0.8, abs=2 / 4000)
