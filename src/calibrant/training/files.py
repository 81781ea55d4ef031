"""Named tensors and facts in one safetensors file, written atomically, with a checksum.

Facts are one JSON text in the header, as header entries have no order. Nothing in a file is executed, and a file with a
wrong checksum is rejected before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from calibrant.errors import FileError, WriteError, plain
from calibrant.predictions.files.write import atomic_write

DIGEST = "sum"


def write_tensors(path: Path, kind: str, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write or replace a file atomically."""
    stored = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    content = {**facts, DIGEST: _checksum(stored, facts)}
    with atomic_write(path) as stream:
        stream.write(save(stored, {kind: json.dumps(content, sort_keys=True)}))


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts of a file of this kind."""
    if not path.exists():
        raise FileError(str(path), expected=f"a {kind}", got="no such file", hint="check the path")
    try:
        with safe_open(path, framework="pt") as stored:
            metadata = dict(stored.metadata() or {})
            tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
        facts = json.loads(metadata[kind]) if kind in metadata else None
    except (SafetensorError, OSError, ValueError, RuntimeError, RecursionError) as error:
        got, hint = plain(str(error), 120) or type(error).__name__, "delete the file if it is damaged, and start again"
        raise FileError(str(path), expected=f"a {kind} in the safetensors format", got=got, hint=hint) from error
    if not isinstance(facts, dict):
        hint = "use a file that Calibrant wrote"
        raise FileError(str(path), expected=f"a {kind}", got="another kind of file", hint=hint)
    if facts.pop(DIGEST, None) != _checksum(tensors, facts):
        got, hint = "a wrong checksum: the file was damaged or changed", "delete the file, and start again"
        raise FileError(str(path), expected=f"an intact {kind}", got=got, hint=hint)
    return tensors, facts


def make_folder(folder: Path) -> None:
    """Create a folder and its parents."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got, hint = plain(error.strerror or str(error)), "choose another folder"
        raise WriteError(str(folder), expected="a writable folder", got=got, hint=hint) from error


def _checksum(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> str:
    """A hash of everything in a file."""
    digest = blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(memoryview(value.reshape(-1).view(torch.uint8).numpy()) if value.numel() else b"")
    return digest.hexdigest()
