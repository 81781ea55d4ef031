"""How much a metric depends on the number of rows: its values on random subsets of many sizes.

Subsets are drawn without replacement. Row i has the Philox word of (seed, SIZES, replicate, i), and the subset of n
rows has the n smallest: the subsets of a replicate are nested, and the same for every input with as many rows, so that
differences between two inputs are paired. After Gruber & Buettner (2022), figures 1 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.errors import InputError, LabelsError, NotApplicable, ShapeError, UsageError, check_range, show
from calibrant.kernels.jit import available_threads
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import SIZES
from calibrant.pipeline.runner import InputRunner
from calibrant.pipeline.select_metrics import Input, applicable
from calibrant.predictions import Evaluable
from calibrant.predictions.files.stream import Stream
from calibrant.registry import lookup
from calibrant.registry.estimate import Settings
from calibrant.registry.metric import Spec
from calibrant.results.sample_size import SampleSizeCurve, SampleSizeCurves

MAX_QUADRATIC_ROWS = 5000
"""Rows up to which metrics of quadratic cost are computed without being named."""
MAX_BYTES = 1 << 31
"""Bytes up to which predictions in files are read into memory: subsets need random access to rows."""
MIN_DEFAULT_REPEATS, DEFAULT_REPEATS, MAX_REPEATS = 20, 100, 100_000
MAX_ENTRIES = 1 << 29
"""Numbers in all subsets together above which the default number of subsets is smaller."""
ROW_OVERHEAD = 50
"""The cost of a row apart from its scores, in scores: it is drawn, copied, binned and sorted."""
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
) -> SampleSizeCurves:
    """Each metric on random subsets of every size: mean, spread and quantiles; at full size its one value.

    metrics: spec strings, to which `rbs` (for regression `dss`) is added; None for those of Gruber & Buettner that
    apply; "all" for all of linear or sort cost. after: the same rows recalibrated; improvements are then before − after
    on the same subsets. sizes: numbers of rows; by default about eight from 100 (below 1000 rows a tenth of them) to
    all. repeats: subsets of each size; by default 100, down to 20 if they would hold more than 2²⁹ numbers together, a
    row counting as its scores and 50 more. units: a column of dependent rows, which are drawn together: a subset has
    whole units, and at least the rows of its size.
    """
    before = in_memory(predictions)
    later = None if after is None else in_memory(after)
    if later is not None:
        check_pair(before, later)
    named = metrics if metrics is None or isinstance(metrics, str) else list(metrics)
    texts = _texts(named, before)
    if later is not None:
        texts = [text for text in _texts(named, later) if text in texts]
    steps = default_sizes(before.n) if sizes is None else checked_sizes(sizes, before)
    count = default_repeats(before, steps) if repeats is None else checked_repeats(repeats)
    codes = None if units is None else np.unique(before.column(units), return_inverse=True)[1].ravel()
    draws = Draws(before.n, seed, codes)
    values = _SubsetValues(draws, [before] if later is None else [before, later], texts, steps)
    values.compute(count if len(steps) > 1 else 0, threads, progress)
    result = SampleSizeCurves(before.name, steps, count, seed, values.curves(0), values.rows(), units)
    if later is None:
        return result
    return replace(result, after=later.name, specs_after=values.curves(1), improvement=values.improvements())


@dataclass(frozen=True)
class SampleSizeSettings:
    """The sizes, subsets and pairs of an evaluation by sample size, validated."""

    sizes: tuple[int, ...] | None
    repeats: int | None
    pairs: bool

    @classmethod
    def of(
        cls, sizes: bool | Iterable[int], repeats: int | None, pairs: bool, inputs: list[Input]
    ) -> SampleSizeSettings:
        """Validate the options before anything is read."""
        if isinstance(sizes, str | int) and sizes is not True:
            raise UsageError(
                "sizes", expected="True, or a list of sizes", got=show(sizes), hint="write sizes=[100, 1000]"
            )
        if pairs and (len(inputs) % 2 or not inputs):
            hint = "name before, after, before, after, …"
            raise UsageError("pairs", expected="an even number of inputs", got=f"{len(inputs)}", hint=hint)
        given = None if isinstance(sizes, bool) else tuple(sizes)
        for item in inputs if given is not None else ():
            checked_sizes(given or (), item)
        for before, after in zip(inputs[::2], inputs[1::2], strict=True) if pairs else ():
            if not isinstance(before, Stream) and not isinstance(after, Stream):
                check_pair(before, after)
        return cls(given, None if repeats is None else checked_repeats(repeats), bool(pairs))

    def to_json(self) -> dict[str, object]:
        """As stored among the settings."""
        return {
            "sizes": True if self.sizes is None else [int(size) for size in self.sizes],
            "repeats": self.repeats,
            "pairs": self.pairs,
        }


def sample_size_results(
    options: SampleSizeSettings,
    inputs: list[Input],
    metrics: list[list[str]] | str | None,
    settings: Settings,
    units: str | None,
    progress: Progress | None,
) -> tuple[SampleSizeCurves, ...]:
    """`value_by_size` of every input or pair; metrics: those of each input, "all", or None for the default."""
    results = []
    for k in range(0, len(inputs), 1 + options.pairs):
        named = metrics[k] if isinstance(metrics, list) else metrics
        if options.pairs and isinstance(metrics, list):
            named = [text for text in metrics[k] if text in metrics[k + 1]]
        result = value_by_size(
            inputs[k], named, after=inputs[k + 1] if options.pairs else None, sizes=options.sizes,
            repeats=options.repeats, seed=settings.seed, units=units, threads=settings.threads, progress=progress,
        )  # fmt: skip
        results.append(result)
    return tuple(results)


# ------------------------------------------------------------------------------------------ subsets
@dataclass(frozen=True)
class Draws:
    """Nested random subsets of n rows, or of whole units of them."""

    n: int
    seed: int
    units: np.ndarray | None = None

    def order(self, replicate: int) -> np.ndarray:
        """The rows in the order in which they enter the subsets of a replicate."""
        if self.units is None:
            return np.argsort(words(self.seed, SIZES, replicate, self.n), kind="stable")
        drawn = words(self.seed, SIZES, replicate, int(self.units.max()) + 1)
        rank = np.argsort(np.argsort(drawn, kind="stable"), kind="stable")
        return np.argsort(rank[self.units], kind="stable")

    def subset(self, order: np.ndarray, size: int) -> np.ndarray:
        """The first rows, sorted; units are never split."""
        if self.units is not None:
            apart = np.flatnonzero(self.units[order[size:]] != self.units[order[size - 1]])
            size += int(apart[0]) if len(apart) else self.n - size
        return np.sort(order[:size])


class _SubsetValues:
    """Values of all specs on all subsets, by input, spec, size and replicate."""

    def __init__(self, draws: Draws, inputs: list[Evaluable], texts: list[str], sizes: tuple[int, ...]) -> None:
        self.draws, self.inputs, self.texts, self.sizes = draws, inputs, texts, sizes
        self.full = np.zeros((len(inputs), len(texts)))
        self.subsets = np.zeros((0, len(inputs), len(sizes) - 1, len(texts)))
        self.counts = np.zeros((0, len(sizes) - 1))

    def compute(self, repeats: int, threads: int | None, progress: Progress | None) -> None:
        """Compute all values; each thread computes whole replicates."""
        self.full = np.array([_values(item, self.texts, threads) for item in self.inputs])
        subsets, counts = [], []
        with ThreadPoolExecutor(threads or available_threads(), thread_name_prefix="calibrant-sizes") as pool:
            try:
                for done, (values, rows) in enumerate(pool.map(self._replicate, range(repeats))):
                    subsets.append(values)
                    counts.append(rows)
                    if progress is not None:
                        progress(f"{self.inputs[0].name}: subsets", done + 1, repeats)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        if subsets:
            self.subsets, self.counts = np.array(subsets), np.array(counts)

    def _replicate(self, replicate: int) -> tuple[list[list[list[float]]], list[int]]:
        order = self.draws.order(replicate)
        subsets = [self.draws.subset(order, size) for size in self.sizes[:-1]]
        values = [[_values(item[rows], self.texts, 1) for rows in subsets] for item in self.inputs]
        return values, [len(rows) for rows in subsets]

    def curves(self, place: int) -> dict[str, SampleSizeCurve]:
        """The values of one input, summarised by size."""
        return self._curves(self.subsets[:, place], self.full[place])

    def improvements(self) -> dict[str, SampleSizeCurve]:
        """Before minus after; two infinite values have no difference."""
        with np.errstate(invalid="ignore"):
            return self._curves(self.subsets[:, 0] - self.subsets[:, 1], self.full[0] - self.full[1])

    def _curves(self, subsets: np.ndarray, full: np.ndarray) -> dict[str, SampleSizeCurve]:
        return {
            text: SampleSizeCurve.of([*(subsets[:, size, k] for size in range(len(self.sizes) - 1)), full[k : k + 1]])
            for k, text in enumerate(self.texts)
        }

    def rows(self) -> tuple[float, ...]:
        """Mean rows of the subsets of each size."""
        means = self.counts.mean(axis=0).tolist() if len(self.counts) else []
        return (*means, float(self.sizes[-1]))


def _values(item: Evaluable, texts: list[str], threads: int | None) -> list[float]:
    settings = Settings(intervals=False, threads=threads)
    metrics = InputRunner(item, texts, settings).result(values_only=True).metrics
    return [metrics[text].value if text in metrics else math.nan for text in texts]


# ------------------------------------------------------------------------------ metrics, sizes, repeats
def _texts(metrics: str | list[str] | None, example: Evaluable) -> list[str]:
    """The specs that are computed; every one that was named must apply."""
    named = lookup.split(metrics) if isinstance(metrics, str) else metrics
    if named is None or named == ["all"]:
        return [spec.text for spec in applicable(_default_texts(example, everything=named is not None), example)[0]]
    specs, skipped = applicable(named, example)
    for text, reason in skipped.items():
        raise NotApplicable(
            text, expected="a metric that applies", got=f"{show(text)} ({reason.text})", hint="leave it out"
        )
    companions = [lookup.parse(name) for name in lookup.with_role("sample_size_reference")]
    companions = [spec for spec in companions if not spec.metric.unsupported_reason(spec, example)]
    return list(dict.fromkeys(spec.text for spec in [*companions, *specs]))


def _default_texts(example: Evaluable, *, everything: bool) -> list[str]:
    """If none are named: those of the task that are not too slow."""
    if everything:
        specs = [Spec.make(metric) for metric in lookup.metrics().values() if metric.cost in ("linear", "sort")]
    else:
        role = "regression_sample_size" if example.task == "regression" else "sample_size"
        specs = [lookup.parse(text) for text in lookup.with_role(role, example.task)]
        specs = [spec for spec in specs if spec.metric.cost != "quadratic" or example.n <= MAX_QUADRATIC_ROWS]
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
    """The given sizes, rising, and the full one."""
    given = list(sizes)
    for size in given:
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or not 2 <= size <= item.n:
            expected = f"integers from 2 to {item.n} (its rows)" if item.n > 1 else "at least two rows"
            half = max(2, item.n // 2)
            hint = f"use sizes=[{half}] (--at {half})" if item.n > 1 else "give more rows"
            raise UsageError(f"{item.name}: sizes", expected=expected, got=show(size), hint=hint)
    if not given:
        raise UsageError("sizes", expected="at least one size", got="none", hint="write sizes=[100, 1000]")
    return tuple(sorted({*(int(size) for size in given), item.n}))


def default_repeats(item: Evaluable, sizes: tuple[int, ...]) -> int:
    """100 subsets of each size, fewer if they would hold more than `MAX_ENTRIES` numbers together, but at least 20."""
    width = item.members * getattr(item, "classes", 1)
    samples = getattr(item, "samples", None)
    width = ROW_OVERHEAD + (width if samples is None else len(samples))
    return int(np.clip(MAX_ENTRIES // max(sum(sizes[:-1]) * width, 1), MIN_DEFAULT_REPEATS, DEFAULT_REPEATS))


def checked_repeats(repeats: int) -> int:
    """The number of subsets of each size."""
    return check_range("repeats", repeats, 2, MAX_REPEATS, integer=True, hint=f"use repeats={DEFAULT_REPEATS}")


def in_memory(item: Input) -> Evaluable:
    """The predictions in memory; a stream is read if it fits."""
    if not isinstance(item, Stream):
        return item
    if item.nbytes > MAX_BYTES:
        expected = f"at most {MAX_BYTES >> 30} GiB, because subsets need all rows in memory"
        hint = "leave --sizes out, or evaluate some of the shards"
        raise UsageError(f"{item.name}: sizes", expected=expected, got=f"{item.nbytes / 2**30:.1f} GiB", hint=hint)
    return item.read()


def check_pair(before: Evaluable, after: Evaluable) -> None:
    """Refuse two inputs whose rows are not the same cases."""
    name = f"{before.name} and {after.name}"
    hint = "give the same rows in the same order before and after"
    if before.task != after.task:
        raise InputError(
            name, expected="predictions of the same kind", got=f"{before.task} and {after.task}", hint=hint
        )
    if before.n != after.n:
        raise ShapeError(name, expected="the same number of rows", got=f"{before.n} and {after.n}", hint=hint)
    for what, of_before, of_after in _truths(before, after):
        if of_before is None or of_after is None:
            got = f"only one of them has {what}"
        elif of_before.shape != of_after.shape:
            got = f"their {what} have shapes {of_before.shape} and {of_after.shape}"
        elif not (of_before == of_after).all():
            other = (of_before != of_after).reshape(before.n, -1).any(axis=1)
            got = f"their {what} differ, first in row {int(np.argmax(other))}"
        else:
            continue
        raise LabelsError(name, expected=f"the same {what}", got=got, hint=hint)


def _truths(before: Evaluable, after: Evaluable) -> Iterator[tuple[str, np.ndarray | None, np.ndarray | None]]:
    """What must be equal in both if either has it; ids if both have them."""
    places: list[tuple[str, Any, Any]] = [(what, before, after) for what in TRUTHS] + [
        ("weights", before.info, after.info)
    ]
    for what, one, two in places:
        if getattr(one, what, None) is not None or getattr(two, what, None) is not None:
            yield what, getattr(one, what, None), getattr(two, what, None)
    if before.info.ids is not None and after.info.ids is not None:
        yield "ids", before.info.ids, after.info.ids
