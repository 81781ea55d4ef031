"""VGG-16, for small images.

Reference: Simonyan & Zisserman (2015), ICLR 3, in the form that Ashukha et al. (2020), ICLR 8, use for CIFAR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from calibrant.networks.architecture import Architecture, initialise, register

STAGES = ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))
"""For each stage, the multiple of `width` for its channels, and its number of convolutions."""


@register
@dataclass(frozen=True)
class VGG16(Architecture):
    """13 convolutions 3×3 in five stages, each followed by 2×2 max pooling, then dense layers 512, 512 and `classes`.

    Every convolution has a bias, batch norm (unless batch_norm is false) and ReLU. `width` is the number of channels of
    the first stage; the last two stages and the hidden dense layers have eight times as many. Images need 32 pixels per
    side; for larger ones, global average pooling precedes the dense layers. The paper's dropout before the hidden dense
    layers is omitted. Convolutions are initialised by He's normal rule (see `initialise`).
    """

    name: ClassVar[str] = "vgg16"
    classes: int = 10
    batch_norm: bool = True
    width: int = 64
    channels: int = 3

    def build(self) -> nn.Module:
        """A newly initialised network."""
        return initialise(DeepNetwork(self))


class DeepNetwork(nn.Module):  # type: ignore[misc]
    """Convolutions and pooling (`features`), global average pooling, and three dense layers."""

    def __init__(self, of: VGG16) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = of.channels
        for times, convolutions in STAGES:
            outputs = times * of.width
            for _ in range(convolutions):
                layers.append(nn.Conv2d(inputs, outputs, 3, padding=1))
                if of.batch_norm:
                    layers.append(nn.BatchNorm2d(outputs))
                layers.append(nn.ReLU())
                inputs = outputs
            layers.append(nn.MaxPool2d(2))
        last = STAGES[-1][0] * of.width
        self.features = nn.Sequential(*layers)
        self.hidden1 = nn.Linear(last, last)
        self.hidden2 = nn.Linear(last, last)
        self.output = nn.Linear(last, of.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (n, classes) of images (n, channels, height, width)."""
        x = self.features(x).mean((2, 3))
        return self.output(F.relu(self.hidden2(F.relu(self.hidden1(x)))))
