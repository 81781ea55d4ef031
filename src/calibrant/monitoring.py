"""`Monitor`: test whether a deployed model is still calibrated, as often as you like, as rows arrive.

It tracks the e-value of `calibrant.calibration.evalue`. The state is a few hundred exact sums, so that many calls, or a
saved file between them, give the same bits as one.

Once the e-value has reached 1/alpha, the verdict is about the rows since its lowest value: the evidence has grown since
then, and a drift that began late is not averaged out by the rows before it.
"""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.calibration.binning import equal_width
from calibrant.calibration.evalue import BINS, SHIFTS, WEIGHTS, LogRatios
from calibrant.errors import NotApplicable, UsageError, check_range, error_context, plain, show
from calibrant.kernels.rows import rows_of
from calibrant.pipeline.select_metrics import second_class
from calibrant.predictions import Classification, Judged, Predictions
from calibrant.predictions.files.stream import Stream
from calibrant.predictions.files.write import atomic_write
from calibrant.registry.metric import Spec
from calibrant.registry.metrics.evalues import LOG_E_VALUE, log10, stated_pairs
from calibrant.render.formatting import format_number, format_percent_pair
from calibrant.results.json import encode, read_stored
from calibrant.results.verdict import INCONCLUSIVE, MISCALIBRATED, NEGLIGIBLE, NOT_TESTED, Verdict, relevant_to_rate

__all__ = ["Monitor"]

SCHEMA = 3
"""Schema 1 has no `classes` and no `sums`; schema 2 has sums of all rows, not by bin or up to the lowest e-value."""
KIND = "monitor"
TOP = "top"
UNIT = 2.0**30
"""Sums of probabilities are integers in units of its inverse."""
RELEVANT = 0.02
"""The error that matters by default."""
CLEAR = 1.96
"""Standard errors between predicted and observed share from which a direction is named."""
FEW_BEFORE = 0.1
"""Share of rows before the lowest e-value up to which the verdict is about all rows in words."""
SUMS = 5
"""Of each bin: rows, outcomes that occurred, and Σp, Σp(1 − p) and Σpy in units of 2⁻³⁰."""
MAX_POINTS = 500
Json = dict[str, Any]


