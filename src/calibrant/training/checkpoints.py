"""Checkpoints of training: files, and the fingerprint of the training they belong to."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calibrant.errors import FileError, plain
from calibrant.networks.content import content
from calibrant.networks.stack import Stack
from calibrant.training.callbacks import Callback
from calibrant.training.files import make_folder, read_tensors, write_tensors
from calibrant.training.settings import Training
from calibrant.training.task import Run

KIND = "checkpoint"
VERSION = 2
"""Of the fingerprint itself."""
WITHOUT_EFFECT = ("capture", "compile", "deterministic")
"""Settings of training that may differ when it continues."""


def fingerprint(
    stack: Stack, runs: Sequence[Run], training: Training, callbacks: Sequence[Callback], method: Mapping[str, Any]
) -> str:
    """A hash of networks, data and settings that a checkpoint must match; the device may differ.

    method: the content of the method and of its networks.
    """
    task = runs[0].task
    facts = {
        "version": VERSION,
        "parameters": {name: list(value.shape) for name, value in stack.parameters.items()},
        "sites": [{"mask": site.mask, "shape": site.shape, "rate": site.p} for site in stack.template.sites],
        "x": [_crc(task.x), str(task.x.dtype), list(task.x.shape)],
        "y": _crc(task.y),
        "runs": [{**run.facts(), "rows": [_crc(run.task.train), _crc(run.task.validation)]} for run in runs],
        "training": content(training, without=WITHOUT_EFFECT),
        "method": method,
        "likelihood": content(task.likelihood),
        "augment": content(task.augment),
        "standardises": task.standardises,
        "callbacks": [callback.settings() for callback in callbacks],
    }
    return blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def _crc(values: Tensor) -> int:
    """A checksum of data."""
    flat = values.detach().cpu().contiguous().reshape(-1)
    return zlib.crc32(memoryview(flat.view(torch.uint8).numpy())) if len(flat) else 0


def write_checkpoint(path: Path, key: str, done: int, state: Mapping[str, Any]) -> None:
    """Replace the checkpoint."""
    make_folder(path.parent)
    write_tensors(path, KIND, state["tensors"], {"key": key, "done": done, "history": state["history"]})


def read_checkpoint(path: Path, key: str) -> tuple[int, dict[str, Tensor], dict[str, Any]]:
    """Epochs done, tensors and history; `FileError` for a damaged checkpoint or another training."""
    tensors, facts = read_tensors(path, KIND)
    if facts.get("key") != key:
        got, hint = "one of other data, networks or settings", "delete it, or use another folder"
        raise FileError(str(path), expected="a checkpoint of this training", got=got, hint=hint)
    return int(facts["done"]), tensors, facts["history"]


def invalid_checkpoint(path: Path, error: Exception) -> FileError:
    """The error for a checkpoint of this training that cannot be restored."""
    got, hint = f"missing or invalid parts ({plain(str(error), 80)})", "delete it to start again"
    return FileError(str(path), expected="a complete checkpoint", got=got, hint=hint)
