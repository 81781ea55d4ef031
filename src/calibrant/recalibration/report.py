"""How a fit went: what was minimised, where it ended, and what the user should know of it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from calibrant.predictions.base import Note
from calibrant.recalibration.stored_fields import number, text, texts, truth, whole

UNMOVED = 1e-12
"""A loss that falls by less than this share of itself has not moved."""


@dataclass(frozen=True)
class Fit:
    """The loss of the fitted rows before and after, and how its minimum was looked for."""

    n: int
    loss: str
    """What is minimised: nll, brier, dss, …"""
    before: float
    after: float
    converged: bool = True
    iterations: int = 0
    passes: int = 0
    """How often the rows were read; a part of them counts as its share, and the sum is rounded up."""
    gradient: float | None = None
    """The largest entry of the mean gradient at the end, what is held by a bound left out."""
    at_bound: tuple[str, ...] = ()
    """What would go beyond its bound if it could, in words: "the temperature ended at 1/64: …"."""
    left_out: int = 0
    """Rows whose label has probability 0: they are −inf under any map of this kind, and in neither loss."""
    said: tuple[tuple[str, str], ...] = ()
    """(code, message) of what else the method has to say."""

    @property
    def moved(self) -> bool:
        """Whether the loss fell."""
        return math.isinf(self.before) or self.before - self.after > UNMOVED * max(abs(self.before), UNMOVED)

    def notes(self, subject: str) -> tuple[Note, ...]:
        """What the user should know, each with the method in front of it."""
        out = []
        if not self.converged:
            said = f"the fit had not settled after {self.iterations} steps; its {self.loss} is {self.after:.6g}"
            out.append(("fit-not-converged", said))
        out += [("fit-at-bound", said) for said in self.at_bound]
        if self.converged and not self.at_bound and not self.moved:
            said = f"{self.loss} is {self.before:.6g} before and {self.after:.6g} after it"
            rose = self.after - self.before > UNMOVED * max(abs(self.before), UNMOVED)
            code, what = ("fit-made-worse", "made it worse") if rose else ("fit-did-not-move", "changed nothing")
            out.append((code, f"the fit {what}: {said}"))
        if self.left_out:
            said = f"{self.left_out} of {self.n} rows, whose label has probability 0, were left out of the fit"
            out.append(("impossible-labels-left-out", said))
        return tuple(Note(code, f"{subject}: {said}") for code, said in (*out, *self.said))

    def to_json(self) -> dict[str, Any]:
        """As plain data; what is not finite becomes null."""
        plain = asdict(self)
        for key in ("before", "after", "gradient"):
            if plain[key] is not None and not math.isfinite(plain[key]):
                plain[key] = None
        return plain | {"at_bound": list(self.at_bound), "said": [list(pair) for pair in self.said]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Fit:
        """The report that `to_json` wrote; a loss that was not finite comes back as infinite."""
        if data.keys() != {item.name for item in fields(cls)}:
            raise ValueError(f"a report with {sorted(data)}")
        losses = [math.inf if data[key] is None else number(data[key], key) for key in ("before", "after")]
        counts = {key: whole(data[key], key) for key in ("n", "iterations", "passes", "left_out")}
        return cls(
            **counts,
            loss=text(data["loss"], "loss"),
            before=losses[0],
            after=losses[1],
            converged=truth(data["converged"], "converged"),
            gradient=None if data["gradient"] is None else number(data["gradient"], "gradient"),
            at_bound=texts(data["at_bound"], "at_bound"),
            said=tuple((code, message) for code, message in (texts(pair, "said", 2) for pair in data["said"])),
        )
