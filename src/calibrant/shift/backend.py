"""Arrays of NumPy or PyTorch behind the few names that differ between them.

A corruption is written once. `xp` is `numpy` or `torch`; what has another name in the two is a method here. Arrays of
PyTorch stay on their device.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

Array = Any
"""An array of NumPy or a tensor of PyTorch."""


class Backend(ABC):
    """The library of an array, and its device."""

    xp: Any
    block_values: int
    """Values of images per block: what fits into the cache, or into the memory of a device."""

    @abstractmethod
    def put(self, values: Any, dtype: str | None = None) -> Array:
        """An array of this library with the given values."""

    @abstractmethod
    def cast(self, x: Array, dtype: str) -> Array:
        """The array in another dtype."""

    @abstractmethod
    def numpy(self, x: Array) -> np.ndarray:
        """The values as a NumPy array."""

    @abstractmethod
    def normal_quantile(self, u: Array) -> Array:
        """The quantile function of the standard normal distribution."""

    @abstractmethod
    def transpose(self, x: Array, axes: tuple[int, ...]) -> Array:
        """The contiguous array with its axes in another order."""

    def zeros(self, shape: tuple[int, ...], dtype: str = "float32") -> Array:
        """Zeros."""
        return self.put(np.zeros(shape, dtype))


class NumPyBackend(Backend):
    """Arrays of NumPy."""

    xp = np
    block_values = 1 << 19

    def put(self, values: Any, dtype: str | None = None) -> Array:
        """An array."""
        return np.asarray(values, dtype)

    def cast(self, x: Array, dtype: str) -> Array:
        """The array in another dtype."""
        return x.astype(dtype)

    def numpy(self, x: Array) -> np.ndarray:
        """The array itself."""
        return x

    def normal_quantile(self, u: Array) -> Array:
        """By SciPy, in float64."""
        from scipy.special import ndtri

        return ndtri(u)

    def transpose(self, x: Array, axes: tuple[int, ...]) -> Array:
        """A contiguous copy."""
        return np.ascontiguousarray(x.transpose(axes))


class TorchBackend(Backend):
    """Tensors of PyTorch on one device."""

    def __init__(self, device: Any) -> None:
        import torch

        self.xp, self.device = torch, device
        self.block_values = 1 << (19 if device.type == "cpu" else 25)

    def put(self, values: Any, dtype: str | None = None) -> Array:
        """A tensor on the device."""
        return self.xp.asarray(np.asarray(values, dtype), device=self.device)

    def cast(self, x: Array, dtype: str) -> Array:
        """The tensor in another dtype."""
        return x.to(getattr(self.xp, dtype))

    def numpy(self, x: Array) -> np.ndarray:
        """A copy on the host."""
        return x.cpu().numpy()

    def normal_quantile(self, u: Array) -> Array:
        """By PyTorch, in float64."""
        return self.xp.special.ndtri(u)

    def transpose(self, x: Array, axes: tuple[int, ...]) -> Array:
        """A contiguous copy."""
        return x.permute(axes).contiguous()


NUMPY = NumPyBackend()


def backend_of(x: Array) -> Backend:
    """The backend of a NumPy array or a tensor; PyTorch is not imported for the former."""
    torch = sys.modules.get("torch")
    return TorchBackend(x.device) if torch is not None and isinstance(x, torch.Tensor) else NUMPY
