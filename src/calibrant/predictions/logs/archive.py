"""Members of a zip archive, with deflate or Zstandard compression, bounded while they are read.

The size that the archive states is never trusted: bytes are counted as they are unpacked. Python's own reader knows
Zstandard (method 93) from version 3.14 on; before that, pyarrow unpacks it.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from calibrant.errors import FileError, MissingExtra, show
from calibrant.predictions.files.binary import DAMAGED, memory_limit, report_unreadable

ZSTANDARD = 93
CHUNK = 1 << 20
MAX_MEMBERS = 1_000_000
MAX_MEMBER_BYTES = 1 << 28
"""Bytes of one unpacked member: a sample with all its messages is a few MiB."""
LOCAL_HEADER = 30
"""Bytes of the fixed part of a local file header; the lengths of name and extra field are its last four."""


class Archive:
    """An open archive that counts the bytes it unpacks."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self.path, self.stream = path, stream
        self.unpacked = 0
        with report_unreadable(path, "a zip archive", DAMAGED):
            self.zip = zipfile.ZipFile(stream)
        self.members = {info.filename: info for info in self.zip.infolist()}
        if len(self.members) > MAX_MEMBERS:
            expected = f"at most {MAX_MEMBERS} members"
            hint = "split the log, or evaluate fewer samples"
            raise FileError(str(path), expected=expected, got=f"{len(self.members)}", hint=hint)

    def read(self, name: str) -> bytes:
        """The unpacked bytes of a member."""
        info, parts, size, crc = self.members[name], [], 0, 0
        with report_unreadable(self.path, f"a readable member {show(name)}", DAMAGED):
            for part in self._parts(info):
                size += len(part)
                self.unpacked += len(part)
                if size > MAX_MEMBER_BYTES:
                    self._refuse(name, f"at most {MAX_MEMBER_BYTES >> 20} MiB in one member", "more after unpacking")
                if self.unpacked > memory_limit():
                    self._refuse(name, f"at most {memory_limit() / 2**30:.1f} GiB in all", "more after unpacking")
                crc = zlib.crc32(part, crc)
                parts.append(part)
            if crc != info.CRC:
                raise zipfile.BadZipFile("the checksum does not match")
        return b"".join(parts)

    def _parts(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        if info.compress_type != ZSTANDARD:
            with self.zip.open(info) as member:
                while part := member.read(CHUNK):
                    yield part
            return
        try:
            import pyarrow
        except ImportError as error:
            got, hint = "no pyarrow", "install calibrant[arrow], or convert the log with `inspect log convert`"
            expected = "pyarrow, to unpack Zstandard members"
            raise MissingExtra(str(self.path), expected=expected, got=got, hint=hint) from error
        if info.flag_bits & 1:
            raise zipfile.BadZipFile("it is encrypted")
        self.stream.seek(info.header_offset)
        header = self.stream.read(LOCAL_HEADER)
        if len(header) < LOCAL_HEADER or header[:4] != b"PK\x03\x04":
            raise zipfile.BadZipFile("no local header")
        skipped = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        self.stream.seek(skipped, io.SEEK_CUR)
        packed = self.stream.read(info.compress_size)
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd") as member:
            while part := member.read(CHUNK):
                yield part

    def _refuse(self, name: str, expected: str, got: str) -> None:
        hint = "check where the file comes from; CALIBRANT_MAX_BYTES raises the limit in all"
        raise FileError(f"{self.path}: {name}", expected=expected, got=got, hint=hint)
