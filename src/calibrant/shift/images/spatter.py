"""Spatter: drops of water (with their edges and shading) or mud. See `noise` for x and p.

The steps are those of OpenCV's Canny detector, 5×5 distance transform, box filter and histogram equalisation, for many
small images at once.

References: Canny (1986), IEEE TPAMI 8: 679-698; Borgefors (1986), Computer Vision, Graphics, and Image Processing 34:
344-371, for the distances.
"""

from __future__ import annotations

import numpy as np

from calibrant.shift.backend import Array, Backend
from calibrant.shift.images import linear
from calibrant.shift.images.parameters import Setting
from calibrant.shift.images.weather import LUMA
from calibrant.shift.philox import Draws

WATER, MUD = (175.0, 238.0, 238.0), (63.0, 42.0, 20.0)
FARTHEST = 20
TAN22 = round(np.tan(np.pi / 8) * (1 << 15))
MOVES = [
    (down, right, cost)
    for cost, moves in (
        (1.0, ((0, 1), (1, 0))),
        (1.4, ((1, 1), (1, -1))),
        (2.1969, ((1, 2), (2, 1), (1, -2), (2, -1))),
    )
    for move in moves
    for down, right in (move, (-move[0], -move[1]))
]
"""Lengths of the moves of the 5×5 distance transform."""


def spatter(x: Array, p: Setting, draws: Draws) -> Array:
    """Drops where a smoothed normal layer exceeds a threshold: water is added, mud covers."""
    arrays, (loc, scale, sigma, threshold, strength, is_mud) = draws.arrays, p
    xp = arrays.xp
    c, h, w = x.shape[1:]
    layer = linear.apply(arrays, loc + scale * draws.normal("drops", 1, h, w), linear.gaussian(h, w, sigma))
    if is_mud:
        cover = arrays.cast(layer > threshold, "float32")
        cover = linear.apply(arrays, cover, linear.gaussian(h, w, strength))
        cover = xp.where(cover < 0.8, arrays.zeros(()), cover)
        return x * (1.0 - cover) + colour(MUD, c, arrays) * cover
    layer = xp.where(layer < threshold, arrays.zeros(()), layer)
    drops = arrays.cast(arrays.cast(layer * 255.0 + 2.0**-10, "int64") & 255, "float32")[:, 0]
    shaded = drops * shading(drops, arrays)
    highest = xp.amax(shaded, (1, 2), keepdims=True)
    amount = shaded / xp.where(highest > 0, highest, arrays.put(1.0, "float32")) * strength
    return x + colour(WATER, c, arrays) * amount[:, None]


def colour(rgb: tuple[float, float, float], channels: int, arrays: Backend) -> Array:
    """A colour (1, C, 1, 1); its luma for images that do not have three channels."""
    values = rgb if channels == 3 else [float(np.dot(rgb, LUMA))] * channels
    return arrays.put(np.reshape(values, (1, -1, 1, 1)), "float32")


def shading(drops: Array, arrays: Backend) -> Array:
    """Light from the lower right on drops (n, h, w): the equalised distance to their edges, in relief."""
    xp = arrays.xp
    distance = edge_distance(canny(drops, 50.0, 150.0, arrays), arrays)
    # In double precision, and rounded to single before it is truncated: whole numbers fall as they do in OpenCV.
    mean = arrays.cast(box3(arrays.cast(distance, "float64"), arrays), "float32")
    relief = equalise(xp.floor(mean), arrays)
    taps = {(-1, -1): -2, (-1, 0): -1, (0, -1): -1, (0, 0): 1, (0, 1): 1, (1, 0): 1, (1, 1): 2}
    lit = sum(weight * shifted(relief, *offset, "reflect101", arrays) for offset, weight in taps.items())
    return xp.floor(box3(xp.clip(lit, 0.0, 255.0), arrays) + 0.5)


def shifted(x: Array, down: int, right: int, edge: str, arrays: Backend) -> Array:
    """x at (row + down, column + right), with edges folded."""
    rows, columns = (
        linear.fold(np.arange(size) + by, size, edge) for size, by in zip(x.shape[1:], (down, right), strict=True)
    )
    return x[:, arrays.put(rows)][:, :, arrays.put(columns)]


