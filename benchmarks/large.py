"""Inputs larger than one would load: `python -m benchmarks.large [--npy 6] [--parquet 4] [--folder DIR] [--write F]`.

Makes a folder of .npy and a set of Parquet shards of so many GB (float32 logits of 100 classes, default settings of the
writers), and compares the wall time of `calibrant evaluate` with that of reading the same files: in chunks with
readinto, and with pyarrow's own iterator. Cold: the files are dropped from the page cache before. The peak of memory is
that of the process (VmHWM).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format

CLASSES = 100
ROWS = 250_000
FIVE = "accuracy,nll,brier,ece,entropy"

EVALUATE = """
import sys, time
import calibrant as cal
metrics = sys.argv[2] or None
small = cal.Classification.from_logits([[float(k % 7) for k in range(100)]] * 60, [1] * 60)
cal.evaluate(small, metrics)  # loads the compiled kernels
begin = time.perf_counter()
cal.evaluate(cal.scan(sys.argv[1]), metrics)
seconds = time.perf_counter() - begin
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds, peak)
"""
READ_PLAINLY = """
import sys
buffer = bytearray(1 << 24)
for name in sys.argv[1:]:
    with open(name, "rb", buffering=0) as stream:
        while stream.readinto(buffer):
            pass
"""
READ_PARQUET = """
import sys
import pyarrow.parquet as pq
for name in sys.argv[1:]:
    for batch in pq.ParquetFile(name, pre_buffer=False, buffer_size=1 << 20).iter_batches(batch_size=40_000):
        batch.num_rows
"""


def blocks(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """A few different blocks of logits and labels; making each anew would take longer than everything else."""
    rng = np.random.default_rng(0)
    out = []
    for _ in range(count):
        z = 2 * rng.standard_normal((ROWS, CLASSES), dtype=np.float32)
        out.append((z, (z + 3 * rng.standard_normal((ROWS, CLASSES), dtype=np.float32)).argmax(axis=1)))
    return out


def make_npy(folder: Path, gigabytes: float) -> list[Path]:
    """A folder with logits.npy and labels.npy."""
    parts = blocks(4)
    count = max(1, round(gigabytes * 1e9 / parts[0][0].nbytes))
    folder.mkdir()
    files = [folder / "logits.npy", folder / "labels.npy"]
    with files[0].open("wb") as stream:
        shape = (count * ROWS, CLASSES)
        npy_format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for k in range(count):
            parts[k % 4][0].tofile(stream)
    np.save(files[1], np.concatenate([parts[k % 4][1] for k in range(count)]))
    return files


def make_parquet(folder: Path, gigabytes: float) -> list[Path]:
    """Shards of about 400 MB, written by pyarrow with its defaults."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    parts = blocks(4)
    logits = pa.concat_arrays([pa.FixedSizeListArray.from_arrays(pa.array(z.reshape(-1)), CLASSES) for z, _ in parts])
    table = pa.table({"logits": logits, "labels": pa.array(np.concatenate([y for _, y in parts]))})
    files, written = [], 0
    while written < gigabytes * 1e9 - 1e8:
        files.append(folder / f"part-{len(files):03d}.parquet")
        pq.write_table(table, files[-1])
        written += files[-1].stat().st_size
    return files


def forget(files: list[Path]) -> None:
    """Drop the files from the page cache."""
    for file in files:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(command: list[str], files: list[Path], cold: bool) -> tuple[float, float, float]:
    """Wall seconds of the process; the seconds and the peak of memory in MB that it tells of itself, where it does."""
    if cold:
        forget(files)
    begin = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    wall = time.perf_counter() - begin
    told = done.stdout.split()
    return (wall, float(told[0]), int(told[1]) / 1024) if told else (wall, wall, float("nan"))


def rows(name: str, files: list[Path], target: Path, reader: str) -> list[str]:
    """The lines of the table of one input, warm and cold."""
    gigabytes = sum(file.stat().st_size for file in files) / 1e9
    reading = [sys.executable, "-c", reader, *map(str, files)]
    lines = []
    for cold in (True, False):
        base = min(timed(reading, files, cold)[0] for _ in range(3))
        for what, metrics in (("default metrics", ""), ("five scores", FIVE)):
            alone = [sys.executable, "-c", EVALUATE, str(target), metrics]
            program = [sys.executable, "-m", "calibrant", "evaluate", str(target), "--quiet"]
            taken = [timed(alone, files, cold) for _ in range(3)]
            whole = timed([*program, *(["--metrics", metrics] if metrics else [])], files, cold)[0]
            seconds, peak = min(item[1] for item in taken), max(item[2] for item in taken)
            state = "cold" if cold else "in the page cache"
            lines.append(
                f"| {name}, {gigabytes:.1f} GB, {state} | {what} | {base:.2f} ({gigabytes / base:.2f} GB/s) | "
                f"{seconds:.2f} ({gigabytes / seconds:.2f} GB/s) | **{100 * base / seconds:.0f} %** | {whole:.2f} | "
                f"{peak:.0f} |"
            )
            print(lines[-1], flush=True)
    return lines


INTRODUCTION = """# Large inputs

Written by `python -m benchmarks.large --write docs/speed-large.md`. Seconds of `cal.evaluate(cal.scan(path))` with the
compiled kernels loaded, beside reading the same files in a process of its own: .npy with `readinto` in chunks of
16 MiB, Parquet with pyarrow's `iter_batches`; best of three. *Program* is one run of `calibrant evaluate`, its start
of a second or more included. Float32 logits of 100 classes; Parquet written by pyarrow with its defaults. *Cold*: the
files were dropped from the page cache before, as files that do not fit into memory always are; the speed of the disk
varies by itself. The peak is that of the process, with interpreter, libraries and compiled kernels. All threads, two
here: on more cores evaluating gains what reading does not.

| input | evaluated | reading, s | evaluating, s | share of the reading speed | program, s | peak, MB |
| --- | --- | --- | --- | --- | --- | --- |
"""


def main() -> None:
    """Make the files, time everything, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--npy", type=float, default=6.0, help="GB of the folder of .npy")
    parser.add_argument("--parquet", type=float, default=4.0, help="GB of the Parquet shards")
    parser.add_argument("--folder", type=Path, help="where the files are made; they are removed again")
    parser.add_argument("--write", type=Path, help="also write the page to this file")
    arguments = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        folder = Path(place)
        if arguments.npy:
            lines += rows("folder of .npy", make_npy(folder / "npy", arguments.npy), folder / "npy", READ_PLAINLY)
        if arguments.parquet:
            files = make_parquet(folder / "parquet", arguments.parquet)
            lines += rows("Parquet shards", files, folder / "parquet", READ_PARQUET)
    if arguments.write:
        arguments.write.write_text(INTRODUCTION + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
