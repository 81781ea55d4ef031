"""Checkpoints: everything that training goes on from, and what it must belong to."""

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
from calibrant.networks.stack import Stack
from calibrant.training.files import make_folder, read_tensors, write_tensors
from calibrant.training.runs import Run
from calibrant.training.settings import Training
from calibrant.training.watching import Watcher

KIND = "checkpoint"


def fingerprint(
    stack: Stack, runs: Sequence[Run], training: Training, watchers: Sequence[Watcher], method: Mapping[str, Any]
) -> str:
    """What a checkpoint must agree with: networks, data, settings; not the device, nor how steps are computed."""
    settings = training.settings()
    for name in ("capture", "compile", "deterministic"):
        settings.pop(name)
    task = runs[0].task
    told = {
        "network": repr(stack.template.module),
        "parameters": {name: list(value.shape) for name, value in stack.parameters.items()},
        "sites": [vars(site) for site in stack.template.sites],
        "x": [_crc(task.x), str(task.x.dtype), list(task.x.shape)],
        "y": _crc(task.y),
        "runs": [{**run.facts(), "rows": [_crc(run.task.train), _crc(run.task.validation)]} for run in runs],
        "training": settings,
        "method": {name: value for name, value in method.items() if name != "training"},
        "likelihood": task.likelihood.settings(),
        "augment": None if task.augment is None else vars(task.augment),
        "standardises": task.standardises,
        "watchers": [watcher.settings() for watcher in watchers],
    }
    return blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()


def _crc(values: Tensor) -> int:
    """A sum that tells other data from these."""
    flat = values.detach().cpu().contiguous().reshape(-1)
    return zlib.crc32(memoryview(flat.view(torch.uint8).numpy())) if len(flat) else 0


def write_checkpoint(path: Path, key: str, done: int, state: Mapping[str, Any]) -> None:
    """Put a checkpoint in the place of the one before."""
    make_folder(path.parent)
    write_tensors(path, KIND, state["tensors"], {"key": key, "done": done, "history": state["history"]})


def read_checkpoint(path: Path, key: str) -> tuple[int, dict[str, Tensor], dict[str, Any]]:
    """Epochs done, tensors and history; refuse what is damaged, and what belongs to another training."""
    tensors, told = read_tensors(path, KIND)
    if told.get("key") != key:
        raise FileError(
            str(path),
            expected="a checkpoint of this training",
            came="it belongs to other data, networks or settings",
            do="delete it to begin anew, or choose another place",
        )
    return int(told["done"]), tensors, told["history"]


def refused(path: Path, error: Exception) -> FileError:
    """What is said of a checkpoint that has the right key and yet does not fit."""
    return FileError(
        str(path),
        expected="a whole checkpoint",
        came=f"a part of it is missing or odd ({plain(str(error), 80)})",
        do="delete it to begin anew",
    )
