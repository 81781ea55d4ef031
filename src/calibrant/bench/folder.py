"""The folder of an experiment: for one plan, used by one process at a time, with complete files only.

A step of an experiment is done when its file exists. A killed process leaves the files of finished steps, and the next
process continues from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calibrant.errors import UsageError, WriteError, plain, show
from calibrant.predictions.files.write import atomic_write
from calibrant.results.json import read_stored

PLAN = "plan.json"
LOCK = ".lock"
HINT = "choose another folder with --out"


@contextmanager
def experiment(path: Path, plan: Mapping[str, Any]) -> Iterator[Path]:
    """Create and lock the folder; `UsageError` if it belongs to another plan or is in use."""
    refuse_other(path, plan)
    try:
        path.mkdir(parents=True, exist_ok=True)
        stream = (path / LOCK).open("a")
    except OSError as error:
        got = plain(error.strerror or "")
        raise WriteError(str(path), expected="a writable folder", got=got, hint=HINT) from error
    with stream:
        _lock(stream, path)
        refuse_other(path, plan)
        if not (path / PLAN).exists():
            write_text(path / PLAN, as_json(plan))
        yield path


def refuse_other(path: Path, plan: Mapping[str, Any]) -> None:
    """Raise `UsageError` for a folder of another plan, or with other files and no plan."""
    if not path.is_dir():
        return
    stored = path / PLAN
    if stored.exists():
        theirs = read_stored(stored, dict, expected="the plan of an experiment", hint=HINT)
        ours = json.loads(as_json(plan))
        names = [name for name in dict.fromkeys([*ours, *theirs]) if theirs.get(name) != ours.get(name)]
        if names:
            differences = [f"{name} {show(theirs.get(name), 40)}, not {show(ours.get(name), 40)}" for name in names[:2]]
            got = f"{PLAN} with {', '.join(differences)}{', …' * (len(names) > 2)}"
            hint = "choose another folder with --out, or use the same settings"
            raise UsageError(str(path), expected="a folder of the same plan, or a new one", got=got, hint=hint)
    elif any(not item.name.startswith(".") for item in path.iterdir()):
        expected = f"a new or empty folder, or one with a {PLAN}"
        raise UsageError(str(path), expected=expected, got="other files", hint=HINT)


def write_text(path: Path, text: str) -> Path:
    """Write a text atomically."""
    with atomic_write(path) as stream:
        stream.write(text.encode())
    return path


def as_json(value: Any) -> str:
    """JSON text of a file."""
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def _lock(stream: Any, path: Path) -> None:
    """Lock until the stream is closed or the process ends."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        hint = f"wait for that process to finish, or {HINT}"
        raise UsageError(
            str(path), expected="a folder that no other process uses", got="a folder in use", hint=hint
        ) from error
    except OSError:  # a file system without locks
        return
