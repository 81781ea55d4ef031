"""The kernels' own exp and log, against long double arithmetic, in units of the last place."""

import numpy as np
import pytest
from numba import njit

from calibrant.kernels.loops import floats

RANDOM = np.random.default_rng(0)


@njit
def each(function, x, out):
    for i in range(x.size):
        out[i] = function(x[i])


CASES = {
    "exp32": (floats.exp32, np.exp, np.float32, -87 * RANDOM.random(200_000)),
    "exp64": (floats.exp64, np.exp, np.float64, -708 * RANDOM.random(200_000)),
    "exp64 near 0": (floats.exp64, np.exp, np.float64, -RANDOM.random(200_000)),
    "log32": (floats.log32, np.log, np.float32, np.exp(160 * RANDOM.random(200_000) - 80)),
    "log64": (floats.log64, np.log, np.float64, np.exp(1400 * RANDOM.random(200_000) - 700)),
    "log32 near 1": (floats.log32, np.log, np.float32, 0.9 + 0.2 * RANDOM.random(200_000)),
    "log64 near 1": (floats.log64, np.log, np.float64, 0.9 + 0.2 * RANDOM.random(200_000)),
}


@pytest.mark.parametrize("name", CASES)
def test_error_is_at_most_two_units_in_the_last_place(name):
    function, exact, dtype, x = CASES[name]
    x = x.astype(dtype)
    out = np.empty_like(x)
    each(function, x, out)
    truth = exact(x.astype(np.longdouble))
    units = np.abs(out - truth) / np.spacing(np.abs(truth).astype(dtype)).astype(np.longdouble)
    assert units.max() < 2.0


@pytest.mark.parametrize("size", [1e-3, 1.0, 1021.0])
def test_powers_of_two_are_close_over_the_whole_range(size):
    x = np.append(-size * RANDOM.random(200_000), [0.0, -size])
    out = np.empty_like(x)
    each(floats.exp2_64, x, out)
    errors = np.abs(out / np.exp2(x.astype(np.longdouble)) - 1)
    assert (errors < 6e-16).all()


@pytest.mark.parametrize("size", [1e-6, 1e-2, 1.0, 80.0])
def test_expm1_keeps_its_digits(size):
    x = (size * (2 * RANDOM.random(200_000) - 1)).astype(np.float32)
    out = np.empty_like(x)
    each(floats.expm1_32, x, out)
    truth = np.expm1(x.astype(np.float64))
    assert (np.abs(out - truth) <= 4e-7 * np.abs(truth)).all()


def test_exp_of_zero_and_log_of_one_are_exact():
    assert floats.exp32(np.float32(0)) == 1
    assert floats.exp64(0.0) == 1
    assert floats.log32(np.float32(1)) == 0
    assert floats.log64(1.0) == 0
