"""Distributions of norms of the gaps of bins when every row has its own hit probability.

Given the member, bins are independent and their hits are Poisson-binomial. The largest gap is at most v if all gaps
are: a product of distribution functions. A sum over bins has few enough values to enumerate, or so many that its
distribution is nearly continuous: it is then convolved on a grid, every value split between its two grid neighbours.
Notation: gap_b = (hits_b − Σ confidence)/n_b, share_b = n_b/N, signed_b = share_b·gap_b, as in `calibration.norms`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.fft import next_fast_len

from calibrant.calibration.binning import BinSums, BinTable, assign
from calibrant.calibration.norms import norm
from calibrant.checks.distributions import UNDEFINED, Lattice, member_laws, side_by_side
from calibrant.kernels.poisson_binomial import RunLaws

MOST_ENUMERATED = 1 << 22
"""Largest members x values for which the values of a sum are enumerated."""
ENTROPY_LISTED = 13.0
"""Largest entropy of the hits, in nats, for which enumeration is tried: e¹³ values of similar probability."""
FAINT = (1e-15, 1e-10)
"""Values below this probability are omitted: below the first if that is enough, else below the second."""
SAME = 1e-10
"""Relative difference of values that are equal up to rounding."""
ACCURACY = 1e-4
"""Target error of a probability on a grid."""
FIRST_STEP = 0.035
"""Initial grid step in standard deviations of the sum, for one bin."""
MOST_STEPS = 1 << 17
USELESS = 0.7
"""Refinement stops if half the step leaves more than this fraction of the error: distributions may have atoms."""
AT_A_TIME = 1 << 20
"""Members x steps that are transformed at a time."""
CELLS_A_STEP = 8
TAIL = 1e-12


@dataclass(frozen=True)
class BinnedHits:
    """The bins of some rows with their observed hits, and the distribution of the hits of each bin by each member."""

    table: BinTable
    filled: np.ndarray
    """The indices of nonempty bins."""
    laws: list[RunLaws]

    @classmethod
    def of(
        cls, confidence: np.ndarray, hit: np.ndarray, p: np.ndarray, bins: int, binning: str, threads: int | None = None
    ) -> BinnedHits:
        """From rows with confidence and hit (n,), and the members' hit probabilities p (M, n)."""
        place, edges = assign(confidence, bins, binning)
        sums = BinSums(len(edges) - 1, spread=False)
        sums.add(confidence, hit, None, place)
        order = np.argsort(place, kind="stable")
        filled = np.flatnonzero(sums.rows)
        runs = np.append(0, sums.rows[filled].cumsum())
        return cls(sums.table(), filled, member_laws(p[:, order], runs, threads))

    def signed(self, g: int, first: int, count: int) -> np.ndarray:
        """The signed gap of a nonempty bin for `count` numbers of hits from `first` on, computed as in `BinTable`."""
        return (np.arange(first, first + count) - self.table.wp[self.filled[g]]) / self.table.w.sum()


def gap_law(hits: BinnedHits | None, power: float) -> Lattice:
    """The distribution of the norm with this power of the gaps."""
    if hits is None:
        return UNDEFINED
    observed = float(norm(hits.table.share, power)(hits.table.signed))
    if np.isinf(power):  # P(largest ≤ v) = Π_b P(|gap_b| ≤ v) for each member, at the values that a gap can have
        by_member = [_largest_gap(hits, law) for law in hits.laws]
        values, index = np.unique(np.concatenate([v for v, _ in by_member]), return_inverse=True)
        probability = np.bincount(index.ravel(), np.concatenate([p for _, p in by_member])) / len(by_member)
        return Lattice(observed, values, probability)
    terms, chances = [], []
    for g, b in enumerate(hits.filled.tolist()):
        first, chance = side_by_side(hits.laws, g)
        terms.append(_term(hits.signed(g, first, chance.shape[1]), float(hits.table.share[b]), power))
        chances.append(chance)
    means = [chance.mean(axis=0) for chance in chances]
    entropy = sum(float(-(p[p > 0] * np.log(p[p > 0])).sum()) for p in means)
    for faint in FAINT if entropy <= ENTROPY_LISTED else ():
        enumerated = _enumerate_above(faint, terms, chances)
        if enumerated is not None:
            return _merge_equal(observed, _root(enumerated[0], power), enumerated[1])
    share, signed = hits.table.share, hits.table.signed
    total = float(sum(_term(signed[b : b + 1], float(share[b]), power)[0] for b in hits.filled))
    return _on_grid(terms, chances, power, observed, total)


def _largest_gap(hits: BinnedHits, law: RunLaws) -> tuple[np.ndarray, np.ndarray]:
    """For one member, the values of the largest gap in increasing order, with their probabilities.

    Each value multiplies P(largest ≤ v) by the factor by which the distribution function of its bin grows.
    """
    values, growth, begins = [], [], []
    for g, b in enumerate(hits.filled.tolist()):
        gaps = np.abs(hits.signed(g, int(law.least[g]), int(law.width[g]))) / hits.table.share[b]
        order = np.argsort(gaps, kind="stable")
        logs = np.log(law.law(g)[order].cumsum())
        values.append(gaps[order])
        growth.append(np.diff(logs, prepend=0.0))
        begins.append(np.arange(len(gaps)) == 0)
    value = np.concatenate(values)
    order = np.argsort(value, kind="stable")
    begun = np.concatenate(begins)[order].cumsum()
    below = np.where(begun == len(values), np.exp(np.concatenate(growth)[order].cumsum()), 0.0)
    probability = np.maximum(np.diff(below, prepend=0.0), 0.0)
    positive = probability > 0.0
    return value[order][positive], probability[positive]


