"""`scan`: predictions that stay in their files and are read block by block, whatever their size.

Results computed from sums have the same digits as from memory. A thread reads the next blocks while the current one is
processed. Columns to group by and units of dependent rows are read whole.
"""

from __future__ import annotations

import queue
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from calibrant.errors import CalibrantError, CalibrantWarning, FileError, UsageError, did_you_mean, error_context, show
from calibrant.predictions import Classification, InMemory
from calibrant.predictions.arrays import as_weights, power_of_two_unit, row_axis
from calibrant.predictions.base import Note, check_block_rows
from calibrant.predictions.files.assemble import Plan, build
from calibrant.predictions.files.binary import LazyArray, LazyArrays
from calibrant.predictions.files.read import check_same_constant, check_same_type, make_source, read_source
from calibrant.predictions.files.sources import (
    Source,
    combined_sha256,
    file_sha256,
    list_shards,
    open_shard,
    report_os_errors,
)
from calibrant.predictions.files.tables import ColumnOptions, are_names, as_named
from calibrant.predictions.regression import CROSSING

T = TypeVar("T")
BLOCK_BYTES = 1 << 24
"""Bytes of one block: small enough for the processor cache, and for the kernel's fast path of allocations."""
MAX_BLOCK_ROWS = 1 << 18
PREFETCH = 6
"""Blocks that are read ahead."""


def scan(
    path: str | Path,
    *,
    rename: Mapping[str, str] | None = None,
    member: int | None = None,
    columns: Mapping[str, str] | None = None,
    strict: bool = False,
) -> Stream:
    """Open predictions that are read block by block, in bounded memory, when they are evaluated.

    Parameters
    ----------
    path, rename, member, columns, strict
        As in `read`.

    Returns
    -------
    Stream

    Examples
    --------
    >>> import calibrant as cal
    >>> import tempfile
    >>> path = cal.write(cal.Judged.from_confidence([0.9, 0.6], [True, False]), tempfile.mkdtemp() + "/graded.npz")
    >>> cal.scan(path)
    Stream('graded', rows=2, shards=1, 0.0 MiB)
    """
    stream = scan_source(make_source(path, rename, member), ColumnOptions.of(columns or {}), strict=strict)
    for note in stream.notes():
        warnings.warn(note.message, CalibrantWarning, stacklevel=2)
    return stream


def scan_source(source: Source, columns: ColumnOptions, *, strict: bool = False) -> Stream:
    """`scan` without warnings; the notes of the returned stream hold them."""
    plans: list[Plan] = []
    nbytes, named = 0, False
    constants: dict[str, np.ndarray] = {}
    for path in list_shards(source.path):
        with open_shard(path, columns, source.rename) as shard:
            store = shard.store
            plan = Plan.of(store, path, strict, source.elsewhere)
            if not plan.n:
                continue  # other tools leave empty shards
            values = {key: store[key].load() for key in plan.constants()}
            if plans:
                plan.check_fits(plans[0])
                for key, array in values.items():
                    check_same_constant(plan, key, array, constants[key])
            constants = constants or values
            nbytes += sum(store[key].nbytes for key in plan.by_row())
            named = named or shard.named
            plans.append(plan)
    if not plans:
        hint = "check how the file was written"
        raise FileError(str(source.path), expected="at least one row", got="none", hint=hint)
    return Stream(source, columns, tuple(plans), constants, nbytes, named)


