"""The entry point: an interrupt while the program loads is reported like any other."""

from __future__ import annotations

import sys


def run() -> None:
    """Load the program and run it."""
    try:
        from calibrant.cli.main import run as run_program

        run_program()
    except KeyboardInterrupt:
        sys.stderr.write("calibrant: interrupted\n")
        sys.exit(130)
