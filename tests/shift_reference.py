"""Plain references for the tests: one image at a time, in float64, as the definitions say.

Images are (H, W, C) in [0, 1]; the result is in levels, before truncation.
"""

from io import BytesIO

import numpy as np
from PIL import Image
from scipy import ndimage


def brightness(x, p):
    return hsv_mapped(x, lambda h, s, v: (h, s, np.clip(v + p[0], 0, 1)))


def saturate(x, p):
    return hsv_mapped(x, lambda h, s, v: (h, np.clip(s * p[0] + p[1], 0, 1), v))


def hsv_mapped(x, function):
    """Through HSV and back, by the standard library, pixel by pixel."""
    from colorsys import hsv_to_rgb, rgb_to_hsv

    pixels = [hsv_to_rgb(*function(*rgb_to_hsv(*pixel))) for pixel in x.reshape(-1, 3)]
    return 255 * np.reshape(pixels, x.shape)


def contrast(x, p):
    mean = x.mean((0, 1))
    return 255 * ((x - mean) * p[0] + mean)


def gaussian_blur(x, p):
    return 255 * ndimage.gaussian_filter(x, (p[0], p[0], 0), mode="nearest", truncate=4.0)


def defocus_blur(x, p):
    reach = max(8, int(p[0]))
    at = np.arange(-reach, reach + 1)
    disk = (at[:, None] ** 2 + at**2 <= p[0] ** 2).astype(float)
    half = 1 if p[0] <= 8 else 2
    weights = np.exp(-0.5 * (np.arange(-half, half + 1) / p[1]) ** 2)
    kernel = disk / disk.sum()
    for axis in (0, 1):
        kernel = ndimage.correlate1d(kernel, weights / weights.sum(), axis, mode="mirror")
    return 255 * np.stack([ndimage.correlate(x[..., c], kernel, mode="mirror") for c in range(x.shape[2])], -1)


def zoom_blur(x, p):
    zooms = 1 + p[1] * np.arange(p[0])
    return 255 * (x + sum(zoomed(x, z) for z in zooms)) / (1 + len(zooms))


def zoomed(x, factor):
    parts = [int(np.ceil(side / factor)) for side in x.shape[:2]]
    tops = [(side - part) // 2 for side, part in zip(x.shape[:2], parts, strict=True)]
    centre = x[tops[0] : tops[0] + parts[0], tops[1] : tops[1] + parts[1]]
    large = ndimage.zoom(centre, (factor, factor, 1), order=1)
    cut = [(big - side) // 2 for big, side in zip(large.shape[:2], x.shape[:2], strict=True)]
    return large[cut[0] : cut[0] + x.shape[0], cut[1] : cut[1] + x.shape[1]]


def jpeg_compression(x, p):
    stream = BytesIO()
    Image.fromarray((x * 255 + 0.5).astype(np.uint8)).save(stream, "JPEG", quality=int(p[0]))
    return np.asarray(Image.open(stream)).astype(float)


def pixelate(x, p):
    picture = Image.fromarray((x * 255 + 0.5).astype(np.uint8))
    small = picture.resize((int(x.shape[1] * p[0]), int(x.shape[0] * p[0])), Image.Resampling.BOX)
    return np.asarray(small.resize((x.shape[1], x.shape[0]), Image.Resampling.BOX)).astype(float)


def motion(x, radius, sigma, degrees):
    """One image (H, W, C) in levels, tap by tap."""
    weights = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2 * sigma**2))
    rows, columns = np.mgrid[: x.shape[0], : x.shape[1]]
    total = np.zeros(x.shape)
    for i, weight in enumerate(weights / weights.sum()):
        down = int(np.ceil(i * np.sin(np.radians(degrees)) - 0.5))
        right = int(np.ceil(i * np.cos(np.radians(degrees)) - 0.5))
        total += weight * x[np.clip(rows + down, 0, x.shape[0] - 1), np.clip(columns + right, 0, x.shape[1] - 1)]
    return np.floor(total + 0.5)


def chamfer(edges, farthest):
    """Distance by moves of 1, 1.4 and 2.1969 on a grid of any size: the formula of the length of the shortest path."""
    rows, columns = np.mgrid[: edges.shape[0], : edges.shape[1]]
    best = np.full(edges.shape, float(farthest))
    for row, column in zip(*np.nonzero(edges), strict=True):
        near, far = np.sort([abs(rows - row), abs(columns - column)], axis=0)
        steep = (far - near) * 2.1969 + (2 * near - far) * 1.4
        best = np.minimum(best, np.where(far >= 2 * near, near * 2.1969 + (far - 2 * near), steep))
    return best


def natural(n, side, channels=3, seed=0):
    """Images with smooth colours, edges and a little grain."""
    rng = np.random.default_rng(seed)
    base = ndimage.gaussian_filter(rng.normal(size=(n, side, side, channels)), (0, side / 8, side / 8, 0), mode="wrap")
    base = 128 + 60 * base / base.std() + 40 * (base[..., :1] > 0) + rng.normal(0, 4, base.shape)
    return np.clip(base, 0, 255).astype(np.uint8)
