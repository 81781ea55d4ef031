"""Weather: fog, frost and snow. See `noise` for x and p."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import numpy as np

from calibrant.errors import MissingExtra
from calibrant.shift.backend import Array
from calibrant.shift.images import linear
from calibrant.shift.images.blur import blur_along
from calibrant.shift.images.parameters import Setting
from calibrant.shift.philox import Draws

LUMA = (0.299, 0.587, 0.114)
TEXTURES = ("ice_1.jpg", "ice_2.jpg")
TONES = {True: ((195.0, 0.4, 3.5), (140.0, 0.6, 9.0)), False: ((195.0, 1.0, 1.0), (140.0, 1.0, 1.0))}
"""Mean level, contrast above one pixel, and contrast below it, of each texture, shrunk or not.

Ice in daylight is darker than frost on a window, and the original textures are shrunk without smoothing, which keeps
their grain. These values give the mean change and the accuracy of a ResNet-20 that the original textures give.
"""
TINT = (-8.0, 0.0, 8.0)


def fog(x: Array, p: Setting, draws: Draws) -> Array:
    """A plasma fractal of weight p₀ is added, and the image rescaled to its old maximum."""
    h, w = x.shape[2:]
    side = 1 << (max(h, w, 2) - 1).bit_length()
    layer = plasma(side, p[1], draws)[:, None, :h, :w]
    highest = draws.arrays.xp.amax(x, (1, 2, 3), keepdims=True)
    weight = 255.0 * p[0]
    return (x + weight * layer) * (highest / (highest + weight))


def plasma(side: int, decay: float, draws: Draws) -> Array:
    """Diamond-square on a torus (n, side, side), rescaled to [0, 1]; each step adds noise wibble·U(−wibble, wibble)."""
    arrays = draws.arrays
    xp, field = arrays.xp, arrays.zeros((draws.n, side, side), "float64")
    step, wibble = side, 100.0

    def quarter(total: Array, name: str) -> Array:
        noise = draws.uniform(f"{name}{step}", *total.shape[1:], low=-wibble, high=wibble)
        return total / 4.0 + wibble * noise

    while step >= 2:
        half = step // 2
        corners = field[:, ::step, ::step]
        pairs = corners + xp.roll(corners, -1, 1)
        centres = quarter(pairs + xp.roll(pairs, -1, 2), "centre")
        field[:, half::step, half::step] = centres
        across = centres + xp.roll(centres, 1, 1) + corners + xp.roll(corners, -1, 2)
        field[:, ::step, half::step] = quarter(across, "across")
        down = centres + xp.roll(centres, 1, 2) + corners + xp.roll(corners, -1, 1)
        field[:, half::step, ::step] = quarter(down, "down")
        step, wibble = half, wibble / decay
    field = field - xp.amin(field, (1, 2), keepdims=True)
    return arrays.cast(field / xp.amax(field, (1, 2), keepdims=True), "float32")


@lru_cache(maxsize=4)
def frost_textures(shrunk: bool) -> np.ndarray:
    """The photographs of ice (2, S, S, 3) in levels and in the tones of frost; `shrunk` from 512 to 205 pixels."""
    try:
        from PIL import Image
    except ImportError as error:
        hint = "run pip install 'calibrant[shift]'"
        raise MissingExtra("frost", expected="Pillow", got="no such module", hint=hint) from error
    from scipy.ndimage import gaussian_filter

    textures = []
    for name, (level, coarse, fine) in zip(TEXTURES, TONES[shrunk], strict=True):
        with files("calibrant.shift.images").joinpath("textures", name).open("rb") as stream:
            picture = Image.open(stream).convert("RGB")
            pixels = np.asarray(picture.resize((205, 205), Image.Resampling.BOX) if shrunk else picture, np.float32)
        smooth = gaussian_filter(pixels, (1.0, 1.0, 0.0), mode="mirror")
        toned = level + np.array(TINT) + coarse * (smooth - pixels.mean((0, 1))) + fine * (pixels - smooth)
        textures.append(np.clip(toned, 0.0, 255.0))
    return np.stack(textures).astype(np.float32)


def frost(x: Array, p: Setting, draws: Draws, shrunk: bool = True) -> Array:
    """p₀ times the image and p₁ times a random part of a photograph of ice."""
    arrays = draws.arrays
    c, h, w = x.shape[1:]
    textures = frost_textures(shrunk)
    side = textures.shape[1]
    values = arrays.put(textures if c == 3 else (textures @ np.asarray(LUMA, np.float32))[..., None].repeat(c, 3))
    which = draws.integers("texture", len(textures))[:, None, None]
    corners = (draws.integers(name, max(side - size, 1)) for name, size in (("down", h), ("right", w)))
    fold = arrays.put(linear.fold(np.arange(side + max(h, w)), side, "mirror"))  # images larger than the photograph
    rows, columns = (
        fold[corner[:, None] + arrays.put(np.arange(size))] for corner, size in zip(corners, (h, w), strict=True)
    )
    cut = values[which, rows[:, :, None], columns[:, None, :]]
    return p[0] * x + p[1] * arrays.transpose(cut, (0, 3, 1, 2))


def snow(x: Array, p: Setting, draws: Draws) -> Array:
    """A layer of flakes blurred along an angle, and its half-turn, over a whitened image."""
    arrays, (loc, scale, factor, threshold, radius, sigma, weight) = draws.arrays, p
    xp = arrays.xp
    h, w = x.shape[2:]
    layer = loc + scale * draws.normal("flakes", 1, h, w)
    layer = linear.apply(arrays, layer, [(linear.zoom(h, factor), linear.zoom(w, factor))])
    layer = xp.where(layer < threshold, arrays.zeros(()), xp.clip(layer, 0.0, 1.0))
    layer = xp.floor(layer * 255.0 + 2.0**-10)
    layer = blur_along(layer, radius, sigma, draws.uniform("angle", low=-135.0, high=-45.0), arrays)
    white = 1.5 * grey(x, draws) + 127.5
    return weight * x + (1.0 - weight) * xp.maximum(x, white) + layer + xp.flip(layer, (2, 3))


def grey(x: Array, draws: Draws) -> Array:
    """Luma (N, 1, H, W) of images with three channels, else the mean of the channels."""
    if x.shape[1] == 3:
        return LUMA[0] * x[:, :1] + LUMA[1] * x[:, 1:2] + LUMA[2] * x[:, 2:]
    total = x[:, :1]
    for channel in range(1, x.shape[1]):
        total = total + x[:, channel : channel + 1]
    return total / x.shape[1]
