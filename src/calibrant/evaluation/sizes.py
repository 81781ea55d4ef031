"""How much an estimate depends on the number of rows: its values on random subsets of many sizes.

Subsets are drawn without replacement. Row i has the Philox word of (seed, SIZES, replicate, i), and the subset of n
rows has the n smallest: the subsets of a replicate are nested, and the same for every input of as many rows, so that
differences between two inputs are paired. After Gruber & Buettner (2022), figures 1 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.errors import InputError, LabelsError, NotApplicable, ShapeError, UsageError, show
from calibrant.evaluation.choosing import Input, applicable
from calibrant.evaluation.passes import OneInput
from calibrant.evaluation.size_curves import COMPANIONS, Curve, Sizes
from calibrant.kernels.jit import available_threads
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import SIZES
from calibrant.predictions import Evaluated
from calibrant.predictions.files.stream import Stream
from calibrant.registry.estimate import Settings

CLASSES = (
    "rbs", "ece", "tce(bins=100)", "tce(binning=mass,debias=true)", "kde_tce", "ks", "cwce", "cwce(bins=100)", "brier",
)  # fmt: skip
"""The estimators that Gruber & Buettner (2022, section 5) compare; p = 2 is the default of tce and cwce."""
NUMBERS = ("dss", "crps", "nll", "mace", "rmsce", "skce")
DEFAULTS = {"regression": NUMBERS, "detection": ("auroc", "aupr_in", "aupr_out", "fpr95")}
MOST_QUADRATIC = 5000
"""Rows up to which metrics of quadratic cost are taken without being named."""
MOST_BYTES = 1 << 31
"""Bytes up to which predictions left in their files are read into memory: subsets need every row at hand."""
FEWEST, USUAL, MOST = 20, 100, 100_000
ENTRIES = 1 << 29
"""Numbers that all subsets together may hold before there are fewer than the usual number of them."""
OVERHEAD = 50
"""What a row costs beside its scores, in scores: it is drawn, copied, binned and sorted."""
SMALLEST = 100
STEPS = 8
TRUTHS = ("labels", "label_probs", "correct", "y", "outside")
Progress = Callable[[str, float, float], None]


def value_by_size(
    predictions: Input,
    metrics: str | Iterable[str] | None = None,
    *,
    after: Input | None = None,
    sizes: Iterable[int] | None = None,
    repeats: int | None = None,
    seed: int = 0,
    units: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Sizes:
    """Each metric on random subsets of every size: mean, spread and quantiles; at full size its one value.

    metrics: spec strings, `rbs` (of numbers `dss`) being added; None for those of Gruber & Buettner that apply; "all"
    for all of linear or sort cost. after: the same rows once recalibrated; improvements are then before − after on the
    same subsets. sizes: rows; without them about eight from 100 (below 1000 rows a tenth of them) to all. repeats:
    subsets of a size, 100 by default, and down to 20 where they would hold more than 2²⁹ numbers together, a row having
    its scores and 50 more. units: a column of dependent rows, which are drawn together: a subset has whole units, and
    at least the rows of its size.
    """
    before = in_memory(predictions)
    later = None if after is None else in_memory(after)
    if later is not None:
        check_pair(before, later)
    wanted = metrics if metrics is None or isinstance(metrics, str) else list(metrics)
    texts = _texts(wanted, before)
    if later is not None:
        texts = [text for text in _texts(wanted, later) if text in texts]
    steps = default_sizes(before.n) if sizes is None else checked_sizes(sizes, before)
    count = default_repeats(before, steps) if repeats is None else checked_repeats(repeats)
    codes = None if units is None else np.unique(before.column(units), return_inverse=True)[1].ravel()
    draws = Draws(before.n, seed, codes)
    found = _Found(draws, [before] if later is None else [before, later], texts, steps)
    found.fill(count if len(steps) > 1 else 0, threads, progress)
    made = Sizes(before.name, steps, count, seed, found.curves(0), found.rows(), units)
    if later is None:
        return made
    return replace(made, after=later.name, specs_after=found.curves(1), improvement=found.improvements())


@dataclass(frozen=True)
class Followed:
    """What an evaluation was asked to follow over sizes."""

    sizes: tuple[int, ...] | None
    repeats: int | None
    pairs: bool

    @classmethod
    def of(cls, sizes: bool | Iterable[int], repeats: int | None, pairs: bool, inputs: list[Input]) -> Followed | None:
        """None where nothing was asked for; what does not fit together is refused before anything is read."""
        if sizes is False:
            if repeats is not None or pairs:
                what = "pairs" if pairs else "repeats"
                raise UsageError(what, expected="sizes beside it", came="got it alone", do="ask for sizes too")
            return None
        if isinstance(sizes, str | int) and sizes is not True:
            said = "true, or a list of sizes"
            raise UsageError("sizes", expected=said, came=f"got {show(sizes)}", do="write sizes=[100, 1000]")
        if pairs and (len(inputs) % 2 or not inputs):
            came = f"there {'is 1' if len(inputs) == 1 else f'are {len(inputs)}'}"
            do = "name before, after, before, after, …"
            raise UsageError("pairs", expected="an even number of inputs", came=came, do=do)
        given = None if isinstance(sizes, bool) else tuple(sizes)
        for item in inputs if given is not None else ():
            checked_sizes(given or (), item)
        for before, after in zip(inputs[::2], inputs[1::2], strict=True) if pairs else ():
            if not isinstance(before, Stream) and not isinstance(after, Stream):
                check_pair(before, after)
        return cls(given, None if repeats is None else checked_repeats(repeats), bool(pairs))

    def recorded(self) -> dict[str, object]:
        """As it stands among the settings."""
        return {
            "sizes": True if self.sizes is None else [int(size) for size in self.sizes],
            "repeats": self.repeats,
            "pairs": self.pairs,
        }


def followed(
    asked: Followed,
    inputs: list[Input],
    metrics: list[list[str]] | str | None,
    settings: Settings,
    units: str | None,
    progress: Progress | None,
) -> tuple[Sizes, ...]:
    """Every input, or every pair, over sizes."""
    out = []
    for k in range(0, len(inputs), 1 + asked.pairs):
        wanted = metrics[k] if isinstance(metrics, list) else metrics
        if asked.pairs and isinstance(metrics, list):
            wanted = [text for text in metrics[k] if text in metrics[k + 1]]
        made = value_by_size(
            inputs[k], wanted, after=inputs[k + 1] if asked.pairs else None, sizes=asked.sizes, repeats=asked.repeats,
            seed=settings.seed, units=units, threads=settings.threads, progress=progress,
        )  # fmt: skip
        out.append(made)
    return tuple(out)


# ------------------------------------------------------------------------------------------ subsets
@dataclass(frozen=True)
class Draws:
    """Nested random subsets of n rows, or of whole units of them."""

    n: int
    seed: int
    units: np.ndarray | None = None

    def order(self, replicate: int) -> np.ndarray:
        """The rows as they come into the subsets of a replicate."""
        if self.units is None:
            return np.argsort(words(self.seed, SIZES, replicate, self.n), kind="stable")
        drawn = words(self.seed, SIZES, replicate, int(self.units.max()) + 1)
        rank = np.argsort(np.argsort(drawn, kind="stable"), kind="stable")
        return np.argsort(rank[self.units], kind="stable")

    def subset(self, order: np.ndarray, size: int) -> np.ndarray:
        """The first rows, in their own order; a unit that has begun is taken whole."""
        if self.units is not None:
            apart = np.flatnonzero(self.units[order[size:]] != self.units[order[size - 1]])
            size += int(apart[0]) if len(apart) else self.n - size
        return np.sort(order[:size])


class _Found:
    """Values by input, spec, size and replicate, as they come in."""

    def __init__(self, draws: Draws, inputs: list[Evaluated], texts: list[str], sizes: tuple[int, ...]) -> None:
        self.draws, self.inputs, self.texts, self.sizes = draws, inputs, texts, sizes
        self.whole = np.zeros((len(inputs), len(texts)))
        self.parts = np.zeros((0, len(inputs), len(sizes) - 1, len(texts)))
        self.counts = np.zeros((0, len(sizes) - 1))

    def fill(self, repeats: int, threads: int | None, progress: Progress | None) -> None:
        """All subsets; each thread takes whole replicates."""
        self.whole = np.array([_values(item, self.texts, threads) for item in self.inputs])
        parts, counts = [], []
        for done, (values, rows) in enumerate(_spread(self._replicate, repeats, threads)):
            parts.append(values)
            counts.append(rows)
            if progress is not None:
                progress(f"{self.inputs[0].name}: subsets", done + 1, repeats)
        if parts:
            self.parts, self.counts = np.array(parts), np.array(counts)

    def _replicate(self, replicate: int) -> tuple[list[list[list[float]]], list[int]]:
        order = self.draws.order(replicate)
        subsets = [self.draws.subset(order, size) for size in self.sizes[:-1]]
        values = [[_values(item[rows], self.texts, 1) for rows in subsets] for item in self.inputs]
        return values, [len(rows) for rows in subsets]

    def curves(self, place: int) -> dict[str, Curve]:
        """Of one input."""
        return self._curves(self.parts[:, place], self.whole[place])

    def improvements(self) -> dict[str, Curve]:
        """Before minus after; two infinite values have no difference."""
        with np.errstate(invalid="ignore"):
            return self._curves(self.parts[:, 0] - self.parts[:, 1], self.whole[0] - self.whole[1])

    def _curves(self, parts: np.ndarray, whole: np.ndarray) -> dict[str, Curve]:
        return {
            text: Curve.of([*(parts[:, size, k] for size in range(len(self.sizes) - 1)), whole[k : k + 1]])
            for k, text in enumerate(self.texts)
        }

    def rows(self) -> tuple[float, ...]:
        """Mean rows of the subsets of each size."""
        means = self.counts.mean(axis=0).tolist() if len(self.counts) else []
        return (*means, float(self.sizes[-1]))


def _values(item: Evaluated, texts: list[str], threads: int | None) -> list[float]:
    settings = Settings(intervals=False, threads=threads)
    metrics = OneInput(item, texts, settings).result(noted=False).metrics
    return [metrics[text].value if text in metrics else math.nan for text in texts]


def _spread(work: Callable[[int], Any], count: int, threads: int | None) -> Iterator[Any]:
    """work(0), work(1), … in order, by several threads."""
    with ThreadPoolExecutor(threads or available_threads(), thread_name_prefix="calibrant-sizes") as pool:
        try:
            yield from pool.map(work, range(count))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


# ---------------------------------------------------------------------------------------- what is asked
def _texts(metrics: str | list[str] | None, example: Evaluated) -> list[str]:
    """The specs that are followed; of those that were named, each must apply."""
    wanted = registry.split(metrics) if isinstance(metrics, str) else metrics
    if wanted is None or wanted == ["all"]:
        return [spec.text for spec in applicable(_usual(example, everything=wanted is not None), example)[0]]
    specs, skipped = applicable(wanted, example)
    for text, reason in skipped.items():
        raise NotApplicable(text, expected="predictions that can give it", came=reason, do="leave it out")
    beside = [registry.parse(name) for name in COMPANIONS]
    beside = [spec for spec in beside if not spec.metric.lacks(spec, example)]
    return list(dict.fromkeys(spec.text for spec in [*beside, *specs]))


def _usual(example: Evaluated, *, everything: bool) -> list[str]:
    """Where none are named: those of the task that the registry has and that do not take too long."""
    known = registry.metrics()
    if everything:
        specs = [registry.parse(name) for name, metric in known.items() if metric.cost in ("linear", "sort")]
    else:
        texts = DEFAULTS.get(example.task, CLASSES)
        specs = [registry.parse(text) for text in texts if text.partition("(")[0] in known]
        specs = [spec for spec in specs if spec.metric.cost != "quadratic" or example.n <= MOST_QUADRATIC]
    return [spec.text for spec in specs if example.task in spec.metric.tasks]


def default_sizes(n: int) -> tuple[int, ...]:
    """About eight sizes up to n, even in the logarithm, rounded to 1, 2 or 5 times a power of ten."""
    low = SMALLEST if n >= 10 * SMALLEST else max(_nice(n / 10), 2)
    inner = [_nice(size) for size in np.geomspace(low, max(n, low), STEPS)[:-1]]
    return (*sorted({size for size in inner if 2 <= size <= n / 1.25}), n)


def _nice(size: float) -> int:
    """The nearest of 1, 2, 5, 10, … on the logarithmic scale."""
    power = 10.0 ** np.floor(np.log10(max(size, 1.0)))
    return int(min((power * k for k in (1, 2, 5, 10)), key=lambda nice: abs(np.log(nice / max(size, 1.0)))))


def checked_sizes(sizes: Iterable[int], item: Input) -> tuple[int, ...]:
    """The sizes that were asked for, rising, and the full one."""
    given = list(sizes)
    for size in given:
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or not 2 <= size <= item.n:
            raise UsageError(
                f"{item.name}: sizes",
                expected=f"whole numbers from 2 to {item.n}, its rows" if item.n > 1 else "at least two rows",
                came=f"got {show(size)}",
                do="leave it out" if item.n > 1 else "give more rows",
            )
    if not given:
        raise UsageError("sizes", expected="at least one size", came="got none", do="write sizes=[100, 1000]")
    return tuple(sorted({*(int(size) for size in given), item.n}))


def default_repeats(item: Evaluated, sizes: tuple[int, ...]) -> int:
    """The usual number of subsets, or as many as hold `ENTRIES` numbers together, but not too few to see a spread."""
    width = item.members * getattr(item, "classes", 1)
    samples = getattr(item, "samples", None)
    width = OVERHEAD + (width if samples is None else len(samples))
    return int(np.clip(ENTRIES // max(sum(sizes[:-1]) * width, 1), FEWEST, USUAL))


def checked_repeats(repeats: int) -> int:
    """The number of subsets that was asked for."""
    if not isinstance(repeats, int | np.integer) or isinstance(repeats, bool) or not 2 <= repeats <= MOST:
        said = f"a whole number from 2 to {MOST}"
        raise UsageError("repeats", expected=said, came=f"got {show(repeats)}", do=f"{USUAL} is usual")
    return int(repeats)


def in_memory(item: Input) -> Evaluated:
    """The predictions at hand; of a stream, read if they fit."""
    if not isinstance(item, Stream):
        return item
    if item.nbytes > MOST_BYTES:
        raise UsageError(
            f"{item.name}: sizes",
            expected=f"predictions of at most {MOST_BYTES >> 30} GiB, for subsets need all rows in memory",
            came=f"they have {item.nbytes / 2**30:.1f} GiB",
            do="leave --sizes out, or evaluate some of the shards",
        )
    return item.read()


def check_pair(before: Evaluated, after: Evaluated) -> None:
    """Refuse two inputs whose rows are not the same cases."""
    name = f"{before.name} and {after.name}"
    do = "give the same rows in the same order before and after"
    if before.task != after.task:
        raise InputError(name, expected="two of a kind", came=f"they are {before.task} and {after.task}", do=do)
    if before.n != after.n:
        raise ShapeError(name, expected="as many rows", came=f"they have {before.n} and {after.n}", do=do)
    for what, of_before, of_after in _truths(before, after):
        if of_before is None or of_after is None:
            came = f"{what} are of one of them only"
        elif of_before.shape != of_after.shape:
            came = f"their {what} have shapes {of_before.shape} and {of_after.shape}"
        elif not (of_before == of_after).all():
            other = (of_before != of_after).reshape(before.n, -1).any(axis=1)
            came = f"their {what} differ, first in row {int(np.argmax(other))}"
        else:
            continue
        raise LabelsError(name, expected=f"the same {what}", came=came, do=do)


def _truths(before: Evaluated, after: Evaluated) -> Iterator[tuple[str, np.ndarray | None, np.ndarray | None]]:
    """What must be the same in both, where one of them has it; ids are compared where both have them."""
    places: list[tuple[str, Any, Any]] = [(what, before, after) for what in TRUTHS] + [
        ("weights", before.info, after.info)
    ]
    for what, one, two in places:
        if getattr(one, what, None) is not None or getattr(two, what, None) is not None:
            yield what, getattr(one, what, None), getattr(two, what, None)
    if before.info.ids is not None and after.info.ids is not None:
        yield "ids", before.info.ids, after.info.ids
