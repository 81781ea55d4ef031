"""A torchmetrics metric: accuracy, NLL, Brier score and ECE, with the range of ECE for a calibrated model.

The state is a few sums, which `dist_reduce_fx="sum"` adds over processes: rows, correct rows, Σ −log p(label), Σ Brier,
and in every bin of the confidence Σ 1, Σ p, Σ correct and Σ p(1 − p).

The range of a calibrated model follows from the sums alone, by the normal law: in a bin the gap Σ(correct − p) has mean
0 and variance V = Σ p(1 − p), and is nearly normal, so that |gap| has mean √(2V/π) and variance V(1 − 2/π). Bins are
independent, which gives mean and standard deviation of ECE. `calibrant evaluate` redraws the labels instead.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torchmetrics import Metric

from calibrant.errors import ShapeError, ValuesError, check_range
from calibrant.intervals import normal_quantile

MEAN, VARIANCE = 2.0 / math.pi, 1.0 - 2.0 / math.pi
"""Of the squared mean, and the variance, of the absolute value of a standard normal variable."""


class CalibrationMetric(Metric):  # type: ignore[misc]
    """Accuracy, NLL, Brier score and ECE of a classifier, over batches and processes.

    Parameters
    ----------
    bins : int
        Bins of equal width of the confidence, as in `ece(bins=…)`.
    level : float
        Level of the range of a calibrated model.
    **kwargs
        Those of `torchmetrics.Metric`, such as `dist_sync_on_step`.

    Notes
    -----
    `update(logits, labels)` takes logits (N, C) and class indices (N,); `compute()` returns a dict of tensors: `n`,
    `accuracy`, `nll`, `brier`, `ece`, `ece_null_low` and `ece_null_high`. The null band is by the normal law from
    binned sums, and is wide enough where bins have a few rows each.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import CalibrationMetric
    >>> metric = CalibrationMetric()
    >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> round(float(metric.compute()["accuracy"]), 3)
    0.5
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    def __init__(self, bins: int = 15, level: float = 0.95, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bins = check_range("bins", bins, 1, integer=True, hint="use bins=15")
        self.level = check_range("level", level, 0, 1, inclusive="neither", hint="use level=0.95")
        for name in ("n", "hits"):
            self.add_state(name, torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        for name in ("log_loss", "squares"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        for name in ("counts", "correct"):
            self.add_state(name, torch.zeros(self.bins, dtype=torch.int64), dist_reduce_fx="sum")
        for name in ("confidence", "variance"):
            self.add_state(name, torch.zeros(self.bins, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, logits: torch.Tensor, labels: torch.Tensor) -> None:
        """Add a batch of logits (N, C) and labels (N,)."""
        if logits.ndim != 2 or labels.shape != logits.shape[:1] or logits.shape[1] < 2:
            got = f"shapes {tuple(logits.shape)} and {tuple(labels.shape)}"
            hint = "flatten other axes into rows first"
            raise ShapeError("CalibrationMetric", expected="logits (N, C) and labels (N,)", got=got, hint=hint)
        last = logits.shape[1] - 1
        whole = not labels.is_floating_point()
        if not whole or (labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) <= last):
            hint = "pass class indices; mask padded rows first"
            got = f"{labels.dtype} from {labels.min()} to {labels.max()}"
            raise ValuesError("labels", expected=f"integers from 0 to {last}", got=got, hint=hint)
        log_probs = torch.log_softmax(logits.detach().double(), dim=1)
        probs = log_probs.exp()
        top, predicted = probs.max(dim=1)
        hit = predicted == labels
        self.n += len(labels)
        self.hits += hit.sum()
        self.log_loss -= log_probs.gather(1, labels[:, None]).sum()
        of_label = probs.gather(1, labels[:, None])[:, 0]
        self.squares += ((probs**2).sum(dim=1) - 2 * of_label + 1).sum()
        place = (torch.ceil(top * self.bins).long() - 1).clamp(0, self.bins - 1)
        self.counts += torch.bincount(place, minlength=self.bins)
        self.correct += torch.bincount(place[hit], minlength=self.bins)
        self.confidence += torch.zeros_like(self.confidence).index_add_(0, place, top)
        self.variance += torch.zeros_like(self.variance).index_add_(0, place, top * (1 - top))

    def compute(self) -> dict[str, torch.Tensor]:
        """The metrics of all batches, NaN without rows."""
        n = self.n.double()
        mean = (MEAN * self.variance).sqrt().sum() / n
        half = normal_quantile(self.level) * (VARIANCE * self.variance).sum().sqrt() / n
        return {
            "n": self.n.clone(),
            "accuracy": self.hits / n,
            "nll": self.log_loss / n,
            "brier": self.squares / n,
            "ece": (self.confidence - self.correct).abs().sum() / n,
            "ece_null_low": (mean - half).clamp(min=0.0),
            "ece_null_high": mean + half,
        }
