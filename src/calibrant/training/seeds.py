"""Random streams of training, each a function of its purpose, never of the order of calls.

A stream is named by its parts, such as (seed, member, "order", epoch). Members share no stream, so that a network is
the same whether it is trained alone or with others, and whether training was interrupted or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from numbers import Integral

import torch


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed: a hash of the parts, which distinguishes 1 from "1"."""
    text = "\x1f".join(f"int:{int(part)}" if isinstance(part, Integral) else f"str:{part}" for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def stream(*parts: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """The random generator of these parts, on a device."""
    return torch.Generator(device=device).manual_seed(derive_seed(*parts))


@contextmanager
def seeded(*parts: int | str) -> Iterator[None]:
    """Seed PyTorch's global generator, which initialisers use, within the context, and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(*parts))
        yield
