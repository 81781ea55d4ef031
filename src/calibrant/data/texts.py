"""Texts: posts of 20 newsgroups, sentences of the One Billion Word benchmark, and their words as indices.

Reference: Ovadia et al. (2019), NeurIPS 32, appendix A.4: 30,000 words by frequency, the first 250 words of a text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from calibrant.data.catalogue import dataset_named
from calibrant.data.folder import data_folder, read_arrays
from calibrant.data.preparation import verify
from calibrant.errors import check_choice, check_range

WORD = re.compile(r"[a-z0-9']+")
PADDING, UNKNOWN = 0, 1


def newsgroups(part: str = "train", folder: str | Path | None = None) -> tuple[list[str], np.ndarray, list[str]]:
    """Texts, labels and the names of the groups of the part "train" or "test", split by date."""
    check_choice("part", part, ("train", "test"))
    stored = dataset_named("newsgroups").files[part == "test"]
    path = data_folder(folder) / stored.path
    verify(path, stored)
    arrays = read_arrays(path)
    content, ends = arrays["text"].tobytes(), arrays["offsets"].tolist()
    texts = [content[a:b].decode("latin-1") for a, b in pairwise(ends)]
    return texts, arrays["labels"].astype(np.int64), [str(name) for name in arrays["label_names"]]


def billion_words(folder: str | Path | None = None) -> list[str]:
    """Held-out sentences, for text from another source."""
    stored = dataset_named("lm1b").files[0]
    path = data_folder(folder) / stored.path
    verify(path, stored)
    return read_arrays(path)["text"].tobytes().decode("utf-8").splitlines()


@dataclass(frozen=True)
class Vocabulary:
    """Words by frequency: index 0 is padding, 1 an unknown word, 2 the most frequent word.

    Examples
    --------
    >>> from calibrant.data import Vocabulary
    >>> words = Vocabulary.of(["to be or not to be to"], size=4)
    >>> words.indices(["be not afraid"], length=4).tolist()
    [[3, 1, 1, 0]]
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str], size: int = 30_000) -> Vocabulary:
        """The vocabulary of training texts with `size` indices; words of equal frequency are in alphabetical order."""
        size = check_range("size", size, 3, integer=True, hint="use size=30000")
        counts = Counter(word for text in texts for word in WORD.findall(text.lower()))
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(tuple(ordered[: size - 2]))

    def __len__(self) -> int:
        return len(self.words) + 2

    def indices(self, texts: Sequence[str], length: int = 250) -> np.ndarray:
        """Indices (N, length): the first words of each text, then zeros."""
        length = check_range("length", length, 1, integer=True, hint="use length=250")
        index = {word: k for k, word in enumerate(self.words, 2)}
        rows = np.full((len(texts), length), PADDING, np.int32)
        for row, text in zip(rows, texts, strict=True):
            found = [index.get(match[0], UNKNOWN) for match, _ in zip(WORD.finditer(text.lower()), row, strict=False)]
            row[: len(found)] = found
        return rows
