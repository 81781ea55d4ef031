"""Speed of corruptions: `python -m benchmarks.shift [--rows 10000] [--device cuda] [--write docs/speed-shift.md]`.

Milliseconds an image and cell (one of five severities) of every corruption for CIFAR-sized images, random bytes, on all
processors or on a GPU. Next to them is a plain loop over images with SciPy and NumPy, as the public generators have it,
for some corruptions, and the package imagecorruptions where it can be imported, in the same run.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from calibrant.shift import corrupt, names
from calibrant.shift.images.corrupt import thread_count

PEER_ROWS = 100
GENERATOR = 1.2
"""Milliseconds an image and cell of the public generator of CIFAR-10-C: 300 images and 95 cells in 34 s on one core."""


def plain_loops() -> dict[str, Callable[[np.ndarray, int], np.ndarray]]:
    """Corruptions one image at a time, from their definitions."""
    rng = np.random.default_rng(0)

    def noise(x: np.ndarray, s: int) -> np.ndarray:
        sigma = (0.04, 0.06, 0.08, 0.09, 0.10)[s - 1]
        return np.clip(x / 255.0 + rng.normal(size=x.shape, scale=sigma), 0, 1) * 255

    def shot(x: np.ndarray, s: int) -> np.ndarray:
        photons = (500, 250, 100, 75, 50)[s - 1]
        return np.clip(rng.poisson(x / 255.0 * photons) / photons, 0, 1) * 255

    def blur(x: np.ndarray, s: int) -> np.ndarray:
        sigma = (0.4, 0.6, 0.7, 0.8, 1.0)[s - 1]
        return ndimage.gaussian_filter(x / 255.0, (sigma, sigma, 0), mode="nearest") * 255

    def zoom(x: np.ndarray, s: int) -> np.ndarray:
        total, count = x / 255.0, (7, 12, 16, 21, 26)[s - 1]
        for k in range(count):
            part = int(np.ceil(32 / (1 + 0.01 * k)))
            top = (32 - part) // 2
            cut = x[top : top + part, top : top + part] / 255.0
            large = ndimage.zoom(cut, (1 + 0.01 * k, 1 + 0.01 * k, 1), order=1)
            start = (large.shape[0] - 32) // 2
            total = total + large[start : start + 32, start : start + 32]
        return np.clip(total / (count + 1), 0, 1) * 255

    def glass(x: np.ndarray, s: int) -> np.ndarray:
        sigma, rounds = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))[s - 1]
        out = np.uint8(ndimage.gaussian_filter(x / 255.0, (sigma, sigma, 0), mode="nearest") * 255)
        for _ in range(rounds):
            for h in range(31, 1, -1):
                for w in range(31, 1, -1):
                    dx, dy = rng.integers(-1, 1, 2)
                    out[h, w] = out[h + dy, w + dx]
        return ndimage.gaussian_filter(out / 255.0, (sigma, sigma, 0), mode="nearest") * 255

    return {"gaussian_noise": noise, "shot_noise": shot, "gaussian_blur": blur, "zoom_blur": zoom, "glass_blur": glass}


def measure(run: Callable[[], Any], wait: Callable[[], None]) -> float:
    """Seconds of one run."""
    wait()
    start = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--device", default="numpy", help="numpy, cpu (PyTorch) or cuda")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    images: Any = np.random.default_rng(0).integers(0, 256, (given.rows, 32, 32, 3), dtype=np.uint8)
    some, wait = images[:PEER_ROWS], lambda: None
    if given.device != "numpy":
        import torch

        images = torch.from_numpy(images).to(given.device)
        wait = torch.cuda.synchronize if given.device == "cuda" else wait
    try:
        peer = importlib.import_module("imagecorruptions").corrupt
    except (ImportError, AttributeError):
        peer = None
    plain, total, lines = plain_loops(), 0.0, []
    lines += ["| corruption | ms an image and cell | a loop over images | imagecorruptions |", "|---|---|---|---|"]
    for name in names():
        corrupt(images[:8], name, 1)
        seconds = sum(measure(lambda s=s, name=name: corrupt(images, name, s), wait) for s in range(1, 6))
        total += seconds
        ours = 1e3 * seconds / given.rows / 5
        others = []
        loop = plain.get(name)
        for function in (loop, peer and (lambda x, s, name=name: peer(x, severity=s, corruption_name=name))):
            try:
                taken = None if function is None else sum(
                    measure(lambda s=s, f=function: [f(x, s) for x in some], lambda: None) for s in range(1, 6)
                )  # fmt: skip
            except Exception as error:  # a peer that fails with this version of its dependencies
                others.append(type(error).__name__)
                continue
            each = None if taken is None else 1e3 * taken / PEER_ROWS / 5
            others.append("" if each is None else f"{each:.3f} ({each / ours:.1f}×)")
        lines.append(f"| {name} | {ours:.4f} | {' | '.join(others)} |")
        print(lines[-1], flush=True)
    mean = 1e3 * total / given.rows / 95
    where = f"{thread_count()} threads" if given.device == "numpy" else given.device
    summary = (
        f"{given.rows:,} images × 95 cells: {total:.0f} s on {where}, {mean:.3f} ms an image and cell; the public "
        f"generator of CIFAR-10-C takes {GENERATOR} ms on one core ({GENERATOR / mean:.0f}×)."
    )
    print(summary)
    if given.write:
        title = "# Speed of corruptions\n\n`python -m benchmarks.shift --write docs/speed-shift.md`\n\n"
        given.write.write_text(f"{title}{summary}\n\n" + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
