"""An LSTM that classifies texts given as word indices.

The cell is our own, so that many networks are computed as one: all words are projected in one product, and the loop
over words has only the recurrent product.

References: Hochreiter & Schmidhuber (1997), Neural Computation 9: 1735-1780; Gers, Schmidhuber & Cummins (2000), Neural
Computation 12: 2451-2471, for the forget gate; Ovadia et al. (2019), NeurIPS 32, appendix A.4, for the sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from calibrant.errors import UsageError, check_choice
from calibrant.networks.architecture import Architecture, register

POOLING = ("mean", "last")


@register
@dataclass(frozen=True)
class LSTM(Architecture):
    """Word embedding, one LSTM layer, and a dense layer on the mean of its states over words, or on the last state.

    Texts are indices (n, words), where 0 is padding: states do not change there, and the mean leaves them out. Make the
    task with `standardise=False`. Embeddings are N(0, 1/embedding), other weights uniform in ±1/√width, and forget
    gates start with a bias of 1.
    """

    name: ClassVar[str] = "lstm"
    classes: int = 10
    vocabulary: int = 30_000
    embedding: int = 128
    width: int = 32
    pooling: str = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(f"{self.name}: pooling", self.pooling, POOLING)

    def build(self) -> nn.Module:
        """A newly initialised network."""
        return RecurrentNetwork(self)


class RecurrentNetwork(nn.Module):  # type: ignore[misc]
    """Embedding, LSTM layer and dense layer."""

    def __init__(self, of: LSTM) -> None:
        super().__init__()
        self.pooling = of.pooling
        self.embedding = nn.Embedding(of.vocabulary, of.embedding)
        self.words = nn.Linear(of.embedding, 4 * of.width)
        self.recurrent = nn.Parameter(torch.empty(of.width, 4 * of.width))
        self.output = nn.Linear(of.width, of.classes)
        bound = of.width**-0.5
        nn.init.normal_(self.embedding.weight, std=of.embedding**-0.5)
        for weight in (self.words.weight, self.recurrent, self.output.weight, self.output.bias):
            nn.init.uniform_(weight, -bound, bound)
        with torch.no_grad():
            self.words.bias.zero_()
            self.words.bias[of.width : 2 * of.width] = 1.0

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of word indices (n, words)."""
        if x.is_floating_point():
            hint = "pass integers, and standardise=False to the task"
            raise UsageError("lstm: x", expected="word indices", got=f"{x.dtype}".removeprefix("torch."), hint=hint)
        x = x.long()
        inputs = self.words(self.embedding(x)).unbind(1)
        is_word = (x != 0).to(inputs[0].dtype)
        state = inputs[0].new_zeros(x.shape[0], self.recurrent.shape[0])
        memory, total = state, state
        for gates, word in zip(inputs, is_word[..., None].unbind(1), strict=True):
            i, f, g, o = (gates + state @ self.recurrent).chunk(4, -1)
            new_memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
            new_state = torch.sigmoid(o) * torch.tanh(new_memory)
            memory, state = memory + word * (new_memory - memory), state + word * (new_state - state)
            total = total + word * state
        count = is_word.sum(1, keepdim=True).clamp(min=1.0)
        return self.output(total / count if self.pooling == "mean" else state)
