"""Adapter for a user's own network: an `nn.Module`, or a function that returns one."""

from __future__ import annotations

import copy
import inspect
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from torch import nn

from calibrant.errors import UsageError, check_choice, plain
from calibrant.networks.architecture import Architecture

STARTS = ("given", "fresh")


class UserModule(Architecture):
    """A user's own network. Files do not store how to build it, so `load` needs it again.

    start: "given" keeps the weights of a module, "fresh" initialises them anew.
    """

    name: ClassVar[str] = "own"

    def __init__(self, given: nn.Module | Callable[[], nn.Module], start: str = "fresh") -> None:
        if isinstance(given, type) or not (isinstance(given, nn.Module) or callable(given)):
            raise UsageError(
                "network",
                expected="an architecture, an nn.Module, or a function that returns one",
                got=f"the class {given.__name__}" if isinstance(given, type) else f"{type(given).__name__}",
                hint="pass the module itself, or lambda: MyNetwork(...)",
            )
        self.given, self.start = given, start
        self.last: weakref.ref[nn.Module] | None = None

    def build(self) -> nn.Module:
        """A new network: what the function returns, or a copy of the module, reinitialised for a fresh start."""
        if not isinstance(self.given, nn.Module):
            network = self._call()
            if not isinstance(network, nn.Module):
                got, hint = f"one that returned {type(network).__name__}", "return the network"
                raise UsageError("network", expected="a function that returns an nn.Module", got=got, hint=hint)
            if self.last is not None and self.last() is network:
                raise UsageError(
                    "network",
                    expected="a function that returns a new network each time",
                    got="one that returned the same network twice",
                    hint="build it inside the function, or pass the module itself",
                )
            self.last = weakref.ref(network)
            return copy.deepcopy(network)  # training must not change the user's object
        network = copy.deepcopy(self.given)
        if self.start == "given":
            return network
        for name, module in network.named_modules():
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()
            elif any(True for _ in module.parameters(recurse=False)):
                raise UsageError(
                    f"layer {name or type(network).__name__}",
                    expected="a layer with reset_parameters(), because each member is initialised independently",
                    got=f"{type(module).__name__} with parameters and no such method",
                    hint="pass a function that returns the network: lambda: MyNetwork(...)",
                )
        return network

    def _call(self) -> Any:
        try:
            inspect.signature(self.given).bind()
        except TypeError as error:
            got, hint = plain(str(error), 80), "lambda: MyNetwork(...)"
            raise UsageError("network", expected="a function without arguments", got=got, hint=hint) from error
        except ValueError:  # a builtin without a signature
            pass
        return self.given()

    def settings(self) -> dict[str, Any]:
        """Empty: files store weights, not code."""
        return {}


def as_architecture(network: Any, start: str | None) -> Architecture:
    """Wrap modules and functions in `UserModule`; architectures are returned unchanged.

    start: "given" keeps the weights of a module, or of what a function returns; "fresh" initialises a module anew, and
    is the default of functions and architectures. A module has no default, as its weights may be trained.
    """
    if start is not None:
        check_choice("start", start, STARTS)
    if isinstance(network, UserModule) or not isinstance(network, Architecture):
        if isinstance(network, nn.Module) and start is None:
            hint = "write start='given' to keep its weights, or start='fresh' to initialise them anew"
            raise UsageError("network", expected="start= with an nn.Module", got="no start", hint=hint)
        return network if isinstance(network, UserModule) else UserModule(network, start or "fresh")
    if start == "given":
        hint = "pass a trained nn.Module, or leave start out"
        got = f"the architecture {network.name}, which has none"
        raise UsageError("start='given'", expected="a network with weights", got=got, hint=hint)
    return network
