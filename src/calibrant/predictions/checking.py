"""What the values of scores may be, said once: the constructors use it on small arrays, the row pass on any it flags.

logits: any real number or −inf (a class that is ruled out), not all −inf in a row. log_probs: at most 0 by the sum
rule, −inf allowed. probs: not negative. The probabilities of a row sum to one within `SUM_TOLERANCE` and are divided
by their sum.
"""

from __future__ import annotations

import numpy as np

from calibrant.errors import ValuesError

SUM_TOLERANCE = 1e-3
KINDS = ("logits", "log_probs", "probs")


def check_scores(block: np.ndarray, kind: str, start: int = 0) -> None:
    """Raise on the first value of a block (M, n, C) that its kind forbids."""
    block = block.astype(np.float64, copy=False)
    _refuse_first(np.isnan(block), block, kind, start, "numbers", "drop or repair the row")
    _refuse_first(np.isposinf(block), block, kind, start, "finite numbers", "drop or repair the row")
    if kind == "probs":
        hint = "pass logits with from_logits (key 'logits') if that is what they are"
        _refuse_first(block < 0, block, kind, start, "probabilities of at least 0", hint)
    else:
        dead = np.isneginf(block).all(axis=2, keepdims=True)
        hint = "at least one class must be possible in every row"
        _refuse_first(dead & np.isneginf(block), block, kind, start, "a finite entry per row", hint)
    if kind != "logits":
        _check_sums(block, kind, start)


def _refuse_first(bad: np.ndarray, block: np.ndarray, kind: str, start: int, expected: str, do: str) -> None:
    if not bad.any():
        return
    m, i, c = (int(k) for k in np.unravel_index(int(np.argmax(bad)), bad.shape))
    count = int(bad.any(axis=(0, 2)).sum())
    where = f"row {start + i}, class {c}" + (f" of member {m}" if block.shape[0] > 1 else "")
    rows = f" ({count} such rows in this block)" if count > 1 else ""
    came = f"{where} is {block[m, i, c]}{rows}"
    raise ValuesError(kind, expected=expected, came=came, do=do)


def _check_sums(block: np.ndarray, kind: str, start: int) -> None:
    with np.errstate(over="ignore"):
        sums = (block if kind == "probs" else np.exp(block)).sum(axis=2)
    off = np.abs(sums - 1.0)
    worst = np.unravel_index(int(np.argmax(off)), off.shape)
    if off[worst] > SUM_TOLERANCE:
        other = "from_logits (key 'logits')" if kind == "log_probs" else "from_logits or from_log_probs"
        raise ValuesError(
            kind,
            expected=f"the probabilities of each row to sum to 1 within {SUM_TOLERANCE:g}",
            came=f"those of row {start + int(worst[1])} sum to {sums[worst]:.6g}",
            do=f"normalise them, or use {other} if they are not {kind}",
        )
