"""The folder of an experiment: of one plan alone, in use by one process at a time, and every file in it is whole.

A step of an experiment is done when its file is there. A process that was killed leaves the files of the steps that it
had finished, and the next one goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calibrant.errors import UsageError, WriteError, plain, show
from calibrant.evaluation.stored import read_stored
from calibrant.predictions.files.writing import atomic_write

PLAN = "plan.json"
LOCK = ".lock"


@contextmanager
def experiment(path: Path, plan: Mapping[str, Any]) -> Iterator[Path]:
    """The folder, made if need be, while it is ours; refuse one of another plan, and one that is in use."""
    refuse_other(path, plan)
    try:
        path.mkdir(parents=True, exist_ok=True)
        stream = (path / LOCK).open("a")
    except OSError as error:
        raise _unfit(path, error) from error
    with stream:
        _lock(stream, path)
        refuse_other(path, plan)
        if not (path / PLAN).exists():
            write_text(path / PLAN, as_json(plan))
        yield path


def refuse_other(path: Path, plan: Mapping[str, Any]) -> None:
    """Refuse a folder that belongs to another plan, or that holds files and has none."""
    if not path.is_dir():
        return
    stored = path / PLAN
    if stored.exists():
        found = read_stored(stored, dict, expected="the plan of an experiment", do="choose another folder with --out")
        other = _difference(found, json.loads(as_json(plan)))
        if other:
            raise UsageError(
                str(path),
                expected="a folder of the same plan, or a new one",
                came=f"{PLAN} there says {other}",
                do="choose another folder with --out, or the same settings",
            )
    elif any(not item.name.startswith(".") for item in path.iterdir()):
        raise UsageError(
            str(path),
            expected=f"a new or empty folder, or one with a {PLAN}",
            came="it holds other files",
            do="choose another folder with --out",
        )


def write_text(path: Path, text: str) -> Path:
    """Write a text, whole or not at all."""
    with atomic_write(path) as stream:
        stream.write(text.encode())
    return path


def as_json(value: Any) -> str:
    """JSON as files have it."""
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The first settings that differ, in words; nothing where none do."""
    names = [name for name in dict.fromkeys([*wanted, *found]) if found.get(name) != wanted.get(name)]
    told = [f"{name} {show(found.get(name), 40)}, not {show(wanted.get(name), 40)}" for name in names[:2]]
    return ", ".join(told) + ", …" * (len(names) > 2)


def _lock(stream: Any, path: Path) -> None:
    """Held until the stream is closed or the process ends, in whichever way it does."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(
            str(path),
            expected="a folder that no other process works in",
            came="one does",
            do="wait for it, or choose another folder with --out",
        ) from error
    except OSError:  # a file system without locks
        return


def _unfit(path: Path, error: OSError) -> WriteError:
    return WriteError(
        str(path), expected="a folder to write to", came=plain(error.strerror or ""), do="choose another with --out"
    )