@dataclass(frozen=True)
class Stream:
    """Predictions that stay in their files: `blocks()` yields blocks of rows in memory, `read()` loads all of them."""

    source: Source
    options: ColumnOptions
    plans: tuple[Plan, ...]
    constants: Mapping[str, np.ndarray]
    nbytes: int
    named_classes: bool = False
    """Whether the columns of a table name the classes, so that labels may be such names."""
    soft: bool = False
    given_name: str | None = None
    sha256: str | None = None

    # ------------------------------------------------------------------------------------ facts
    @property
    def name(self) -> str:
        """The name of these predictions in results."""
        return self.given_name or self.source.name

    @property
    def n(self) -> int:
        """The number of rows."""
        return sum(plan.n for plan in self.plans)

    def __len__(self) -> int:
        return self.n

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns by which rows can be grouped."""
        return self.plans[0].columns

    @cached_property
    def example(self) -> InMemory:
        """The first row in memory; it shows the kind of predictions."""
        return next(self._blocks(1))

    def notes(self) -> tuple[Note, ...]:
        """Remarks on these predictions that the user should see."""
        of_rows = [note for note in self.example.notes() if note.code != CROSSING]  # counted in the blocks
        return tuple(dict.fromkeys([*(note for plan in self.plans for note in plan.notes()), *of_rows]))

    def named(self, name: str) -> Stream:
        """The same predictions under another name."""
        return replace(self, given_name=name)

    def with_soft_labels(self) -> Stream:
        """The same predictions, scored against `label_probs` instead of `labels`."""
        return replace(self, soft=True)

    def with_sha256(self) -> Stream:
        """The same with the SHA-256 of the files, which reads them once more."""
        with report_os_errors(self.source.path):
            hashes = [(plan.path.name, file_sha256(plan.path)) for plan in self.plans]
        return replace(self, sha256=hashes[0][1] if len(hashes) == 1 else combined_sha256(hashes))

    # ---------------------------------------------------------------------------------- reading
    def block_rows(self) -> int:
        """The default number of rows of a block."""
        return int(min(max(BLOCK_BYTES * self.n // max(self.nbytes, 1), 1), MAX_BLOCK_ROWS, max(self.n, 1)))

    def blocks(self, rows: int | None = None) -> Iterator[InMemory]:
        """Successive blocks of rows in memory, without ids and columns; a thread reads ahead."""
        check_block_rows(rows)
        return _prefetch(self._blocks(rows or self.block_rows()))

    def _blocks(self, rows: int) -> Iterator[InMemory]:
        for plan in self.plans:
            plan.check_rows()
        unit = self._weight_unit
        types: dict[str, np.ndarray] = {}
        for plan in self.plans:
            start = 0
            with self._open(plan) as store:
                keys = [key for key in plan.by_row() if key not in (*plan.columns, "ids")]
                readers = [store[key].blocks(row_axis(key, len(store[key].shape)), rows) for key in keys]
                for parts in zip(*readers, strict=True):
                    arrays = dict(zip(keys, parts, strict=True))
                    for key in plan.main:
                        check_same_type(plan, key, arrays[key], types.setdefault(key, arrays[key]), self.plans[0])
                    with error_context(plan.path.name, start):
                        block = self._build(plan, arrays, unit)
                    yield block._with_info(replace(block.info, origin=plan.path.name, first_row=start))
                    start += block.n

    def _build(self, plan: Plan, arrays: dict[str, np.ndarray], unit: float) -> InMemory:
        weights = arrays.pop("weights", None)
        if self.named_classes and "labels" in arrays:
            arrays["labels"] = as_named(arrays["labels"], self._labels_are_names)
        block = build(plan, {**arrays, **self.constants}, self.name, check=False)
        if weights is not None:
            weights = as_weights(weights, block.n, allow_all_zero=True)
            block = block._with_info(replace(block.info, weights=weights, weight_unit=unit))
        block = self.source.select_members(block)
        return block.with_soft_labels() if self.soft and isinstance(block, Classification) else block

    @cached_property
    def _weight_unit(self) -> float:
        """The unit of all weights, which must be known before the first sum."""
        if "weights" not in self.plans[0].known:
            return 1.0
        largest = np.zeros(len(self.plans))
        for k, (plan, part) in enumerate(zip(self.plans, self._parts("weights"), strict=True)):
            with error_context(plan.path.name):
                largest[k] = as_weights(part, plan.n, allow_all_zero=True).max(initial=0.0)
        with error_context(self.source.path.name):
            return power_of_two_unit(as_weights(largest, len(largest)))

    @cached_property
    def _labels_are_names(self) -> bool:
        """Whether labels are class names: one decision for all shards."""
        return all(are_names(part, self.constants["classes"]) for part in self._parts("labels"))

    def column(self, name: str) -> np.ndarray:
        """A whole column, `ids`, `labels` or `y`, by name."""
        plan = self.plans[0]
        others = ("ids", "y") if self.soft else ("ids", "labels", "y")
        known = [*plan.columns, *(key for key in others if key in plan.known)]
        if name not in known:
            hint = did_you_mean(name, known) if known else "the file has no columns; run `calibrant describe FILE`"
            raise UsageError(f"{self.name}: column", expected="a known column", got=show(name), hint=hint)
        parts = list(self._parts(name))
        for shard, part in zip(self.plans, parts, strict=True):
            check_same_type(shard, name, part, parts[0], plan)
        values = np.concatenate(parts)
        if name != "labels" or not isinstance(self.example, Classification):
            return values
        return self.example.label_indices(as_named(values, self._labels_are_names) if self.named_classes else values)

    def read_rows(self, names: Iterable[str], rows: np.ndarray) -> dict[str, np.ndarray]:
        """Columns, or `ids`, of some rows in increasing order; missing and unreadable columns are left out.

        Files are read block by block up to the last of these rows; files without any of them are not opened.
        """
        known = {*self.columns, *({"ids"} & set(self.plans[0].known))}
        parts: dict[str, list[np.ndarray]] = {name: [] for name in names if name in known}
        start = 0
        for plan in self.plans:
            rows_of_plan = rows[(rows >= start) & (rows < start + plan.n)] - start
            start += plan.n
            if not rows_of_plan.size or not parts:
                continue
            try:
                with self._open(plan) as store:
                    for name in list(parts):
                        try:
                            parts[name].append(_select_rows(store[name], rows_of_plan))
                        except CalibrantError:
                            del parts[name]
            except CalibrantError:
                parts.clear()
        return {name: np.concatenate(pieces) for name, pieces in parts.items() if pieces}

    def weights(self) -> np.ndarray | None:
        """All weights (N,), or None if all rows count equally."""
        if "weights" not in self.plans[0].known:
            return None
        return np.concatenate([np.asarray(part, np.float64) for part in self._parts("weights")])

    def _parts(self, key: str) -> Iterator[np.ndarray]:
        for plan in self.plans:
            with self._open(plan) as store:
                yield store[key].load()

    @contextmanager
    def _open(self, plan: Plan) -> Iterator[LazyArrays]:
        """Open one shard; raise `FileError` if its shapes have changed since the scan."""
        with open_shard(plan.path, self.options, self.source.rename) as shard:
            now = Plan.of(shard.store, plan.path)
            if (now.n, now.shapes) != (plan.n, plan.shapes):
                expected, hint = "the same rows and shapes as before", "run the command again"
                raise FileError(str(plan.path), expected=expected, got="a file that has changed", hint=hint)
            yield shard.store

    def read(self) -> InMemory:
        """Load all rows into memory."""
        predictions = read_source(self.source, self.options).named(self.name)
        if self.soft and isinstance(predictions, Classification):
            return predictions.with_soft_labels()
        return predictions

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, rows={self.n}, shards={len(self.plans)}, {self.nbytes / 2**20:.1f} MiB)"


def _select_rows(entry: LazyArray, rows: np.ndarray) -> np.ndarray:
    """Some rows, in increasing order, of an array with one value per row; reads nothing after the last of them."""
    start, pieces = 0, []
    for block in entry.blocks(0, MAX_BLOCK_ROWS):
        inside = rows[(rows >= start) & (rows < start + len(block))] - start
        pieces.append(block[inside])
        start += len(block)
        if start > rows[-1]:
            break
    return np.concatenate(pieces)


def _prefetch(items: Iterator[T]) -> Iterator[T]:
    """The items, produced by a thread a few items ahead; its exceptions are raised here."""
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(PREFETCH)
    stopped = threading.Event()

    def put(item: tuple[str, Any]) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put(("item", item)):
                    break
            put(("end", None))
        except BaseException as error:  # raised in the other thread, whatever it is
            put(("error", error))
        finally:
            getattr(items, "close", lambda: None)()

    thread = threading.Thread(target=work, name="calibrant-reading", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = waiting.get()
            if kind == "error":
                raise item
            if kind == "end":
                return
            yield item
    finally:
        stopped.set()
        thread.join()
