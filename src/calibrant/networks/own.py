"""A user's own network: any `nn.Module`, or a function that makes one, for every method as it is."""

from __future__ import annotations

import copy
import inspect
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from torch import nn

from calibrant.errors import UsageError, plain
from calibrant.networks.architecture import Architecture


class Own(Architecture):
    """A network that is given, not named: files cannot tell how to build it, so that loading asks for it again."""

    name: ClassVar[str] = "own"

    def __init__(self, given: nn.Module | Callable[[], nn.Module]) -> None:
        if isinstance(given, type) or not (isinstance(given, nn.Module) or callable(given)):
            raise UsageError(
                "network",
                expected="an architecture, an nn.Module, or a function that returns one",
                came=f"got the class {given.__name__}" if isinstance(given, type) else f"got {type(given).__name__}",
                do="pass the module itself, or lambda: MyNetwork(...)",
            )
        self.given = given
        self.last: weakref.ref[nn.Module] | None = None

    def build(self) -> nn.Module:
        """A fresh network: what the function returns, or a copy whose layers are initialised anew."""
        if not isinstance(self.given, nn.Module):
            made = self._called()
            if not isinstance(made, nn.Module):
                raise UsageError(
                    "network",
                    expected="a function that returns an nn.Module",
                    came=f"it returned {type(made).__name__}",
                    do="return the network",
                )
            if self.last is not None and self.last() is made:
                raise UsageError(
                    "network",
                    expected="a function that makes a new network each time",
                    came="it returned the same one again",
                    do="build it inside the function, or pass the module itself",
                )
            self.last = weakref.ref(made)
            return copy.deepcopy(made)  # what is made of it must not be seen in the user's own
        return _initialised(copy.deepcopy(self.given))

    def _called(self) -> Any:
        try:
            inspect.signature(self.given).bind()
        except TypeError as error:
            raise UsageError(
                "network",
                expected="a function without arguments",
                came=plain(str(error), 80),
                do="lambda: MyNetwork(...)",
            ) from error
        except ValueError:  # a builtin, whose arguments are not known
            pass
        return self.given()

    def settings(self) -> dict[str, Any]:
        """Nothing that a file could hold."""
        return {}


def _initialised(network: nn.Module) -> nn.Module:
    for name, module in network.named_modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
        elif any(True for _ in module.parameters(recurse=False)):
            raise UsageError(
                f"layer {name or type(network).__name__}",
                expected="layers that can be initialised anew (reset_parameters), because each member starts afresh",
                came=f"{type(module).__name__} has parameters and no such method",
                do="give a function that makes the network: lambda: MyNetwork(...)",
            )
    return network


def as_architecture(network: Any) -> Architecture:
    """An architecture as it is; a module or a function as the user's own."""
    return network if isinstance(network, Architecture) else Own(network)
