"""PyTorch is an extra: who needs it is told what to install."""

from __future__ import annotations

from importlib.util import find_spec

from calibrant.errors import MissingExtra


def need_torch(subject: str = "training networks") -> None:
    """Refuse, with what to install, where PyTorch or safetensors is not there."""
    for module, called in (("torch", "PyTorch"), ("safetensors", "safetensors")):
        if find_spec(module) is None:
            raise MissingExtra(
                subject, expected=called, came="it is not installed", do="pip install 'calibrant[torch]'"
            )
