"""The kernels' own normal distribution, against arithmetic of many digits."""

import numpy as np
import pytest
from numba import njit

from calibrant.kernels.loops import normal

mpmath = pytest.importorskip("mpmath")

X = np.concatenate([np.linspace(0, 10, 700), np.linspace(10, 37, 300), np.geomspace(1e-300, 1, 60)])


@njit
def each(function, x, out):
    for i in range(x.size):
        out[i] = function(x[i])


@njit
def tail(x):
    return normal.tail_and_loss(x)[0]


@njit
def loss(x):
    return normal.tail_and_loss(x)[1]


@njit
def near_tail(x):
    return 0.5 * normal.bell(x) * normal.near_mills((x - normal.K) / (x + normal.K))


FUNCTIONS = {"bell": normal.bell, "tail": tail, "loss": loss}


def of(function, x):
    out = np.empty_like(x)
    each(function, x, out)
    return out


@pytest.fixture(scope="module")
def truth():
    """e^(−x²/2), Q(x) and R(x) at X, to 40 digits."""
    with mpmath.workdps(40):
        x = [mpmath.mpf(v) for v in X]
        e = [mpmath.exp(-v * v / 2) for v in x]
        q = [mpmath.erfc(v / mpmath.sqrt(2)) / 2 for v in x]
        r = [a / mpmath.sqrt(2 * mpmath.pi) - v * b for v, a, b in zip(x, e, q, strict=True)]
        return {"bell": e, "tail": q, "loss": r}


def errors(values, exact):
    with mpmath.workdps(40):
        off = [abs(mpmath.mpf(v) - t) for v, t in zip(values.tolist(), exact, strict=True)]
        return (
            np.array([float(d) for d in off]),
            np.array([float(d / t) for d, t in zip(off, exact, strict=True)]),
        )


@pytest.mark.parametrize(
    ("name", "absolute", "relative"), [("bell", 2e-16, 1e-13), ("tail", 4e-16, 1e-13), ("loss", 2e-16, 1e-12)]
)
def test_against_many_digits(truth, name, absolute, relative):
    off, share = errors(of(FUNCTIONS[name], X), truth[name])
    assert off.max() < absolute
    assert share.max() < relative
    assert share[X < 1].max() < 2e-15


def test_the_short_polynomial_serves_where_it_is_multiplied_by_the_bell(truth):
    off, _ = errors(of(near_tail, X), truth["tail"])
    assert off.max() < 4e-16
    assert (off * np.maximum(X, 1)).max() < 4e-16


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_ends(function):
    assert function(np.inf) == 0
    assert function(1e300) == 0
    assert function(38.0) == 0
    assert np.isnan(function(np.nan))
    values = of(function, np.linspace(0, 45, 9001))
    assert values.min() >= 0
    assert (np.diff(values) <= 0).all()


def test_at_zero_all_are_exact():
    assert normal.bell(0.0) == 1
    assert tail(0.0) == 0.5
    assert loss(0.0) == normal.ROOT
