"""Trainings that are killed in the middle, for test_interrupted: each in a process that is forked off this one.

    python interrupted.py FOLDER

leaves the checkpoints of each in FOLDER/name. Nothing is cleaned up, as nothing is after `kill -9`.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from training.cases import QUICK, SMALL, AdaptiveEnsemble, Normalised, images, table

from calibrant.methods import SWAG, Augmentation, CyclicalSGLD, DeepEnsemble, SnapshotEnsemble
from calibrant.networks import LeNet
from calibrant.training import loop
from calibrant.training.loop import TrainingLoop

LONG = replace(QUICK, epochs=12)
CASES = {
    "ensemble": (DeepEnsemble(LONG, members=2), table, SMALL),
    "adam": (DeepEnsemble(replace(LONG, optimiser="adam", rate=0.01), members=2), table, SMALL),
    "swag": (SWAG(LONG, start=4, rank=3, draws=3), table, Normalised),
    "snapshots": (SnapshotEnsemble(LONG, cycles=4), lambda: images(augment=Augmentation(1)), LeNet(3, 2, 8)),
    "langevin": (CyclicalSGLD(LONG, cycles=2, samples=3), table, SMALL),
    "objective": (AdaptiveEnsemble(LONG, members=2), lambda: table(n=60).split(0.4), SMALL),
    "stopping": (DeepEnsemble(replace(LONG, rate=0.3, patience=4), members=2), lambda: table(n=60).split(0.4), SMALL),
}
EPOCH = 7
"""Killed in the middle of this one, counted from 0."""


def fit(name, **known):
    """One of the trainings."""
    method, task, network = CASES[name]
    own = Normalised() if network is Normalised else network
    return method.fit(task(), own, 3, start="fresh", **known)


def killed_in_a_step(name, folder):
    """Train, and be gone after a step in the middle of an epoch."""
    step, taken = TrainingLoop.step, [0]

    def last(self, count, noisy):
        step(self, count, noisy)
        taken[0] += 1
        if taken[0] == EPOCH * self.batches.steps + 2:
            os.kill(os.getpid(), signal.SIGKILL)

    TrainingLoop.step = last
    fit(name, checkpoint=folder / name)


def killed_in_writing(name, folder):
    """Train, and be gone while a checkpoint is being written."""
    sync, written = os.fsync, [0]

    def last(handle):
        sync(handle)
        written[0] += 1
        if written[0] == EPOCH:
            os.ftruncate(handle, 1000)
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = last
    fit(name, checkpoint=folder / f"{name}-writing")


def main(folder):
    torch.set_num_threads(1)
    loop.CHECKPOINT_RATIO = 0.0  # a checkpoint after every epoch, however long writing takes
    todo = [(killed_in_a_step, name) for name in CASES] + [(killed_in_writing, "ensemble")]
    for how, name in todo:
        child = os.fork()
        if child == 0:
            how(name, folder)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            sys.exit(f"{name} came to its end, by {status}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
