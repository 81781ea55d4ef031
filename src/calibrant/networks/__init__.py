"""The networks of papers on uncertainty, each described by a small frozen dataclass.

    from calibrant.networks import ResNet, architecture_from
    network = ResNet(depth=20, classes=10).build()          # a torch.nn.Module
    architecture_from("resnet", {"depth": 20}) == ResNet()  # as stored in a file

The networks contain no dropout, do not standardise inputs and use no random numbers. Requires PyTorch.
"""

from __future__ import annotations

from calibrant.errors import MissingExtra

try:
    import torch  # noqa: F401
except ImportError as error:
    hint = "run pip install 'calibrant[torch]'"
    raise MissingExtra("calibrant.networks", expected="PyTorch", got="no such module", hint=hint) from error

from calibrant.networks.architecture import ARCHITECTURES, Architecture, architecture_from, register
from calibrant.networks.embedding_mlp import EmbeddingMLP
from calibrant.networks.lenet import LeNet
from calibrant.networks.lstm import LSTM
from calibrant.networks.mlp import MLP
from calibrant.networks.preresnet import PreResNet
from calibrant.networks.resnet import ResNet
from calibrant.networks.vgg import VGG16

__all__ = [
    "ARCHITECTURES",
    "LSTM",
    "MLP",
    "VGG16",
    "Architecture",
    "EmbeddingMLP",
    "LeNet",
    "PreResNet",
    "ResNet",
    "architecture_from",
    "register",
]
