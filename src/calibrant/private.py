"""Cache folders that only the current user can write to, so that it is safe to load code from them."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def private_folder(name: str) -> Path | None:
    """The folder of this name in the user's cache, created if missing; None if that fails or it is not private."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(root) / "calibrant" / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for info in (folder.stat(), folder.parent.stat()):  # both belong to the user, and others cannot write to them
            is_own = not hasattr(os, "getuid") or info.st_uid == os.getuid()
            if not is_own or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
        return folder if os.access(folder, os.W_OK) else None
    except (OSError, RuntimeError):
        return None
