"""The check that PyTorch, an optional dependency, is installed."""

from __future__ import annotations

from importlib.util import find_spec

from calibrant.errors import MissingExtra


def require_torch(subject: str = "training networks") -> None:
    """Raise `MissingExtra` if PyTorch or safetensors is not installed."""
    for module, name in (("torch", "PyTorch"), ("safetensors", "safetensors")):
        if find_spec(module) is None:
            hint = "run pip install 'calibrant[torch]'"
            raise MissingExtra(subject, expected=name, got="no such module", hint=hint)
