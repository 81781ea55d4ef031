"""Residual networks for small images, version 2: batch norm and ReLU come before each convolution.

Reference: He, Zhang, Ren & Sun (2016), Identity mappings in deep residual networks, ECCV: 630-645, in the form that
Ashukha et al. (2020), ICLR 8, use for CIFAR.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from calibrant.errors import check_choice
from calibrant.networks.architecture import Architecture, blocks_per_stage, initialise, register

EXPANSION = {"basic": 1, "bottleneck": 4}
"""Output channels of a block, as a multiple of those of its 3×3 convolution."""
LAYERS = {"basic": 2, "bottleneck": 3}
BOTTLENECK_DEPTH = 44
"""The depth from which "auto" selects bottleneck blocks."""


@register
@dataclass(frozen=True)
class PreResNet(Architecture):
    """The pre-activation residual network: one convolution, three stages of n blocks, batch norm, one dense layer.

    A block returns x + F(x), with no activation after the sum. A basic block has two 3×3 convolutions, and the depth is
    6n + 2; a bottleneck has a 1×1, a 3×3 and a 1×1 convolution, the last with four times as many channels, and the
    depth is 9n + 2. Block "auto" selects the bottleneck from depth 44 on. Stages have `width`, twice and four times
    as many channels, and the second and third halve height and width. Where the shape changes, the shortcut is a 1×1
    convolution of x itself, before batch norm and ReLU. Convolutions are initialised by He's normal rule (see
    `initialise`).
    """

    name: ClassVar[str] = "preresnet"
    depth: int = 110
    classes: int = 10
    channels: int = 3
    width: int = 16
    block: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(f"{self.name}: block", self.block, ("auto", *LAYERS))
        self.blocks_per_stage()

    @property
    def kind(self) -> str:
        """The block with "auto" resolved: basic or bottleneck."""
        if self.block != "auto":
            return self.block
        return "bottleneck" if self.depth >= BOTTLENECK_DEPTH else "basic"

    def blocks_per_stage(self) -> int:
        """The number n of blocks in each stage."""
        return blocks_per_stage(f"{self.name} of {self.kind} blocks: depth", self.depth, LAYERS[self.kind])

    def build(self) -> nn.Module:
        """A newly initialised network."""
        return initialise(PreActivationNetwork(self))


class PreActivationNetwork(nn.Module):  # type: ignore[misc]
    """A convolution, three stages, batch norm and ReLU, global average pooling, and a dense layer."""

    def __init__(self, of: PreResNet) -> None:
        super().__init__()
        width, last = of.width, 4 * of.width * EXPANSION[of.kind]
        self.conv1 = nn.Conv2d(of.channels, width, 3, padding=1, bias=False)
        self.layer1 = nn.Sequential(*_stage(of, width, width, 1))
        self.layer2 = nn.Sequential(*_stage(of, width * EXPANSION[of.kind], 2 * width, 2))
        self.layer3 = nn.Sequential(*_stage(of, 2 * width * EXPANSION[of.kind], 4 * width, 2))
        self.bn = nn.BatchNorm2d(last)
        self.linear = nn.Linear(last, of.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (n, classes) of images (n, channels, height, width)."""
        x = self.layer3(self.layer2(self.layer1(self.conv1(x))))
        return self.linear(F.relu(self.bn(x)).mean((2, 3)))


def _stage(of: PreResNet, inputs: int, inner: int, stride: int) -> Iterator[nn.Module]:
    """n blocks, of which the first changes the shape."""
    block = BottleneckBlock if of.kind == "bottleneck" else BasicBlock
    outputs = inner * EXPANSION[of.kind]
    same = stride == 1 and inputs == outputs
    yield block(inputs, inner, stride, nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False))
    for _ in range(of.blocks_per_stage() - 1):
        yield block(outputs, inner, 1, nn.Identity())


class BasicBlock(nn.Module):  # type: ignore[misc]
    """shortcut(x) + conv(relu(bn(conv(relu(bn(x))))))."""

    def __init__(self, inputs: int, inner: int, stride: int, shortcut: nn.Module) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, inner, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, padding=1, bias=False)
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The shortcut plus the residual."""
        inner = self.conv1(F.relu(self.bn1(x)))
        return self.shortcut(x) + self.conv2(F.relu(self.bn2(inner)))


class BottleneckBlock(nn.Module):  # type: ignore[misc]
    """shortcut(x) + a 1×1, a 3×3 and a 1×1 convolution, each after batch norm and ReLU; the 3×3 has the stride."""

    def __init__(self, inputs: int, inner: int, stride: int, shortcut: nn.Module) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, EXPANSION["bottleneck"] * inner, 1, bias=False)
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The shortcut plus the residual."""
        inner = self.conv1(F.relu(self.bn1(x)))
        inner = self.conv2(F.relu(self.bn2(inner)))
        return self.shortcut(x) + self.conv3(F.relu(self.bn3(inner)))
