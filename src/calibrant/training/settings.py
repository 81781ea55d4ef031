"""Training settings: the hyper-parameters of a paper's table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral
from typing import Any

import torch

from calibrant.errors import TrainingError, UsageError, check_choice, check_range, show
from calibrant.training.schedules import Cosine, Schedule


def check_count(name: str, value: Any, least: int = 1) -> int:
    """An integer of at least `least`, from Python or NumPy; `UsageError` for anything else."""
    hint = f"use {name.rpartition(' ')[2]}={max(least, 1)}"
    if not isinstance(value, Integral):
        raise UsageError(name, expected=f"an integer of at least {least}", got=show(value), hint=hint)
    return check_range(name, value, least, integer=True, hint=hint)


OPTIMISERS = ("sgd", "adam")
PRECISIONS = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}
"""The dtype of parameters; bfloat16 computes products in 16 bits and sums in 32."""


@dataclass(frozen=True)
class Training:
    """Epochs, batch size, optimiser and learning rate.

    Parameters
    ----------
    epochs, batch : int
        The number of epochs, and the rows of a batch.
    optimiser : {"sgd", "adam"}
        The optimiser.
    rate : float
        The initial learning rate.
    momentum : float
        Momentum of SGD.
    nesterov : bool
        Nesterov momentum.
    decay : float
        Weight decay: the factor of ½|θ|² in the loss (L2, also with Adam).
    schedule : Schedule
        The learning-rate schedule.
    clip : float, optional
        The maximum norm of a network's gradient.
    patience : int, optional
        Stop a network after this many epochs without a better validation loss, and restore its best state.
    precision : {"float32", "float64", "bfloat16"}
        The dtype of parameters; bfloat16 computes products in 16 bits and sums in 32.
    capture : bool, optional
        Replay steps as a CUDA graph; by default on a GPU.
    compile : bool
        Compile networks that are trained together with `torch.compile`, which takes half a minute.
    deterministic : bool
        On a GPU, use only deterministic kernels.

    Examples
    --------
    >>> from calibrant.methods import Training
    >>> training = Training(epochs=30, optimiser="adam", rate=1e-3, decay=0.0)
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
                object.__setattr__(self, name, check_count(name, getattr(self, name)))
        for name in ("rate", "decay", "momentum"):
            value = getattr(self, name)
            check_range(name, value, 0, hint=f"use {name}={type(self).__dataclass_fields__[name].default}")
        if self.clip is not None:
            check_range("clip", self.clip, 0, inclusive="neither", hint="use clip=1.0")
        if not isinstance(self.schedule, Schedule):
            raise UsageError("schedule", expected="a Schedule", got=show(self.schedule), hint="use schedule=Cosine()")
        check_choice("optimiser", self.optimiser, OPTIMISERS)
        check_choice("precision", self.precision, PRECISIONS)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of parameters."""
        return PRECISIONS[self.precision]

    def settings(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return {**asdict(replace(self, schedule=Cosine())), "schedule": self.schedule.settings()}


@contextmanager
def deterministic_kernels(enabled: bool = True) -> Iterator[None]:
    """Use deterministic convolution kernels, without benchmarking alternatives."""
    with torch.backends.cudnn.flags(
        enabled=torch.backends.cudnn.enabled,
        benchmark=False,
        deterministic=enabled,
        allow_tf32=torch.backends.cudnn.allow_tf32,
    ):
        yield


def device_context(device: torch.device) -> AbstractContextManager[Any]:
    """Make a GPU the current device, for streams and graphs."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def resolve_device(name: str | torch.device = "auto") -> torch.device:
    """A device by name; "auto" is a GPU if there is one, else the CPU."""
    if isinstance(name, torch.device):
        name = str(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        got, hint = f"{show(name)}, which PyTorch cannot use here", "use device='cpu' or device='auto'"
        raise TrainingError("device", expected="an available device", got=got, hint=hint) from error
    return torch.device("cuda", torch.cuda.current_device()) if name == "cuda" else device
