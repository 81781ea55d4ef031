"""Checkpoints: everything that training goes on from, in one safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from calibrant.errors import FileError, plain
from calibrant.networks.stack import Stack
from calibrant.predictions.files.writing import atomic_write
from calibrant.training.runs import Run
from calibrant.training.settings import Training
from calibrant.training.watching import Watcher

FORMAT = "calibrant-checkpoint-1"


def fingerprint(stack: Stack, runs: Sequence[Run], training: Training, watchers: Sequence[Watcher]) -> str:
    """What a checkpoint must agree with: networks, rows, settings; not the device, nor whether steps are captured."""
    settings = training.settings()
    for name in ("capture", "compile", "deterministic"):
        settings.pop(name)
    told = {
        "parameters": {name: list(value.shape) for name, value in stack.parameters.items()},
        "runs": [{**run.facts(), "rows": _rows(run)} for run in runs],
        "training": settings,
        "likelihood": runs[0].task.likelihood.settings(),
        "watchers": [watcher.settings() for watcher in watchers],
    }
    return blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()


def _rows(run: Run) -> list[int]:
    """Sums of the rows to train on and of their outcomes, which tell other data from these."""
    outcomes = run.task.y[run.task.train.to(run.task.y.device)].cpu()
    return [zlib.crc32(part.contiguous().numpy().tobytes()) for part in (run.task.train, outcomes)]


def write_checkpoint(path: Path, key: str, done: int, state: Mapping[str, Any]) -> None:
    """Put a checkpoint in the place of the one before; a stop in between leaves that one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"format": FORMAT, "key": key, "done": str(done), "history": json.dumps(state["history"])}
    with atomic_write(path) as stream:
        stream.write(save(plain_tensors(state["tensors"]), metadata))


def plain_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as files hold them: on this machine, in one piece, sharing nothing."""
    return {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}


def read_checkpoint(path: Path, key: str) -> tuple[int, dict[str, Tensor], dict[str, Any]]:
    """Epochs done, tensors and history; refuse what is damaged, and what belongs to another training."""
    metadata, tensors = read_tensors(path, FORMAT, "a checkpoint")
    if metadata.get("key") != key:
        raise FileError(
            str(path),
            expected="a checkpoint of this training",
            came="it belongs to other data, networks or settings",
            do="delete it to begin anew, or choose another place",
        )
    return int(metadata["done"]), tensors, json.loads(metadata["history"])


def read_tensors(path: Path, form: str, what: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """What a safetensors file of ours holds: nothing in it is executed."""
    try:
        with safe_open(path, framework="pt") as stored:
            metadata = dict(stored.metadata() or {})
            tensors = {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise FileError(
            str(path),
            expected=f"{what} in the safetensors format",
            came=plain(str(error), 120),
            do="delete the file if it is damaged, and begin anew or from a copy",
        ) from error
    if metadata.get("format") != form:
        raise FileError(
            str(path), expected=what, came="it is another kind of file", do="choose a file that Calibrant wrote as such"
        )
    return metadata, tensors


def cpu(value: Tensor) -> Tensor:
    """A copy in this machine's memory."""
    return value.detach().to(torch.device("cpu"), copy=True)
