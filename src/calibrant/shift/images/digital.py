"""Contrast, brightness, saturation, JPEG compression, pixelation and elastic deformation. See `noise` for x and p."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np

from calibrant.errors import MissingExtra
from calibrant.shift.backend import Array, Backend
from calibrant.shift.images import linear
from calibrant.shift.images.parameters import Setting
from calibrant.shift.philox import Draws


def contrast(x: Array, p: Setting, draws: Draws) -> Array:
    """p times the deviation from the mean of each channel."""
    arrays = draws.arrays
    sums = arrays.cast(x, "int64").sum((2, 3))  # exact, so that the mean does not depend on the batch
    mean = arrays.cast(arrays.cast(sums, "float64") / (x.shape[2] * x.shape[3]), "float32")[:, :, None, None]
    return (x - mean) * p[0] + mean


def brightness(x: Array, p: Setting, draws: Draws) -> Array:
    """p is added to the value of HSV; hue and saturation stay."""
    xp = draws.arrays.xp
    value = xp.amax(x, 1, keepdims=True)
    brighter = xp.clip(value + 255.0 * p[0], 0.0, 255.0)
    return xp.where(value > 0, x * (brighter / xp.where(value > 0, value, brighter)), brighter)


def saturate(x: Array, p: Setting, draws: Draws) -> Array:
    """The saturation S of HSV becomes p₀·S + p₁; hue and value stay. Grey pixels have the hue of red."""
    arrays = draws.arrays
    xp = arrays.xp
    value, lowest = xp.amax(x, 1, keepdims=True), xp.amin(x, 1, keepdims=True)
    spread = value - lowest
    one = arrays.put(1.0, "float32")
    saturation = spread / xp.where(value > 0, value, one)
    wanted = xp.clip(p[0] * saturation + p[1], 0.0, 1.0)
    red = arrays.put(np.reshape([0.0, 1.0, 1.0], (1, 3, 1, 1)), "float32")
    away = xp.where(spread > 0, (value - x) / xp.where(spread > 0, spread, one), red)
    return value - value * (wanted * away)


def pixelate(x: Array, p: Setting, draws: Draws) -> Array:
    """A box filter down to p times the size and back, rounded after each direction as Pillow does."""
    arrays = draws.arrays
    n, c, h, w = x.shape
    rows, columns = (max(int(size * p[0]), 1) for size in (h, w))
    for left, right in ((linear.box(h, rows), linear.box(w, columns)), (linear.box(rows, h), linear.box(columns, w))):
        wide = right.shape[0]
        across = arrays.xp.matmul(x.reshape(n, -1, x.shape[3]), arrays.put(right.T)).reshape(n, c, -1, wide)
        x = arrays.xp.floor(arrays.xp.matmul(arrays.put(left), arrays.xp.floor(across + 0.5)) + 0.5)
    return x


def jpeg_compression(x: Array, p: Setting, draws: Draws, threads: int = 1) -> Array:
    """Encoded and decoded by Pillow with quality p, and its default chroma subsampling, on the host."""
    try:
        from PIL import Image
    except ImportError as error:
        hint = "run pip install 'calibrant[shift]'"
        raise MissingExtra("jpeg_compression", expected="Pillow", got="no such module", hint=hint) from error
    images = draws.arrays.numpy(x).astype(np.uint8).transpose(0, 2, 3, 1)
    out = np.empty(images.shape, np.uint8)

    def compress(rows: range) -> None:
        for row in rows:
            stream = BytesIO()
            pixels = np.ascontiguousarray(images[row, :, :, 0] if images.shape[3] == 1 else images[row])
            Image.fromarray(pixels).save(stream, "JPEG", quality=int(p[0]))
            out[row] = np.asarray(Image.open(stream)).reshape(out[row].shape)

    parts = [range(start, len(out), threads) for start in range(threads)]
    if threads == 1:
        compress(parts[0])
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(compress, parts))
    return draws.arrays.put(np.ascontiguousarray(out.transpose(0, 3, 1, 2)), "float32")


def elastic_transform(x: Array, p: Setting, draws: Draws) -> Array:
    """A random affine map, then smooth random displacements; all lengths are shares of the smaller side.

    Three points move by up to ±p₂ in each direction and define the affine map (edges mirrored without repeating the
    edge); displacements U(−1, 1), smoothed by p₁ and multiplied by p₀, follow (edges mirrored).
    """
    arrays = draws.arrays
    h, w = x.shape[2:]
    side = min(h, w)
    alpha, sigma, jitter = (share * side for share in p)
    rows, columns = (arrays.put(np.arange(size), "float64") for size in (h, w))
    moves = draws.uniform("affine", 3, 2, low=-jitter, high=jitter)
    to_source = affine(h, w, moves, arrays)
    across = [each[:, None, None] for each in (to_source[:, 0, 0], to_source[:, 0, 1], to_source[:, 0, 2])]
    down = [each[:, None, None] for each in (to_source[:, 1, 0], to_source[:, 1, 1], to_source[:, 1, 2])]
    source_column = across[0] * columns[None, None, :] + across[1] * rows[None, :, None] + across[2]
    source_row = down[0] * columns[None, None, :] + down[1] * rows[None, :, None] + down[2]
    x = interpolate(x, source_row, source_column, "reflect101", arrays)
    if alpha == 0:
        return x
    smooth = linear.gaussian(h, w, sigma, "mirror", 3.0)
    fields = arrays.cast(draws.uniform("displacement", 2, h, w, low=-1.0, high=1.0), "float32")
    fields = arrays.cast(linear.apply(arrays, fields, smooth), "float64") * alpha
    return interpolate(x, rows[None, :, None] + fields[:, 1], columns[None, None, :] + fields[:, 0], "mirror", arrays)


def affine(height: int, width: int, moves: Array, arrays: Backend) -> Array:
    """The maps (n, 2, 3) from a pixel (column, row, 1) to its source, when three points move by `moves` (n, 3, 2)."""
    xp = arrays.xp
    centre, reach = np.array([height // 2, width // 2], float), min(height, width) // 3
    points = np.stack([centre + reach, [centre[0] + reach, centre[1] - reach], centre - reach])
    moved = arrays.put(points) + moves
    # Cramer's rule, written out: the matrix that takes the moved points back to where they were.
    (x1, y1), (x2, y2), (x3, y3) = ((moved[:, k, 0], moved[:, k, 1]) for k in range(3))
    determinant = x1 * (y2 - y3) + x2 * (y3 - y1) + x3 * (y1 - y2)
    rows = []
    for u1, u2, u3 in points.T:
        rows.append(
            xp.stack(
                [
                    (u1 * (y2 - y3) + u2 * (y3 - y1) + u3 * (y1 - y2)) / determinant,
                    (u1 * (x3 - x2) + u2 * (x1 - x3) + u3 * (x2 - x1)) / determinant,
                    (u1 * (x2 * y3 - x3 * y2) + u2 * (x3 * y1 - x1 * y3) + u3 * (x1 * y2 - x2 * y1)) / determinant,
                ],
                1,
            )
        )
    return xp.stack(rows, 1)


def interpolate(x: Array, rows: Array, columns: Array, edge: str, arrays: Backend) -> Array:
    """Bilinear interpolation of (N, C, H, W) at rows and columns (N, H', W')."""
    xp = arrays.xp
    n, c, h, w = x.shape
    pixels = arrays.transpose(x, (0, 2, 3, 1)).reshape(-1, c)
    corner = arrays.put(np.arange(n)[:, None, None] * (h * w))
    top, left = xp.floor(rows), xp.floor(columns)
    down, right = (arrays.cast(each, "float32")[..., None] for each in (rows - top, columns - left))
    first, second = (corner + folded(arrays.cast(top, "int64") + by, h, edge, arrays) * w for by in (0, 1))
    near, far = (folded(arrays.cast(left, "int64") + by, w, edge, arrays) for by in (0, 1))
    upper = pixels[first + near] * (1.0 - right) + pixels[first + far] * right
    lower = pixels[second + near] * (1.0 - right) + pixels[second + far] * right
    return arrays.transpose(upper * (1.0 - down) + lower * down, (0, 3, 1, 2))


def folded(index: Array, size: int, edge: str, arrays: Backend) -> Array:
    """`linear.fold` of an array of either library."""
    period = 2 * size if edge == "mirror" else max(2 * size - 2, 1)
    index = index % period
    return arrays.xp.minimum(index, (period - 1 if edge == "mirror" else period) - index)
