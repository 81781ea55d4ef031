"""Blurs: Gaussian, defocus, zoom, motion and glass. See `noise` for x and p."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from calibrant.shift.backend import Array, Backend
from calibrant.shift.images import linear
from calibrant.shift.images.parameters import Setting
from calibrant.shift.philox import Draws


def gaussian_blur(x: Array, p: Setting, draws: Draws) -> Array:
    """A Gaussian filter of p pixels, truncated at 4p; edges repeated."""
    return linear.apply(draws.arrays, x, linear.gaussian(*x.shape[2:], p[0]))


@lru_cache(maxsize=16)
def disk_pairs(height: int, width: int, radius: float, sigma: float) -> tuple[linear.Pair, ...]:
    """A disk of the given radius, smoothed against aliasing over 3×3 pixels (5×5 for radii above 8)."""
    reach = max(8, int(radius))
    at = np.arange(-reach, reach + 1)
    disk = (at[:, None] ** 2 + at[None, :] ** 2 <= radius**2).astype(float)
    half = 1 if radius <= 8 else 2
    weights = np.exp(-0.5 * (np.arange(-half, half + 1) / sigma) ** 2)
    smooth = linear.filter_matrix(len(at), weights / weights.sum(), "reflect101").astype(float)
    return linear.decompose(smooth @ (disk / disk.sum()) @ smooth.T, height, width, "reflect101")


def defocus_blur(x: Array, p: Setting, draws: Draws) -> Array:
    """Correlation with a disk of radius p₀, smoothed by p₁; edges mirrored without repeating the edge."""
    return linear.apply(draws.arrays, x, disk_pairs(*x.shape[2:], *p))


def zoom_blur(x: Array, p: Setting, draws: Draws) -> Array:
    """The mean of the image and of p₀ zooms 1, 1 + p₁, 1 + 2p₁, …"""
    zooms = 1.0 + p[1] * np.arange(int(p[0]))
    pairs = ((linear.zoom(x.shape[2], factor), linear.zoom(x.shape[3], factor)) for factor in zooms)
    return (x + linear.apply(draws.arrays, x, pairs)) / (1.0 + len(zooms))


def motion_blur(x: Array, p: Setting, draws: Draws) -> Array:
    """A one-sided blur along an angle between −45° and 45° of each image; rounded."""
    return blur_along(x, p[0], p[1], draws.uniform("angle", low=-45.0, high=45.0), draws.arrays)


def blur_along(x: Array, radius: float, sigma: float, degrees: Array, arrays: Backend) -> Array:
    """Weights exp(−i²/2σ²), i = 0 … 2·radius, at the nearest pixels along the angle; edges repeated; rounded."""
    xp = arrays.xp
    n, c, h, w = x.shape
    taps = np.arange(2 * int(np.ceil(radius)) + 1)
    weights = np.exp(-(taps**2) / (2.0 * sigma**2))
    weights /= weights.sum()
    # The pixels of an image with edges repeated, as rows of channels: a tap is the same offset of all of them.
    pad = int(taps[-1])
    rows, columns = (np.clip(np.arange(-pad, size + pad), 0, size - 1) for size in (h, w))
    pixels = arrays.transpose(x, (0, 2, 3, 1))[:, arrays.put(rows)][:, :, arrays.put(columns)].reshape(-1, c)
    wide = w + 2 * pad
    corner = np.arange(n)[:, None, None] * ((h + 2 * pad) * wide)
    at = arrays.put(corner + (np.arange(h)[:, None] + pad) * wide + np.arange(w) + pad)
    angle = degrees * (np.pi / 180.0)
    total = arrays.zeros((n, h, w, c))
    for tap, weight in zip(taps, weights, strict=True):
        down, right = (arrays.cast(xp.ceil(int(tap) * f(angle) - 0.5), "int64") for f in (xp.sin, xp.cos))
        total += float(weight) * pixels[at + (down * wide + right)[:, None, None]]
    return xp.floor(arrays.transpose(total, (0, 3, 1, 2)) + 0.5)


def glass_blur(x: Array, p: Setting, draws: Draws, swap: bool = False) -> Array:
    """Blur by p₀, replace each pixel by a neighbour up to p₁ away, p₂ times over, and blur again.

    Pixels are visited from the lower right to the upper left corner. As in CIFAR-10-C, the neighbour is copied; with
    `swap` both change places, as was intended.
    """
    arrays, (sigma, reach, rounds) = draws.arrays, (p[0], int(p[1]), int(p[2]))
    n, c, h, w = x.shape
    blurred = arrays.xp.floor(linear.apply(arrays, x, linear.gaussian(h, w, sigma)) + 2.0**-10)
    pixels = arrays.transpose(blurred, (2, 3, 0, 1)).reshape(h * w, n, c)
    offsets = draws.integers("offsets", 2 * reach, rounds, 2, h, w) - reach
    jumps = arrays.transpose(offsets[:, :, 0] * w + offsets[:, :, 1], (1, 2, 3, 0))
    image = arrays.put(np.arange(n))
    for turn in range(rounds):
        for row in range(h - reach, reach, -1):
            for column in range(w - reach, reach, -1):
                here = row * w + column
                there = jumps[turn, row, column] + here
                found = pixels[there, image]
                if swap:
                    pixels[there, image] = pixels[here]
                pixels[here] = found
    mixed = arrays.transpose(pixels.reshape(h, w, n, c), (2, 3, 0, 1))
    return linear.apply(arrays, mixed, linear.gaussian(h, w, sigma))
