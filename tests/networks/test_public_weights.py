"""Public weights in our residual networks give the logits that their own code gave."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from calibrant.networks import ResNet  # noqa: E402

IMAGES = 64
MEAN, SD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def images(data_folder):
    """The first test images, (n, 3, 32, 32), normalised as the networks expect; the file is not read to its end."""
    path = data_folder / "cifar10" / "cifar10_test.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with zipfile.ZipFile(path) as archive, archive.open("images.npy") as stream:
        np.lib.format.read_magic(stream)
        (_, *shape), _, dtype = np.lib.format.read_array_header_1_0(stream)
        raw = np.frombuffer(stream.read(IMAGES * int(np.prod(shape))), dtype).reshape(IMAGES, *shape)
    scaled = (raw / 255.0 - np.array(MEAN)) / np.array(SD)
    return torch.from_numpy(scaled.astype(np.float32).transpose(0, 3, 1, 2))


@pytest.fixture(scope="module")
def weights(data_folder):
    path = data_folder / "weights" / "cifar10_resnet20_32_44_56.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


@pytest.mark.parametrize("depth", [20, 32, 44, 56])
def test_public_weights_give_their_logits(depth, images, weights, networks):
    stored = networks("cifar10_resnet_ensemble_shift_ood_logits")
    member = list(stored["model_names"]).index(f"resnet{depth}")
    network = ResNet(depth).build()
    own = {name.partition("/")[2]: array for name, array in weights.items() if name.startswith(f"resnet{depth}/")}
    missing = network.load_state_dict({name: torch.from_numpy(array) for name, array in own.items()}, strict=False)
    assert not missing.unexpected_keys
    assert all(name.endswith("num_batches_tracked") for name in missing.missing_keys)
    with torch.inference_mode():
        made = network.eval()(images).numpy()
    np.testing.assert_allclose(made, stored["logits_clean"][member, :IMAGES], rtol=0.0, atol=1e-3)
