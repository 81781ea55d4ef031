"""A small instance of every architecture, with the shape of its inputs, and networks built under a seed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from calibrant.networks import MLP, VGG16, LeNet, PreResNet, ResNet  # noqa: E402

SMALL = {
    "mlp": (MLP(12, 3, (5, 4)), (3, 2, 2)),
    "mlp-linear": (MLP(12, 3, ()), (12,)),
    "mlp-elu": (MLP(6, 2, (5,), "elu"), (6,)),
    "mlp-tanh": (MLP(6, 2, (5, 3, 4), "tanh"), (6,)),
    "mlp-selu": (MLP(6, 2, (5,), "selu"), (6,)),
    "lenet": (LeNet(classes=3, channels=2, size=9), (2, 9, 9)),
    "resnet": (ResNet(8, 3, 3, 4), (3, 8, 8)),
    "resnet-odd": (ResNet(8, 3, 1, 3), (1, 9, 7)),
    "resnet-projection": (ResNet(14, 3, 3, 2, "projection"), (3, 8, 8)),
    "vgg16": (VGG16(3, True, 2), (3, 32, 32)),
    "vgg16-plain": (VGG16(3, False, 2, 1), (1, 32, 32)),
    "preresnet-basic": (PreResNet(8, 3, 3, 4), (3, 8, 8)),
    "preresnet-bottleneck": (PreResNet(20, 3, 1, 2, "bottleneck"), (1, 8, 8)),
}


@pytest.fixture(params=SMALL)
def small(request):
    """An architecture and the shape of one of its inputs."""
    return SMALL[request.param]


@pytest.fixture(params=[name for name in SMALL if not name.startswith("mlp")])
def small_image_network(request):
    """The same, of architectures that take images."""
    return SMALL[request.param]


@pytest.fixture(scope="session")
def built():
    """built(architecture, seed): a network in double precision; the random numbers outside are not touched."""

    def build(architecture, seed=0):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return architecture.build().double()

    return build


@pytest.fixture(scope="session")
def drawn():
    """drawn(*shape): standard normal numbers in double precision."""

    def draw(*shape, seed=1):
        return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))

    return draw
