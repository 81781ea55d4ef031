"""Where the program begins: nothing is loaded before an interrupt is waited for."""

from __future__ import annotations

import sys


def run() -> None:
    """Load the program and run it."""
    try:
        from calibrant.cli.main import run as started

        started()
    except KeyboardInterrupt:
        sys.stderr.write("calibrant: interrupted\n")
        sys.exit(130)
