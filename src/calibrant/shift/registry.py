"""Named shifts with severities, for rows of any kind.

A shift has one verb, `apply(rows, severity, seed=0, first=0)`. Row i of the result is a function of (seed, name,
severity, first + i) and of the row itself, whatever the other rows, unless the shift says otherwise (`needs_all_rows`).

    from calibrant.shift import register, shift_named

    @register("halved", kind="tabular", severities=(1, 2), summary="divided by 2 or 4")
    def halved(rows, severity, draws):
        return rows / 2**severity

    shift_named("halved").apply(rows, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from calibrant.errors import CalibrantError, UsageError, check_choice, check_range, did_you_mean, plain, show
from calibrant.shift.backend import backend_of
from calibrant.shift.philox import Draws, draws

KINDS = ("corruption", "geometry", "tabular", "clicks", "text")
MODULES = ("images.shifts", "tabular", "clicks", "text")
"""The files of this package that register the shifts of each kind."""
Apply = Callable[[Any, int, Draws], Any]


@dataclass(frozen=True)
class Shift:
    """A shift: its name, its kind, the severities it has, and what it does in one line."""

    name: str
    kind: str
    severities: tuple[int, ...]
    summary: str
    function: Apply = field(repr=False)
    reference: str = ""
    needs_all_rows: bool = False
    """Whether the result depends on statistics of all rows: do not apply the shift to blocks."""
    selects: bool = False
    """Whether the shift selects rows, which may change their number: `indices` says which, for labels."""

    def apply(self, rows: Any, severity: int, seed: int = 0, first: int = 0) -> Any:
        """The rows under this shift; `first` is the index of the first row, for data in blocks."""
        result = self._compute(rows, severity, seed, first)
        if not self.selects:
            return result
        return [rows[int(row)] for row in result] if isinstance(rows, list | tuple) else rows[result]

    def indices(self, rows: Any, severity: int, seed: int = 0) -> Any:
        """The indices of the selected rows, for shifts that select."""
        if not self.selects:
            hint = f"use shift_named({self.name!r}).apply"
            raise UsageError(self.name, expected="a shift that selects rows", got="one that changes them", hint=hint)
        return self._compute(rows, severity, seed, 0)

    def _compute(self, rows: Any, severity: int, seed: int, first: int) -> Any:
        severity = check_severity(self.name, severity, self.severities)
        if not hasattr(rows, "__len__"):
            hint = "convert them with numpy.asarray or list"
            raise UsageError("rows", expected="an array or a list", got=type(rows).__name__, hint=hint)
        scope = f"{self.name}/{severity}"
        return self.function(rows, severity, draws(backend_of(rows), seed, scope, first, len(rows)))


SHIFTS: dict[str, Shift] = {}
"""Registered shifts by name; `shift_named` and `names` register the built-in ones first."""


def register(
    name: str,
    *,
    kind: str,
    severities: Collection[int],
    summary: str,
    reference: str = "",
    needs_all_rows: bool = False,
    selects: bool = False,
) -> Callable[[Apply], Apply]:
    """Register a function (rows, severity, draws) → rows as a shift; `draws` has the random numbers of these rows."""
    check_choice("kind", kind, KINDS)
    if not isinstance(name, str) or not name.isidentifier():
        raise UsageError("shift", expected="a name such as my_shift", got=show(name), hint="use letters, digits and _")

    def add(function: Apply) -> Apply:
        if name in SHIFTS:
            got = f"{show(name)}, which is already registered"
            raise UsageError("shift", expected="a new name", got=got, hint="choose another name")
        levels = tuple(
            check_range("severities", each, 1, 1000, integer=True, hint="use severities=(1, 2, 3)")
            for each in severities
        )
        SHIFTS[name] = Shift(name, kind, levels, summary, function, reference, needs_all_rows, selects)
        return function

    return add


def load_plugin(path: str) -> None:
    """Run a Python file of the user, which registers shifts with `register`."""
    load()  # first, so that a plug-in cannot take the name of a built-in shift
    if not Path(path).is_file() or Path(path).suffix != ".py":
        raise UsageError("--plugin", expected="a Python file", got=show(path), hint="for example --plugin my_shifts.py")
    spec = spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise UsageError("--plugin", expected="a Python file", got=show(path), hint="check the path")
    try:
        spec.loader.exec_module(module_from_spec(spec))
    except CalibrantError:
        raise
    except Exception as error:
        got = plain(f"{type(error).__name__}: {error}", 120)
        raise UsageError(path, expected="a plug-in that runs", got=got, hint=f"try python {path}") from error


def load() -> None:
    """Register the built-in shifts."""
    for module in MODULES:
        import_module(f"calibrant.shift.{module}")


def names(kind: str | None = "corruption") -> tuple[str, ...]:
    """The names of the shifts of a kind: the 19 corruptions of images by default, None for all.

    Examples
    --------
    >>> from calibrant.shift import names
    >>> len(names()), names()[:3]
    (19, ('gaussian_noise', 'shot_noise', 'impulse_noise'))
    """
    load()
    if kind is not None:
        check_choice("kind", kind, KINDS)
    return tuple(name for name, shift in SHIFTS.items() if kind in (None, shift.kind))


def shift_named(name: Any) -> Shift:
    """The shift of this name."""
    load()
    if not isinstance(name, str) or name not in SHIFTS:
        hint = did_you_mean(str(name), SHIFTS)
        raise UsageError("shift", expected="the name of a shift", got=show(name), hint=hint)
    return SHIFTS[name]


def check_severity(name: str, severity: Any, severities: Collection[int]) -> int:
    """A severity of the shift as an int."""
    if isinstance(severity, bool) or severity not in severities:
        levels = sorted(severities)
        got = show(severity) if isinstance(severity, str) else f"{severity}"
        expected = f"a severity from {levels[0]} to {levels[-1]}"
        raise UsageError(name, expected=expected, got=got, hint=f"use severity={levels[len(levels) // 2]}")
    return int(severity)