class Monitor:
    """A sequential test of calibration that is valid however often you look and whenever you stop.

    For calibrated predictions, the probability that the e-value ever reaches 1/alpha is at most alpha (Ville 1939).

    Parameters
    ----------
    of : str or int, optional
        "top" for (confidence, correct), or a class by name or number. By default the positive class (class 1) of binary
        predictions, because their top label cannot show that one class is predicted too often, else the top label.
    alpha : float
        The probability of ever rejecting a calibrated model.
    relevant_error : float, optional
        The smallest mean difference between forecasts and outcomes, over ten bins of the forecast, that matters: below
        it a rejected model is "negligible" instead of "miscalibrated". By default 0.02, of a rare class a quarter of
        its rate.

    Examples
    --------
    >>> import calibrant as cal
    >>> monitor = cal.monitoring.Monitor(alpha=0.05).add_pairs([0.9, 0.8, 0.7], [1, 1, 0])
    >>> monitor.n, monitor.rejected
    (3, False)
    """

    def __init__(self, of: str | int | None = None, alpha: float = 0.05, relevant_error: float | None = None) -> None:
        """A monitor without rows."""
        check_range("alpha", alpha, 0, 1, inclusive="neither", hint="use alpha=0.05")
        if relevant_error is not None:
            check_range("relevant_error", relevant_error, 0, 1, inclusive="neither", hint="use relevant_error=0.02")
        self.of: str | None = None if of is None else str(of)
        """What is tested; None until the first rows decide."""
        self.alpha = float(alpha)
        self.relevant_error = None if relevant_error is None else float(relevant_error)
        self.classes: int | None = None
        """The number of classes; None for confidence and correctness."""
        self.highest = 0.0
        """log₁₀ of the largest e-value so far; it starts at 0."""
        self.crossed_at: int | None = None
        """The row, counted from 1, at which the e-value first reached 1/alpha."""
        self.taken: list[str] = []
        """SHA-256 of the files that have been added, if the caller records them."""
        self._ratios = LogRatios()
        self._sums = self._sums_at_lowest = (0,) * (BINS * SUMS)
        """Of all rows, and of those up to the lowest e-value, bin by bin."""
        self._before: tuple[int, ...] = (0, 0, 0, 0)
        """Rows that a state of an earlier version had, those of them with sums, outcomes that occurred, and Σp."""
        self._lowest = 0.0
        """log₁₀ of the smallest e-value so far; it starts at 0."""
        self._points: list[tuple[int, float]] = []

    # ------------------------------------------------------------------------------------ rows
    def add(self, predictions: Classification | Judged | Stream) -> Monitor:
        """Add the next rows, in the order in which they occurred; none of them if any is invalid."""
        if not isinstance(predictions, Predictions | Stream):
            expected = "predictions: Classification or Judged, or a stream of them"
            hint = "make them with Classification.from_probs, or call add_pairs(p, y)"
            raise UsageError("monitor", expected=expected, got=type(predictions).__name__, hint=hint)
        example = predictions.example
        of = self.of if self.of is not None else second_class(example) or TOP
        spec = Spec.make(LOG_E_VALUE, of=of)
        reason = LOG_E_VALUE.unsupported_reason(spec, example)
        if reason:
            name, expected = f"{predictions.name}: monitor", "labelled classification or judged predictions"
            hint = f"see `calibrant metrics {LOG_E_VALUE.name}` for what it needs"
            raise NotApplicable(name, expected=expected, got=f"{example.task} predictions ({reason.text})", hint=hint)
        after = copy.deepcopy(self)
        after.of = of
        if isinstance(example, Classification):
            if self.n and self.classes not in (None, example.classes):
                expected, hint = (
                    f"{self.classes} classes, as in the rows before",
                    "monitor each model with its own state",
                )
                raise UsageError(predictions.name, expected=expected, got=f"{example.classes}", hint=hint)
            after.classes = example.classes
        for block in predictions.blocks():
            pairs = stated_pairs(spec, block)  # type: ignore[arg-type]
            wanted = LOG_E_VALUE.required_columns(spec, block)
            with error_context(block.info.origin, block.info.first_row):
                after._update(*pairs(rows_of(block, wanted, light=True)))
        self.__dict__ = after.__dict__
        return self

    def add_pairs(self, p: Any, y: Any) -> Monitor:
        """Add the next forecasts p (N,) of an event, and whether it occurred, y (N,)."""
        known = Judged.from_confidence(p, y)
        if known.members > 1 or known.correct is None:
            got = f"{known.members} p per row" if known.members > 1 else "no y"
            hint = "average the members first" if known.members > 1 else "give y, 0 or 1, for every row"
            raise UsageError("add_pairs", expected="one p and one y per row", got=got, hint=hint)
        self.of = self.of or TOP
        self._update(known.confidence[0], known.correct)
        return self

    def _update(self, p: np.ndarray, y: np.ndarray) -> None:
        first = self.n + 1
        path = self._ratios.follow(p, y) / math.log(10.0)
        units = np.rint(np.array([p, p * (1.0 - p), p * y]) * UNIT).astype(np.int64)
        columns = np.stack([np.ones(len(p), np.int64), np.asarray(y).astype(np.int64), *units], axis=1)
        bins, lowest = equal_width(p, BINS), int(path.argmin())
        if path[lowest] < self._lowest:
            self._lowest = float(path[lowest])
            self._sums_at_lowest = _plus(self._sums, bins[: lowest + 1], columns[: lowest + 1])
        self._sums = _plus(self._sums, bins, columns)
        self.highest = max(self.highest, float(path.max()))
        over = np.flatnonzero(path >= -math.log10(self.alpha))
        if self.crossed_at is None and over.size:
            self.crossed_at = first + int(over[0])
        every = stride(self.n)
        start = -(-first // every) * every
        kept = [(n, value) for n, value in self._points if n % every == 0]
        self._points = kept + [(n, float(path[n - first])) for n in range(start, self.n + 1, every)]

    # ----------------------------------------------------------------------------------- facts
    @property
    def n(self) -> int:
        """The number of rows so far."""
        return self._ratios.n

    @property
    def log_e_value(self) -> float:
        """log₁₀ of the current e-value."""
        return log10(self._ratios.log_e()) if self.n else 0.0

    @property
    def p_value(self) -> float:
        """An anytime-valid p-value: one over the largest e-value so far."""
        return min(1.0, 10.0**-self.highest)

    @property
    def rejected(self) -> bool:
        """Whether the e-value has reached 1/alpha at any row."""
        return self.crossed_at is not None

    @property
    def shares(self) -> tuple[float, float]:
        """Mean forecast and observed share of all rows; NaN without rows."""
        _, *before = self._before
        rows, occurred, total = (float(earlier + sum(self._sums[k::SUMS])) for k, earlier in enumerate(before))
        return (total / UNIT / rows, occurred / rows) if rows else (math.nan, math.nan)

    @property
    def since(self) -> int:
        """The row, counted from 1, from which the evidence has grown: the one after the lowest e-value."""
        return self._before[0] + sum(self._sums_at_lowest[::SUMS]) + 1

    @property
    def recent_shares(self) -> tuple[float, float]:
        """Mean forecast and observed share of the rows since the lowest e-value; NaN without rows."""
        rows, occurred, total, *_ = self._recent.sum(axis=0)
        return (float(total / rows), float(occurred / rows)) if rows else (math.nan, math.nan)

    @property
    def largest_error(self) -> float:
        """About the largest mean error of the forecasts since the lowest e-value; NaN without rows.

        In each of ten bins of the forecast, the gap of mean forecast and observed share, and the tilt of the outcomes
        against the forecast, Σ(p − p̄)(p − y)·√(n/Σ(p − p̄)²); over all rows, plus 1.96 standard errors. Noise adds to
        each of them, so that it is rather too large; what is neither a gap nor a tilt within its bin is not seen.
        """
        rows, occurred, total, variance, product = (column for column in self._recent.T)
        n = float(rows.sum())
        if not n:
            return math.nan
        mean = total / np.maximum(rows, 1.0)
        squares = np.maximum(total - variance - mean * total, 0.0)  # Σ(p − p̄)², with Σp² = Σp − Σp(1 − p)
        tilt = (total - variance - product) - mean * (total - occurred)
        tilts = np.abs(tilt) * np.sqrt(rows / np.where(squares > 0.0, squares, np.inf))
        spread = CLEAR * math.sqrt(2.0 * float(variance.sum()))
        return min(1.0, (float(np.abs(total - occurred).sum() + tilts.sum()) + spread) / n)

    @property
    def persists(self) -> bool:
        """Whether a test that has rejected would still do so by its current e-value."""
        return self.rejected and self.log_e_value >= -math.log10(self.alpha)

    @property
    def direction(self) -> tuple[str, ...]:
        """How forecasts of a rejected model differ from what occurred, where that is significant.

        Never of the top label of two classes, which points the wrong way on rare events.
        """
        _, occurred, total, variance, _ = self._recent.sum(axis=0)
        excess = total - occurred
        binary_top = self.of == TOP and self.classes == 2
        if not self.persists or binary_top or abs(excess) <= CLEAR * math.sqrt(variance):
            return ()
        words = ("overconfident", "underconfident") if self.of == TOP else ("overestimates", "underestimates")
        return (words[0] if excess > 0 else words[1],)

    @property
    def verdict(self) -> Verdict:
        """Until the test has rejected, `inconclusive`: no number of rows is enough to call a model calibrated.

        After that `miscalibrated`, `negligible` where the error since the lowest e-value is below the relevant one, and
        again `inconclusive` where the current e-value is below 1/alpha: rows since then speak for the model.
        """
        predicted, observed = self.recent_shares if self.persists else self.shares
        numbers = {"predicted": predicted, "observed": observed, "notion": self._subject}
        level = f"{100 * self.alpha:g}%"
        if not self.n:
            return Verdict(NOT_TESTED, headline="No rows yet", next_step="add rows", **numbers)  # type: ignore[arg-type]
        if not self.rejected:
            rows = "1 row" if self.n == 1 else f"{self.n} rows"
            text, more = f"Calibration is not rejected at {level} by {rows}", "add more rows at any time"
            return Verdict(INCONCLUSIVE, headline=text, next_step=more, **numbers)  # type: ignore[arg-type]
        if not self.persists:
            text = f"Calibration was rejected at row {self.crossed_at}, but the evidence has since faded"
            more = f"evaluate the rows up to {self.crossed_at} apart from those that follow"
            return Verdict(INCONCLUSIVE, headline=text, next_step=more, **numbers)  # type: ignore[arg-type]
        relevant = RELEVANT if self.relevant_error is None else self.relevant_error
        if self.relevant_error is None and self.of != TOP:
            relevant = relevant_to_rate(relevant, *self.recent_shares)
        if self.largest_error < relevant:
            text = f"Miscalibration is detectable but small: error below {format_number(self.largest_error)}"
            return Verdict(NEGLIGIBLE, self.direction, headline=text, **numbers)  # type: ignore[arg-type]
        text = self._difference or f"Calibration is rejected at {level} (row {self.crossed_at})"
        step = f"recalibrate, and evaluate on held-out rows{self._onset}"
        return Verdict(MISCALIBRATED, self.direction, headline=text, next_step=step, **numbers)  # type: ignore[arg-type]

    @property
    def _recent(self) -> np.ndarray:
        """Sums (bins, 4) of the rows since the lowest e-value."""
        return _by_bin(self._sums) - _by_bin(self._sums_at_lowest)

    @property
    def _subject(self) -> str:
        return "top label" if self.of in (TOP, None) else f"class {plain(self.of, 60)}"

    @property
    def _onset(self) -> str:
        """The row since which the evidence has grown, in words; empty where few rows came before it."""
        return f" since row {self.since}" if self.since > FEW_BEFORE * self.n else ""

    @property
    def _difference(self) -> str:
        """The direction with its numbers; empty where there is none."""
        if not self.direction:
            return ""
        predicted, observed = format_percent_pair(*self.recent_shares)
        if self.of == TOP:
            return f"{self.direction[0].capitalize()}{self._onset}: mean confidence {predicted}, accuracy {observed}"
        return (
            f"{self.direction[0].capitalize()} {self._subject}{self._onset}: predicts {predicted}, {observed} observed"
        )

    @property
    def path(self) -> dict[str, list[Any]]:
        """log₁₀ of the e-value over time, at up to 502 numbers of rows that depend on n alone."""
        points = [(0, 0.0), *self._points]
        if points[-1][0] != self.n:
            points.append((self.n, self.log_e_value))
        return {"n": [n for n, _ in points], "log_e_value": [value for _, value in points]}

    def to_json(self) -> Json:
        """The current state as plain data; infinite numbers are null."""
        path = {name: tuple(values) for name, values in self.path.items()}
        facts = {
            "of": self.of, "alpha": self.alpha, "n": self.n, "log_e_value": self.log_e_value, "highest": self.highest,
            "p_value": self.p_value, "rejected": self.rejected, "crossed_at": self.crossed_at,
            "impossible": self._ratios.impossible, "path": path, "predicted": self.shares[0],
            "observed": self.shares[1], "direction": self.direction, "since": self.since,
            "recent_predicted": self.recent_shares[0], "recent_observed": self.recent_shares[1],
            "largest_error": self.largest_error, "relevant_error": self.relevant_error,
        }  # fmt: skip
        return {name: encode(value) for name, value in facts.items()}

    def __str__(self) -> str:
        level, bound, verdict = f"{100 * self.alpha:g}%", f"{1 / self.alpha:.4g}", self.verdict
        lines = [
            verdict.headline,
            f"{self._subject} · {self.n} row{'s' * (self.n != 1)}",
            f"e-value against calibration: {_e(self.log_e_value)} now, {_e(self.highest)} at its highest",
        ]
        if not self.rejected:
            lines.append(f"The e-value has not reached {bound}. This does not show that the model is calibrated.")
        else:
            verb = "is" if self.persists else "was"
            lines.append(
                f"Calibration {verb} rejected at {level}: the e-value first reached {bound} at row {self.crossed_at}."
            )
            if self._ratios.impossible:
                lines.append("An outcome with predicted probability 0 occurred, which is impossible if calibrated.")
            else:
                lines.append(f"At most {level} of calibrated models would ever reach this, however often you look.")
        if verdict.next_step and self.rejected:
            lines.append(f"Next: {verdict.next_step}")
        return "\n".join([*lines, "You can stop here or add more rows at any time."])

    def __repr__(self) -> str:
        return f"Monitor(of={self.of!r}, alpha={self.alpha:g}, n={self.n}, rejected={self.rejected})"

    # ----------------------------------------------------------------------------------- files
    def save(self, path: str | Path) -> Path:
        """Write the state; `Monitor.load` continues from it."""
        path, state = Path(path), self._ratios
        data = self.to_json() | {
            "schema": SCHEMA, "kind": KIND, "taken": self.taken, "of_lines": state.of_lines, "of_bins": state.of_bins,
            "points": encode(tuple(self._points)), "classes": self.classes, "sums": list(self._sums),
            "sums_at_lowest": list(self._sums_at_lowest), "lowest": self._lowest, "before": list(self._before),
        }  # fmt: skip
        derived = (
            "path", "log_e_value", "p_value", "rejected", "predicted", "observed", "direction", "since",
            "recent_predicted", "recent_observed", "largest_error",
        )  # fmt: skip
        for name in derived:
            del data[name]
        with atomic_write(path) as stream:
            stream.write((json.dumps(data, allow_nan=False) + "\n").encode())
        return path

    @classmethod
    def load(cls, path: str | Path) -> Monitor:
        """The monitor that `save` wrote."""
        hint = "give a file written by `calibrant monitor --state` or Monitor.save, or a new name"
        return read_stored(path, cls._from_json, expected=f"a monitor state (schema {SCHEMA})", hint=hint)

    @classmethod
    def _from_json(cls, data: Json) -> Monitor:
        if data["schema"] not in (1, 2, SCHEMA) or data["kind"] != KIND:
            raise ValueError(f"kind {show(data['kind'])}, schema {show(data['schema'])}")
        of = None if data["of"] is None and not data["n"] else _checked(data["of"], str)
        relevant = data["relevant_error"] if data["schema"] == SCHEMA else None
        monitor = cls(of, _checked(data["alpha"], float), None if relevant is None else _checked(relevant, float))
        n, crossed = _count(data["n"]), data["crossed_at"]
        if data["schema"] > 1:
            monitor.classes = None if data["classes"] is None else _count(data["classes"])
        if data["schema"] == SCHEMA:
            monitor._sums, monitor._sums_at_lowest = (
                tuple(_count(value) for value in _whole(data[name], BINS * SUMS)) for name in ("sums", "sums_at_lowest")
            )
            monitor._before = tuple(_count(value) for value in _whole(data["before"], 4))
            monitor._lowest = _checked(data["lowest"], float)
            for bins in (_by_bin(monitor._sums_at_lowest), monitor._recent):
                if (bins < 0).any() or (bins[:, 1] > bins[:, 0]).any():
                    raise ValueError("sums do not match n")
        else:
            known = [_count(value) for value in _whole(data["sums"], 4)] if data["schema"] == 2 else [0, 0, 0, 0]
            monitor._before = (n, *known[:3])
        if monitor._before[0] + sum(monitor._sums[::SUMS]) != n or not (
            monitor._before[2] <= monitor._before[1] <= monitor._before[0]
        ):
            raise ValueError("sums do not match n")
        sums = [_whole(data[name], size) for name, size in (("of_lines", len(WEIGHTS)), ("of_bins", BINS * SHIFTS))]
        monitor._ratios = LogRatios(n, _count(data["impossible"], n), *sums)
        if data["schema"] < SCHEMA and n:
            monitor._lowest = monitor.log_e_value  # of the rows that follow
        monitor.highest = _infinite(data["highest"])
        monitor.crossed_at = None if crossed is None else _count(crossed, n)
        monitor.taken = [_checked(digest, str) for digest in data["taken"]]
        monitor._points = [(_count(row, n), _infinite(value)) for row, value in data["points"]]
        if [row for row, _ in monitor._points] != list(range(stride(n), n + 1, stride(n))):
            raise ValueError("points do not match n")
        if monitor.rejected != (monitor.highest >= -math.log10(monitor.alpha)):
            raise ValueError("crossed_at and highest do not agree")
        return monitor


def _plus(sums: tuple[int, ...], bins: np.ndarray, columns: np.ndarray) -> tuple[int, ...]:
    """The sums of every bin with those of more rows."""
    more = np.zeros((BINS, SUMS), np.int64)
    np.add.at(more, bins, columns)
    return tuple(a + int(b) for a, b in zip(sums, more.flat, strict=True))


def _by_bin(sums: tuple[int, ...]) -> np.ndarray:
    """Rows, outcomes that occurred, Σp, Σp(1 − p) and Σpy of each bin."""
    return np.array(sums, np.float64).reshape(BINS, SUMS) / np.array([1.0, 1.0, UNIT, UNIT, UNIT])


def stride(n: int) -> int:
    """The smallest power of two with at most 500 multiples in 1 … n."""
    every = 1
    while n // every > MAX_POINTS:
        every *= 2
    return every


def _e(log_e: float) -> str:
    """The e-value in words."""
    if math.isinf(log_e):
        return "infinite"
    return f"{10.0**log_e:.3g}" if abs(log_e) < 6 else f"10^{log_e:.1f}"


def _infinite(value: float | None) -> float:
    number = math.inf if value is None else _checked(value, float)
    if math.isnan(number) or number == -math.inf:
        raise ValueError("not an e-value")
    return number


def _checked(value: Any, kind: type) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise TypeError(f"{show(value)} instead of {kind.__name__}")
    return kind(value)


def _count(value: Any, most: int | None = None) -> int:
    if _checked(value, int) < 0 or (most is not None and value > most):
        raise ValueError(f"{show(value)} is not a number of rows")
    return int(value)


def _whole(values: Any, size: int) -> list[int]:
    if not isinstance(values, list) or len(values) != size:
        raise ValueError(f"expected {size} sums")
    return [_checked(value, int) for value in values]
