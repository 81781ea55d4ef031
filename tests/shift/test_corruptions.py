"""Corruptions pixel by pixel against plain references, and by law where they are random."""

from itertools import pairwise

import numpy as np
import pytest
import shift_reference as reference
from scipy import stats
from shift_reference import natural

from calibrant.shift import corrupt, names, parameter_set
from calibrant.shift.backend import NUMPY
from calibrant.shift.images import blur, spatter
from calibrant.shift.images.parameters import CIFAR, PARAMETERS
from calibrant.shift.images.weather import frost_textures, plasma
from calibrant.shift.philox import draws

DETERMINISTIC = (
    "brightness", "contrast", "saturate", "jpeg_compression", "pixelate", "defocus_blur", "gaussian_blur", "zoom_blur",
)  # fmt: skip


def mean_change(images, name, severity, **options):
    return np.abs(corrupt(images, name, severity, **options).astype(int) - images).mean()


# ---------------------------------------------------------------------------------------- deterministic ones
@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", DETERMINISTIC)
@pytest.mark.parametrize(("side", "group"), [(32, "cifar"), (48, "imagenet")])
def test_within_one_level_of_a_plain_reference(name, severity, side, group):
    images = natural(4, side, seed=severity)
    p = PARAMETERS[group][name][severity - 1]
    expected = [np.clip(getattr(reference, name)(image / 255.0, p), 0, 255).astype(np.uint8) for image in images]
    result = corrupt(images, name, severity, parameters=group)
    close = np.abs(result.astype(int) - np.stack(expected)) <= 1
    assert close.mean() >= 0.995


def test_constant_image_stays_under_blurs_and_resampling():
    images = np.full((2, 32, 32, 3), (7, 120, 250), np.uint8)
    for name in ("gaussian_blur", "defocus_blur", "zoom_blur", "motion_blur", "glass_blur", "pixelate", "contrast"):
        np.testing.assert_array_equal(corrupt(images, name, 5), images, err_msg=name)


# ------------------------------------------------------------------------------------------------- noise, by law
@pytest.mark.parametrize("severity", [1, 3, 5])
def test_gaussian_noise_is_normal_with_its_standard_deviation(severity):
    images = np.full((40, 32, 32, 3), 128, np.uint8)
    noise = corrupt(images, "gaussian_noise", severity).astype(float) + 0.5 - 128  # truncation takes half a level
    sigma = 255 * CIFAR["gaussian_noise"][severity - 1][0]
    n = noise.size
    assert abs(noise.mean()) < 5 * sigma / np.sqrt(n)
    assert abs(noise.std() / np.sqrt(sigma**2 + 1 / 12) - 1) < 5 / np.sqrt(2 * n)
    assert abs(stats.kurtosis(noise, axis=None)) < 5 * np.sqrt(24 / n) + 0.01
    between = np.corrcoef(noise.reshape(40, -1))  # images, and neighbours within one, are independent
    assert np.abs(between - np.eye(40)).max() < 6 / np.sqrt(32 * 32 * 3)
    assert abs(np.corrcoef(noise[:, :, 1:].ravel(), noise[:, :, :-1].ravel())[0, 1]) < 5 / np.sqrt(n)


def test_speckle_noise_grows_with_the_level():
    for level in (40, 160):
        noise = corrupt(np.full((20, 32, 32, 3), level, np.uint8), "speckle_noise", 2).astype(float)
        assert abs(noise.std() / np.sqrt((0.10 * level) ** 2 + 1 / 12) - 1) < 0.02


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_shot_noise_is_poisson(severity):
    photons = CIFAR["shot_noise"][severity - 1][0]
    assert not corrupt(np.zeros((2, 32, 32, 3), np.uint8), "shot_noise", severity).any()
    for level in (10, 90):
        counts = corrupt(np.full((20, 32, 32, 3), level, np.uint8), "shot_noise", severity)
        exact = np.floor(255 * np.arange(2000) / photons + 2.0**-10).clip(0, 255)
        mass = stats.poisson.pmf(np.arange(2000), photons * level / 255)
        law = np.bincount(exact.astype(int), mass, 256)
        seen = np.bincount(counts.ravel(), minlength=256)
        often = law * counts.size > 20
        assert seen[law == 0].sum() == 0
        assert stats.chisquare(seen[often], law[often] / law[often].sum() * seen[often].sum()).pvalue > 1e-4


