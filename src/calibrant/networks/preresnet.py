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

from calibrant.networks.architecture import Architecture, blocks_a_stage, check_choice, initialise, register

EXPANSION = {"basic": 1, "bottleneck": 4}
"""How many times more channels a block hands on than its 3×3 convolution has."""
LAYERS = {"basic": 2, "bottleneck": 3}
DEEP = 44
"""The depth from which "auto" means bottleneck."""


@register
@dataclass(frozen=True)
class PreResNet(Architecture):
    """The pre-activation residual network: one convolution, three stages of n blocks, batch norm, one dense layer.

    A block hands on x + F(x), with nothing behind the sum. A basic block has two 3×3 convolutions, and the depth is
    6n + 2; a bottleneck has a 1×1, a 3×3 and a 1×1 convolution, the last with four times as many channels, and the
    depth is 9n + 2. With block "auto" it is the bottleneck from depth 44 on. Stages have `width`, twice and four times
    as many channels, and the second and third halve height and width. Where the shape changes, x itself, not what batch
    norm and ReLU make of it, goes through a 1×1 convolution. Convolutions are initialised by He's normal rule (see
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
        self.blocks_a_stage()

    @property
    def kind(self) -> str:
        """The block that is meant: basic or bottleneck."""
        if self.block != "auto":
            return self.block
        return "bottleneck" if self.depth >= DEEP else "basic"

    def blocks_a_stage(self) -> int:
        """n."""
        return blocks_a_stage(f"{self.name} of {self.kind} blocks: depth", self.depth, LAYERS[self.kind])

    def build(self) -> nn.Module:
        """A fresh network."""
        return initialise(PreActivationNetwork(self))


class PreActivationNetwork(nn.Module):  # type: ignore[misc]
    """A first convolution, three stages, batch norm and ReLU, the mean over pixels, and a dense layer."""

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
    made = BottleneckBlock if of.kind == "bottleneck" else BasicBlock
    outputs = inner * EXPANSION[of.kind]
    same = stride == 1 and inputs == outputs
    yield made(inputs, inner, stride, nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False))
    for _ in range(of.blocks_a_stage() - 1):
        yield made(outputs, inner, 1, nn.Identity())


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
        """The sum, with nothing behind it."""
        inner = self.conv1(F.relu(self.bn1(x)))
        return self.shortcut(x) + self.conv2(F.relu(self.bn2(inner)))


class BottleneckBlock(nn.Module):  # type: ignore[misc]
    """shortcut(x) + a 1×1, a 3×3 and a 1×1 convolution, each behind batch norm and ReLU; the 3×3 has the stride."""

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
        """The sum, with nothing behind it."""
        inner = self.conv1(F.relu(self.bn1(x)))
        inner = self.conv2(F.relu(self.bn2(inner)))
        return self.shortcut(x) + self.conv3(F.relu(self.bn3(inner)))
