"""Public names of a package that load on first use (PEP 562), so that importing the package costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module


def lazy_names(
    package: str, file: str, modules: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from the stub of its `__init__.py`.

    Type checkers and editors read the stub (`__init__.pyi`). Each of its lines `from MODULE import NAME as NAME` makes
    NAME a public name of the package; `modules` are public submodules, which `dir` lists and `__all__` does not.
    """
    stub = file.rpartition(".")[0] + ".pyi"
    with open(stub, encoding="utf-8") as stream:  # noqa: PTH123 (pathlib takes longer to import than all the rest)
        words = [line.split() for line in stream if line.startswith("from calibrant.")]
    homes = {name: module for _, module, _, name, *_ in words if name != "__version__"}
    submodules = tuple(modules)

    def load(name: str) -> object:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        if name in submodules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load, lambda: sorted([*homes, *submodules]), sorted(homes)