def _term(signed: np.ndarray, share: float, power: float) -> np.ndarray:
    """The contribution of a bin to the sum whose root is the norm."""
    if power == 1.0:
        return np.abs(signed)
    return signed * signed / share if power == 2.0 else share * (np.abs(signed) / share) ** power


def _root(total: np.ndarray, power: float) -> np.ndarray:
    return total if power == 1.0 else np.sqrt(total) if power == 2.0 else total ** (1.0 / power)


def _enumerate_above(
    faint: float, terms: list[np.ndarray], chances: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray] | None:
    """The values of the sum of at least this probability with their mixture probabilities; None if there are too many.

    Each bin has terms (W,) and their probabilities (M, W).
    """
    members = len(chances[0])
    values, probability = np.zeros(1), np.ones((members, 1))
    for term, chance in sorted(zip(terms, chances, strict=True), key=lambda pair: len(pair[0])):
        likely = chance.max(axis=0) > faint
        if members * len(values) * int(likely.sum()) > MOST_ENUMERATED:
            return None
        values = (values[:, None] + term[likely]).ravel()
        probability = (probability[:, :, None] * chance[:, None, likely]).reshape(members, -1)
        likely = probability.max(axis=0) > faint
        values, probability = values[likely], probability[:, likely]
    mixed = probability.mean(axis=0)
    return (values, mixed) if 1.0 - mixed.sum() < ACCURACY / 10 else None


def _merge_equal(observed: float, values: np.ndarray, probability: np.ndarray) -> Lattice:
    """Merge values that are equal up to rounding, with each other or with the observed value."""
    order = np.argsort(values, kind="stable")
    values, probability = values[order], probability[order]
    values = np.where(np.abs(values - observed) <= SAME * observed, observed, values)
    new = np.append(True, np.diff(values) > SAME * values[1:])
    group = new.cumsum() - 1
    values = np.where(np.bincount(group, values == observed) > 0, observed, values[new])
    lost = float(1.0 - probability.sum())
    mixed = np.bincount(group, probability) / probability.sum()
    return Lattice(observed, values, mixed, error=lost if lost > TAIL else 0.0)


@dataclass(frozen=True)
class _Density:
    """Probabilities (K,) at the points start + j·step, as a piecewise linear density."""

    start: float
    step: float
    probability: np.ndarray

    def below(self, x: np.ndarray) -> np.ndarray:
        """P(sum ≤ x)."""
        p = self.probability
        trapezes = np.append(0.0, ((p[1:] + p[:-1]) / 2).cumsum()) + p[0] / 2
        position = np.clip((x - self.start) / self.step, 0.0, len(p) - 1.0)
        j = np.minimum(position.astype(np.int64), len(p) - 2)
        t = position - j
        inside = trapezes[j] + p[j] * t + (p[j + 1] - p[j]) * t * t / 2
        return np.where(x < self.start, 0.0, np.minimum(inside / (trapezes[-1] + p[-1] / 2), 1.0))


def _on_grid(
    terms: list[np.ndarray], chances: list[np.ndarray], power: float, observed: float, total: float
) -> Lattice:
    """The distribution of the sum by convolution, on grids refined until half the step changes no P by 1e-4."""
    likely = [chance.max(axis=0) > TAIL for chance in chances]
    terms = [term[keep] for term, keep in zip(terms, likely, strict=True)]
    chances = [chance[:, keep] for chance, keep in zip(chances, likely, strict=True)]
    start = float(sum(term.min() for term in terms))
    reach = float(sum(term.max() - term.min() for term in terms))
    spread = _spread(terms, chances)
    step = max(2 * FIRST_STEP * spread / np.sqrt(len(terms) + 1.0), 2 * reach / MOST_STEPS)
    fine, error = _convolved(terms, chances, start, step, reach), np.inf
    while True:
        step /= 2
        coarse, fine, before = fine, _convolved(terms, chances, start, step, reach), error
        # Splitting adds a variance of h²/6 per bin, and linear interpolation one more: F is off by half of that times
        # f′, and by up to twice as much if f is not smooth. The other estimate is the change from the coarser grid.
        at = coarse.start + coarse.step * np.arange(len(coarse.probability))
        changed = float(np.abs(fine.below(at) - coarse.below(at)).max())
        steepest = float(np.abs(np.diff(fine.probability, prepend=0.0)).max())
        error = max(changed, (len(terms) + 1) / 6 * steepest)
        if error <= ACCURACY or error > USELESS * before or 2 * reach / step > MOST_STEPS:
            break
    return _cells(fine, power, observed, total, error + _heaviest(terms, chances, power) / 2)