@pytest.mark.parametrize("severity", [1, 5])
def test_impulse_noise_has_its_share_of_salt_and_pepper(severity):
    share = CIFAR["impulse_noise"][severity - 1][0]
    result = corrupt(np.full((40, 32, 32, 3), 128, np.uint8), "impulse_noise", severity)
    for value in (0, 255):
        count = (result == value).sum()
        assert stats.binomtest(int(count), result.size, share / 2).pvalue > 1e-4
    assert np.isin(result, (0, 128, 255)).all()


# ------------------------------------------------------------------------------------------------ blurs with chance
def test_motion_blur_is_the_sum_of_its_taps(images):
    angles = np.linspace(-45, 45, len(images))
    x = images.transpose(0, 3, 1, 2).astype(np.float32)
    result = blur.blur_along(x, 6, 1.5, angles, NUMPY).transpose(0, 2, 3, 1)
    expected = np.stack([reference.motion(im.astype(float), 6, 1.5, a) for im, a in zip(images, angles, strict=True)])
    assert (np.abs(result - expected) <= 1).all()
    assert (result == expected).mean() > 0.999


def test_glass_blur_copies_or_swaps(images):
    def shuffled(swap):
        x = images.transpose(0, 3, 1, 2).astype(np.float32)
        every = draws(NUMPY, 3, "glass_blur/1", 0, len(images))
        return every, blur.glass_blur(x, (0.0, 1, 2), every, swap=swap).transpose(0, 2, 3, 1)

    for swap in (False, True):
        every, result = shuffled(swap)
        offsets = every.integers("offsets", 2, 2, 2, 32, 32) - 1
        for k in range(3):  # the loop of the definition
            image = images[k].copy()
            for turn in range(2):
                for h in range(31, 1, -1):
                    for w in range(31, 1, -1):
                        there = h + offsets[k, turn, 0, h, w], w + offsets[k, turn, 1, h, w]
                        kept = image[h, w].copy()
                        image[h, w] = image[there]
                        if swap:
                            image[there] = kept
            np.testing.assert_array_equal(result[k], image)
    assert np.sort(shuffled(True)[1], axis=None).tolist() == np.sort(images, axis=None).tolist()  # a permutation


# ----------------------------------------------------------------------------------------------------- weather
def test_fog_is_a_fractal_whose_spectrum_falls():
    field = plasma(64, 2.0, draws(NUMPY, 0, "fog/1", 0, 50))
    assert (field.min((1, 2)) == 0).all()
    assert (field.max((1, 2)) == 1).all()
    power = (np.abs(np.fft.fft2(field - field.mean((1, 2), keepdims=True))) ** 2).mean(0)
    radius = np.hypot(*np.meshgrid(*[np.fft.fftfreq(64) * 64] * 2))
    rings = [power[(radius >= low) & (radius < 2 * low)].mean() for low in (1, 2, 4, 8, 16)]
    assert all(later < earlier / 3 for earlier, later in pairwise(rings))


def test_fog_keeps_the_maximum_of_an_image(images):
    assert (corrupt(images, "fog", 3).max((1, 2, 3)) <= images.max((1, 2, 3))).all()


def test_frost_textures_are_bright_and_shipped_small():
    from importlib.resources import files

    folder = files("calibrant.shift.images").joinpath("textures")
    assert sum(len(item.read_bytes()) for item in folder.iterdir()) < 300_000
    assert "CC0" in folder.joinpath("LICENSE").read_text("utf-8")
    textures = frost_textures(True)
    assert textures.shape == (2, 205, 205, 3)
    assert 150 < textures.mean() < 180


