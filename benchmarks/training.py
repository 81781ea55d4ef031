"""Speed of training many networks at once: `python -m benchmarks.training [cifar|uci] [--device cuda]`.

Everything is measured in one run on one machine, and told as ratios. cifar: an epoch of one ResNet-20 in the loop that
everybody writes, and of ten at once; images are random bytes, which take as long as real ones. uci: 240 conditional
Gaussians, 20 splits times 12 cells of learning rate and weight decay (Gopal 2021, appendix A.1), at once and one by
one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional

from calibrant import methods
from calibrant.data.uci import uci
from calibrant.networks import MLP, ResNet
from calibrant.networks.stack import Stack, initial_state
from calibrant.training.cuda_graph import GraphedSteps
from calibrant.training.loop import TrainingLoop
from calibrant.training.schedules import Constant
from calibrant.training.seeds import seeded
from calibrant.training.settings import deterministic_kernels, resolve_device

ROWS, BATCH, STEPS = 50_000, 128, 150


def waited(device: torch.device) -> float:
    """The time, when all that was asked of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def step_seconds(step: Callable[[], None], device: torch.device, steps: int = STEPS) -> float:
    """Seconds of a step, the median of three series after a warm-up."""
    for _ in range(10):
        step()
    found = []
    for _ in range(3):
        begun = waited(device)
        for _ in range(steps):
            step()
        found.append((waited(device) - begun) / steps)
    return float(np.median(found))


# ------------------------------------------------------------------------------------------------- images
def eager(x: torch.Tensor, y: torch.Tensor, device: torch.device, half: bool) -> Callable[[], None]:
    """One network in an ordinary loop: rows on the device, crops and flips, autograd, SGD with momentum."""
    network = ResNet(20).build().to(device)
    form = torch.channels_last if half else torch.contiguous_format
    network = network.to(memory_format=form)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    mean, std = torch.full((1, 3, 1, 1), 120.0, device=device), torch.full((1, 3, 1, 1), 64.0, device=device)
    augment = methods.Augmentation()
    pad_images = augment.pad_images(x)

    def step() -> None:
        rows = torch.randint(0, len(x), (BATCH,), device=device)
        varied = torch.randint(0, 9, (BATCH, 3), device=device)
        varied[:, 2] %= 2
        images = ((augment.cut(pad_images, rows, varied).float() - mean) / std).contiguous(memory_format=form)
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            loss = functional.cross_entropy(network(images), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def ours(task: methods.Task, device: torch.device, members: int, **settings: object) -> Callable[[], None]:
    """So many networks as one computation."""
    training = methods.Training(epochs=1, batch=BATCH, schedule=Constant(), precision="bfloat16", **settings)  # type: ignore[arg-type]
    method = methods.DeepEnsemble(training, members=members)
    runs = method.runs(task, 0)
    recipe = method.recipe(task, ResNet(20))
    initial = []
    for run in runs:
        with seeded(run.seed, run.member, "initial weights"):
            network = recipe.network()
        initial.append(initial_state(network, run.task.standardisation(training.dtype)))
    stack = Stack.of(recipe.template(), initial, device, training.dtype)
    loop = TrainingLoop(stack, runs, training)
    captured = GraphedSteps(loop)
    loop.batches.shuffle(0)
    loop.numbers.copy_(torch.tensor(loop.optimiser.numbers(0, 1.0)))
    at = iter(range(1 << 60))

    def step() -> None:
        loop.batches.load(next(at) % (loop.batches.steps - 1))
        with deterministic_kernels(training.deterministic):
            captured.step(BATCH, False)

    return step


def cifar(device: torch.device) -> None:
    """Epochs of one network and of ten."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (ROWS, 3, 32, 32), dtype=torch.uint8, generator=generator)
    y = torch.randint(0, 10, (ROWS,), generator=generator)
    task = methods.Task.classification(x, y, classes=10, augment=methods.Augmentation()).to(device)
    steps = -(-ROWS // BATCH)
    rows = {
        "one, eager loop, float32": eager(task.x, task.y, device, half=False),
        "one, eager loop, bfloat16, channels last": eager(task.x, task.y, device, half=True),
        "one, captured, bfloat16": ours(task, device, 1),
        "ten at once, not captured, bfloat16": ours(task, device, 10, capture=False),
        "ten at once, captured, bfloat16": ours(task, device, 10),
        "ten at once, compiled and captured, bfloat16": ours(task, device, 10, compile=True),
        "ten at once, captured, bfloat16, any kernels": ours(task, device, 10, deterministic=False),
    }
    found = {name: step_seconds(step, device) * steps for name, step in rows.items()}
    first = next(iter(found.values()))
    print(
        f"\n| ResNet-20, CIFAR-10, batch {BATCH}, {torch.cuda.get_device_name()} | s an epoch | eager float32 / this |"
    )
    print("| --- | --- | --- |")
    for name, seconds in found.items():
        print(f"| {name} | {seconds:.2f} | {first / seconds:.2f} |")


# -------------------------------------------------------------------------------------------------- tables
GRID = [(rate, decay) for rate in (1e-2, 1e-3, 1e-4) for decay in (0.0, 1e-3, 1e-2, 1e-1)]


def cells(name: str, epochs: int) -> list[methods.Cell]:
    """Twenty splits times twelve cells of conditional Gaussians, two hidden layers of 128."""
    data = uci(name)
    task = methods.Task.regression(data.x, data.y, name=name)
    network = MLP(data.x.shape[1], 2, hidden=(128, 128))
    base = methods.Training(epochs=epochs, batch=128, optimiser="adam", schedule=Constant())
    made = []
    for train in data.train:
        order = np.random.default_rng(0).permutation(train)
        held = round(0.2 * len(order))
        split = task.with_rows(order[held:], order[:held])
        made += [
            methods.Cell(methods.Vanilla(replace(base, rate=rate, decay=decay)), split, network) for rate, decay in GRID
        ]
    return made


def tables(device: torch.device, name: str, epochs: int, alone: int) -> None:
    """All cells at once, and some of them one by one."""
    made = cells(name, epochs)
    methods.fit_together(made[:2], device=device)  # whatever is done for the first time
    begun = waited(device)
    together = methods.fit_together(made, device=device, diverged="keep")
    at_once = waited(device) - begun
    begun = waited(device)
    for cell in made[:alone]:
        methods.fit_together([cell], device=device, diverged="keep")
    one_by_one = (waited(device) - begun) / alone * len(made)
    training = sum(each.about.seconds for each in together)
    print(f"\n| {name}, {len(made)} conditional Gaussians, {epochs} epochs, {device.type} | s |")
    print("| --- | --- |")
    print(f"| at once | {at_once:.1f} (training {training:.1f}) |")
    print(f"| one by one ({alone} measured, times {len(made) // alone}) | {one_by_one:.1f} |")
    print(f"| ratio | {one_by_one / at_once:.1f} |")


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("cifar", "uci"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", default="bostonHousing")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--alone", type=int, default=24)
    given = parser.parse_args()
    device = resolve_device(given.device)
    if given.what == "cifar":
        cifar(device)
    else:
        tables(device, given.data, given.epochs, given.alone)


if __name__ == "__main__":
    main()