def _heaviest(terms: list[np.ndarray], chances: list[np.ndarray], power: float) -> float:
    """Approximate probability of the likeliest value of the sum; a density puts half of it below the value.

    Σ |hits − expected| is an integer minus a sum that depends on the signs alone, so many hits share a value.
    """
    single = np.mean(np.prod([chance.max(axis=1) for chance in chances], axis=0))
    if power != 1.0:
        return float(single)
    signs, variance = np.ones(len(chances[0])), np.zeros(len(chances[0]))
    for term, chance in zip(terms, chances, strict=True):
        split = int(term.argmin()) + 1
        sides = [(term[:split], chance[:, :split]), (term[split:], chance[:, split:])]
        mass = np.array([side.sum(axis=1) for _, side in sides])
        spread = np.array([_variance(side_terms, side) for side_terms, side in sides])
        likelier = mass.argmax(axis=0)
        signs *= mass.max(axis=0)
        variance += spread[likelier, np.arange(len(likelier))]
    unit = max(float(np.abs(np.diff(term)).max(initial=0.0)) for term in terms)
    lattice = np.minimum(1.0, unit / np.sqrt(2 * np.pi * np.maximum(variance, unit**2 / (2 * np.pi) + 1e-300)))
    return float(max(single, np.mean(signs * lattice)))


def _variance(term: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """The variance of a term by each member, conditional on these values."""
    share = chance / np.maximum(chance.sum(axis=1, keepdims=True), 1e-300)
    mean = share @ term
    return (share * (term - mean[:, None]) ** 2).sum(axis=1)


def _spread(terms: list[np.ndarray], chances: list[np.ndarray]) -> float:
    """The smallest positive standard deviation of the sum over members."""
    variance = np.zeros(len(chances[0]))
    for term, chance in zip(terms, chances, strict=True):
        variance += _variance(term, chance)
    return float(np.sqrt(variance[variance > 0].min())) if variance.any() else 1.0


def _convolved(terms: list[np.ndarray], chances: list[np.ndarray], start: float, step: float, reach: float) -> _Density:
    """The mixture over members of the distribution of the sum, each value split between two grid neighbours.

    Bins are first convolved in groups of about √B, each of which spans a small part of the grid.
    """
    members = len(chances[0])
    size = next_fast_len(int(reach / step) + len(terms) + 2, real=True)
    total = np.zeros(size // 2 + 1, np.complex128)
    batch, group = max(1, AT_A_TIME // size), max(1, round(len(terms) ** 0.5))
    for a in range(0, members, batch):
        product: np.ndarray | float = 1.0
        some = [chance[a : a + batch] for chance in chances]
        for b in range(0, len(terms), group):
            law = _law_of_group(terms[b : b + group], some[b : b + group], step)
            product = product * np.fft.rfft(law, size, axis=1)
        total += np.asarray(product).sum(axis=0)
    return _Density(start, step, np.maximum(np.fft.irfft(total, size), 0.0) / members)


def _law_of_group(terms: list[np.ndarray], chances: list[np.ndarray], step: float) -> np.ndarray:
    """The distributions (members, length) of the sum of a few terms, starting at the sum of their minima."""
    steps = int(sum(term.max() - term.min() for term in terms) / step) + len(terms) + 1
    if len(terms) == 1:
        return _split(terms[0], chances[0], step, steps)
    size = next_fast_len(steps, real=True)
    product: np.ndarray | float = 1.0
    for term, chance in zip(terms, chances, strict=True):
        product = product * np.fft.rfft(_split(term, chance, step, size), axis=1)
    return np.fft.irfft(product, size, axis=1)[:, :steps]


def _split(term: np.ndarray, chance: np.ndarray, step: float, size: int) -> np.ndarray:
    """The distribution (members, size) of a term on the grid, starting at its minimum; the mean is preserved."""
    members = len(chance)
    position = (term - term.min()) / step
    left = position.astype(np.int64)
    right = position - left
    at = (np.arange(members)[:, None] * size + left).ravel()
    out = np.bincount(at, (chance * (1.0 - right)).ravel(), members * size + 1)
    out += np.bincount(at + 1, (chance * right).ravel(), members * size + 1)
    return out[:-1].reshape(members, size)


def _cells(density: _Density, power: float, observed: float, total: float, error: float) -> Lattice:
    """The density in narrow cells, with the observed value on an edge, so that P(below it) is not rounded."""
    width = density.step / CELLS_A_STEP
    mass = density.probability.cumsum()
    low = density.start + density.step * max(int(np.searchsorted(mass, TAIL)) - 1, 0)
    high = density.start + density.step * (int(np.searchsorted(mass, mass[-1] - TAIL)) + 1)
    first, last = np.floor((low - total) / width), np.ceil((high - total) / width)
    edges = total + width * np.arange(first, last + 1)
    probability = np.diff(density.below(edges))
    values = _root(np.maximum((edges[1:] + edges[:-1]) / 2, 0.0), power)
    likely = probability > TAIL
    return Lattice(
        observed, values[likely], probability[likely] / probability[likely].sum(), error, method="convolution"
    )
