"""Downloads from a server on 127.0.0.1 that truncates, changes, refuses and redirects: nothing half-written is used."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from calibrant.data import transfer
from calibrant.data.transfer import download
from calibrant.errors import FileError, UsageError, WriteError

BODY = np.random.default_rng(0).bytes(1 << 20)
SHA = hashlib.sha256(BODY).hexdigest()


class Server:
    """What the server does, and the requests that it saw as (path, Range, status)."""

    def __init__(self):
        self.body, self.etag, self.cut, self.slow, self.status = BODY, '"one"', None, 0.0, None
        self.log = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                outer.answer(self)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/file.bin"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, request):
        asked = request.headers.get("Range")
        if request.path == "/redirect":
            request.send_response(302)
            request.send_header("Location", self.url)
            request.send_header("Content-Length", "0")
            request.end_headers()
            self.log.append((request.path, asked, 302))
            return
        start, status = 0, 200
        if asked and request.headers.get("If-Range") == self.etag:
            start, status = int(asked.removeprefix("bytes=").rstrip("-")), 206
            status = 416 if start >= len(self.body) else 206
        status = self.status or status
        self.log.append((request.path, asked, status))
        part = self.body[start:] if status in (200, 206) else b""
        request.send_response(status)
        request.send_header("Content-Length", str(len(part)))
        if self.etag:
            request.send_header("ETag", self.etag)
        if status == 206:
            request.send_header("Content-Range", f"bytes {start}-{len(self.body) - 1}/{len(self.body)}")
        request.end_headers()
        part = part if self.cut is None else part[: self.cut]
        try:
            for at in range(0, len(part), 1 << 16):
                request.wfile.write(part[at : at + (1 << 16)])
                time.sleep(self.slow)
        except OSError:
            pass
        request.close_connection = True


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv(transfer.MIRROR, raising=False)
    one = Server()
    yield one
    one.http.shutdown()
    one.http.server_close()


def leftovers(folder):
    return sorted(item.name for item in folder.iterdir())


def test_a_file_arrives_whole_and_is_not_asked_for_twice(server, tmp_path):
    path = tmp_path / "sub" / "file.bin"
    seen = []
    assert (
        download(server.url, path, SHA, size=len(BODY), progress=lambda done, total: seen.append((done, total))) == path
    )
    assert path.read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert leftovers(path.parent) == ["file.bin"]
    download(server.url, path, SHA)
    assert len(server.log) == 1


def test_truncated_answers_are_continued(server, tmp_path):
    server.cut = len(BODY) * 2 // 5
    path = download(server.url, tmp_path / "file.bin", SHA)
    assert path.read_bytes() == BODY
    assert [status for _, _, status in server.log] == [200, 206, 206]
    assert server.log[1][1] == f"bytes={server.cut}-"


def test_a_part_is_kept_when_all_attempts_fail_and_resumed_later(server, tmp_path):
    server.cut = 1000
    with pytest.raises(FileError, match="run the command again to resume"):
        download(server.url, tmp_path / "file.bin", SHA)
    assert not (tmp_path / "file.bin").exists()
    assert (tmp_path / "file.bin.partial").stat().st_size == 4000
    server.cut = None
    download(server.url, tmp_path / "file.bin", SHA)
    assert server.log[-1] == ("/file.bin", "bytes=4000-", 206)
    assert leftovers(tmp_path) == ["file.bin"]


def test_a_changed_file_starts_again(server, tmp_path):
    server.body, server.cut = b"old" * 100_000, 5000
    with pytest.raises(FileError):
        download(server.url, tmp_path / "file.bin", SHA)
    server.body, server.etag, server.cut = BODY, '"two"', None
    assert download(server.url, tmp_path / "file.bin", SHA).read_bytes() == BODY
    assert server.log[-1][1] is not None  # it asked for the rest, and got the whole
    assert server.log[-1][2] == 200


def test_without_an_etag_nothing_is_resumed(server, tmp_path):
    server.etag, server.cut = None, 5000
    with pytest.raises(FileError):
        download(server.url, tmp_path / "file.bin", SHA)
    assert all(asked is None for _, asked, _ in server.log)


def test_a_wrong_checksum_is_deleted(server, tmp_path):
    with pytest.raises(FileError, match="SHA-256"):
        download(server.url, tmp_path / "file.bin", "0" * 64)
    assert leftovers(tmp_path) == []
    (tmp_path / "file.bin").write_bytes(b"something else")
    with pytest.raises(FileError, match="rm "):
        download(server.url, tmp_path / "file.bin", SHA)
    assert (tmp_path / "file.bin").read_bytes() == b"something else"


def test_416_starts_again(server, tmp_path):
    server.cut = 5000
    with pytest.raises(FileError):
        download(server.url, tmp_path / "file.bin", SHA)
    with (tmp_path / "file.bin.partial").open("ab") as stream:
        stream.write(bytes(2 << 20))  # longer than the file: the server answers 416
    server.cut = None
    assert download(server.url, tmp_path / "file.bin", SHA).read_bytes() == BODY
    assert [status for _, _, status in server.log[-2:]] == [416, 200]


def test_redirects_and_mirrors(server, tmp_path, monkeypatch):
    root = server.url.rpartition("/")[0]
    assert download(f"{root}/redirect", tmp_path / "a.bin", SHA).read_bytes() == BODY
    monkeypatch.setenv(transfer.MIRROR, f"{root}/mirror/")
    download("http://127.0.0.1:9/unreachable", tmp_path / "b.bin", SHA)
    assert server.log[-1][0] == "/mirror/b.bin"
    monkeypatch.setenv(transfer.MIRROR, "ftp://example.org")
    with pytest.raises(UsageError, match="http"):
        download(server.url, tmp_path / "c.bin", SHA)


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (403, 1), (503, transfer.ATTEMPTS)])
def test_refusals(server, tmp_path, status, requests):
    server.status = status
    with pytest.raises(FileError, match=f"HTTP {status}"):
        download(server.url, tmp_path / "file.bin", SHA)
    assert len(server.log) == requests
    assert leftovers(tmp_path) == []


def test_nothing_listens(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(FileError, match="check the connection"):
        download("http://127.0.0.1:9/file.bin", tmp_path / "file.bin", SHA)


def test_resume_after_kill(server, tmp_path):
    server.slow = 0.02
    path = tmp_path / "file.bin"
    code = "import sys, pathlib, calibrant.data as d; d.download(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, server.url, str(path), SHA], env={**os.environ, "no_proxy": "127.0.0.1"}
    )
    partial = tmp_path / "file.bin.partial"
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not (partial.exists() and partial.stat().st_size > 1 << 18):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not path.exists()
    there = partial.stat().st_size
    assert 0 < there < len(BODY)
    server.slow = 0.0
    assert download(server.url, path, SHA).read_bytes() == BODY
    assert server.log[-1] == ("/file.bin", f"bytes={there}-", 206)


def test_no_space_left(server, tmp_path, monkeypatch):
    real = transfer._copy

    class Full:
        def __init__(self, stream):
            self.stream = stream

        def write(self, chunk):
            if self.stream.tell() > 1 << 18:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self.stream.write(chunk)

        def flush(self):
            self.stream.flush()

        def fileno(self):
            return self.stream.fileno()

    def copy(response, stream, *rest):
        return real(response, Full(stream), *rest)

    monkeypatch.setattr(transfer, "_copy", copy)
    with pytest.raises(WriteError, match="free some space"):
        download(server.url, tmp_path / "file.bin", SHA)
    assert not (tmp_path / "file.bin").exists()
    monkeypatch.setattr(transfer, "_copy", real)
    download(server.url, tmp_path / "file.bin", SHA)
    assert server.log[-1][2] == 206


def test_no_permission(server, tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    with pytest.raises(WriteError, match="--folder"):
        download(server.url, blocked / "file.bin", SHA)
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(WriteError):
        download(server.url, folder / "file.bin", SHA)


def test_the_address_belongs_to_the_part(server, tmp_path):
    """A part from another address is not continued."""
    server.cut = 5000
    with pytest.raises(FileError):
        download(server.url, tmp_path / "file.bin", SHA)
    server.cut = None
    download(server.url + "?other", tmp_path / "file.bin", SHA)
    assert server.log[-1][1:] == (None, 200)
    assert Path(tmp_path / "file.bin").read_bytes() == BODY
