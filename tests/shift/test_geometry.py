"""Rotations and cyclic translations."""

import numpy as np
from scipy import ndimage

from calibrant.shift import rotate, shift_named, translate


def test_quarter_turns_are_exact(images):
    np.testing.assert_array_equal(rotate(images, 90), np.rot90(images, axes=(1, 2)))
    np.testing.assert_array_equal(shift_named("rotation").apply(images, 12), images[:, ::-1, ::-1])


def test_rotation_is_that_of_single_images(images):
    grey = images[..., 0]
    expected = [np.clip(np.rint(ndimage.rotate(each.astype(float), 30, reshape=False)), 0, 255) for each in grey]
    assert np.abs(rotate(grey, 30).astype(int) - np.stack(expected)).max() <= 1
    channels_first = images.transpose(0, 3, 1, 2)
    result = rotate(channels_first, 30, layout="NCHW").transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(result, rotate(images, 30))


def test_translation_is_cyclic(images):
    shifted = translate(images, 5)
    np.testing.assert_array_equal(shifted[:, :, 5:], images[:, :, :-5])
    np.testing.assert_array_equal(shifted[:, :, :5], images[:, :, -5:])
    np.testing.assert_array_equal(shift_named("translation").apply(images[..., 0], 14), translate(images[..., 0], 28))
