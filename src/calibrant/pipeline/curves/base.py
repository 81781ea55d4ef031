"""What a curve is: columns of numbers over bins, steps or thresholds, computed from what the one pass accumulates.

To add one, write in a module of this folder

    def curves(example: Evaluable) -> Iterator[Curve]:

that yields the curves of such predictions, and call it in `curves.selection.curves_of`. A curve has a name, written
like the spec of a metric, and `accumulate(example)`, which returns a `CurveState`:

- `state` adds rows: `add(rows, spread)`, where without `spread` no band is needed, and `merge(other)`. Its sums must be
  the same bits for any order of the rows, any blocks and any threads: add with `kernels.exact` or `BinSums`, or keep
  rows and sort them before floats are summed or random numbers are drawn.
- `key` identifies what the state holds: equal keys are equal states, of which there is one. If a metric is a `Reduced`
  of the same key, the curve uses its state, so that rows are kept once.
- `columns(state, settings)` computes the columns: lists of numbers of one length, all of them finite. If a number is
  undefined, its row or its column is left out; without columns there is no curve.

A curve requires nothing of the pass that metrics do not: `required_columns` names what they must have required.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.predictions import Evaluable
from calibrant.registry.estimate import Settings

Columns = dict[str, list[float]]
MakeColumns = Callable[[Any, Settings], Columns]
KEPT = "kept"
"""The first part of the key of a state that keeps a few numbers of every row."""


@dataclass
class CurveState:
    """A state that adds rows, and the function that computes columns from it."""

    key: tuple[Hashable, ...]
    state: Any
    columns: MakeColumns


@dataclass(frozen=True)
class Curve:
    """A curve and its requirements."""

    name: str
    accumulate: Callable[[Any], CurveState]
    needs: frozenset[str] = frozenset({"labels"})
    """What the predictions must have: keys of `registry.metric.NEEDS`."""
    required_columns: frozenset[Hashable] = frozenset()
    """Columns of the record that metrics must have required."""
    full_pass: bool = False
    """Whether it reads what a pass for confidences alone leaves out."""


def columns(**arrays: np.ndarray | None) -> Columns:
    """Arrays as lists, without those that are None."""
    return {name: array.tolist() for name, array in arrays.items() if array is not None}


def with_band(curve: Columns, band: tuple[np.ndarray, np.ndarray] | None) -> Columns:
    """The columns with those of the band, if there is one."""
    return curve if band is None else curve | columns(band_low=band[0], band_high=band[1])


def pointwise_band(replicates: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Both ends (K,) of the central band of at least a share `level` of the replicates (R, K), point by point."""
    size = len(replicates)
    beyond = min(int(size * (0.5 - level / 2)), (size - 1) // 2)
    ends = (beyond, size - 1 - beyond)
    ranked = np.partition(np.ascontiguousarray(replicates.T), ends, axis=1)
    return ranked[:, ends[0]], ranked[:, ends[1]]


class CurveStates:
    """The curves of some of the blocks; states that a metric has too are shared with it."""

    def __init__(self, curves: Iterable[Curve], example: Evaluable, metric_states: dict[Hashable, Any]) -> None:
        """No rows yet; metric_states: the states of metrics by ("state", key)."""
        self.curves = {curve.name: curve.accumulate(example) for curve in curves}
        self.own: dict[Hashable, Any] = {}
        for curve in self.curves.values():
            shared = metric_states.get(("state", curve.key))
            curve.state = shared if shared is not None else self.own.setdefault(curve.key, curve.state)

    def add(self, rows: Any, spread: bool) -> None:
        """Add rows to each state that no metric shares."""
        for state in self.own.values():
            state.add(rows, spread)

    def merge(self, other: CurveStates) -> None:
        """Add the rows of other states; those shared with metrics are merged there."""
        for key, state in self.own.items():
            state.merge(other.own[key])

    def columns(self, settings: Settings) -> dict[str, Columns]:
        """The columns of every curve by name."""
        curves = {name: curve.columns(curve.state, settings) for name, curve in self.curves.items()}
        return {name: curve for name, curve in curves.items() if curve}
