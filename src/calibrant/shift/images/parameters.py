"""Parameters of the corruptions: two sets of five severities, named "cifar" (32 × 32) and "imagenet" (224 × 224).

Reference: Hendrycks & Dietterich (2019), Benchmarking neural network robustness to common corruptions and
perturbations, ICLR 7; the values are those of CIFAR-10-C and ImageNet-C.
"""

from __future__ import annotations

import math

Setting = tuple[float, ...]
SETS = ("cifar", "imagenet")
SIDES = {"cifar": 32, "imagenet": 224}


def _each(*values: float) -> tuple[Setting, ...]:
    return tuple((value,) for value in values)


CIFAR: dict[str, tuple[Setting, ...]] = {
    "gaussian_noise": _each(0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": _each(500, 250, 100, 75, 50),
    "impulse_noise": _each(0.01, 0.02, 0.03, 0.05, 0.07),
    "speckle_noise": _each(0.06, 0.10, 0.12, 0.16, 0.20),
    "gaussian_blur": _each(0.4, 0.6, 0.7, 0.8, 1.0),
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": ((7, 0.01), (12, 0.01), (16, 0.01), (21, 0.01), (26, 0.01)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95), (0.1, 0.2, 1, 0.5, 10, 4, 0.9), (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85), (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0), (0.65, 0.1, 0.8, 0.7, 0.5, 0), (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1), (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "contrast": _each(0.75, 0.5, 0.4, 0.3, 0.15),
    "brightness": _each(0.05, 0.1, 0.15, 0.2, 0.3),
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    "jpeg_compression": _each(80, 65, 58, 50, 40),
    "pixelate": _each(0.95, 0.9, 0.85, 0.75, 0.65),
    "elastic_transform": ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
}  # fmt: skip
"""Lengths of `elastic_transform` are shares of the side; `zoom_blur` is the number of zooms and their step."""

WRITTEN = 244 / 224
"""ImageNet-C's displacements are multiples of 244, which was meant to be 224."""
IMAGENET: dict[str, tuple[Setting, ...]] = {
    "gaussian_noise": _each(0.08, 0.12, 0.18, 0.26, 0.38),
    "shot_noise": _each(60, 25, 12, 5, 3),
    "impulse_noise": _each(0.03, 0.06, 0.09, 0.17, 0.27),
    "speckle_noise": _each(0.15, 0.2, 0.35, 0.45, 0.6),
    "gaussian_blur": _each(1, 2, 3, 4, 6),
    "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "zoom_blur": ((12, 0.01), (16, 0.01), (11, 0.02), (13, 0.02), (11, 0.03)),
    "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    "frost": ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8), (0.2, 0.3, 2, 0.5, 12, 4, 0.7), (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65), (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "spatter": (
        (0.65, 0.3, 4, 0.69, 0.6, 0), (0.65, 0.3, 3, 0.68, 0.6, 0), (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1), (0.67, 0.4, 1, 0.65, 1.5, 1),
    ),
    "contrast": _each(0.4, 0.3, 0.2, 0.1, 0.05),
    "brightness": _each(0.1, 0.2, 0.3, 0.4, 0.5),
    "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    "jpeg_compression": _each(25, 18, 15, 10, 7),
    "pixelate": _each(0.6, 0.5, 0.4, 0.3, 0.25),
    "elastic_transform": tuple(
        tuple(WRITTEN * share for share in shares)
        for shares in ((2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02))
    ),
}  # fmt: skip
PARAMETERS = {"cifar": CIFAR, "imagenet": IMAGENET}
SEVERITIES = (1, 2, 3, 4, 5)


def parameter_set(height: int, width: int) -> str:
    """The set for images of this size: the one whose side is nearer to the smaller side of the image, as a ratio.

    Examples
    --------
    >>> from calibrant.shift import parameter_set
    >>> parameter_set(28, 28), parameter_set(96, 128)
    ('cifar', 'imagenet')
    """
    side = min(height, width)
    return min(SETS, key=lambda name: abs(math.log(side / SIDES[name])))
