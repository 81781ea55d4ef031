"""Downloads that resume, and that are used only when their checksum is right.

A file is written to `NAME.partial`, next to `NAME.partial.json` with its address and its ETag (or date of last change).
A later call asks for the rest with `Range` and `If-Range`: 206 from the byte asked for is appended, 200 starts again.
When everything is there and the SHA-256 of the whole file is right, the file gets its name; a wrong one is deleted.

`CALIBRANT_MIRROR` is an address, or several separated by spaces, that are tried first: MIRROR/FILENAME. Proxies come
from `http_proxy`, `https_proxy` and `no_proxy`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from calibrant.errors import FileError, UsageError, WriteError, plain, show

MIRROR = "CALIBRANT_MIRROR"
CHUNK = 1 << 18
ATTEMPTS = 4
"""Requests for one address; each continues where the last one broke off."""
SECONDS = 30.0
Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there, and those of the whole file if known."""


def download(url: str, path: Path, sha256: str, *, size: int | None = None, progress: Progress | None = None) -> Path:
    """Download `url` to `path`, from a mirror if one is set; a file that is there and right is left alone."""
    if path.is_file():
        if file_sha256(path) == sha256:
            return path
        got = "a file with another checksum"
        raise FileError(str(path), expected=f"SHA-256 {sha256[:12]}…", got=got, hint=f"delete it: rm {path}")
    mirrors = [f"{base.rstrip('/')}/{path.name}" for base in os.environ.get(MIRROR, "").split()]
    failures: list[FileError] = []
    for address in [*mirrors, url]:
        if urlsplit(address).scheme not in ("http", "https"):
            raise UsageError("address", expected="http:// or https://", got=show(address), hint=f"check {MIRROR}")
        try:
            return _download_one(address, path, sha256, size, progress)
        except FileError as error:
            failures.append(error)
    raise failures[-1]


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _download_one(url: str, path: Path, sha256: str, size: int | None, progress: Progress | None) -> Path:
    partial, facts = (path.with_name(f"{path.name}.{suffix}") for suffix in ("partial", "partial.json"))
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    problem = "no answer"
    for _ in range(ATTEMPTS):
        try:
            total = _request(url, partial, facts, progress)
        except HTTPError as error:
            problem = f"HTTP {error.code} {plain(str(error.reason), 60)}"
            if error.code == 416:  # the part is not a beginning of the file that is there now
                _delete(partial, facts)
                continue
            if error.code < 500:
                break
            continue
        except (URLError, HTTPException, ConnectionError, TimeoutError) as error:
            problem = plain(str(getattr(error, "reason", error)) or type(error).__name__, 100)
            continue
        there = partial.stat().st_size
        if total is not None and there < total:
            problem = f"{there} of {total} bytes"
            continue
        digest = file_sha256(partial)
        if digest == sha256 and size in (None, there):
            with _writing(path):
                os.replace(partial, path)  # noqa: PTH105
            _delete(facts)
            return path
        _delete(partial, facts)
        problem = f"SHA-256 {digest[:12]}…"
        break
    hint = "run the command again to resume" if partial.exists() else f"check the connection, or set {MIRROR}"
    raise FileError(url, expected=f"the file with SHA-256 {sha256[:12]}…", got=problem, hint=hint)


def _request(url: str, partial: Path, facts: Path, progress: Progress | None) -> int | None:
    """One request, for the rest if a part is there; returns the size of the whole file, if known."""
    known = _read_facts(facts)
    start = partial.stat().st_size if partial.exists() else 0
    validator = known.get("validator") if known.get("url") == url else None
    headers = {"User-Agent": "calibrant", "Accept-Encoding": "identity"}
    if start and validator:
        headers |= {"Range": f"bytes={start}-", "If-Range": validator}
    with urlopen(Request(url, headers=headers), timeout=SECONDS) as response:  # noqa: S310  the scheme is checked
        resumes = response.status == 206 and _range_start(response) == start and "Range" in headers
        if response.status == 206 and not resumes:
            raise ConnectionError("a part of the file that was not asked for")
        if not resumes:
            start = 0
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        etag = response.headers.get("ETag", "")
        strong = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")
        with _writing(partial):
            facts.write_text(json.dumps({"url": url, "validator": strong}), "utf-8")
            stream = partial.open("ab" if resumes else "wb")
        with stream:
            _copy(response, stream, partial, start, total, progress)
    return total


def _copy(
    response: Any, stream: IO[bytes], path: Path, there: int, total: int | None, progress: Progress | None
) -> None:
    for chunk in _chunks(response):
        with _writing(path):
            stream.write(chunk)
        there += len(chunk)
        if progress is not None:
            progress(there, total)
    with _writing(path):
        stream.flush()
        os.fsync(stream.fileno())


def _chunks(response: Any) -> Iterator[bytes]:
    while chunk := response.read(CHUNK):
        yield chunk


def _range_start(response: Any) -> int | None:
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
    return int(found[1]) if found else None


def _read_facts(facts: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        stored = json.loads(facts.read_text("utf-8"))
        return stored if isinstance(stored, dict) else {}
    return {}


def _delete(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn an error of the file system into one line."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "free some space, and run the command again to resume" if full else "choose another folder with --folder"
        got = plain(error.strerror or type(error).__name__, 80)
        raise WriteError(str(path), expected="a folder to write to", got=got, hint=hint) from error
