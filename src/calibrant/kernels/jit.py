"""How kernels are compiled, where the compiled code is kept, and how rows are shared among threads.

Compiled code is unpickled when it is loaded, so it lives in a folder that only its owner can write to, named after
the sources it was made from; where no such folder can be had it is not kept. Threads are plain Python threads over
spans of rows (the kernels release the interpreter lock): no threading layer to choose, nothing that a fork or a second
caller could upset, and each further kernel compiles in half the time of a parallel one.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from numba import njit
from numba.core.caching import _CacheLocator

from calibrant.errors import UsageError, parse_count, show
from calibrant.private import private_folder

SERIAL_BELOW = 1 << 20
"""Elements under which starting threads costs more than it saves."""

SUMS = {"reassoc", "contract", "arcp", "nsz"}
"""Floating-point liberties that let a reduction use vectors; NaN and infinity keep their meaning."""


@cache
def cache_folder() -> str | None:
    """The private folder for compiled kernels, or None where none can be had."""
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    digest = sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = private_folder(f"kernels-{digest}")
    return None if folder is None else str(folder)


@cache
def compiled_list() -> Path | None:
    """The file that lists what was compiled ahead, for this version of Python and Numba on this type of CPU.

    None where compiled code is not kept, or nothing is compiled at all.
    """
    from llvmlite.binding import get_host_cpu_name

    folder = cache_folder()
    if folder is None or numba.config.DISABLE_JIT:
        return None
    built = f"{sys.implementation.cache_tag} {numba.__version__} {get_host_cpu_name()}"
    return Path(folder) / f"compiled-{sha256(built.encode()).hexdigest()[:16]}.txt"


@cache
def compiled_keys(file: Path) -> set[str]:
    """What the list names, as far as this process knows."""
    try:
        return set(file.read_text(encoding="ascii", errors="replace").split())
    except OSError:
        return set()


def key_of_work(*parts: object) -> str:
    """What identifies a kernel, or a kind of work, in the list."""
    return sha256(repr(parts).encode()).hexdigest()[:16]


def is_compiled(key: str) -> bool:
    """Whether nothing is left to compile for this kernel or kind of work, or nothing can be kept."""
    file = compiled_list()
    return file is None or key in compiled_keys(file)


def note_compiled(key: str) -> None:
    """Add to the list; a single short write, so that processes may share the file."""
    file = compiled_list()
    if file is not None and key not in compiled_keys(file):
        compiled_keys(file).add(key)
        with suppress(OSError), file.open("a", encoding="ascii") as stream:
            stream.write(f"{key}\n")


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's njit without the interpreter lock, its compiled form kept in `cache_folder()`.

    Division by zero gives infinity or NaN as in NumPy: a check before each division would stop the vectors.
    A function whose arithmetic may be rearranged always becomes part of its callers: as a function of its own it would
    be optimised once by itself and once with each caller, and which of the two a call finds, with sums in another
    order, would depend on whether its callers were compiled or loaded.
    """
    if "fastmath" in options:
        options["forceinline"] = True

    def compile_lazily(function: Callable[..., Any]) -> Any:
        folder = cache_folder()
        if folder is None:
            return njit(nogil=True, error_model="numpy", **options)(function)
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = folder  # read once, when the function is decorated
        ensure, _CacheLocator.ensure_cache_path = _CacheLocator.ensure_cache_path, _ensure_once
        try:
            return njit(nogil=True, error_model="numpy", cache=True, **options)(function)
        finally:
            numba.config.CACHE_DIR, _CacheLocator.ensure_cache_path = before, ensure

    return compile_lazily


def _ensure_once(locator: _CacheLocator) -> None:
    """Make a folder of compiled kernels; Numba would also write a file to try it, for each of two hundred kernels."""
    _make_folder(locator.get_cache_path())


@cache
def _make_folder(path: str) -> None:
    Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)


def available_threads() -> int:
    """`CALIBRANT_THREADS`, or the processors that this process may use."""
    text = os.environ.get("CALIBRANT_THREADS", "")
    if text:
        wanted = parse_count(text)
        if not wanted:
            raise UsageError(
                "CALIBRANT_THREADS", expected="a whole number from 1", got=show(text), hint="unset it for all"
            )
        return wanted
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """One pool per size and process: a forked child must not wait for its parent's threads."""
    del process
    return ThreadPoolExecutor(threads, thread_name_prefix="calibrant")


def over_rows(work: Callable[[int, int], None], n: int, elements: int, threads: int | None = None) -> None:
    """Run `work(start, stop)` over spans of the n rows, in threads where the input is large."""
    count = min(threads or available_threads(), n)
    if count <= 1 or elements < SERIAL_BELOW:
        work(0, n)
        return
    edges = [n * k // count for k in range(count + 1)]
    spans = list(itertools.pairwise(edges))
    list(_pool(count, os.getpid()).map(lambda span: work(*span), spans))
