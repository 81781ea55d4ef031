"""Error rates and power of paired comparisons, and how often intervals of differences hold the truth.

Ten classes with logits f = 2·N(0, 1); labels are drawn from softmax(0.7 f), so that every model is over-confident. A
model sees f through noise of its own. *Noise*: f + 0.7 ε. *Heavy*: s·(f + 0.7 ε) with s = 2 + |t|, t of two degrees,
the same for both models: a few rows carry the whole NLL. *Real*: rows of two networks (ResNet-110 and VGG-15 on
CIFAR-10), the two vectors of a row swapped by a fair coin. *Units*: 100 units of ten rows with one label, f and ε, and
a tenth of further noise in each row. The two vectors of a row, or of a unit, are exchangeable in all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.special import log_softmax

import calibrant as cal
from calibrant.comparison.cross_validation import calibrated
from calibrant.comparison.paired import paired
from calibrant.comparison.split_temperatures import Splits, splits_of
from calibrant.results.comparison import Pair
from evidence.sizes import data_folder

SCORES = ("nll", "brier", "accuracy", "cll")
FLIPS_ALONE = "cll by flips"
"""The calibrated log-likelihood under a name that is not known to have fitted temperatures."""
RESAMPLES = 299
SIZES = (200, 5000)
POWER_SIZES = (200, 1000, 5000)
NOISE, MORE = 0.7, 0.8
"""The noise of a model, and of a poorer one whose calibrated log-likelihood is about 0.02 less."""
UNITS, REPEATS = 100, 10
EIGHT = "cifar10_test_8cnn_logits.npz"
NETWORKS = ("resnet_basic_110", "vgg_15_BN_64")
TRUTH_ROWS = 1_000_000
Two = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Logits of both models, and labels."""


