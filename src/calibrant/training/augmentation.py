"""Random shifts and horizontal flips of images: new for each row in training, one variation per member in prediction.

Crops are gathered from zero-padded images, on their device (He et al. 2016: crops of 32 from 40 pixels, and horizontal
flips).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant.errors import UsageError, check_range


@dataclass(frozen=True)
class Augmentation:
    """Random shifts by up to `pad` pixels in each direction, and horizontal flips with probability ½.

    Examples
    --------
    >>> from calibrant.methods import Augmentation
    >>> Augmentation(pad=4)
    Augmentation(pad=4, flip=True)
    """

    pad: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        check_range("pad", self.pad, 0, 127, integer=True, hint="use pad=4")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Variations (count, 3): pixels down, pixels right, flipped or not."""
        shifts = torch.randint(0, 2 * self.pad + 1, (count, 2), generator=generator)
        mirrored = torch.randint(0, 2, (count, 1), generator=generator) * int(self.flip)
        return torch.cat((shifts, mirrored), dim=1).to(torch.uint8)

    def pad_images(self, x: Tensor) -> Tensor:
        """Zero-padded images, from which variations are cut."""
        if x.dim() != 4:
            got, hint = f"shape {tuple(x.shape)}", "use augment=None for other data"
            raise UsageError("augment", expected="images (N, C, H, W)", got=got, hint=hint)
        return torch.nn.functional.pad(x, (self.pad,) * 4)

    def cut(self, pad_images: Tensor, rows: Tensor, variations: Tensor) -> Tensor:
        """The images (…, C, H, W) of rows (…) in their variations (…, 3)."""
        channels = pad_images.shape[1]
        height, width = (size - 2 * self.pad for size in pad_images.shape[2:])
        down, right, mirrored = variations.to(torch.long).reshape(-1, 3).T
        ys = down[:, None] + torch.arange(height, device=pad_images.device)
        across = torch.arange(width, device=pad_images.device)
        xs = right[:, None] + torch.where(mirrored[:, None] > 0, width - 1 - across, across)
        planes = torch.arange(channels, device=pad_images.device)
        images = pad_images[
            rows.reshape(-1)[:, None, None, None], planes[:, None, None], ys[:, None, :, None], xs[:, None, None, :]
        ]
        return images.view(*rows.shape, *images.shape[1:])
