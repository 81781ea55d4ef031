"""calibrant warm-up: compile every kernel now, for container images and CI."""

from __future__ import annotations

import time

from calibrant.cli import options

EXAMPLES = """\
calibrant warm-up
"""


def command(*, threads: options.Threads = None, quiet: options.Quiet = False) -> None:
    """Compile everything now instead of on first use.

    Run it once after an installation, for example while a container image is built. Compiled code is kept in
    ~/.cache/calibrant, or under XDG_CACHE_HOME.
    """
    from calibrant.cli.output import emit, progress_bar
    from calibrant.errors import WriteError, check_range
    from calibrant.kernels.compile import Compilation, every_kernel
    from calibrant.kernels.jit import cache_folder
    from calibrant.pipeline.compilation import COMPILING

    if threads is not None:
        check_range("threads", threads, 1, integer=True, hint="omit it to use all cores")
    folder = cache_folder()
    if folder is None:
        hint = "set XDG_CACHE_HOME to such a folder"
        raise WriteError("warm-up", expected="a folder that only you can write to", got="none", hint=hint)
    started = time.monotonic()
    with progress_bar(quiet) as progress:

        def report(done: int, total: int) -> None:
            if progress is not None:
                progress(f"{COMPILING}: {done} of {total}", done, total)

        kernels = every_kernel()
        with Compilation(kernels, threads, report) as compilation:
            compilation.until(kernels)
    if not quiet:
        found = f"{compilation.total} compiled in {time.monotonic() - started:.0f} s" if compilation.total else "ready"
        emit(f"{len(kernels)} kernels, {found}: {folder}")