# ---------------------------------------------------------------------------------------------- models
def _truth(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    f = 2.0 * rng.standard_normal((n, 10))
    return f, (0.7 * f + rng.gumbel(size=f.shape)).argmax(axis=1)


def noise(n: int, rng: np.random.Generator, second: float = NOISE) -> Two:
    """Two models that see the same through as much noise, or the second through more."""
    f, labels = _truth(n, rng)
    one, two = (f + sigma * rng.standard_normal(f.shape) for sigma in (NOISE, second))
    return one, two, labels


def heavy(n: int, rng: np.random.Generator, second: float = NOISE) -> Two:
    """The same, but sure of themselves beyond measure in some rows."""
    one, two, labels = noise(n, rng, second)
    scale = 2.0 + np.abs(rng.standard_t(2, (n, 1)))
    return scale * one, scale * two, labels


def real(n: int, rng: np.random.Generator) -> Two:
    """Rows of two networks, swapped by a coin."""
    one, two, labels = _networks()
    rows, swap = rng.permutation(len(labels))[:n], rng.random((n, 1)) < 0.5
    return np.where(swap, two[rows], one[rows]), np.where(swap, one[rows], two[rows]), labels[rows]


def _networks(known: dict[str, Two] = {}) -> Two:  # noqa: B006
    if not known:
        with np.load(data_folder() / EIGHT, allow_pickle=False) as data:
            names = list(data["model_names"])
            one, two = (data["logits"][names.index(name)].astype(np.float64) for name in NETWORKS)
            known["two"] = one, two, data["labels"].astype(np.int64)
    return known["two"]


def in_units(n: int, rng: np.random.Generator) -> Two:
    """Units whose rows share their label and nearly share their predictions."""
    f, labels = _truth(n // REPEATS, rng)
    both = []
    for _ in range(2):
        seen = np.repeat(f + NOISE * rng.standard_normal(f.shape), REPEATS, axis=0)
        both.append(seen + 0.1 * rng.standard_normal(seen.shape))
    return both[0], both[1], np.repeat(labels, REPEATS)


# ------------------------------------------------------------------------------------------ simulation
def score_rows(logits: np.ndarray, labels: np.ndarray, splits: Splits) -> dict[str, np.ndarray]:
    """The four scores of every row."""
    logs = log_softmax(logits, axis=1)
    at, probs = logs[np.arange(len(labels)), labels], np.exp(logs)
    return {
        "nll": -at,
        "brier": (probs**2).sum(axis=1) - 2.0 * np.exp(at) + 1.0,
        "accuracy": (logits.argmax(axis=1) == labels).astype(np.float64),
        "cll": calibrated(cal.Classification.from_logits(logits, labels), splits, 1).log_likelihood,
    }


def compared(two: Two, seed: int, units: np.ndarray | None = None) -> dict[str, Pair]:
    """The pair by every score."""
    *logits, labels = two
    splits = splits_of(len(labels), seed=seed, units=units)
    a, b = (score_rows(z, labels, splits) for z in logits)
    rows = {score: {"a": a[score], "b": b[score]} for score in SCORES}
    rows[FLIPS_ALONE] = rows["cll"]
    found = paired(rows, units=units, resamples=RESAMPLES, seed=seed, threads=1)
    return {pair.score: pair for pair in found.pairs}


Measure = Callable[[str, Pair], tuple[bool, bool]]


def shares(draw: Callable[[int, np.random.Generator], Two], n: int, simulations: int, measure: Measure) -> np.ndarray:
    """(scores, 2) how often either measure holds; last, of flips alone."""
    rng, hits = np.random.default_rng([n, len(draw.__name__)]), np.zeros((len(SCORES) + 1, 2))
    for place in range(simulations):
        pairs = compared(draw(n, rng), place)
        hits += [measure(score, pairs[score]) for score in (*SCORES, FLIPS_ALONE)]
    return hits / simulations


def called_different(score: str, pair: Pair) -> tuple[bool, bool]:
    """By flips of signs, and by the interval."""
    del score
    return pair.p_value <= 0.05, pair.low > 0.0 or pair.high < 0.0


# ---------------------------------------------------------------------------------------------- tables
def error_rows(name: str, simulations: int, sizes: tuple[int, ...] = SIZES) -> list[str]:
    """Shares called different of models that are exchangeable."""
    if name == "real" and not (data_folder() / EIGHT).is_file():
        return [f"| real | left out: {EIGHT} is not in the data folder |"]
    draw = {"noise": noise, "heavy": heavy, "real": real}[name]
    found = [shares(draw, n, simulations, called_different) for n in sizes]
    return [f"{_line(f'{name} | {n}', x[:-1])} {100 * x[-1, 0]:.1f} |" for n, x in zip(sizes, found, strict=True)]


def units_rows(simulations: int) -> list[str]:
    """Dependent rows, taken for independent and by unit."""
    n, units = UNITS * REPEATS, np.repeat(np.arange(UNITS), REPEATS)
    rng, hits = np.random.default_rng(7), np.zeros((2, len(SCORES), 2))
    for place in range(simulations):
        two = in_units(n, rng)
        for k, known in enumerate((None, units)):
            pairs = compared(two, place, known)
            hits[k] += [called_different(score, pairs[score]) for score in SCORES]
    names = (f"rows as independent | {n}", f"by unit | {UNITS} units")
    return [_line(name, found / simulations) for name, found in zip(names, hits, strict=True)]


def power_rows(name: str, simulations: int) -> list[str]:
    """The true differences, and how often they are found and held by the interval."""
    base = {"noise": noise, "heavy": heavy}[name]

    def poorer(n: int, rng: np.random.Generator) -> Two:
        return base(n, rng, MORE)

    truth = true_differences(poorer)

    def found_and_held(score: str, pair: Pair) -> tuple[bool, bool]:
        return pair.p_value <= 0.05, pair.low <= truth.get(score, truth["cll"]) <= pair.high

    lines = [f"| {name} | difference | " + " | ".join(f"{truth[score]:.4f}" for score in SCORES) + " |"]
    return lines + [_line(f"{name} | {n}", shares(poorer, n, simulations, found_and_held)[:-1]) for n in POWER_SIZES]


def true_differences(draw: Callable[[int, np.random.Generator], Two]) -> dict[str, float]:
    """From many rows; each model at the temperature that is best for all of them."""
    *logits, labels = draw(TRUTH_ROWS, np.random.default_rng(12345))
    splits = splits_of(TRUTH_ROWS, repeats=1)
    a, b = ({score: float(s.mean()) for score, s in score_rows(z, labels, splits).items()} for z in logits)
    return {score: a[score] - b[score] for score in SCORES}


def _line(head: str, found: np.ndarray) -> str:
    return f"| {head} | " + " | ".join(f"{100 * a:.1f} / {100 * b:.1f}" for a, b in found) + " |"


if __name__ == "__main__":
    warnings.simplefilter("error")
    for kind in ("noise", "heavy", "real"):
        print("\n".join(error_rows(kind, 200)))
    print("\n".join(units_rows(100) + power_rows("noise", 50) + power_rows("heavy", 50)))
