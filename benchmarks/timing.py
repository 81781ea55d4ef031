"""Timing: one warm-up each, then rounds in which all take turns, so that a busy moment hits everyone."""

from __future__ import annotations

import ctypes
import gc
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
ALONE = 5.0
"""Seconds from which a contestant is timed once."""


@dataclass(frozen=True)
class Timing:
    """Median milliseconds, and the most memory taken beyond what was held before (MB, NaN where unknown)."""

    milliseconds: float
    peak_mb: float


def time_all(
    contestants: Mapping[str, Callable[[], object]], rounds: int = 9, budget: float = 20.0, cold: Collection[str] = ()
) -> dict[str, Timing]:
    """Time every contestant; one that takes long alone is timed once, those in `cold` without a warm-up."""
    times: dict[str, list[float]] = {}
    peaks: dict[str, float] = {}
    for name, run in contestants.items():
        if name not in cold:
            run()  # compile, import, fill caches
        peaks[name], first = _peak_of(run)
        times[name] = [first]
    started = time.perf_counter()
    for _ in range(rounds):
        for name, run in contestants.items():
            if times[name][0] > ALONE:
                continue
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
        if time.perf_counter() - started > budget:
            break
    return {name: Timing(1e3 * statistics.median(taken), peaks[name]) for name, taken in times.items()}


def _peak_of(run: Callable[[], object]) -> tuple[float, float]:
    """Megabytes beyond those held at the start, and seconds."""
    gc.collect()
    if sys.platform.startswith("linux"):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    known = STATUS.exists() and _reset()
    before = _status("VmRSS") if known else float("nan")
    begin = time.perf_counter()
    run()
    seconds = time.perf_counter() - begin
    return (_status("VmHWM") - before if known else float("nan")), seconds


def _reset() -> bool:
    try:
        CLEAR.write_text("5")
        return True
    except OSError:
        return False


def _status(key: str) -> float:
    for line in STATUS.read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    return float("nan")
