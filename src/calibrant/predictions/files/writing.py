"""Writing: whole or not at all. What is being written has another name until it is complete."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from calibrant.errors import CalibrantError, UsageError, WriteError, plain, show
from calibrant.predictions import InMemory
from calibrant.predictions.base import Predictions
from calibrant.predictions.checking import KINDS
from calibrant.predictions.classification import two_classes
from calibrant.predictions.files import arrow
from calibrant.predictions.files.axes import row_axis
from calibrant.predictions.files.safetensors import write_safetensors
from calibrant.predictions.files.tables import NUMBER_KEYS
from calibrant.predictions.judged import Judged
from calibrant.predictions.regression import Regression


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content appears under `path` when it is complete, and never in part."""
    with _reporting(path):
        in_place = path.exists() and not path.is_file()  # a device or a pipe has no other name to take
    if in_place:
        with _reporting(path), path.open("wb") as stream:
            yield stream
        return
    temporary = None
    try:
        with _reporting(path):
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".part")
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o666 & ~_umask())  # noqa: PTH101
            os.replace(temporary, path)  # noqa: PTH105
            temporary = None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    try:
        yield
    except CalibrantError:
        raise
    except (OSError, UnicodeEncodeError) as error:
        reason = error.reason if isinstance(error, UnicodeEncodeError) else error.strerror
        raise WriteError(
            str(path),
            expected="a place to write to",
            came=plain(reason or str(error)),
            do="nothing was written; free space or choose another path",
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write(predictions: InMemory, path: str | Path) -> Path:
    """Write predictions in the format that the path ends in; `read` gives them back.

    .npz, .parquet, .arrow, .feather, .safetensors, .csv, .jsonl, or '/' for a folder of .npy. Tables of text (.csv,
    .jsonl) hold no meta and no member_names, and numbers come back in double precision.
    """
    text, path = str(path), Path(path)
    if not isinstance(predictions, Predictions):
        raise UsageError(
            "write",
            expected="predictions in memory",
            came=f"got {type(predictions).__name__}",
            do="read a stream first: cal.write(stream.read(), path)",
        )
    arrays = arrays_of(predictions)
    for key in arrays:
        if set(key) & {"/", "\\", "\0"}:
            raise UsageError(
                str(path),
                expected="column names without '/', '\\\\' and null characters",
                came=f"got {show(key)}",
                do="rename the column",
            )
    with _reporting(path):
        is_folder = text.endswith(("/", os.sep)) or path.is_dir()
    if is_folder:
        _write_folder(arrays, path)
        return path
    writers: dict[str, Callable[[dict[str, np.ndarray], IO[bytes]], None]] = {
        ".npz": _write_npz,
        ".parquet": arrow.write_parquet,
        ".arrow": arrow.write_arrow,
        ".feather": arrow.write_arrow,
        ".ipc": arrow.write_arrow,
        ".safetensors": write_safetensors,
        ".csv": _write_csv,
        ".jsonl": _write_jsonl,
    }
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise UsageError(
            str(path),
            expected=f"a name that ends in {', '.join(writers)} or '/'",
            came=f"it ends in {show(path.suffix)}",
            do="choose one of these formats",
        )
    with atomic_write(path) as stream:
        writer(arrays, stream)
    return path


def arrays_of(predictions: InMemory) -> dict[str, np.ndarray]:
    """The arrays of the contract that hold these predictions."""
    info = predictions.info
    arrays: dict[str, Any] = {"ids": info.ids, "weights": info.weights, **info.columns}
    if isinstance(predictions, Judged):
        arrays["confidence"] = _without_single_member(predictions.confidence)
        arrays["correct"] = predictions.correct
    elif isinstance(predictions, Regression):
        arrays["mean"] = _without_single_member(predictions.mean)
        arrays["std"] = _without_single_member(predictions.std)
        arrays |= {key: getattr(predictions, key) for key in ("samples", "quantiles", "levels", "y", "member_names")}
    else:
        scores = predictions.scores
        one_number = scores.shape[2] == 1
        scores = scores[0] if len(scores) == 1 else scores
        arrays[predictions.kind] = scores[:, 0] if one_number and scores.ndim == 2 else scores
        arrays["labels"] = predictions.labels
        arrays["label_probs"] = predictions.label_probs
        arrays["classes"] = predictions.class_names
        arrays["member_names"] = predictions.member_names
    if info.meta:
        arrays["meta"] = json.dumps(dict(info.meta))
    return {key: np.asarray(value) for key, value in arrays.items() if value is not None}


def _without_single_member(array: np.ndarray | None) -> np.ndarray | None:
    return array[0] if array is not None and len(array) == 1 else array


def _write_npz(arrays: dict[str, np.ndarray], stream: IO[bytes]) -> None:
    """As numpy.savez_compressed, which takes no column named 'file' or 'allow_pickle'."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                npy_format.write_array(member, array, allow_pickle=False)


def _two_columns(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Tables name classes by their scores: where they are named, the one number of a binary problem becomes two."""
    for kind in KINDS if "classes" in arrays else ():
        scores = arrays.get(kind)
        if scores is not None and (scores.ndim == 1 or scores.shape[-1] == 1):
            arrays[kind] = two_classes(scores if scores.ndim == 1 else scores[:, :, 0], kind)
    return arrays


def _write_folder(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Fill a folder beside the final one, then give it its name."""
    with _reporting(path):
        if path.exists() and any(path.iterdir()):
            raise UsageError(
                str(path),
                expected="a new or empty folder",
                came="it holds files",
                do="choose another name",
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:40]}."))
        try:
            for key, array in arrays.items():
                np.save(temporary / f"{key}.npy", array, allow_pickle=False)
            temporary.chmod(0o777 & ~_umask())
            os.replace(temporary, path)  # noqa: PTH105
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _write_csv(arrays: dict[str, np.ndarray], stream: IO[bytes]) -> None:
    table: dict[str, list[Any]] = {}
    arrays = _two_columns(arrays)
    classes, levels = arrays.pop("classes", None), arrays.pop("levels", None)
    arrays.pop("member_names", None)
    arrays.pop("meta", None)
    for key, array in arrays.items():
        if array.ndim == 1:
            table[key] = (array if key != "labels" or classes is None else classes[array]).tolist()
        elif array.ndim == 2 and key in (*KINDS, *NUMBER_KEYS):
            rows = array.T if row_axis(key, 2) else array
            names = classes if key in KINDS else levels if key == "quantiles" else None
            names = np.arange(rows.shape[1]) if names is None else names
            table |= {f"{key}_{name}": rows[:, c].tolist() for c, name in enumerate(names.tolist())}
        else:
            raise UsageError(
                "CSV",
                expected="one member and hard labels",
                came=f"{show(key)} has shape {array.shape}",
                do="write .npz or .jsonl, or .average() first",
            )
    lines = _Encoder(stream)
    writer = csv.writer(lines)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))


def _write_jsonl(arrays: dict[str, np.ndarray], stream: IO[bytes]) -> None:
    """One object a row; scores of named classes as {class: number}, a list of these for members."""
    arrays = _two_columns(arrays)
    classes, levels = arrays.pop("classes", None), arrays.pop("levels", None)
    arrays.pop("member_names", None)
    arrays.pop("meta", None)
    columns = {}
    for key, array in arrays.items():
        rows = np.moveaxis(array, row_axis(key, array.ndim), 0).tolist()
        if classes is not None and key == "labels":
            rows = classes[array].tolist()
        elif classes is not None and key in KINDS and array.ndim > 1:
            rows = [_named(row, classes.tolist()) for row in rows]
        elif key == "quantiles" and levels is not None:
            rows = [_named(row, [str(level) for level in levels.tolist()]) for row in rows]
        columns[key] = rows
    for values in zip(*columns.values(), strict=True):
        stream.write((json.dumps(dict(zip(columns, values, strict=True))) + "\n").encode())


def _named(scores: list[Any], classes: list[str]) -> Any:
    if isinstance(scores[0], list):
        return [_named(member, classes) for member in scores]
    return dict(zip(classes, scores, strict=True))


class _Encoder:
    """What csv writes as text, as UTF-8 bytes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(text.encode())
