"""`Monitor`: is a model in use still calibrated? Rows come in as they happen, and one may look after each of them.

What it follows is the e-value of `calibrant.calibration.evalue`. The state is a few hundred exact sums, so that many
calls, or a file between them, give the same bits as one.
"""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.calibration.evalue import BINS, SHIFTS, WEIGHTS, LogRatios
from calibrant.errors import NotApplicable, UsageError, plain, show
from calibrant.evaluation.stored import read_stored
from calibrant.kernels.rows import rows_of
from calibrant.predictions import Classification, Judged, Predictions
from calibrant.predictions.files.naming import naming
from calibrant.predictions.files.stream import Stream
from calibrant.predictions.files.writing import atomic_write
from calibrant.registry.evalues import LOG_E_VALUE, log10, stated_pairs
from calibrant.registry.metric import Spec

SCHEMA = 1
KIND = "monitor"
MOST_POINTS = 500
Json = dict[str, Any]


class Monitor:
    """Evidence against calibration along a stream of rows, valid however often one looks and whenever one stops.

    If the predictions are right, the chance that the e-value ever reaches 1/alpha is at most alpha (Ville 1939). of:
    "top" for (confidence, correct), or a class by name or number. Rows must come in the order in which they happened.
    """

    def __init__(self, of: str | int = "top", alpha: float = 0.05) -> None:
        """No rows yet."""
        if not 0.0 < alpha < 1.0:
            raise UsageError("alpha", expected="a number between 0 and 1", came=f"got {alpha}", do="0.05 is usual")
        self.of, self.alpha = str(of), float(alpha)
        self.highest = 0.0
        """log₁₀ of the largest e-value so far; it starts at 0."""
        self.crossed_at: int | None = None
        """The number of the row, counted from 1, at which the e-value first reached 1/alpha."""
        self.taken: list[str] = []
        """SHA-256 of whole files that were taken in, as far as the caller has noted them."""
        self._ratios = LogRatios()
        self._points: list[tuple[int, float]] = []

    # ------------------------------------------------------------------------------------ rows
    def add(self, predictions: Classification | Judged | Stream) -> Monitor:
        """Take in the next rows, in the order they came; all of them, or none where some are refused."""
        if not isinstance(predictions, Predictions | Stream):
            raise UsageError(
                "monitor",
                expected="predictions: Classification or Judged, or a stream of them",
                came=f"got {type(predictions).__name__}",
                do="make them with Classification.from_probs, or call add_pairs(p, y)",
            )
        spec, example = Spec.make(LOG_E_VALUE, of=self.of), predictions.example
        reason = LOG_E_VALUE.lacks(spec, example)
        if reason:
            raise NotApplicable(
                f"{predictions.name}: monitor",
                expected="predictions that an e-value can be taken of",
                came=reason,
                do="see `calibrant metrics log_e_value` for what it needs",
            )
        after = copy.deepcopy(self)
        for block in predictions.blocks():
            pairs = stated_pairs(spec, block)  # type: ignore[arg-type]
            wanted = LOG_E_VALUE.wanted(spec, block)
            with naming(block.info.origin, block.info.first_row):
                after._take_in(*pairs(rows_of(block, wanted, light=True)))
        self.__dict__ = after.__dict__
        return self

    def add_pairs(self, p: Any, y: Any) -> Monitor:
        """Take in the next forecasts p (N,) of an event, and whether it came, y (N,)."""
        known = Judged.from_confidence(p, y)
        if known.members > 1 or known.correct is None:
            came = f"there are {known.members} p a row" if known.members > 1 else "there is no y"
            do = "average members first" if known.members > 1 else "give whether it came, 0 or 1, for every row"
            raise UsageError("add_pairs", expected="one p and one y a row", came=came, do=do)
        self._take_in(known.confidence[0], known.correct)
        return self

    def _take_in(self, p: np.ndarray, y: np.ndarray) -> None:
        first = self.n + 1
        path = log10_of(self._ratios.follow(p, y))
        self.highest = max(self.highest, float(path.max()))
        over = np.flatnonzero(path >= -math.log10(self.alpha))
        if self.crossed_at is None and over.size:
            self.crossed_at = first + int(over[0])
        every = stride(self.n)
        held = [(n, value) for n, value in self._points if n % every == 0]
        start = -(-first // every) * every
        new = range(start, self.n + 1, every)
        self._points = held + [(n, float(path[n - first])) for n in new]

    # ----------------------------------------------------------------------------------- facts
    @property
    def n(self) -> int:
        """The number of rows so far."""
        return self._ratios.n

    @property
    def log_e_value(self) -> float:
        """log₁₀ of the e-value now."""
        return log10(self._ratios.log_e()) if self.n else 0.0

    @property
    def p_value(self) -> float:
        """A p-value that holds whenever one stops: one over the largest e-value so far."""
        return min(1.0, 10.0**-self.highest)

    @property
    def rejected(self) -> bool:
        """Whether the e-value has ever reached 1/alpha."""
        return self.crossed_at is not None

    @property
    def path(self) -> dict[str, list[Any]]:
        """log₁₀ of the e-value from no rows to now, at up to 502 numbers of rows that depend on n alone."""
        points = [(0, 0.0), *self._points]
        if points[-1][0] != self.n:
            points.append((self.n, self.log_e_value))
        return {"n": [n for n, _ in points], "log_e_value": [value for _, value in points]}

    def to_json(self) -> Json:
        """What is known now, as plain data; null where a number is infinite."""
        path = self.path
        return {
            "of": self.of,
            "alpha": self.alpha,
            "n": self.n,
            "log_e_value": _finite(self.log_e_value),
            "highest": _finite(self.highest),
            "p_value": self.p_value,
            "rejected": self.rejected,
            "crossed_at": self.crossed_at,
            "impossible": self._ratios.impossible,
            "path": {"n": path["n"], "log_e_value": [_finite(value) for value in path["log_e_value"]]},
        }

    def __str__(self) -> str:
        what = "top label" if self.of == "top" else f"class {plain(self.of, 60)}"
        lines = [
            f"{what} · {self.n} rows",
            f"e-value against calibration: {_e(self.log_e_value)} now, {_e(self.highest)} at its highest",
            *self._verdict(),
            "You may stop here, or go on with more rows, at any time.",
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _verdict(self) -> list[str]:
        level, needed = f"{100 * self.alpha:g} %", f"{1 / self.alpha:.4g}"
        if not self.rejected:
            return [
                f"Calibration is not rejected at {level}: the e-value has not reached {needed}.",
                "That does not show that the model is calibrated; more rows may tell.",
            ]
        said = [f"Calibration is rejected at {level}: the e-value first reached {needed} at row {self.crossed_at}."]
        if self._ratios.impossible:
            return [*said, "A forecast of probability 0 came true, which a calibrated model would never see."]
        return [
            *said,
            f"Of calibrated models at most {level} would ever come so far, however often one looks.",
        ]

    # ----------------------------------------------------------------------------------- files
    def save(self, path: str | Path) -> Path:
        """Write the state, whole or not at all; `Monitor.load` goes on from it."""
        path, state = Path(path), self._ratios
        data = self.to_json() | {
            "schema": SCHEMA,
            "kind": KIND,
            "taken": self.taken,
            "of_lines": state.of_lines,
            "of_bins": state.of_bins,
            "points": [[n, _finite(value)] for n, value in self._points],
        }
        for name in ("path", "log_e_value", "p_value", "rejected"):  # made of the others
            del data[name]
        with atomic_write(path) as stream:
            stream.write((json.dumps(data, allow_nan=False) + "\n").encode())
        return path

    @classmethod
    def load(cls, path: str | Path) -> Monitor:
        """The monitor that `save` has written."""
        return read_stored(
            path,
            cls._from_json,
            expected=f"the state of a monitor (schema {SCHEMA})",
            do="name the file that `calibrant monitor --state` or Monitor.save wrote, or start a new one",
        )

    @classmethod
    def _from_json(cls, data: Json) -> Monitor:
        if (data["schema"], data["kind"]) != (SCHEMA, KIND):
            raise ValueError(f"kind {show(data['kind'])}, schema {show(data['schema'])}")
        made = cls(_checked(data["of"], str), _checked(data["alpha"], float))
        n, crossed = _count(data["n"]), data["crossed_at"]
        sums = [_whole(data[name], size) for name, size in (("of_lines", len(WEIGHTS)), ("of_bins", BINS * SHIFTS))]
        made._ratios = LogRatios(n, _count(data["impossible"], n), *sums)
        made.highest = _infinite(data["highest"])
        made.crossed_at = None if crossed is None else _count(crossed, n)
        made.taken = [_checked(digest, str) for digest in data["taken"]]
        made._points = [(_count(row, n), _infinite(value)) for row, value in data["points"]]
        if [row for row, _ in made._points] != list(range(stride(n), n + 1, stride(n))):
            raise ValueError("points that do not belong to n")
        if made.rejected != (made.highest >= -math.log10(made.alpha)):
            raise ValueError("crossed_at and highest do not agree")
        return made


def stride(n: int) -> int:
    """The least power of two of which at most 500 multiples lie in 1 … n."""
    every = 1
    while n // every > MOST_POINTS:
        every *= 2
    return every


def log10_of(log_e: np.ndarray) -> np.ndarray:
    """As `log10`, of an array."""
    return log_e / math.log(10.0)


def _e(log_e: float) -> str:
    """The e-value in words."""
    if math.isinf(log_e):
        return "infinite"
    return f"{10.0**log_e:.3g}" if abs(log_e) < 6 else f"10^{log_e:.1f}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _infinite(value: float | None) -> float:
    number = math.inf if value is None else _checked(value, float)
    if math.isnan(number) or number == -math.inf:
        raise ValueError("a number that no e-value has")
    return number


def _checked(value: Any, kind: type) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise TypeError(f"{show(value)} instead of {kind.__name__}")
    return kind(value)


def _count(value: Any, most: int | None = None) -> int:
    if _checked(value, int) < 0 or (most is not None and value > most):
        raise ValueError(f"{show(value)} is no number of rows")
    return int(value)


def _whole(values: Any, size: int) -> list[int]:
    if not isinstance(values, list) or len(values) != size:
        raise ValueError(f"{size} sums are wanted")
    return [_checked(value, int) for value in values]
