"""Random numbers of training: each stream is a function of what it is for, never of who asks or in which order.

A stream is named by its parts, such as (seed, member, "order", epoch). Two members share no stream, so that a network
comes out the same whether it is trained alone or with others, and training goes on after a stop as if there was none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from numbers import Integral

import torch


def seed_of(*parts: int | str) -> int:
    """A seed of 63 bits: a hash of the parts, in which 1 and "1" differ."""
    text = "\x1f".join(f"int:{int(part)}" if isinstance(part, Integral) else f"str:{part}" for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def stream(*parts: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """The random numbers that these parts name, on a device."""
    return torch.Generator(device=device).manual_seed(seed_of(*parts))


@contextmanager
def seeded(*parts: int | str) -> Iterator[None]:
    """PyTorch's global stream, seeded by the parts inside and untouched outside: initialisers draw from it."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_of(*parts))
        yield
