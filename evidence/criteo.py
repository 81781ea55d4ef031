"""The click-log network of Ovadia et al. (2019): `python -m evidence.criteo [--rows 1000000] [--scale 0.1]`.

First the sample of 8,000 rows in CALIBRANT_DATA, with a deep ensemble. Then a synthetic log, written in the format of
Criteo's train.txt and read in blocks, one epoch of Adam: memory does not grow with the log. A click has probability
sigmoid(−1 + sum of effects of three tokens and a number), so that the best possible loss is known.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import calibrant as cal
from calibrant import methods
from calibrant.data import criteo_blocks, criteo_sample
from calibrant.networks import EmbeddingMLP


def write_log(path: Path, rows: int, seed: int = 0, block: int = 20_000) -> float:
    """Write a synthetic log, and return the mean loss of the true probabilities."""
    rng, effects = np.random.default_rng(seed), np.random.default_rng(1).normal(size=(3, 50))
    names = np.array([f"{token:08x}" for token in np.random.default_rng(2).integers(0, 1 << 32, 50)])
    loss = 0.0
    with path.open("w") as stream:
        for start in range(0, rows, block):
            n = min(block, rows - start)
            tokens, numbers = rng.integers(0, 50, (n, 26)), rng.integers(0, 100, (n, 13))
            logit = -1 + effects[np.arange(3), tokens[:, :3]].sum(1) + 0.5 * (np.log1p(numbers[:, 0]) - 3.6)
            p = 1 / (1 + np.exp(-logit))
            clicks = rng.random(n) < p
            loss -= np.log(np.where(clicks, p, 1 - p)).sum()
            for click, number, token in zip(clicks, numbers, names[tokens], strict=True):
                stream.write(f"{int(click)}\t" + "\t".join(map(str, number)) + "\t" + "\t".join(token) + "\n")
    return loss / rows


def peak_mb() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--scale", type=float, default=0.1)
    given = parser.parse_args()
    network = EmbeddingMLP.criteo(given.scale)
    x, y = criteo_sample("train")
    start = time.time()
    task = methods.Task.classification(x, y, classes=2, standardise=False)
    training = methods.Training(epochs=1, batch=64, optimiser="adam", rate=1e-3, decay=0.0)
    posterior = methods.DeepEnsemble(members=3, training=training).fit(task, network)
    rows, clicks = (np.concatenate(each) for each in zip(criteo_sample("dev"), criteo_sample("test"), strict=True))
    result = cal.measure(posterior.predict(rows, y=clicks), ["nll", "roc_auc"])
    print(f"sample: 7,200 rows, 3 members, NLL {result['nll']:.3f}, AUC {result['roc_auc']:.3f} on 800 others, "
          f"{time.time() - start:.0f} s, peak {peak_mb():.0f} MB", flush=True)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        best = write_log(path, given.rows)
        print(
            f"log of {given.rows:,} rows, {path.stat().st_size / 1e6:.0f} MB; NLL of the truth {best:.4f}", flush=True
        )
        torch.manual_seed(0)
        model = network.build()
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
        start, seen, losses = time.time(), 0, []
        for block_x, block_y in criteo_blocks(path, rows=16_384):
            for x_batch, y_batch in zip(torch.from_numpy(block_x).split(1024), torch.from_numpy(block_y).split(1024),
                                        strict=True):  # fmt: skip
                loss = cross_entropy(model(x_batch), y_batch)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                losses.append(loss.item())
                seen += len(y_batch)
            if seen % 163_840 == 0 or seen == given.rows:
                print(f"{seen:,} rows: loss of the last tenth {np.mean(losses[-len(losses) // 10 :]):.4f}, "
                      f"peak {peak_mb():.0f} MB, {time.time() - start:.0f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
