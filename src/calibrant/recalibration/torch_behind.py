"""The module that stands behind a network: scores of any kind in, recalibrated predictions out."""

from __future__ import annotations

import torch
from torch import nn

from calibrant.recalibration.class_rows import floor_of
from calibrant.recalibration.torch_maps import TorchMap


class Behind(nn.Module):  # type: ignore[misc]
    """A map of scores (n, C), or one for each member of scores (M, n, C)."""

    def __init__(self, maps: list[TorchMap], *, kind: str, output: str) -> None:
        super().__init__()
        self.maps, self.kind, self.output = nn.ModuleList(maps), kind, output

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Log-probabilities or probabilities, in the precision of the scores."""
        if len(self.maps) == 1:
            return self._mapped(self.maps[0], scores)
        return torch.stack([self._mapped(each, scores[m]) for m, each in enumerate(self.maps)])

    def _mapped(self, found: TorchMap, scores: torch.Tensor) -> torch.Tensor:
        wide = scores.to(next(found.buffers()).dtype)
        if self.kind == "probs":
            wide = torch.log(torch.clamp(wide, min=torch.finfo(wide.dtype).tiny))
        logs = torch.log_softmax(wide, dim=-1)
        made = found(torch.clamp(logs, min=floor_of(self.kind)) if found.floored else logs)
        if found.kind != self.output:
            made = torch.log(made) if self.output == "log_probs" else torch.exp(made)
        return made.to(scores.dtype)