def moved(x: Array, down: int, right: int, outside: float, arrays: Backend) -> Array:
    """x at (row + down, column + right), with a constant outside the image."""
    n, h, w = x.shape
    out = arrays.zeros((n, h, w)) + outside
    to, source = (
        (slice(max(-d, 0), h - max(d, 0)), slice(max(-r, 0), w - max(r, 0)))
        for d, r in ((down, right), (-down, -right))
    )
    out[:, to[0], to[1]] = x[:, source[0], source[1]]
    return out


def box3(x: Array, arrays: Backend) -> Array:
    """The mean over 3×3 pixels, edges mirrored without repeating the edge."""
    rows = sum(shifted(x, by, 0, "reflect101", arrays) for by in (-1, 0, 1))
    return sum(shifted(rows, 0, by, "reflect101", arrays) for by in (-1, 0, 1)) * (1.0 / 9.0)


def canny(x: Array, low: float, high: float, arrays: Backend) -> Array:
    """Edges (n, h, w) by Sobel gradients in the L1 norm, thinned across four directions, with hysteresis."""
    xp = arrays.xp
    up, here, down = (shifted(x, by, 0, "nearest", arrays) for by in (-1, 0, 1))
    smooth, slope = up + 2.0 * here + down, down - up
    dx = shifted(smooth, 0, 1, "nearest", arrays) - shifted(smooth, 0, -1, "nearest", arrays)
    dy = shifted(slope, 0, -1, "nearest", arrays) + 2.0 * slope + shifted(slope, 0, 1, "nearest", arrays)
    size = xp.abs(dx) + xp.abs(dy)

    def exceeds(before: tuple[int, int], after: tuple[int, int], strict: bool) -> Array:
        later = moved(size, *after, 0.0, arrays)
        return (size > moved(size, *before, 0.0, arrays)) & ((size > later) if strict else (size >= later))

    x_part, y_part = (arrays.cast(xp.abs(each), "int64") for each in (dx, dy))
    flat = (y_part << 15) < x_part * TAN22
    steep = (y_part << 15) > x_part * (TAN22 + (1 << 16))
    opposite = (dx < 0) != (dy < 0)
    diagonal = xp.where(opposite, exceeds((-1, 1), (1, -1), True), exceeds((-1, -1), (1, 1), True))
    thin = xp.where(flat, exceeds((0, -1), (0, 1), False), xp.where(steep, exceeds((-1, 0), (1, 0), False), diagonal))
    weak = thin & (size > low)
    edges = weak & (size > high)
    while True:
        near = arrays.cast(edges, "float32")
        near = xp.maximum(near, xp.maximum(moved(near, 1, 0, 0.0, arrays), moved(near, -1, 0, 0.0, arrays)))
        near = xp.maximum(near, xp.maximum(moved(near, 0, 1, 0.0, arrays), moved(near, 0, -1, 0.0, arrays)))
        grown = weak & (near > 0)
        if not bool((grown != edges).any()):
            return edges
        edges = grown


def edge_distance(edges: Array, arrays: Backend) -> Array:
    """Distance to the nearest edge by moves of length 1, 1.4 and 2.1969, at most 20.

    Lengths are multiples of 2⁻¹⁶, so that sums are exact.
    """
    xp = arrays.xp
    distance = xp.where(edges, arrays.zeros(()), arrays.put(float(FARTHEST), "float32"))
    while True:
        nearer = distance
        for down, right, cost in MOVES:
            reached = moved(nearer, down, right, float(FARTHEST), arrays) + round(cost * 65536) / 65536
            nearer = xp.minimum(nearer, reached)
        if not bool((nearer != distance).any()):
            return distance
        distance = nearer


def equalise(x: Array, arrays: Backend) -> Array:
    """Histogram equalisation of integer levels 0 … 20 of each image."""
    xp = arrays.xp
    total = x.shape[1] * x.shape[2]
    below = [arrays.cast((x <= level).sum((1, 2)), "float32")[:, None, None] for level in range(FARTHEST + 1)]
    lowest = xp.amin(x, (1, 2), keepdims=True)
    first = sum((lowest == level) * count for level, count in enumerate(below))
    scale = 255.0 / xp.where(first < total, total - first, arrays.put(1.0, "float32"))
    equalised = sum((x == level) * xp.round((count - first) * scale) for level, count in enumerate(below))
    return xp.where(first < total, equalised, x)
