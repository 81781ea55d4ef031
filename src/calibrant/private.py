"""Folders that only their owner can write to: what is loaded from them later must not be another's."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def private_folder(name: str) -> Path | None:
    """The folder of that name in the user's cache, made if need be, or None where none can be had."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(root) / "calibrant" / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if _is_private(folder) and os.access(folder, os.W_OK) else None
    except (OSError, RuntimeError):
        return None


def _is_private(folder: Path) -> bool:
    """Whether the folder and its parent are ours and closed to other writers."""
    for path in (folder, folder.parent):
        info = path.stat()
        if hasattr(os, "getuid") and info.st_uid != os.getuid():
            return False
        if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return True
