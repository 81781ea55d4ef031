"""How networks are trained: everything that a paper's table of hyper-parameters says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral
from typing import Any

import torch

from calibrant.errors import TrainingError, UsageError, did_you_mean, show
from calibrant.training.schedules import Cosine, Schedule


def counted(name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least `least`, of Python or NumPy; refuse anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise UsageError(name, expected=f"a whole number from {least}", came=f"got {show(value)}", do="give one")
    return int(value)


OPTIMISERS = ("sgd", "adam")
PRECISIONS = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}
"""What parameters are kept in; bfloat16 means that products are computed in 16 bits and summed in 32."""


@dataclass(frozen=True)
class Training:
    """Epochs, batches, optimiser and learning rate.

    rate: the initial learning rate; schedule: how it goes on. decay: the weight of ½|θ|² in the loss (L2, also with
    Adam). clip: the largest norm of a network's gradient. patience: epochs without a better validation loss after which
    a network stops, its best state being kept. capture: replay a captured graph of kernels (CUDA), which takes the
    waiting between them away; None: where there is a GPU. compile: let PyTorch compile networks that are trained
    together, which takes half a minute. deterministic: on a GPU only kernels that give the same bits each time.
    """

    epochs: int = 100
    batch: int = 128
    optimiser: str = "sgd"
    rate: float = 0.1
    momentum: float = 0.9
    nesterov: bool = False
    decay: float = 5e-4
    schedule: Schedule = field(default_factory=Cosine)
    clip: float | None = None
    patience: int | None = None
    precision: str = "float32"
    capture: bool | None = None
    compile: bool = False
    deterministic: bool = True

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "patience"):
            if getattr(self, name) is not None or name != "patience":
                object.__setattr__(self, name, counted(name, getattr(self, name)))
        for name in ("rate", "decay", "momentum"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0.0 <= value < float("inf")):
                raise UsageError(name, expected="a number from 0", came=f"got {show(value)}", do="give one")
        if not (self.clip is None or (isinstance(self.clip, int | float) and self.clip > 0.0)):
            raise UsageError("clip", expected="a norm above 0", came=f"got {show(self.clip)}", do="1.0 is usual")
        if not isinstance(self.schedule, Schedule):
            raise UsageError(
                "schedule", expected="a schedule", came=f"got {show(self.schedule)}", do="Cosine(), for example"
            )
        for name, known in (("optimiser", OPTIMISERS), ("precision", tuple(PRECISIONS))):
            value = getattr(self, name)
            if value not in known:
                raise UsageError(
                    name, expected="a known one", came=f"got {show(value)}", do=did_you_mean(str(value), known)
                )

    @property
    def dtype(self) -> torch.dtype:
        """What parameters are kept in."""
        return PRECISIONS[self.precision]

    def settings(self) -> dict[str, Any]:
        """What a file says of it."""
        return {**asdict(replace(self, schedule=Cosine())), "schedule": self.schedule.settings()}


@contextmanager
def reproducible(wanted: bool = True) -> Iterator[None]:
    """Convolutions by kernels that give the same bits each time, and by no search that could choose others."""
    with torch.backends.cudnn.flags(
        enabled=torch.backends.cudnn.enabled,
        benchmark=False,
        deterministic=wanted,
        allow_tf32=torch.backends.cudnn.allow_tf32,
    ):
        yield


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """A GPU as the one that streams and graphs belong to."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def device_of(name: str | torch.device = "auto") -> torch.device:
    """A device by name; "auto" is a GPU where there is one, else the processor."""
    if isinstance(name, torch.device):
        name = str(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise TrainingError(
            "device",
            expected="a device that is there",
            came=f"{show(name)} is not, or PyTorch was built without it",
            do="use device='cpu', or 'auto' for what there is",
        ) from error
    return torch.device("cuda", torch.cuda.current_device()) if name == "cuda" else device
