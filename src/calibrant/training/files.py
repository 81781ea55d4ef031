"""Named tensors and facts in one safetensors file, written whole or not at all, with a sum that tells damage.

Facts stand in the header as one JSON text, because its entries have no order of their own. Nothing in a file is ever
executed, and what does not add up to its sum is refused before anything is made of it.
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
from calibrant.predictions.files.writing import atomic_write

DIGEST = "sum"


def write_tensors(path: Path, kind: str, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Put a file of this kind in the place of the one before; a stop in between leaves that one."""
    stored = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    told = {**facts, DIGEST: _sum(stored, facts)}
    with atomic_write(path) as stream:
        stream.write(save(stored, {kind: json.dumps(told, sort_keys=True)}))


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What a file of this kind holds: tensors and facts."""
    if not path.exists():
        raise FileError(str(path), expected=f"a {kind}", came="there is no such file", do="look at the path")
    try:
        with safe_open(path, framework="pt") as stored:
            metadata = dict(stored.metadata() or {})
            tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
        told = json.loads(metadata[kind]) if kind in metadata else None
    except (SafetensorError, OSError, ValueError, RuntimeError, RecursionError) as error:
        raise FileError(
            str(path),
            expected=f"a {kind} in the safetensors format",
            came=plain(str(error), 120) or type(error).__name__,
            do="delete the file if it is damaged, and begin anew or from a copy",
        ) from error
    if not isinstance(told, dict):
        raise FileError(
            str(path), expected=f"a {kind}", came="it is another kind of file", do="choose one that Calibrant wrote"
        )
    if told.pop(DIGEST, None) != _sum(tensors, told):
        raise FileError(
            str(path),
            expected=f"a whole {kind}",
            came="it was damaged or changed: its sum is another",
            do="begin anew, or from a copy",
        )
    return tensors, told


def make_folder(folder: Path) -> None:
    """The folder and those above it; refuse a place where there can be none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(
            str(folder), expected="a folder to write to", came=plain(error.strerror or str(error)), do="choose another"
        ) from error


def _sum(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> str:
    """A sum of everything that a file holds."""
    made = blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        made.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        made.update(memoryview(value.reshape(-1).view(torch.uint8).numpy()) if value.numel() else b"")
    return made.hexdigest()
