"""Readers of the files that data sets are published in; nothing in them is executed, and tar files are not unpacked.

CIFAR's binary version, idx files (gzip), SVHN's MATLAB files, the archive of 20 newsgroups by date, and the held-out
sentences of the One Billion Word benchmark. Each returns the arrays of an .npz file of the local layout.
"""

from __future__ import annotations

import gzip
import struct
import tarfile
import zlib
from pathlib import Path, PurePosixPath

import numpy as np

from calibrant.errors import FileError, plain

Arrays = dict[str, np.ndarray]
BROKEN = (OSError, EOFError, tarfile.TarError, zlib.error, struct.error, ValueError, KeyError)
MAX_MEMBER = 1 << 28
"""Bytes of a member of an archive, at most."""


def unreadable(path: Path, error: Exception, expected: str) -> FileError:
    """One line for a source that is not what it should be."""
    got = plain(str(error), 80) or type(error).__name__
    return FileError(str(path), expected=expected, got=got, hint=f"delete it and download it again: rm {path}")


def read_members(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """The content of the named members of a tar file."""
    found: dict[str, bytes] = {}
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            if member.name in names and member.isfile() and member.size <= MAX_MEMBER:
                stream = archive.extractfile(member)
                found[member.name] = stream.read(MAX_MEMBER) if stream else b""
                if len(found) == len(names):
                    break
    absent = [name for name in names if name not in found]
    if absent:
        raise ValueError(f"no {absent[0]}")
    return found


def cifar_binary(path: Path, members: tuple[str, ...], label_bytes: int) -> list[Arrays]:
    """Images (N, 32, 32, 3) and labels of each member; CIFAR-100 has a coarse label before the fine one."""
    parts = []
    try:
        content = read_members(path, members)
        for member in members:
            rows = np.frombuffer(content[member], np.uint8).reshape(-1, label_bytes + 3072)
            images = np.ascontiguousarray(rows[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
            part = {"images": images, "labels": rows[:, label_bytes - 1].copy()}
            parts.append(part if label_bytes == 1 else {**part, "coarse_labels": rows[:, 0].copy()})
    except BROKEN as error:
        raise unreadable(path, error, "an archive of CIFAR's binary version") from error
    return parts


def idx(path: Path) -> np.ndarray:
    """The bytes of a gzipped idx file, in their shape."""
    try:
        with gzip.open(path, "rb") as stream:
            zeros, kind, dimensions = struct.unpack(">HBB", stream.read(4))
            if zeros or kind != 8 or not 1 <= dimensions <= 4:
                raise ValueError("not an idx file of bytes")
            shape = struct.unpack(f">{dimensions}I", stream.read(4 * dimensions))
            count = int(np.prod(shape, dtype=np.int64))
            if count > MAX_MEMBER:
                raise ValueError(f"{count} values")
            values = np.frombuffer(stream.read(count), np.uint8)
            return values.reshape(shape).copy()
    except BROKEN as error:
        raise unreadable(path, error, "a gzipped idx file") from error


def svhn(path: Path) -> Arrays:
    """Images (N, 32, 32, 3) and labels, 0 for the digit 0 (10 in the file)."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        with path.open("rb") as stream:
            stored = loadmat(stream, variable_names=["X", "y"])
        images = np.ascontiguousarray(stored["X"].transpose(3, 0, 1, 2))
        labels = stored["y"].reshape(-1) % 10
        if images.dtype != np.uint8 or images.shape != (len(labels), 32, 32, 3):
            raise ValueError(f"images {images.dtype} {images.shape}")
    except (*BROKEN, TypeError, NotImplementedError, MatReadError) as error:
        raise unreadable(path, error, "SVHN's cropped digits (.mat)") from error
    return {"images": images, "labels": labels.astype(np.uint8)}


def newsgroups(path: Path) -> dict[str, Arrays]:
    """The posts of 20news-bydate as bytes with offsets, sorted by group and number, for "train" and "test"."""
    posts: dict[str, list[tuple[str, str, bytes]]] = {"train": [], "test": []}
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                if member.isfile() and len(parts) >= 3 and member.size <= MAX_MEMBER:
                    stream = archive.extractfile(member)
                    part = parts[-3].rpartition("-")[2]
                    if part in posts and stream:
                        posts[part].append((parts[-2], parts[-1], stream.read()))
        if not all(posts.values()):
            raise ValueError("no posts")
    except BROKEN as error:
        raise unreadable(path, error, "20news-bydate.tar.gz") from error
    names = sorted({group for part in posts.values() for group, _, _ in part})
    return {part: _joined(sorted(listed), names) for part, listed in posts.items()}


def _joined(posts: list[tuple[str, str, bytes]], names: list[str]) -> Arrays:
    return {
        "text": np.frombuffer(b"".join(text for _, _, text in posts), np.uint8),
        "offsets": np.cumsum([0] + [len(text) for _, _, text in posts]),
        "labels": np.array([names.index(group) for group, _, _ in posts], np.uint8),
        "label_names": np.array(names),
        "file_ids": np.array([name for _, name, _ in posts]),
    }


def billion_words(path: Path) -> Arrays:
    """The first shard of the held-out sentences, as UTF-8 bytes, one sentence a line."""
    member = (
        "1-billion-word-language-modeling-benchmark-r13output/"
        "heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050"
    )
    try:
        return {"text": np.frombuffer(read_members(path, (member,))[member], np.uint8)}
    except BROKEN as error:
        raise unreadable(path, error, "the archive of the One Billion Word benchmark") from error
