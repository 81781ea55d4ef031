"""`scan`: predictions that stay in their files and are read block by block, however large they are.

Whatever is computed from sums gives the same digits as from memory; the reading of the next block goes on while the
present one is worked on. Columns to slice by, and the units of dependent rows, are read whole: one number a row.
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

from calibrant.errors import CalibrantError, CalibrantWarning, FileError, UsageError, did_you_mean, show
from calibrant.predictions import Classification, InMemory
from calibrant.predictions.arrays import as_weights, unit_of
from calibrant.predictions.base import Note, check_rows
from calibrant.predictions.files.assembling import Plan, build
from calibrant.predictions.files.axes import row_axis
from calibrant.predictions.files.naming import naming
from calibrant.predictions.files.reading import (
    check_same_constant,
    check_same_type,
    notes_of,
    read_source,
    source_of,
)
from calibrant.predictions.files.shards import Source, fingerprint, opened, reading, shards_of, together
from calibrant.predictions.files.stores import Entry, Store
from calibrant.predictions.files.tables import ColumnOptions, are_names, as_named
from calibrant.predictions.regression import CROSSING

T = TypeVar("T")
BLOCK_BYTES = 1 << 24
"""Bytes of one block: small enough to stay in the cache of a processor while it is worked on, and off the kernel's
slow path for large allocations."""
MOST_ROWS = 1 << 18
AHEAD = 6
"""Blocks that are read ahead."""


def scan(
    path: str | Path,
    *,
    rename: Mapping[str, str] | None = None,
    member: int | None = None,
    columns: Mapping[str, str] | None = None,
    strict: bool = False,
) -> Stream:
    """As `read`, but the predictions stay where they are: `evaluate` reads them block by block, in bounded memory."""
    made = scan_source(source_of(path, rename, member), ColumnOptions.of(columns or {}), strict=strict)
    for note in made.notes():
        warnings.warn(note.message, CalibrantWarning, stacklevel=2)
    return made


def scan_source(source: Source, columns: ColumnOptions, *, strict: bool = False) -> Stream:
    """The same from what the command line names."""
    plans: list[Plan] = []
    nbytes, named = 0, False
    constants: dict[str, np.ndarray] = {}
    for path in shards_of(source.path):
        with opened(path, columns, source.rename) as shard:
            store = shard.store
            plan = Plan.of(store, path, strict, source.elsewhere)
            if not plan.n:
                continue  # other tools leave empty shards
            found = {key: store[key].load() for key in plan.constants()}
            if plans:
                plan.check_fits(plans[0])
                for key, array in found.items():
                    check_same_constant(plan, key, array, constants[key])
            constants = constants or found
            nbytes += sum(store[key].nbytes for key in plan.by_row())
            named = named or shard.named
            plans.append(plan)
    if not plans:
        raise FileError(
            str(source.path), expected="at least one row", came="there is none", do="check how the file was written"
        )
    return Stream(source, columns, tuple(plans), constants, nbytes, named)


@dataclass(frozen=True)
class Stream:
    """Predictions in files. `blocks` gives them some rows at a time, `read` all at once."""

    source: Source
    options: ColumnOptions
    plans: tuple[Plan, ...]
    constants: Mapping[str, np.ndarray]
    nbytes: int
    named_classes: bool = False
    """Whether the columns of a table name the classes, so that a label may be such a name."""
    soft: bool = False
    given_name: str | None = None
    sha256: str | None = None

    # ------------------------------------------------------------------------------------ facts
    @property
    def name(self) -> str:
        """What these predictions are called in results."""
        return self.given_name or self.source.name

    @property
    def n(self) -> int:
        """The number of rows."""
        return sum(plan.n for plan in self.plans)

    def __len__(self) -> int:
        return self.n

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns by which rows can be sliced."""
        return self.plans[0].columns

    @cached_property
    def example(self) -> InMemory:
        """The first row: what kind of predictions these are."""
        return next(self._blocks(1))

    def notes(self) -> tuple[Note, ...]:
        """What the user should know of these predictions."""
        of_rows = [note for note in self.example.notes() if note.code != CROSSING]  # counted as the blocks go by
        return tuple(dict.fromkeys([*notes_of(list(self.plans)), *of_rows]))

    def named(self, name: str) -> Stream:
        """The same predictions under another name."""
        return replace(self, given_name=name)

    def with_soft_labels(self) -> Stream:
        """The same predictions, scored against `label_probs` instead of `labels`."""
        return replace(self, soft=True)

    def fingerprinted(self) -> Stream:
        """The same with the SHA-256 of the files, which are read once more for it."""
        with reading(self.source.path):
            hashes = [(plan.path.name, fingerprint(plan.path)) for plan in self.plans]
        return replace(self, sha256=hashes[0][1] if len(hashes) == 1 else together(hashes))

    # ---------------------------------------------------------------------------------- reading
    def block_rows(self) -> int:
        """Rows of a block of the usual size."""
        return int(min(max(BLOCK_BYTES * self.n // max(self.nbytes, 1), 1), MOST_ROWS, max(self.n, 1)))

    def blocks(self, rows: int | None = None) -> Iterator[InMemory]:
        """Successive rows as predictions in memory, without ids and columns; read ahead by a thread."""
        check_rows(rows)
        return _ahead(self._blocks(rows or self.block_rows()))

    def _blocks(self, rows: int) -> Iterator[InMemory]:
        for plan in self.plans:
            plan.check_rows()
        unit = self._weight_unit
        types: dict[str, np.ndarray] = {}
        for plan in self.plans:
            start = 0
            with self._opened(plan) as store:
                wanted = [key for key in plan.by_row() if key not in (*plan.columns, "ids")]
                for arrays in _rows_of(store, wanted, rows):
                    for key in plan.main:
                        check_same_type(plan, key, arrays[key], types.setdefault(key, arrays[key]), self.plans[0])
                    with naming(plan.path.name, start):
                        block = self._built(plan, arrays, unit)
                    yield block._with_info(replace(block.info, origin=plan.path.name, first_row=start))
                    start += block.n

    def _built(self, plan: Plan, arrays: dict[str, np.ndarray], unit: float) -> InMemory:
        weights = arrays.pop("weights", None)
        if self.named_classes and "labels" in arrays:
            arrays["labels"] = as_named(arrays["labels"], self._labels_are_names)
        block = build(plan, {**arrays, **self.constants}, self.name, check=False)
        if weights is not None:  # all of a block may be 0
            weights = as_weights(weights, block.n, some=False)
            block = block._with_info(replace(block.info, weights=weights, weight_unit=unit))
        block = self.source.chosen(block)
        return block.with_soft_labels() if self.soft and isinstance(block, Classification) else block

    @cached_property
    def _weight_unit(self) -> float:
        """The unit of weights must be known before the first of them is summed."""
        if "weights" not in self.plans[0].known:
            return 1.0
        largest = np.zeros(len(self.plans))
        for k, (plan, part) in enumerate(zip(self.plans, self._parts("weights"), strict=True)):
            with naming(plan.path.name):
                largest[k] = as_weights(part, plan.n, some=False).max(initial=0.0)
        with naming(self.source.path.name):
            return unit_of(as_weights(largest, len(largest)))

    @cached_property
    def _labels_are_names(self) -> bool:
        """Decided once, for the labels of all shards."""
        return all(are_names(part, self.constants["classes"]) for part in self._parts("labels"))

    def column(self, name: str) -> np.ndarray:
        """A column, `ids`, `labels` or `y`, whole."""
        plan = self.plans[0]
        others = ("ids", "y") if self.soft else ("ids", "labels", "y")
        known = [*plan.columns, *(key for key in others if key in plan.known)]
        if name not in known:
            hint = did_you_mean(name, known) if known else "this input has none"
            raise UsageError(
                f"{self.name}: column", expected="a column of the input", came=f"there is no {show(name)}", do=hint
            )
        parts = list(self._parts(name))
        for place, part in zip(self.plans, parts, strict=True):
            check_same_type(place, name, part, parts[0], plan)
        values = np.concatenate(parts)
        if name != "labels" or not isinstance(self.example, Classification):
            return values
        return self.example.label_indices(as_named(values, self._labels_are_names) if self.named_classes else values)

    def picked(self, names: Iterable[str], rows: np.ndarray) -> dict[str, np.ndarray]:
        """Columns, or `ids`, of some rows that rise; what there is not, or cannot be read, is left out.

        Files are read block by block, up to the last of these rows, and those without any are not opened.
        """
        known = {*self.columns, *({"ids"} & set(self.plans[0].known))}
        parts: dict[str, list[np.ndarray]] = {name: [] for name in names if name in known}
        start = 0
        for plan in self.plans:
            wanted = rows[(rows >= start) & (rows < start + plan.n)] - start
            start += plan.n
            if wanted.size and parts:
                self._pick(plan, wanted, parts)
        return {name: np.concatenate(found) for name, found in parts.items() if found}

    def _pick(self, plan: Plan, rows: np.ndarray, parts: dict[str, list[np.ndarray]]) -> None:
        try:
            with self._opened(plan) as store:
                for name in list(parts):
                    try:
                        parts[name].append(_rows_at(store[name], rows))
                    except CalibrantError:
                        del parts[name]
        except CalibrantError:
            parts.clear()

    def weights(self) -> np.ndarray | None:
        """The weights, whole, or None where every row counts once."""
        if "weights" not in self.plans[0].known:
            return None
        return np.concatenate([np.asarray(part, np.float64) for part in self._parts("weights")])

    def _parts(self, key: str) -> Iterator[np.ndarray]:
        for plan in self.plans:
            with self._opened(plan) as store:
                yield store[key].load()

    @contextmanager
    def _opened(self, plan: Plan) -> Iterator[Store]:
        """One shard; a file that has changed since it was first opened is refused."""
        with opened(plan.path, self.options, self.source.rename) as shard:
            now = Plan.of(shard.store, plan.path)
            if (now.n, now.shapes) != (plan.n, plan.shapes):
                raise FileError(
                    str(plan.path),
                    expected="the file as it was when it was first opened",
                    came="it has changed",
                    do="evaluate it again",
                )
            yield shard.store

    def read(self) -> InMemory:
        """All rows in memory."""
        made = read_source(self.source, self.options).named(self.name)
        return made.with_soft_labels() if self.soft and isinstance(made, Classification) else made

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, rows={self.n}, shards={len(self.plans)}, {self.nbytes / 2**20:.1f} MiB)"


def _rows_of(store: Store, keys: list[str], rows: int) -> Iterator[dict[str, np.ndarray]]:
    """The same rows of every array, block by block."""
    readers = [store[key].blocks(row_axis(key, len(store[key].shape)), rows) for key in keys]
    for parts in zip(*readers, strict=True):
        yield dict(zip(keys, parts, strict=True))


def _rows_at(entry: Entry, rows: np.ndarray) -> np.ndarray:
    """Some rows, rising, of an array with one item a row; nothing is read beyond the last of them."""
    start, found = 0, []
    for block in entry.blocks(0, MOST_ROWS):
        inside = rows[(rows >= start) & (rows < start + len(block))] - start
        found.append(block[inside])
        start += len(block)
        if start > rows[-1]:
            break
    return np.concatenate(found)


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """The items, made by a thread that is a little ahead; what goes wrong there is raised here."""
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(AHEAD)
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
        except BaseException as error:  # handed over, whatever it is
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
