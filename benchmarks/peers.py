"""What one would write or install today: plain NumPy or PyTorch, torchmetrics, netcal, uncertainty-calibration."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch

BINS = 15


def numpy_probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax as one writes it."""
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def numpy_ece(probs: np.ndarray, labels: np.ndarray) -> float:
    """Equal-width top-label ECE in good NumPy."""
    confidence, hit = probs.max(axis=1), probs.argmax(axis=1) == labels
    bins = np.clip(np.ceil(confidence * BINS) - 1, 0, BINS - 1).astype(np.int64)
    return float(np.abs(np.bincount(bins, hit - confidence.astype(np.float64), BINS)).sum() / len(labels))


def numpy_scores(logits: np.ndarray, labels: np.ndarray) -> tuple[float, ...]:
    """NLL, Brier, entropy, accuracy and ECE in good NumPy."""
    p = numpy_probabilities(logits)
    rows = np.arange(len(labels))
    at_label = p[rows, labels]
    nll = -np.log(at_label).mean()
    brier = ((p**2).sum(axis=1) - 2 * at_label + 1).mean()
    entropy = -(p * np.log(np.maximum(p, 1e-37))).sum(axis=1).mean()
    return float(nll), float(brier), float(entropy), float((p.argmax(axis=1) == labels).mean()), numpy_ece(p, labels)


def torch_ece(probs: torch.Tensor, labels: torch.Tensor) -> float:
    """Equal-width top-label ECE in good PyTorch."""
    confidence, predicted = probs.max(dim=1)
    bins = torch.clamp(torch.ceil(confidence * BINS).long() - 1, 0, BINS - 1)
    gaps = (predicted == labels).double() - confidence.double()
    return float(torch.zeros(BINS, dtype=torch.double).index_add_(0, bins, gaps).abs().sum() / len(labels))


def torch_scores(logits: torch.Tensor, labels: torch.Tensor) -> tuple[float, ...]:
    """NLL, Brier, entropy, accuracy and ECE in good PyTorch."""
    log_p = torch.log_softmax(logits, dim=1)
    p = log_p.exp()
    at_label = p.gather(1, labels[:, None])[:, 0]
    nll = torch.nn.functional.nll_loss(log_p, labels)
    brier = ((p**2).sum(dim=1) - 2 * at_label + 1).mean()
    entropy = -(p * log_p).sum(dim=1).mean()
    accuracy = (p.argmax(dim=1) == labels).double().mean()
    return float(nll), float(brier), float(entropy), float(accuracy), torch_ece(p, labels)


def torch_members(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Averaged prediction and mutual information in good PyTorch."""
    log_p = torch.log_softmax(logits, dim=-1)
    p = log_p.exp()
    mean = p.mean(dim=0)
    entropy = -(mean * mean.clamp_min(1e-37).log()).sum(dim=-1)
    return mean, entropy + (p * log_p).sum(dim=-1).mean(dim=0)


def numpy_members(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Averaged prediction and mutual information in good NumPy."""
    p = numpy_probabilities(logits)
    mean = p.mean(axis=0)
    entropy = -(mean * np.log(np.maximum(mean, 1e-37))).sum(axis=-1)
    return mean, entropy + (p * np.log(np.maximum(p, 1e-37))).sum(axis=-1).mean(axis=0)


def ece_libraries(scores: np.ndarray, labels: np.ndarray, are_logits: bool) -> dict[str, Callable[[], object]]:
    """The ECE of each library that is installed; of logits, those that want probabilities get torch's softmax."""
    tensor, target = torch.from_numpy(scores), torch.from_numpy(labels)

    def probabilities() -> np.ndarray:
        return torch.softmax(tensor, 1).numpy() if are_logits else scores

    out: dict[str, Callable[[], object]] = {}
    if find_spec("torchmetrics"):
        from torchmetrics.functional.classification import multiclass_calibration_error

        classes = scores.shape[1]
        out["torchmetrics"] = lambda: multiclass_calibration_error(tensor, target, num_classes=classes, n_bins=BINS)
    if find_spec("netcal"):
        from netcal.metrics import ECE

        out["netcal"] = lambda: ECE(BINS).measure(probabilities(), labels)
    if find_spec("calibration"):
        import calibration

        out["uncertainty-calibration"] = lambda: calibration.get_ece(
            probabilities(), labels, debias=False, num_bins=BINS
        )
    return out
