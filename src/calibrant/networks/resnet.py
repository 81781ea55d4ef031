"""Residual networks for small images, version 1: three stages of blocks of two convolutions.

Reference: He, Zhang, Ren & Sun (2016), Deep residual learning for image recognition, CVPR: 770-778, section 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from calibrant.errors import check_choice
from calibrant.networks.architecture import Architecture, blocks_per_stage, initialise, register

SHORTCUTS = ("zeros", "projection")


@register
@dataclass(frozen=True)
class ResNet(Architecture):
    """The residual network of depth 6n + 2: one convolution, three stages of n blocks, one dense layer.

    Stages have `width`, twice and four times as many channels, and the second and third halve height and width. A block
    F, with batch norm after each convolution, returns relu(F(x) + shortcut(x)). Where the shape changes, shortcut
    "zeros" (option A of the paper) takes every second row and column and pads channels with zeros, half of them on
    either side; shortcut "projection" (option B) is a 1×1 convolution with batch norm. Convolutions are initialised by
    He's normal rule (see `initialise`).
    """

    name: ClassVar[str] = "resnet"
    depth: int = 20
    classes: int = 10
    channels: int = 3
    width: int = 16
    shortcut: str = "zeros"

    def __post_init__(self) -> None:
        super().__post_init__()
        blocks_per_stage(f"{self.name}: depth", self.depth, 2)
        check_choice(f"{self.name}: shortcut", self.shortcut, SHORTCUTS)

    def build(self) -> nn.Module:
        """A newly initialised network."""
        return initialise(ResidualNetwork(self))


class ResidualNetwork(nn.Module):  # type: ignore[misc]
    """A convolution, three stages, global average pooling, and a dense layer."""

    def __init__(self, of: ResNet) -> None:
        super().__init__()
        n = blocks_per_stage(f"{of.name}: depth", of.depth, 2)
        self.conv1 = nn.Conv2d(of.channels, of.width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(of.width)
        self.layer1 = _stage(of.width, of.width, 1, n, of.shortcut)
        self.layer2 = _stage(of.width, 2 * of.width, 2, n, of.shortcut)
        self.layer3 = _stage(2 * of.width, 4 * of.width, 2, n, of.shortcut)
        self.linear = nn.Linear(4 * of.width, of.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (n, classes) of images (n, channels, height, width)."""
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


def _stage(inputs: int, outputs: int, stride: int, n: int, shortcut: str) -> nn.Sequential:
    """n blocks, of which the first changes the shape."""
    change: nn.Module = nn.Identity()
    if stride != 1 or inputs != outputs:
        change = (Projection if shortcut == "projection" else Subsampling)(inputs, outputs, stride)
    first = ResidualBlock(inputs, outputs, stride, change)
    return nn.Sequential(first, *(ResidualBlock(outputs, outputs, 1, nn.Identity()) for _ in range(n - 1)))


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """relu(bn(conv(relu(bn(conv(x))))) + shortcut(x))."""

    def __init__(self, inputs: int, outputs: int, stride: int, shortcut: nn.Module) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The residual plus the shortcut, followed by ReLU."""
        added = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(added + self.shortcut(x))


class Subsampling(nn.Module):  # type: ignore[misc]
    """Every `stride`-th row and column; zero channels are added, half before and half after the existing ones."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        before = (outputs - inputs) // 2
        self.stride, self.zeros = stride, (before, outputs - inputs - before)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Fewer pixels, more channels."""
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, *self.zeros))


class Projection(nn.Module):  # type: ignore[misc]
    """A 1×1 convolution with batch norm."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Fewer pixels, more channels."""
        return self.bn(self.conv(x))
