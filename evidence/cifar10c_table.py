"""Accuracy and ECE of public ResNets on CIFAR-10 under 19 corruptions: `python -m evidence.cifar10c_table`.

The networks are ResNet-20, 32, 44 and 56 with the weights in CALIBRANT_DATA/weights, the images are the test set of
CIFAR-10. `--rows 2000` takes fewer images, `--networks 20 --corruptions fog snow` fewer cells, `--device cuda` makes
and classifies images on a GPU. Finished cells are kept in `--out` and are not computed again. `--write` puts the tables
in docs/cifar10c.md; `--check` compares ResNet-20 on 2,000 images with the figures of the original corruptions.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import calibrant as cal
from calibrant.data import images as images_of
from calibrant.data.folder import data_folder
from calibrant.networks import ResNet
from calibrant.shift import corrupt, names

PAGE = Path(__file__).parent.parent / "docs" / "cifar10c.md"
DEPTHS = (20, 32, 44, 56)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ORIGINAL = {
    "fog": ((10.7, 21.3, 27.5, 32.3, 39.1), (0.926, 0.906, 0.880, 0.848, 0.656)),
    "frost": ((30.5, 44.7, 49.1, 44.9, 42.5), (0.853, 0.791, 0.686, 0.657, 0.527)),
    "snow": ((10.7, 23.6, 25.3, 36.7, 51.1), (0.852, 0.748, 0.762, 0.749, 0.688)),
    "motion_blur": ((7.0, 10.4, 13.0, 13.1, 15.2), (0.858, 0.772, 0.687, 0.691, 0.592)),
}
"""Mean change in levels and accuracy of ResNet-20 with the public generator, over the first 2,000 images."""


def networks(depths: list[int], device: torch.device) -> dict[int, torch.nn.Module]:
    """The public networks, in evaluation mode."""
    path = data_folder() / "weights" / "cifar10_resnet20_32_44_56.npz"
    made = {}
    with np.load(path, allow_pickle=False) as stored:
        for depth in depths:
            own = {key.partition("/")[2]: stored[key] for key in stored.files if key.startswith(f"resnet{depth}/")}
            network = ResNet(depth).build()
            network.load_state_dict({key: torch.from_numpy(value) for key, value in own.items()}, strict=False)
            made[depth] = network.to(device).eval()
    return made


def judge(network: torch.nn.Module, images: torch.Tensor, labels: np.ndarray) -> dict[str, float]:
    """Accuracy and ECE (15 bins) on images (N, H, W, C) of bytes."""
    mean, std = (torch.tensor(each, device=images.device)[:, None, None] for each in (MEAN, STD))
    logits = []
    with torch.inference_mode():
        for part in images.split(1000 if images.device.type == "cuda" else 250):
            logits.append(network((part.permute(0, 3, 1, 2).float() / 255 - mean) / std).float().cpu())
    predictions = cal.Classification.from_logits(torch.cat(logits).numpy(), labels)
    result = cal.measure(predictions, ["accuracy", "ece"])
    return {name: float(result[name]) for name in ("accuracy", "ece")}


def cells(given: Any) -> dict[str, dict[str, float]]:
    """The results by "network/corruption/severity", "clean" as severity 0; written as they come."""
    device = torch.device(given.device)
    done: dict[str, dict[str, float]] = json.loads(given.out.read_text()) if given.out.exists() else {}
    images, labels = images_of("cifar10", "test")
    images, labels = images[: given.rows], labels[: given.rows]
    models = networks(given.networks, device)
    base: Any = torch.from_numpy(images).to(device) if device.type == "cuda" else images
    wanted = [("clean", 0), *((name, severity) for name in given.corruptions for severity in range(1, 6))]
    for name, severity in wanted:
        keys = {depth: f"{given.rows}/{depth}/{name}/{severity}" for depth in models}
        if all(key in done for key in keys.values()):
            continue
        start = time.perf_counter()
        shifted = base if name == "clean" else corrupt(base, name, severity)
        if not isinstance(shifted, torch.Tensor):
            shifted = torch.from_numpy(np.ascontiguousarray(shifted))
        change = (shifted.float() - torch.as_tensor(base, device=device).float()).abs().mean().item()
        for depth, network in models.items():
            done[keys[depth]] = {**judge(network, shifted, labels), "change": change}
        given.out.write_text(json.dumps(done, indent=1))
        print(f"{name} {severity}: {time.perf_counter() - start:.1f} s", flush=True)
    return done


def page(done: dict[str, dict[str, float]], given: Any) -> str:
    """The tables in Markdown."""
    lines = [
        "# CIFAR-10 under corruption: public ResNets", "",
        f"Accuracy and ECE (15 equal-width bins, uncalibrated) of ResNets with public weights on {given.rows:,} test",
        "images under the 19 corruptions of [dataset shift](shift.md) at five severities, seed 0. Frost uses other",
        "textures than CIFAR-10-C, and random corruptions other draws. The weights are those of the GitHub repository",
        f"akamaster/pytorch_resnet_cifar10 (BSD-2-Clause). `python -m evidence.cifar10c_table --device {given.device} "
        "--write` made this page.",
    ]  # fmt: skip
    for metric, title in (("accuracy", "Accuracy (%)"), ("ece", "ECE (%)")):
        for depth in given.networks:
            clean = done[f"{given.rows}/{depth}/clean/0"][metric]
            lines += ["", f"## {title}: ResNet-{depth}", "", f"Clean: {100 * clean:.2f}", ""]
            lines += ["| corruption | 1 | 2 | 3 | 4 | 5 | mean |", "|---|---|---|---|---|---|---|"]
            table = np.array([
                [done[f"{given.rows}/{depth}/{name}/{severity}"][metric] for severity in range(1, 6)]
                for name in given.corruptions
            ])  # fmt: skip
            rows = [*zip(given.corruptions, table, strict=True), ("mean", table.mean(0))]
            for name, values in rows:
                lines.append(f"| {name} | " + " | ".join(f"{100 * v:.1f}" for v in (*values, values.mean())) + " |")
    return "\n".join(lines) + "\n"


def check(done: dict[str, dict[str, float]], given: Any) -> None:
    """Compare with the original corruptions, and fail beyond 2 points of accuracy (6 for frost)."""
    worst = {}
    for name, (changes, accuracies) in ORIGINAL.items():
        here = [done[f"{given.rows}/20/{name}/{severity}"] for severity in range(1, 6)]
        print(name, "change", [f"{a} {b['change']:.1f}" for a, b in zip(changes, here, strict=True)])
        print(name, "accuracy", [f"{a} {b['accuracy']:.4f}" for a, b in zip(accuracies, here, strict=True)])
        worst[name] = max(abs(a - b["accuracy"]) for a, b in zip(accuracies, here, strict=True))
    print("largest difference of accuracy:", {name: round(value, 4) for name, value in worst.items()})
    assert all(value <= (0.06 if name == "frost" else 0.02) for name, value in worst.items()), worst  # noqa: S101


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--networks", type=int, nargs="+", default=list(DEPTHS), choices=DEPTHS)
    parser.add_argument("--corruptions", nargs="+", default=list(names()), choices=names())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("cifar10c.json"))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.check:
        given.networks, given.corruptions = [20], list(ORIGINAL)
    done = cells(given)
    if given.check:
        check(done, given)
    elif given.write:
        PAGE.write_text(page(done, given), "utf-8")
    else:
        print(page(done, given))


if __name__ == "__main__":
    main()
