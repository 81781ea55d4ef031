"""The small convolutional network for digits.

Reference: Ovadia et al. (2019), NeurIPS 32: 13991-14002, appendix A.1, after LeCun et al. (1998), Proceedings of the
IEEE 86: 2278-2324.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from calibrant.errors import UsageError
from calibrant.networks.architecture import Architecture, initialise, register

FILTERS = (32, 64)
HIDDEN = 128
MIN_SIZE = 6
"""The smallest image with a pixel left after pooling."""


@register
@dataclass(frozen=True)
class LeNet(Architecture):
    """Convolutions 3×3 of 32 and 64 filters, then dense layers of 128 and of `classes`, with ReLU between.

    The paper does not specify padding and pooling. Here convolutions are not padded, and one 2×2 max pooling follows
    the second, as in the authors' published code. Images are square with `size` pixels per side: with 28, the dense
    layers get 12×12×64 features. Convolutions are initialised by He's normal rule (see `initialise`).
    """

    name: ClassVar[str] = "lenet"
    classes: int = 10
    channels: int = 1
    size: int = 28

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < MIN_SIZE:
            expected, hint = f"images of at least {MIN_SIZE} pixels per side", "pad or resize the images"
            raise UsageError(f"{self.name}: size", expected=expected, got=f"{self.size}", hint=hint)

    def build(self) -> nn.Module:
        """A newly initialised network."""
        return initialise(DigitNetwork(self.classes, self.channels, self.size))


class DigitNetwork(nn.Module):  # type: ignore[misc]
    """Two convolutions, one pooling, two dense layers."""

    def __init__(self, classes: int, channels: int, size: int) -> None:
        super().__init__()
        first, second = FILTERS
        self.conv1 = nn.Conv2d(channels, first, 3)
        self.conv2 = nn.Conv2d(first, second, 3)
        self.hidden = nn.Linear(second * ((size - 4) // 2) ** 2, HIDDEN)
        self.output = nn.Linear(HIDDEN, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (n, classes) of images (n, channels, size, size)."""
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = F.max_pool2d(x, 2).flatten(1)
        return self.output(F.relu(self.hidden(x)))
