"""Images varied at random: shifted by some pixels, and mirrored. In training each row anew; a member has one variation.

Crops are made by gathering from the images with a black border, on the device where they lie (He et al. 2016: crops of
32 from 40 pixels, and horizontal flips).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant.errors import UsageError, show


@dataclass(frozen=True)
class Augmentation:
    """Shifts by up to `pad` pixels up, down, left and right, and mirror images with probability ½."""

    pad: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        if not (isinstance(self.pad, int) and 0 <= self.pad <= 127):
            raise UsageError("pad", expected="pixels from 0 to 127", came=f"got {show(self.pad)}", do="4 is usual")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Variations (count, 3): pixels down, pixels right, mirrored or not."""
        shifts = torch.randint(0, 2 * self.pad + 1, (count, 2), generator=generator)
        mirrored = torch.randint(0, 2, (count, 1), generator=generator) * int(self.flip)
        return torch.cat((shifts, mirrored), dim=1).to(torch.uint8)

    def bordered(self, x: Tensor) -> Tensor:
        """Images with their border, which variations are cut from."""
        if x.dim() != 4:
            raise UsageError(
                "augment", expected="images (N, C, H, W)", came=f"shape {tuple(x.shape)}", do="leave augment out"
            )
        return torch.nn.functional.pad(x, (self.pad,) * 4)

    def cut(self, bordered: Tensor, rows: Tensor, variations: Tensor) -> Tensor:
        """The given rows (…) as their variations (…, 3) have them: (…, C, H, W)."""
        channels = bordered.shape[1]
        height, width = (size - 2 * self.pad for size in bordered.shape[2:])
        down, right, mirrored = variations.to(torch.long).reshape(-1, 3).T
        ys = down[:, None] + torch.arange(height, device=bordered.device)
        across = torch.arange(width, device=bordered.device)
        xs = right[:, None] + torch.where(mirrored[:, None] > 0, width - 1 - across, across)
        planes = torch.arange(channels, device=bordered.device)
        made = bordered[
            rows.reshape(-1)[:, None, None, None], planes[:, None, None], ys[:, None, :, None], xs[:, None, None, :]
        ]
        return made.view(*rows.shape, *made.shape[1:])
