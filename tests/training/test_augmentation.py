"""Variations of images against plain loops over pixels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from calibrant.errors import UsageError  # noqa: E402
from calibrant.methods import Augmentation  # noqa: E402
from calibrant.training.seeds import stream  # noqa: E402


def shifted(image, pad, down, right, mirrored):
    """One image (C, H, W): a border of zeros, a piece of it, its mirror image; pixel by pixel."""
    channels, height, width = image.shape
    made = np.zeros_like(image)
    for c in range(channels):
        for i in range(height):
            for j in range(width):
                across = width - 1 - j if mirrored else j
                y, x = i + down - pad, across + right - pad
                if 0 <= y < height and 0 <= x < width:
                    made[c, i, j] = image[c, y, x]
    return made


@settings(max_examples=40)
@given(
    st.integers(0, 3), st.booleans(), st.integers(1, 6), st.integers(1, 7), st.integers(1, 3), st.integers(0, 2**31)
)  # fmt: skip
def test_pieces_are_those_of_a_loop_over_pixels(pad, flip, height, width, channels, seed):
    rng = np.random.default_rng(seed)
    images = rng.integers(1, 255, (5, channels, height, width)).astype(np.uint8)
    augment = Augmentation(pad, flip)
    rows = torch.from_numpy(rng.integers(0, 5, (2, 4)))
    variations = augment.draw(8, stream(seed)).view(2, 4, 3)
    found = augment.cut(augment.pad_images(torch.from_numpy(images)), rows, variations)
    assert found.dtype == torch.uint8
    assert found.shape == (2, 4, channels, height, width)
    for place in np.ndindex(2, 4):
        expected = shifted(images[rows[place]], pad, *variations[place].tolist())
        np.testing.assert_array_equal(found[place], expected)


def test_no_border_and_no_mirror_is_nothing():
    images = torch.randn(6, 3, 5, 4, generator=stream(1))
    augment = Augmentation(0, flip=False)
    variations = augment.draw(6, stream(2))
    assert torch.equal(augment.pad_images(images), images)
    assert torch.equal(augment.cut(images, torch.arange(6), variations), images)


def test_the_middle_of_the_border_is_the_image_and_its_mirror_image_is_that_of_pytorch():
    images = torch.randn(6, 3, 5, 4, generator=stream(1))
    augment, rows = Augmentation(2), torch.arange(6)
    middle = torch.tensor([[2, 2, 0]], dtype=torch.uint8).expand(6, 3)
    mirror = torch.tensor([[2, 2, 1]], dtype=torch.uint8).expand(6, 3)
    assert torch.equal(augment.cut(augment.pad_images(images), rows, middle), images)
    assert torch.equal(augment.cut(augment.pad_images(images), rows, mirror), images.flip(-1))


def test_variations_are_uniform_and_half_are_mirrored():
    drawn = Augmentation(2).draw(20_000, stream(3)).double()
    assert drawn.amin(0).tolist() == [0, 0, 0]
    assert drawn.amax(0).tolist() == [4, 4, 1]
    for column, values in ((0, 5), (1, 5), (2, 2)):
        counts = torch.bincount(drawn[:, column].long(), minlength=values).numpy()
        expected = 20_000 / values
        assert ((counts - expected) ** 2 / expected).sum() < 25.0
    assert abs(np.corrcoef(drawn.numpy().T)[np.triu_indices(3, 1)]).max() < 0.03


def test_without_mirrors_none_is_mirrored():
    assert not Augmentation(3, flip=False).draw(200, stream(0))[:, 2].any()


def test_the_largest_border_does_not_overflow():
    drawn = Augmentation(127).draw(5000, stream(0))
    assert drawn[:, :2].max() == 254


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Augmentation(-1), "pad: expected an integer from 0 to 127"),
        (lambda: Augmentation(128), "got 128"),
        (lambda: Augmentation(1.5), "got 1.5"),
        (lambda: Augmentation(1).pad_images(torch.zeros(4, 3)), "augment: expected images"),
    ],
)
def test_what_is_no_augmentation_is_refused(make, said):
    with pytest.raises(UsageError, match=said) as caught:
        make()
    assert str(caught.value).isprintable()
