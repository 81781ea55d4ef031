"""The same pixels in any batch, on any number of threads, and from NumPy or PyTorch."""

import numpy as np
import pytest
from shift_reference import natural

from calibrant.shift import corrupt, names, shift_named
from calibrant.shift.backend import NUMPY
from calibrant.shift.philox import draws, philox

SEVERITY = {name: 1 + k % 5 for k, name in enumerate(names())}


@pytest.mark.parametrize("name", names())
def test_pixels_do_not_depend_on_the_batch_or_the_threads(name, images, monkeypatch):
    severity = SEVERITY[name]
    monkeypatch.setenv("CALIBRANT_THREADS", "1")
    whole = corrupt(images, name, severity, seed=7)
    ones = [corrupt(images[k : k + 1], name, severity, seed=7, first=k) for k in range(len(images))]
    np.testing.assert_array_equal(np.concatenate(ones), whole)
    sevens = [corrupt(images[k : k + 7], name, severity, seed=7, first=k) for k in range(0, len(images), 7)]
    np.testing.assert_array_equal(np.concatenate(sevens), whole)
    monkeypatch.setenv("CALIBRANT_THREADS", "2")
    monkeypatch.setattr(type(NUMPY), "block_values", 5 * 32 * 32 * 3)
    np.testing.assert_array_equal(corrupt(images, name, severity, seed=7), whole)
    np.testing.assert_array_equal(shift_named(name).apply(images, severity, seed=7), whole)
    channels_first = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    result = corrupt(channels_first, name, severity, seed=7, layout="NCHW")
    np.testing.assert_array_equal(result.transpose(0, 2, 3, 1), whole)


def test_a_large_batch_equals_its_parts():
    images = natural(500, 32)[np.arange(10_000) % 500]
    for name in ("gaussian_noise", "zoom_blur"):
        whole = corrupt(images, name, 2)
        part = corrupt(images[9_993:], name, 2, first=9_993)
        np.testing.assert_array_equal(whole[9_993:], part)


def test_seed_severity_and_row_change_the_noise(images):
    same = np.repeat(images[:1], 2, 0)
    a = corrupt(same, "gaussian_noise", 3)
    assert (a[0] != a[1]).mean() > 0.9
    assert (corrupt(same, "gaussian_noise", 3, seed=1) != a).mean() > 0.9
    noises = [corrupt(np.full((1, 32, 32, 3), 128, np.uint8), "gaussian_noise", s).astype(float) for s in (1, 2)]
    assert abs(np.corrcoef(noises[0].ravel(), noises[1].ravel())[0, 1]) < 0.1


def test_philox_gives_the_published_words():
    """Known answers of Random123 (kat_vectors), philox4x32 with 10 rounds."""
    ones = 0xFFFFFFFF
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
    for counter, key, answer in (
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ones,) * 4, (ones, ones), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (pi[:4], pi[4:], (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ):
        words = philox(*(np.array([word], np.int64) for word in counter), *key)
        assert tuple(int(word[0]) for word in words) == answer


def test_fields_differ_and_rows_count_past_32_bits():
    near, far = draws(NUMPY, 0, "a/1", 0, 2), draws(NUMPY, 0, "a/1", 1 << 32, 2)
    assert (near.words("x", 8) != near.words("y", 8)).all()
    assert (near.words("x", 8) != far.words("x", 8)).all()


def test_purposes_do_not_collide():
    """Every (shift, severity, field) has its own checksum."""
    import zlib

    fields = ("noise", "offsets", "angle", "texture", "down", "right", "flakes", "drops", "affine", "displacement")
    fields += tuple(f"{part}{2**k}" for part in ("centre", "across", "down") for k in range(1, 11))
    texts = [f"{name}/{severity}/{field}" for name in names(None) for severity in range(1, 21) for field in fields]
    assert len({zlib.crc32(text.encode()) for text in texts}) == len(texts)


@pytest.mark.parametrize("name", names())
def test_torch_gives_the_same_images(name, images):
    torch = pytest.importorskip("torch")
    for severity in {SEVERITY[name], 5}:
        expected = corrupt(images, name, severity, seed=3).astype(int)
        result = corrupt(torch.from_numpy(images), name, severity, seed=3)
        assert result.dtype == torch.uint8
        assert (np.abs(result.numpy().astype(int) - expected) <= 1).mean() >= 0.999


def test_floats_in_the_unit_interval_give_floats(images):
    expected = corrupt(images, "fog", 2)
    result = corrupt((images / 255).astype(np.float32), "fog", 2)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result * 255, expected, atol=1e-3)
