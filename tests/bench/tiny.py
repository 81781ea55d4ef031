"""The simulated experiment in two seconds: its settings, and a finished folder of it."""

import sys
from pathlib import Path

from calibrant.bench.gopal import Plan, table1

SETTINGS = {
    "seeds": 2, "rows": 300, "rows_in": 120, "rows_out": 200, "members": 4, "masks": 6,
    "hidden": (16, 16), "epochs": 5, "halved_every": 2, "draws": 100,
}  # fmt: skip
TINY = Plan(**SETTINGS)


def made(folder: Path, monkeypatch=None, **known):
    """The table in a folder; with a monkeypatch, on a machine without the libraries that draw."""
    if monkeypatch is not None:
        monkeypatch.setitem(sys.modules, "altair", None)
    return table1(folder, plan=TINY, **known)
