"""A multilayer perceptron for click logs: numbers, and categorical features by embedding or one-hot encoding.

Reference: Ovadia et al. (2019), NeurIPS 32, appendix A.5. The printed rule encodes features of fewer than 110 buckets
one-hot; the printed lists also do so for the feature of 494 buckets. The lists are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from calibrant.errors import UsageError, check_range
from calibrant.networks.architecture import Architecture, CountsOrZeros, register
from calibrant.networks.mlp import Perceptron

BUCKETS = (
    1373, 2148, 4847, 9781, 396, 28, 3591, 2798, 14, 7403, 2511, 5598, 9501, 46, 4753, 4056, 23, 3828, 5856, 12, 4226,
    23, 61, 3098, 494, 5087,
)  # fmt: skip
WIDTHS = (3, 9, 29, 11, 17, 0, 14, 4, 0, 12, 19, 24, 29, 0, 13, 25, 0, 8, 29, 0, 22, 0, 0, 31, 0, 29)
HIDDEN = (2572, 1454, 1596)


@register
@dataclass(frozen=True)
class EmbeddingMLP(Architecture):
    """Batch norm of the numbers and the encoded features, hidden dense layers with ReLU, and a dense output layer.

    Rows are (n, numbers + features): the numbers, then one bucket index a feature, from 0. A feature has an embedding
    of the given width, or is one-hot where the width is 0. Make the task with `standardise=False`. The defaults are
    those of the paper for Criteo; `EmbeddingMLP.criteo(scale)` shrinks them.
    """

    name: ClassVar[str] = "embedding_mlp"
    classes: int = 2
    numbers: int = 13
    buckets: tuple[int, ...] = BUCKETS
    widths: CountsOrZeros = CountsOrZeros(WIDTHS)  # noqa: RUF009  a tuple
    hidden: tuple[int, ...] = HIDDEN

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.buckets) != len(self.widths):
            expected, got = f"{len(self.buckets)} widths, one a feature", f"{len(self.widths)}"
            raise UsageError(f"{self.name}: widths", expected=expected, got=got, hint="use 0 for one-hot features")

    @classmethod
    def criteo(cls, scale: float = 1.0) -> EmbeddingMLP:
        """The network of the paper with embeddings and hidden layers of `scale` times their widths; buckets stay."""
        scale = check_range("scale", scale, 0, inclusive="right", high=4, hint="use scale=0.1")
        widths = (max(round(scale * width), 1) if width else 0 for width in WIDTHS)
        hidden = (max(round(scale * width), 1) for width in HIDDEN)
        return cls(widths=CountsOrZeros(tuple(widths)), hidden=tuple(hidden))

    def build(self) -> nn.Module:
        """A newly initialised network."""
        return EmbeddingNetwork(self)


class EmbeddingNetwork(nn.Module):  # type: ignore[misc]
    """Embeddings, batch norm and a perceptron."""

    def __init__(self, of: EmbeddingMLP) -> None:
        super().__init__()
        self.numbers, self.buckets, self.widths = of.numbers, of.buckets, of.widths
        self.embeddings = nn.ModuleDict(
            {f"{k}": nn.Embedding(n, d) for k, (n, d) in enumerate(zip(of.buckets, of.widths, strict=True)) if d}
        )
        inputs = of.numbers + sum(d or n for n, d in zip(of.buckets, of.widths, strict=True))
        self.norm = nn.BatchNorm1d(inputs)
        self.dense = Perceptron((inputs, *of.hidden), of.classes, nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of rows (n, numbers + features)."""
        dtype = self.norm.weight.dtype
        parts = [x[:, : self.numbers].to(dtype)]
        tokens = x[:, self.numbers :].long()
        for k, (count, width) in enumerate(zip(self.buckets, self.widths, strict=True)):
            token = tokens[:, k]
            if width:
                parts.append(self.embeddings[f"{k}"](token))
            else:
                parts.append((token[:, None] == torch.arange(count, device=x.device)).to(dtype))
        return self.dense(self.norm(torch.cat(parts, 1)))
