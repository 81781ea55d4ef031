"""Equivalents that pytorch-ensembles printed (Ashukha et al. 2020): ResNet50 on ImageNet, dropout of VGG16 on CIFAR-10.

The tables have the negative CLL of deep ensembles at k = 1, 5, 10 and 50 only, in three digits, and the equivalents in
two; the curve between is not there. So equivalents can be bracketed, since the curve is concave, and reproduced by a
smooth curve through the four points, not recomputed.
"""

import re

import numpy as np
import pytest
from scipy.optimize import least_squares

from calibrant.comparison.ensemble_equivalent import crossing

KNOTS = np.array([1, 5, 10, 50])
HALF = 0.0005
"""What three printed digits may hide."""
METHODS = ["Snapshot Ensembles", "Fast Geometric Ens.", "Variational Inf. (FFG)", "KFAC-Laplace", "Single model"]


@pytest.fixture(scope="module")
def cells(data_folder):
    path = data_folder / "published_results" / "pytorch_ensembles_tables.txt"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    text = path.read_text(encoding="utf-8")
    return {int(part.split(maxsplit=1)[0]): part for part in re.split(r"^### cell ", text, flags=re.MULTILINE)[1:]}


def table(cell):
    """The numbers of each method: the first of every column."""
    out = {}
    for line in cell.splitlines():
        parts = [part.strip() for part in line.split("&")]
        if parts[0] == "ResNet50":
            out[parts[1]] = np.array([float(re.match(r"\$([\d.]+)\$", part)[1]) for part in parts[2:]])
    return out


@pytest.fixture(scope="module")
def cll(cells):
    """By method: CLL of 1, 5, 10 and 50 members; the first four columns are errors."""
    return {method: -row[4:] for method, row in table(cells[15]).items()}


@pytest.fixture(scope="module")
def dee(cells):
    """By method: equivalents of 1, 5, 10 and 50 members; there is no CLL of 25."""
    return {method: row[[0, 1, 2, 4]] for method, row in table(cells[21]).items()}


@pytest.fixture(scope="module")
def smooth(cll):
    """a − b k^−c through the four points, at every k."""
    fit = least_squares(lambda p: p[0] - p[1] * KNOTS ** -p[2] - cll["Deep Ensembles"], [-0.78, 0.15, 1.0])
    a, b, c = fit.x
    return a - b * np.arange(1, 51) ** -c


def test_the_tables_are_those_that_were_meant(cll, dee):
    assert set(cll) == set(dee) == {"Deep Ensembles", *METHODS}
    assert cll["Deep Ensembles"].tolist() == [-0.935, -0.823, -0.805, -0.788]
    slope = np.diff(cll["Deep Ensembles"]) / np.diff(KNOTS)
    assert (slope > 0).all()
    assert (np.diff(slope) < 0).all()  # rising and concave


@pytest.mark.parametrize("method", METHODS)
def test_published_equivalents_lie_where_a_concave_curve_allows(cll, dee, method):
    """At most what the chords between the knots give, for the curve is above them, and at least what the chord after
    them gives, prolonged, for it is below that."""
    knots = cll["Deep Ensembles"]
    chords = np.interp(np.arange(1, 51), KNOTS, knots)
    after = (knots[2] - knots[1]) / 5.0
    for level, published in zip(cll[method], dee[method], strict=True):
        most = crossing(chords - HALF, level + HALF)[0]
        least = max(1.0, 5.0 - (knots[1] - level + 2 * HALF) / (after - 2 * HALF / 5.0))
        assert least - 0.05 <= published <= most + 0.05


@pytest.mark.parametrize("method", METHODS)
def test_a_smooth_curve_through_the_four_points_gives_the_published_equivalents(cll, dee, smooth, method):
    for level, published in zip(cll[method], dee[method], strict=True):
        value, censored = crossing(smooth, level)
        assert value == pytest.approx(published, abs=0.2)
        if censored:
            assert (published, censored) == (1.0, "below")


def test_deep_ensembles_are_worth_their_number(cells, smooth, cll):
    assert np.abs(smooth[KNOTS - 1] - cll["Deep Ensembles"]).max() < 0.0015
    published = table(cells[21])["Deep Ensembles"]
    assert published.tolist() == [1, 5, 10, 25, 50]
    for k in published.astype(int):
        assert crossing(smooth, smooth[k - 1]) == (pytest.approx(k), "")


def test_values_before_the_first_member_are_one(cells):
    """Dropout of VGG16 on CIFAR-10. Between one and two members all curves are straight lines: the upper ones tell by
    how much the likelihoods of n = 3, 4 and 5 samples differ, and so that at n = 3 it was below one member's."""
    rows = [line.split()[5:] for line in cells[19].splitlines() if " dropout " in line]
    samples, values, lower, upper = (np.array([row[at] for row in rows], float) for at in (0, 2, 3, 4))
    assert samples.tolist() == [1, 2, 3, 4, 5]
    assert (lower <= values).all()
    assert (values <= upper).all()
    assert (values[:3] == 1.0).all()
    ratio = (values[4] - values[3]) / (upper[4] - upper[3])
    level = values[2:] - 1.0  # in units of what the second member adds
    level[0] = level[1] - ratio * (upper[3] - upper[2])
    assert level[0] < 0.0
    mean, minus = np.array([0.0, 1.0]), level[1] + ratio * (np.array([1.0, 2.0]) - upper[3])
    for at, published, bound in zip(level, values[2:], upper[2:], strict=True):
        value, censored = crossing(mean, at)
        assert value == pytest.approx(published, abs=1e-6)
        assert censored == ("below" if at < 0 else "")
        assert crossing(minus, at)[0] == pytest.approx(bound, abs=1e-5)
