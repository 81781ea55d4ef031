"""Images for the tests of shifts: made with natural statistics, and CIFAR-10 where it is there."""

import zipfile

import numpy as np
import pytest
from shift_reference import natural


@pytest.fixture(scope="session")
def images():
    return natural(24, 32)


@pytest.fixture(scope="session")
def cifar(data_folder):
    """The first 2,000 test images and labels; the file is not read to its end."""
    path = data_folder / "cifar10" / "cifar10_test.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with zipfile.ZipFile(path) as archive:
        arrays = []
        for name in ("images.npy", "labels.npy"):
            with archive.open(name) as stream:
                np.lib.format.read_magic(stream)
                (_, *shape), _, dtype = np.lib.format.read_array_header_1_0(stream)
                count = 2000 * int(np.prod(shape)) * dtype.itemsize
                arrays.append(np.frombuffer(stream.read(count), dtype).reshape(2000, *shape))
    return arrays
