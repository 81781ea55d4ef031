"""A file that is opened more than once, and must be the same one every time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from calibrant.errors import FileError


@dataclass(frozen=True)
class Pinned:
    """A path, and what the file under it was when it was first opened."""

    path: Path
    stamp: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> Pinned:
        """The file that has this name now."""
        with path.open("rb", buffering=0) as stream:
            return cls(path, _stamp(stream))

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.stamp[2]

    def open(self) -> IO[bytes]:
        """A stream, not buffered, of that file; one that took its name meanwhile is refused."""
        stream = self.path.open("rb", buffering=0)
        if _stamp(stream) == self.stamp:
            return stream
        stream.close()
        raise FileError(
            str(self.path),
            expected="one file from the first array to the last",
            came="it was written over while it was read",
            do="read it again when it is complete",
        )


def _stamp(stream: IO[bytes]) -> tuple[int, ...]:
    status = os.fstat(stream.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
