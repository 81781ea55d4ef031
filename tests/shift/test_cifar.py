"""CIFAR-10 under corruption: the changes of the original generator, and what they do to a public ResNet-20."""

import numpy as np
import pytest

from calibrant.shift import corrupt

# Mean absolute change in levels over the first 2,000 test images, and the accuracy of ResNet-20, by severity, measured
# with the public generator of CIFAR-10-C (docs/shift.md).
CHANGES = {
    "fog": (10.7, 21.3, 27.5, 32.3, 39.1),
    "frost": (30.5, 44.7, 49.1, 44.9, 42.5),
    "snow": (10.7, 23.6, 25.3, 36.7, 51.1),
    "spatter": (1.0, 2.8, 6.7, 3.0, 5.2),
    "glass_blur": (11.2, 11.3, 11.1, 18.1, 17.4),
    "motion_blur": (7.0, 10.4, 13.0, 13.1, 15.2),
    "elastic_transform": (21.9, 19.8, 17.9, 16.4, 13.6),
}
ACCURACY = {"fog": 0.656, "frost": 0.527, "snow": 0.688, "motion_blur": 0.592}
"""At severity 5; `python -m evidence.cifar10c_table --rows 2000 --check` compares all severities."""


@pytest.mark.parametrize("name", CHANGES)
def test_mean_change_is_that_of_the_original(name, cifar):
    images = cifar[0][:1000]
    changes = [np.abs(corrupt(images, name, s).astype(int) - images).mean() for s in range(1, 6)]
    np.testing.assert_allclose(changes, CHANGES[name], rtol=0.06, atol=0.2)


@pytest.mark.parametrize("name", ACCURACY)
def test_accuracy_of_the_public_resnet20(name, cifar, data_folder):
    torch = pytest.importorskip("torch")
    from calibrant.networks import ResNet

    path = data_folder / "weights" / "cifar10_resnet20_32_44_56.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with np.load(path, allow_pickle=False) as stored:
        weights = {key.partition("/")[2]: stored[key] for key in stored.files if key.startswith("resnet20/")}
    network = ResNet(20).build().eval()
    network.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()}, strict=False)
    mean, std = (torch.tensor(each)[:, None, None] for each in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    images, labels = cifar
    corrupted = torch.from_numpy(corrupt(images, name, 5).transpose(0, 3, 1, 2) / np.float32(255))
    with torch.inference_mode():
        votes = torch.cat([network((part - mean) / std).argmax(1) for part in corrupted.split(500)]).numpy()
    assert abs((votes == labels).mean() - ACCURACY[name]) <= (0.06 if name == "frost" else 0.02)
