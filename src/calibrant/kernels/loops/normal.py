"""The standard normal in float64, free of branches, so that the compiler can turn a loop over it into vectors.

All for x >= 0, from e^(−x²/2) and m(x) = e^(x²/2)·Q(x), where Q(x) = 1 − Φ(x): then Q = e·m and the unit normal loss
R(x) = φ(x) − x·Q(x) = e·(1/√(2π) − x·m). Beyond 37.6 all are 0, infinity included; NaN stays NaN.

A polynomial in t = (x − K)/(x + K), as Shepherd & Laframboise (1981) have it for e^(u²)·erfc(u), needs few terms for m.
The coefficients are Remez fits of our own. That of `mills` has a relative error of 1.1e-17 up to 37.6; that of
`near_mills` has an absolute error of 2e-17 in what it serves for, e·m and e·x·m, at two thirds of the terms.
"""

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.floats import at_least_lowest, exp64

END = 37.6
"""Where e^(−x²/2) leaves the normal numbers."""

ROOT = 0.3989422804014327
"""1/√(2π)"""

K = 5.0
STRETCH = 1.2659574468085106
"""t = (STRETCH·x − K)/(x + K) goes from −1 to 1 as x goes from 0 to END."""


@kernel()
def between(x, low, high):
    """x, or the bound that it lies beyond."""
    return min(max(x, low), high)


@kernel(fastmath={"contract"})
def bell(x):
    """e^(−x²/2)."""
    e = exp64(at_least_lowest(-0.5 * x * x))
    return 0.0 if x > END else e


@kernel(fastmath={"contract"})
def mills(x):
    """m(x) = e^(x²/2)·Q(x), from END on its value there."""
    x = END if x > END else x
    share = 1.0 / (x + K)
    t = (STRETCH * x - K) * share
    y = 1.4929108766636452e-10 * t + 1.8227555633973593e-10
    y = y * t + -1.9966424176146567e-09
    y = y * t + -2.9660131759530415e-09
    y = y * t + 1.7587208901462468e-08
    y = y * t + 3.1154515704091437e-08
    y = y * t + -1.5252783221005263e-07
    y = y * t + -2.684722649576308e-07
    y = y * t + 1.5157622031171889e-06
    y = y * t + 1.6817842249102994e-06
    y = y * t + -1.7089064213110325e-05
    y = y * t + 5.07962463515715e-06
    y = y * t + 0.00018582455228917797
    y = y * t + -0.0005140159894093132
    y = y * t + -0.0008203435920292471
    y = y * t + 0.010813129910437591
    y = y * t + -0.045286768450235305
    y = y * t + 0.1274703940192305
    y = y * t + -0.27587847928659637
    y = y * t + 0.4834082690444746
    y = y * t + -0.7023474823009813
    y = y * t + 0.8546527425403557
    return y * share


@kernel(fastmath={"contract"})
def near_mills(t):
    """2m(x) at t = (x − K)/(x + K), to be multiplied by e^(−x²/2): beyond x = 9 it is of no use alone."""
    y = 1.0090927262749883e-06 * t + 1.2207781563487243e-05
    y = y * t + 5.1564748403676986e-05
    y = y * t + 6.403782901751013e-05
    y = y * t + -5.059943930476594e-05
    y = y * t + 0.0003264970846620462
    y = y * t + 0.0004746540345190333
    y = y * t + -0.004741364615007187
    y = y * t + 0.01798832334847491
    y = y * t + -0.04682640061151434
    y = y * t + 0.0957109552129271
    y = y * t + -0.16176772397314917
    y = y * t + 0.2321376261155775
    y = y * t + -0.28691511043072304
    return y * t + 0.1538386099515255


@kernel(fastmath={"contract"}, inline="always")
def tail_and_loss(x):
    """Q(x) = 1 − Φ(x) and R(x) = φ(x) − x·Q(x) = ∫ Q from x on."""
    e = bell(x)
    m = mills(x)
    return e * m, e * (ROOT - (END if x > END else x) * m)
