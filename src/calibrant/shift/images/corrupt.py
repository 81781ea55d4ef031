"""`corrupt`: images under a corruption, in blocks that threads share, with the same pixels whatever the blocks.

Levels x·255 are clipped and truncated to bytes, as in CIFAR-10-C. Where a result is a whole number but for rounding,
2⁻¹⁰ keeps it from falling a level.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from calibrant.errors import ShapeError, UsageError, ValuesError, check_choice, did_you_mean, show
from calibrant.shift.backend import Array, Backend, NumPyBackend, backend_of
from calibrant.shift.images import blur, digital, noise, spatter, weather
from calibrant.shift.images.parameters import PARAMETERS, SETS, SEVERITIES, parameter_set
from calibrant.shift.philox import draws
from calibrant.shift.registry import check_severity

LAYOUTS = {"NHWC": (0, 3, 1, 2), "NCHW": (0, 1, 2, 3)}
"""The axes of images that give (N, C, H, W)."""
SLACK = 2.0**-10
CORRUPTIONS: dict[str, Callable[..., Array]] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "speckle_noise": noise.speckle_noise,
    "gaussian_blur": blur.gaussian_blur,
    "glass_blur": blur.glass_blur,
    "defocus_blur": blur.defocus_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "fog": weather.fog,
    "frost": weather.frost,
    "snow": weather.snow,
    "spatter": spatter.spatter,
    "contrast": digital.contrast,
    "brightness": digital.brightness,
    "saturate": digital.saturate,
    "jpeg_compression": digital.jpeg_compression,
    "pixelate": digital.pixelate,
    "elastic_transform": digital.elastic_transform,
}
CHANNELS = {"saturate": (3,), "jpeg_compression": (1, 3)}
"""Corruptions that need a certain number of channels."""


def corrupt(
    images: Any,
    name: str,
    severity: int,
    seed: int = 0,
    first: int = 0,
    *,
    layout: str = "NHWC",
    parameters: str | None = None,
    swap: bool = False,
) -> Any:
    """Images under one of the 19 corruptions of CIFAR-10-C and ImageNet-C.

    An image's pixels depend on (seed, name, severity, its index) only, whatever the batch and the number of threads.

    Parameters
    ----------
    images : array of uint8, (N, H, W, C) or (N, H, W)
        NumPy array or PyTorch tensor; a tensor is processed on its device. Floats in [0, 1] are rounded to bytes.
    name : str
        The corruption, one of `names()`.
    severity : int
        1 to 5.
    seed : int
        Random seed.
    first : int
        The index of the first image, for images in several batches.
    layout : {"NHWC", "NCHW"}
        The order of the axes of images with channels.
    parameters : {"cifar", "imagenet"}, optional
        The severities of CIFAR-10-C or of ImageNet-C; by default the set whose image size is nearer.
    swap : bool
        For glass_blur: exchange pixels, as was intended, instead of copying them, as CIFAR-10-C did.

    Returns
    -------
    Images of the same shape and type.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.shift import corrupt
    >>> images = np.full((2, 32, 32, 3), 100, np.uint8)
    >>> corrupt(images, "brightness", 3)[0, 0, 0]
    array([138, 138, 138], dtype=uint8)
    """
    if not isinstance(name, str) or name not in CORRUPTIONS:
        hint = did_you_mean(str(name), CORRUPTIONS)
        raise UsageError("corruption", expected="one of calibrant.shift.names()", got=show(name), hint=hint)
    severity = check_severity(name, severity, SEVERITIES)
    if swap and name != "glass_blur":
        raise UsageError("swap", expected="glass_blur", got=show(name), hint="remove swap=True")
    arrays = backend_of(images)
    try:
        images = images if hasattr(images, "ndim") else np.asarray(images)
    except ValueError as error:
        hint = "use images of one size"
        raise ShapeError("images", expected="an array", got="lists of different lengths", hint=hint) from error
    axes = axes_of(images, layout)
    levels, scale = as_bytes(images, arrays)
    shape = levels.shape
    planes = levels[..., None] if levels.ndim == 3 else levels
    planes = arrays.transpose(planes, (0, 3, 1, 2) if levels.ndim == 3 else axes)
    n, c, h, w = planes.shape
    if c not in CHANNELS.get(name, (c,)):
        expected = f"images with {' or '.join(map(str, CHANNELS[name]))} channels"
        got = f"{c}, of shape {tuple(shape)}"
        raise ShapeError(name, expected=expected, got=got, hint=_channel_hint(c, h, w))
    group = parameter_set(h, w) if parameters is None else check_choice("parameters", parameters, SETS)
    p = PARAMETERS[group][name][severity - 1]
    function = CORRUPTIONS[name]
    threads = thread_count() if isinstance(arrays, NumPyBackend) else 1
    if name == "glass_blur":
        function = partial(function, swap=swap)
    elif name == "frost":
        function = partial(function, shrunk=group == "cifar")
    elif name == "jpeg_compression" and not isinstance(arrays, NumPyBackend):
        function = partial(function, threads=thread_count())
    scope = f"{name}/{severity}"
    draws(arrays, seed, scope, first, n)  # validates seed and first

    def part(start: int, stop: int) -> Array:
        x = arrays.cast(planes[start:stop], "float32")
        corrupted = function(x, p, draws(arrays, seed, scope, first + start, stop - start))
        return arrays.cast(arrays.xp.clip(corrupted + SLACK, 0.0, 255.0), "uint8")

    block = max(arrays.block_values // (c * h * w), 1) * (8 if name == "glass_blur" else 1)
    spans = [(start, min(start + block, n)) for start in range(0, n, block)]
    if threads > 1 and len(spans) > 1:
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(lambda span: part(*span), spans))
    else:
        parts = [part(*span) for span in spans]
    result = arrays.xp.concatenate(parts) if parts else planes
    back = (0, 2, 3, 1) if levels.ndim == 3 or layout == "NHWC" else (0, 1, 2, 3)
    result = arrays.transpose(result, back).reshape(shape)
    return result if scale is None else arrays.cast(result, scale) / 255


def axes_of(images: Any, layout: Any) -> tuple[int, ...]:
    """The axes of images that give (N, C, H, W)."""
    check_choice("layout", layout, LAYOUTS)
    if images.ndim not in (3, 4) or any(size == 0 for size in images.shape[1:]):
        hint = "pass images[None] for a single image"
        expected = f"(N, H, W) or {'(N, H, W, C)' if layout == 'NHWC' else '(N, C, H, W)'}"
        raise ShapeError("images", expected=expected, got=f"shape {tuple(images.shape)}", hint=hint)
    return LAYOUTS[layout]


def as_bytes(images: Any, arrays: Backend) -> tuple[Array, str | None]:
    """Images as uint8, and the dtype to return if they are floats in [0, 1]."""
    kind = str(images.dtype).removeprefix("torch.")
    if kind == "uint8":
        return images, None
    if not kind.startswith("float"):
        hint = "convert them with .astype('uint8')"
        raise ValuesError("images", expected="uint8, or floats from 0 to 1", got=f"dtype {kind}", hint=hint)
    low, high = (float(f(images)) if 0 not in images.shape else 0.0 for f in (arrays.xp.amin, arrays.xp.amax))
    if not (low >= 0.0 and high <= 1.0):  # NaN too
        got = f"floats from {low:g} to {high:g}"
        raise ValuesError("images", expected="uint8, or floats from 0 to 1", got=got, hint="divide them by their range")
    return arrays.cast(arrays.xp.floor(images * 255.0 + 0.5), "uint8"), kind


def thread_count() -> int:
    """`CALIBRANT_THREADS`, or the processors that this process may use."""
    text = os.environ.get("CALIBRANT_THREADS", "")
    if not text:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isdigit() or int(text) < 1:
        got, hint = show(text), "unset it for all"
        raise UsageError("CALIBRANT_THREADS", expected="a whole number from 1", got=got, hint=hint)
    return int(text)


def _channel_hint(channels: int, height: int, width: int) -> str:
    if channels == 1:
        return "repeat the channel three times: np.repeat(images, 3, axis=-1)"
    return "use layout='NCHW'" if width in (1, 3) or height in (1, 3) else "select the colour channels"
