"""Shifts of text: rows are strings, whose words are separated by white space.

`class_split` and `out_of_domain` need more than rows, and are functions.

Reference: Hendrycks & Gimpel (2017), ICLR 5, and Ovadia et al. (2019), NeurIPS 32, for classes left out of training and
sentences of another source.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from calibrant.errors import LabelsError, UsageError, ValuesError, check_range, plain
from calibrant.shift.backend import NUMPY
from calibrant.shift.philox import Draws, draws
from calibrant.shift.registry import register

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
SEVERITIES = (1, 2, 3, 4, 5)


def words_of(rows: Sequence[str]) -> list[list[str]]:
    """The words of each row."""
    wrong = next((k for k, row in enumerate(rows) if not isinstance(row, str)), None)
    if wrong is not None:
        got = f"{type(rows[wrong]).__name__} in row {wrong}"
        raise ValuesError("rows", expected="strings", got=got, hint="decode bytes with .decode('utf-8')")
    return [str(row).split() for row in rows]


@register(
    "token_dropout", kind="text", severities=SEVERITIES,
    summary="each word left out with probability 0.1 to 0.5",
)  # fmt: skip
def token_dropout(rows: Sequence[str], severity: int, draws: Draws) -> list[str]:
    """Words are left out; a row keeps at least one."""
    result = []
    for words, u in zip(words_of(rows), _per_word(rows, draws, "kept"), strict=True):
        kept = u >= SHARES[severity - 1]
        if len(words):
            kept[u.argmax()] = True
        result.append(" ".join(word for word, keep in zip(words, kept, strict=True) if keep))
    return result


@register(
    "token_replacement", kind="text", severities=SEVERITIES, needs_all_rows=True,
    summary="each word replaced with probability 0.1 to 0.5 by a word of the rows, as frequent as there",
)  # fmt: skip
def token_replacement(rows: Sequence[str], severity: int, draws: Draws) -> list[str]:
    """Words are replaced by words from anywhere in the rows."""
    split = words_of(rows)
    everything = [word for words in split for word in words]
    result = []
    replaced, choice = (_per_word(rows, draws, field) for field in ("replaced", "word"))
    for words, u, v in zip(split, replaced, choice, strict=True):
        new = [
            everything[int(at * len(everything))] if change < SHARES[severity - 1] else word
            for word, change, at in zip(words, u, v, strict=True)
        ]
        result.append(" ".join(new))
    return result


def _per_word(rows: Sequence[str], draws: Draws, field: str) -> list[np.ndarray]:
    """Uniform numbers for the words of each row; those of a row do not depend on the other rows."""
    counts = [len(words) for words in words_of(rows)]
    single = (Draws(NUMPY, draws.seed, draws.scope, draws.first + k, 1) for k in range(len(counts)))
    return [one.uniform(field, count)[0] if count else np.empty(0) for one, count in zip(single, counts, strict=True)]


def class_split(labels: Any, classes: Collection[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the rows whose label is one of `classes`, and of the other rows, which are out of distribution.

    Examples
    --------
    >>> from calibrant.shift import class_split
    >>> class_split([0, 1, 2, 1], classes=[0, 2])
    (array([0, 2]), array([1, 3]))
    """
    values, listed = np.asarray(labels), np.asarray(list(classes))
    if values.ndim != 1:
        got = f"shape {values.shape}"
        raise LabelsError("labels", expected="one label a row (N,)", got=got, hint="pass labels.argmax(1)")
    absent = [each for each in listed if each not in values]
    if not len(listed) or absent:
        got = plain(", ".join(map(str, absent)), 60) if absent else "no class"
        raise UsageError("classes", expected="classes of the labels", got=got, hint="see set(labels)")
    inside = np.isin(values, listed)
    return np.flatnonzero(inside), np.flatnonzero(~inside)


def out_of_domain(
    rows: Sequence[str], sentences: Sequence[str], share: float, seed: int = 0
) -> tuple[list[str], np.ndarray]:
    """Rows of which a share is replaced by sentences of another source, and which rows are (N,).

    Examples
    --------
    >>> from calibrant.shift import out_of_domain
    >>> mixed, outside = out_of_domain(["a", "b", "c", "d"], ["x", "y"], share=0.5)
    >>> int(outside.sum()), [text in "xy" for text in mixed] == list(outside)
    (2, True)
    """
    share = check_range("share", share, 0, 1, hint="use share=0.5")
    if not len(sentences):
        raise UsageError("sentences", expected="at least one sentence", got="none", hint="pass a list of strings")
    n = len(rows)
    every = draws(NUMPY, seed, "out_of_domain", 0, n)
    outside = np.zeros(n, bool)
    outside[np.argsort(every.uniform("rows"), kind="stable")[: round(share * n)]] = True
    at = every.integers("sentence", len(sentences))
    return [sentences[int(k)] if out else row for row, out, k in zip(rows, outside, at, strict=True)], outside