def test_snow_adds_a_layer_and_its_half_turn():
    layer = corrupt(np.zeros((20, 32, 32, 3), np.uint8), "snow", 2).astype(float)
    np.testing.assert_array_equal(layer, layer[:, ::-1, ::-1])
    assert (layer[..., 0] == layer[..., 2]).all()


# ---------------------------------------------------------------------------------------------------- spatter
def test_distances_are_those_of_the_shortest_paths():
    edges = np.random.default_rng(0).random((6, 32, 32)) < np.array([0, 0.001, 0.005, 0.02, 0.1, 1])[:, None, None]
    result = spatter.edge_distance(edges, NUMPY)
    expected = np.stack([reference.chamfer(each, 20) for each in edges])
    np.testing.assert_allclose(result, expected, atol=1e-4)


def test_canny_finds_the_border_of_a_disk_once():
    rows, columns = np.mgrid[:32, :32]
    disk = np.where(np.hypot(rows - 15.5, columns - 15.5) < 9, 200.0, 0.0)[None].astype(np.float32)
    edges = spatter.canny(disk, 50.0, 150.0, NUMPY)[0]
    distance = np.abs(np.hypot(rows - 15.5, columns - 15.5) - 9)
    assert (distance[edges] < 1.6).all()
    angles = np.arctan2(rows - 15.5, columns - 15.5)[edges]
    assert np.diff(np.sort(angles)).max() < 0.35  # the border is closed
    assert not spatter.canny(np.zeros_like(disk), 50.0, 150.0, NUMPY).any()


def test_equalised_levels_are_spread_over_bytes():
    x = np.array([[[0, 1, 1], [2, 2, 2], [20, 20, 20]], [[5, 5, 5]] * 3], np.float32)
    result = spatter.equalise(x, NUMPY)
    np.testing.assert_array_equal(result[0, :, 2], [np.round(2 * 255 / 8), np.round(5 * 255 / 8), 255])
    np.testing.assert_array_equal(result[0, 0, 0], 0)
    np.testing.assert_array_equal(result[1], 5)  # an image of one level stays


def test_mud_covers_and_water_brightens():
    images = np.full((40, 32, 32, 3), 100, np.uint8)
    water, mud = (corrupt(images, "spatter", severity).astype(int) for severity in (3, 4))
    assert (water >= 100).all()
    assert (water[..., 0] <= water[..., 1]).all()  # pale turquoise
    assert (mud <= 100).all()
    assert mud.min() == 20


# -------------------------------------------------------------------------------------------------- severities
NOT_MONOTONE = {"saturate", "elastic_transform", "frost", "spatter", "glass_blur"}
"""Corruptions whose parameters do not order the change: definitions.md lists their mean changes."""


@pytest.mark.parametrize("name", [name for name in names() if name not in NOT_MONOTONE])
def test_change_grows_with_severity(name, images):
    many = np.concatenate([images, images[:, ::-1]])
    changes = [((corrupt(many, name, severity).astype(float) - many) ** 2).mean() for severity in range(1, 6)]
    # The weights of motion blur at severities 3 and 4 differ by less than 1e-7 beside the length: a tie but for angles.
    slack = 0.9 if name == "motion_blur" else 1.0
    assert all(later >= slack * earlier for earlier, later in pairwise(changes)), name


def test_every_corruption_works_on_any_size_and_channels():
    for side, channels in ((28, 1), (33, 3), (64, 4), (96, 3)):
        images = natural(2, side, channels)[:, :, : side - 1]
        for name in names():
            if (name == "saturate" and channels != 3) or (name == "jpeg_compression" and channels == 4):
                continue
            result = corrupt(images, name, 2)
            assert result.shape == images.shape
            assert result.dtype == np.uint8
            assert (result != images).any(), name


def test_parameter_set_is_that_of_the_nearer_size():
    assert [parameter_set(side, side) for side in (28, 32, 64, 84, 85, 224, 512)] == ["cifar"] * 4 + ["imagenet"] * 3
    image = natural(1, 32)
    assert mean_change(image, "brightness", 1, parameters="imagenet") > 1.5 * mean_change(image, "brightness", 1)
