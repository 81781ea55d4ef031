"""Compile kernels ahead and in several processes, so that the first run after an installation is short.

`plans.json` lists, by kind of work, the kernels that are called, their signatures and the seconds that each takes to
compile; `scripts/record_kernels.py` writes it. Helpers are processes of their own (`python -m
calibrant.kernels.compile`) that read one kernel a line and compile it into the cache that all of them share. They are
never forked and never import a user's script. What is missing from a plan, or left by a helper that died, is compiled
when it is first called, as without a plan.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from calibrant.kernels.jit import available_threads, is_compiled, key_of_work, note_compiled

HELPER_SECONDS = 0.8
"""What a helper takes to start: for less work it is not worth it."""


class Kernel(NamedTuple):
    """A kernel with the types of its arguments, and how long it takes to compile."""

    module: str
    name: str
    signature: str
    seconds: float

    @property
    def key(self) -> str:
        """What identifies it among the compiled ones."""
        return key_of_work(self.module, self.name, self.signature)

    def compile(self) -> None:
        """Compile it, or load it where that was done before."""
        from numba.core.sigutils import normalize_signature

        types, _ = normalize_signature(self.signature)  # the cache knows compiled code by its types, not by their names
        getattr(import_module(f"calibrant.kernels.loops.{self.module}"), self.name).compile(types)


@cache
def _plans() -> tuple[list[Kernel], dict[str, dict[str, list[int]]]]:
    stored = json.loads(Path(__file__).with_name("plans.json").read_text(encoding="utf-8"))
    return [Kernel(*fields) for fields in stored["kernels"]], stored["plans"]


def planned(work: str, parts: Iterable[str], dtype: str = "float32") -> list[Kernel]:
    """The kernels that parts of a kind of work call with scores of this type, in the order of their first calls."""
    kernels, plans = _plans()
    numbers = dict.fromkeys(number for part in parts for number in plans.get(work, {}).get(part, ()))
    return [_of_type(kernels[number], dtype) for number in numbers]


def every_kernel() -> list[Kernel]:
    """All planned kernels, for scores of both types."""
    return list(dict.fromkeys(_of_type(kernel, dtype) for dtype in ("float32", "float64") for kernel in _plans()[0]))


def _of_type(kernel: Kernel, dtype: str) -> Kernel:
    """Plans are written for float32."""
    return kernel._replace(signature=kernel.signature.replace("float32", dtype))


@contextmanager
def interrupt_after() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end, where one arrived: within the compiler it would be lost in a callback."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield
        return
    arrived: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if arrived:
        raise KeyboardInterrupt


class Compilation:
    """Compiles kernels that are not in the cache yet, here and in helpers, from one queue; a context manager.

    `until(kernels)` returns once these are compiled, while helpers go on with the others.
    """

    def __init__(
        self,
        kernels: Iterable[Kernel],
        threads: int | None = None,
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Start the helpers; where everything is compiled, or compiled code cannot be kept, there is nothing to do."""
        missing = [kernel for kernel in kernels if not is_compiled(kernel.key)]
        self.queue, self.total, self.done, self.report = deque(missing), len(missing), 0, report
        self.unfinished = set(missing)
        self.changed = threading.Condition()
        self.helpers: list[subprocess.Popen[str]] = []
        # a notebook or a Python prompt has no progress bar: show why it waits
        self.shown = bool(missing) and (hasattr(sys, "ps1") or "ipykernel" in sys.modules)
        useful = int(sum(kernel.seconds for kernel in missing) / HELPER_SECONDS)
        for _ in range(min((threads or available_threads()) - 1, useful, len(missing) - 1)):
            self._start_helper()

    def __enter__(self) -> Compilation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.queue.clear()
        for helper in self.helpers:
            if kind is not None:
                helper.kill()
            with suppress(OSError, ValueError):
                helper.stdin.close()  # type: ignore[union-attr]

    @property
    def seconds(self) -> float:
        """Compilation that is still to be done."""
        with self.changed:
            return sum(kernel.seconds for kernel in self.unfinished)

    def has(self, kernels: Iterable[Kernel]) -> bool:
        """Whether none of these is still to be compiled."""
        with self.changed:
            return self.unfinished.isdisjoint(kernels)

    def until(self, kernels: Iterable[Kernel]) -> None:
        """Compile, here too, until these kernels are compiled."""
        wanted = set(kernels)
        while wanted & set(self.queue):
            kernel = self._take()
            if kernel is not None:
                with (
                    interrupt_after(),
                    suppress(Exception),
                ):  # a plan that went stale: the call itself says what is wrong
                    kernel.compile()
                    note_compiled(kernel.key)
                self._finish(kernel)
        with self.changed:
            self.changed.wait_for(lambda: self.unfinished.isdisjoint(wanted))

    def _take(self) -> Kernel | None:
        try:
            return self.queue.popleft()
        except IndexError:
            return None

    def _finish(self, kernel: Kernel) -> None:
        with self.changed:
            self.unfinished.discard(kernel)
            self.done += 1
            done = self.done
            self.changed.notify_all()
        self.report(done, self.total)
        if self.shown:
            end = "\n" if done == self.total else ""
            sys.stderr.write(f"\rcalibrant: compiled {done} of {self.total} kernels (first run only){end}")

    def _start_helper(self) -> None:
        # -P and an explicit path: the working directory may hold modules of any name
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
        command = [sys.executable, "-P", "-m", "calibrant.kernels.compile"]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        try:
            helper = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=nowhere, env=environment, text=True, start_new_session=True
            )
        except (OSError, ValueError):  # no interpreter to start, or no room for another process
            return
        self.helpers.append(helper)
        threading.Thread(target=self._feed, args=(helper,), name="calibrant-compile", daemon=True).start()

    def _feed(self, helper: subprocess.Popen[str]) -> None:
        """Give a helper one kernel after another; those of one that died are left to whoever calls them."""
        alive = True
        while alive and (kernel := self._take()) is not None:
            answer = ""
            with suppress(OSError, ValueError):
                helper.stdin.write(json.dumps(kernel) + "\n")  # type: ignore[union-attr]
                helper.stdin.flush()  # type: ignore[union-attr]
                answer = helper.stdout.readline()  # type: ignore[union-attr]
            alive = bool(answer)
            if answer.strip() == kernel.key:
                note_compiled(kernel.key)
            self._finish(kernel)
        with suppress(OSError, ValueError):
            helper.stdin.close()  # type: ignore[union-attr]
        with suppress(OSError, ValueError):
            helper.wait()
            helper.stdout.close()  # type: ignore[union-attr]


def main() -> None:
    """A helper: compile the kernels that standard input names, and answer each with its key, or with an error."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for line in sys.stdin:
        kernel = Kernel(*json.loads(line))
        answer = kernel.key
        try:
            kernel.compile()
        except Exception as error:
            answer = type(error).__name__
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
