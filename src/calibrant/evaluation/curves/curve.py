"""What a curve is: columns of numbers over bins, steps or thresholds, made from what the one pass takes in.

To add one, write in a file of this folder

    def curves(example: Evaluated) -> Iterator[Curve]:

that yields the curves of these predictions, and name it in the list of `curves.choosing`. A curve has a name, written
like the spec of a metric, and `accumulate(example)`, which makes a `Drawn`:

- `state` takes in the rows: `add(rows, spread)`, where without `spread` no band is wanted, and `merge(other)`. Its sums
  must be the same bits for any order of the rows, any blocks and any threads: add with `kernels.exact` or `BinSums`,
  or keep rows and sort them before a float is summed or a random word is drawn.
- `key` says what the state holds: equal keys are equal states, of which there is one. A metric that is a `Reduced` of
  the same key lends its state, so that rows which are kept are kept once.
- `columns(state, settings)` makes the columns in the end: lists of numbers of one length, all of them finite. Where a
  number is undefined its place, or its column, is left out; without columns there is no curve.

A curve asks nothing of the pass that metrics do not: `wants` names what they must have asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.predictions import Evaluated
from calibrant.registry.estimate import Settings

Columns = dict[str, list[float]]
Make = Callable[[Any, Settings], Columns]
KEPT = "kept"
"""What the key of a state begins with that keeps a few numbers of every row."""


@dataclass
class Drawn:
    """A state that takes in rows, and what makes columns of it."""

    key: tuple[Hashable, ...]
    state: Any
    columns: Make


@dataclass(frozen=True)
class Curve:
    """A curve and what it needs."""

    name: str
    accumulate: Callable[[Any], Drawn]
    needs: frozenset[str] = frozenset({"labels"})
    """What the predictions must have, in the words of the registry."""
    wants: frozenset[Hashable] = frozenset()
    """What metrics must have asked of the pass."""
    whole: bool = False
    """Whether it reads what a pass for confidences alone leaves out."""


def columns(**arrays: np.ndarray | None) -> Columns:
    """Arrays as lists, those that are None left out."""
    return {name: array.tolist() for name, array in arrays.items() if array is not None}


def banded(made: Columns, band: tuple[np.ndarray, np.ndarray] | None) -> Columns:
    """The columns with those of the band, where there is one."""
    return made if band is None else made | columns(band_low=band[0], band_high=band[1])


def pointwise(drawn: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Both ends (K,) of the central band that holds at least a share `level` of the replicates (R, K) of each place."""
    size = len(drawn)
    beyond = min(int(size * (0.5 - level / 2)), (size - 1) // 2)
    ends = (beyond, size - 1 - beyond)
    ranked = np.partition(np.ascontiguousarray(drawn.T), ends, axis=1)
    return ranked[:, ends[0]], ranked[:, ends[1]]


class TakenIn:
    """The curves of some of the blocks; states that a metric has are shared with it."""

    def __init__(self, curves: Iterable[Curve], example: Evaluated, of_metrics: dict[Hashable, Any]) -> None:
        """No rows yet; of_metrics: the states of metrics by ("state", key)."""
        self.curves = {curve.name: curve.accumulate(example) for curve in curves}
        self.own: dict[Hashable, Any] = {}
        for made in self.curves.values():
            shared = of_metrics.get(("state", made.key))
            made.state = shared if shared is not None else self.own.setdefault(made.key, made.state)

    def add(self, rows: Any, spread: bool) -> None:
        """Take in more rows, once for each state that is not a metric's."""
        for state in self.own.values():
            state.add(rows, spread)

    def merge(self, other: TakenIn) -> None:
        """Take in what another has seen; states of metrics are merged by those."""
        for key, state in self.own.items():
            state.merge(other.own[key])

    def columns(self, settings: Settings) -> dict[str, Columns]:
        """Every curve that there is, by name."""
        made = {name: drawn.columns(drawn.state, settings) for name, drawn in self.curves.items()}
        return {name: found for name, found in made.items() if found}
