"""Rotations by splines and cyclic translations, the shifts of MNIST in Ovadia et al. (2019), NeurIPS 32."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.errors import UsageError, check_range
from calibrant.shift.backend import backend_of
from calibrant.shift.images.corrupt import LAYOUTS, as_bytes, axes_of

DEGREES, PIXELS = 15, 2
"""The step of a severity."""


def rotate(images: Any, degrees: float, *, layout: str = "NHWC", order: int = 3) -> Any:
    """Images rotated anticlockwise about their centre by splines (cubic by default), zero outside; on the host.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.shift import rotate
    >>> rotate(np.array([[[0, 1], [2, 3]]], np.uint8), 90)
    array([[[1, 3],
            [0, 2]]], dtype=uint8)
    """
    from scipy.ndimage import rotate as rotate_planes

    degrees = check_range("degrees", degrees, hint="use degrees=30")
    order = check_range("order", order, 0, 5, integer=True, hint="use order=3")
    arrays, rows, columns = backend_of(images), *_plane(images, layout)
    levels, scale = as_bytes(images, arrays)
    host = arrays.numpy(levels)
    turned = np.empty_like(host)
    for start in range(0, len(host), 512):
        x = host[start : start + 512].astype(np.float64)
        x = rotate_planes(x, degrees, axes=(columns, rows), reshape=False, order=order, mode="constant")
        turned[start : start + 512] = np.clip(np.floor(x + 0.5), 0, 255)
    result = arrays.put(turned)
    return result if scale is None else arrays.cast(result, scale) / 255


def translate(images: Any, pixels: int, *, layout: str = "NHWC") -> Any:
    """Images shifted to the right; what leaves on one side enters on the other.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.shift import translate
    >>> translate(np.array([[[0, 1, 2]]], np.uint8), 1)
    array([[[2, 0, 1]]], dtype=uint8)
    """
    pixels = check_range("pixels", pixels, integer=True, hint="use pixels=2")
    return backend_of(images).xp.roll(images, pixels, _plane(images, layout)[1])


def _plane(images: Any, layout: str) -> tuple[int, int]:
    """The axes of rows and columns."""
    if not hasattr(images, "ndim"):
        hint = "convert them with np.asarray"
        raise UsageError("images", expected="an array or tensor", got=type(images).__name__, hint=hint)
    axes_of(images, layout)
    return (1, 2) if images.ndim == 3 else LAYOUTS[layout][2:]
