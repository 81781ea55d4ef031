"""How a fit went: the loss before and after, whether it converged, and warnings for the user."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from calibrant.predictions.base import Note
from calibrant.recalibration.file_fields import PARSERS, parse_strings
from calibrant.records import Record

MIN_CHANGE = 1e-12
"""A loss that changes by less than this share of itself counts as unchanged."""
Messages = tuple[tuple[str, str], ...]
"""(code, message) pairs."""


@dataclass(frozen=True)
class FitReport(Record):
    """The loss on the fitted rows before and after the fit, and how its minimum was found.

    `messages` are further warnings of the method as (code, message) pairs.
    """

    n: int
    loss: str
    """What is minimised: nll, brier, dss, …"""
    before: float
    after: float
    converged: bool = True
    iterations: int = 0
    passes: int = 0
    """How often the rows were read; reading a part of them counts as its share, and the sum is rounded up."""
    gradient: float | None = None
    """The largest entry of the mean gradient at the end, without parameters that a bound stops."""
    at_bound: tuple[str, ...] = ()
    """A sentence for each parameter that ended at a bound: "the temperature ended at the bound 1/64: …"."""
    left_out: int = 0
    """Rows whose label has probability 0: they are −inf under any map of this kind, and in neither loss."""
    messages: Messages = ()

    @property
    def moved(self) -> bool:
        """Whether the loss fell."""
        return math.isinf(self.before) or self.before - self.after > MIN_CHANGE * max(abs(self.before), MIN_CHANGE)

    def notes(self, subject: str) -> tuple[Note, ...]:
        """Warnings about the fit, each prefixed with the name of the method."""
        out = []
        if not self.converged:
            text = f"the fit did not converge in {self.iterations} steps; its {self.loss} is {self.after:.6g}"
            out.append(("fit-not-converged", text))
        out += [("fit-at-bound", text) for text in self.at_bound]
        if self.converged and not self.at_bound and not self.moved:
            rose = self.after - self.before > MIN_CHANGE * max(abs(self.before), MIN_CHANGE)
            code, what = ("fit-made-worse", "made it worse") if rose else ("fit-did-not-move", "changed nothing")
            out.append((code, f"the fit {what}: {self.loss} {self.before:.6g} before, {self.after:.6g} after"))
        if self.left_out:
            text = f"{self.left_out} of {self.n} rows were left out of the fit: their label has probability 0"
            out.append(("impossible-labels-left-out", text))
        return tuple(Note(code, f"{subject}: {text}") for code, text in (*out, *self.messages))

    def to_json(self) -> dict[str, Any]:
        """As plain data; non-finite numbers become null. Messages are stored as "said"."""
        data = asdict(self)
        for key in ("before", "after", "gradient"):
            if data[key] is not None and not math.isfinite(data[key]):
                data[key] = None
        messages = [list(pair) for pair in data.pop("messages")]
        return data | {"at_bound": list(self.at_bound), "said": messages}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> FitReport:
        """Rebuild the report from `to_json`; a loss that was not finite is read as infinite."""
        if data.keys() != cls(0, "", 0.0, 0.0).to_json().keys():
            raise ValueError(f"a report with {sorted(data)}")
        nulls = {"before": math.inf, "after": math.inf, "gradient": None}
        parsers = {item.name: PARSERS[item.type] for item in fields(cls) if item.name != "messages"}
        values: dict[str, Any] = {
            name: nulls[name] if name in nulls and data[name] is None else parse(data[name], name)
            for name, parse in parsers.items()
        }
        messages = tuple((code, text) for code, text in (parse_strings(pair, "said", 2) for pair in data["said"]))
        return cls(**values, messages=messages)
