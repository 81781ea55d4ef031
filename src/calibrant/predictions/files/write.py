"""Write files atomically: content is written under a temporary name and renamed when it is complete."""

from __future__ import annotations

import csv
import io
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
from calibrant.predictions.arrays import CONSTANTS, NUMBER_KEYS, SCORE_KEYS, row_axis
from calibrant.predictions.base import Predictions
from calibrant.predictions.classification import two_class_scores
from calibrant.predictions.files.arrow_write import write_arrow, write_parquet
from calibrant.predictions.files.safetensors import write_safetensors
from calibrant.predictions.judged import Judged
from calibrant.predictions.regression import Regression


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a stream whose content appears at `path` only when it is complete."""
    with _reporting(path):
        in_place = path.exists() and not path.is_file()  # a device or a pipe cannot be renamed
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
        got, hint = plain(reason or str(error)), "nothing was written; free space or choose another path"
        raise WriteError(str(path), expected="a writable path", got=got, hint=hint) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write(predictions: InMemory, path: str | Path) -> Path:
    """Write predictions to a file that `read` can load.

    Parameters
    ----------
    predictions : Classification, Judged or Regression
        Predictions in memory.
    path : str or Path
        The suffix chooses the format: .npz, .parquet, .arrow, .feather, .safetensors, .csv, .jsonl, or '/' for a folder
        of .npy files. Text formats (.csv, .jsonl) store no meta and no member names, and numbers in double precision.

    Returns
    -------
    Path

    Examples
    --------
    >>> import calibrant as cal
    >>> import tempfile
    >>> path = cal.write(cal.Classification.from_probs([0.9, 0.2], [1, 0]), tempfile.mkdtemp() + "/net.npz")
    >>> cal.read(path)
    Classification('net', probs, rows=2, classes=2, members=1, labels=True)
    """
    text, path = str(path), Path(path)
    if not isinstance(predictions, Predictions):
        hint = "load a stream first: cal.write(stream.read(), path)"
        raise UsageError("write", expected="predictions in memory", got=type(predictions).__name__, hint=hint)
    arrays = arrays_of(predictions)
    for key in arrays:
        if set(key) & {"/", "\\", "\0"}:
            expected = "column names without '/', '\\\\' and null characters"
            raise UsageError(str(path), expected=expected, got=show(key), hint="rename the column")
    with _reporting(path):
        is_folder = text.endswith(("/", os.sep)) or path.is_dir()
    if is_folder:
        _write_folder(arrays, path)
        return path
    writers: dict[str, Callable[[dict[str, np.ndarray], IO[bytes]], None]] = {
        ".npz": _write_npz,
        ".parquet": write_parquet,
        ".arrow": write_arrow,
        ".feather": write_arrow,
        ".ipc": write_arrow,
        ".safetensors": write_safetensors,
        ".csv": _write_csv,
        ".jsonl": _write_jsonl,
    }
    writer = writers.get(path.suffix.lower())
    if writer is None:
        expected, hint = f"a name that ends in {', '.join(writers)} or '/'", "use one of these suffixes"
        raise UsageError(str(path), expected=expected, got=f"the suffix {show(path.suffix)}", hint=hint)
    with atomic_write(path) as stream:
        writer(arrays, stream)
    return path


def arrays_of(predictions: InMemory) -> dict[str, np.ndarray]:
    """The arrays of the file format for these predictions."""
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
        scores = _without_single_member(predictions.scores)
        arrays[predictions.kind] = scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores
        arrays |= {key: getattr(predictions, key) for key in ("labels", "label_probs")}
        arrays |= {"classes": predictions.class_names, "member_names": predictions.member_names}
    if info.meta:
        arrays["meta"] = json.dumps(dict(info.meta))
    return {key: np.asarray(value) for key, value in arrays.items() if value is not None}


def _without_single_member(array: Any) -> Any:
    return array[0] if array is not None and len(array) == 1 else array


def _write_npz(arrays: dict[str, np.ndarray], stream: IO[bytes]) -> None:
    """Like numpy.savez_compressed, which cannot store columns named 'file' or 'allow_pickle'."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                npy_format.write_array(member, array, allow_pickle=False)


def _text_table(arrays: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], Any, Any]:
    """The arrays by row of a text table, its classes and its levels; there is no place for meta and member names.

    Tables name classes by columns: the one number of a binary problem with named classes is expanded to two.
    """
    for kind in SCORE_KEYS if "classes" in arrays else ():
        scores = arrays.get(kind)
        if scores is not None and (scores.ndim == 1 or scores.shape[-1] == 1):
            arrays[kind] = two_class_scores(scores if scores.ndim == 1 else scores[:, :, 0], kind)
    by_row = {key: array for key, array in arrays.items() if key not in CONSTANTS}
    return by_row, arrays.get("classes"), arrays.get("levels")


def _write_folder(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Fill a temporary folder next to the final path, then rename it."""
    with _reporting(path):
        if path.exists() and any(path.iterdir()):
            hint = "choose another name, or empty the folder"
            raise UsageError(str(path), expected="a new or empty folder", got="a folder with files", hint=hint)
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
    arrays, classes, levels = _text_table(arrays)
    for key, array in arrays.items():
        if array.ndim == 1:
            table[key] = (array if key != "labels" or classes is None else classes[array]).tolist()
        elif array.ndim == 2 and key in (*SCORE_KEYS, *NUMBER_KEYS):
            rows = array.T if row_axis(key, 2) else array
            names = classes if key in SCORE_KEYS else levels if key == "quantiles" else None
            names = np.arange(rows.shape[1]) if names is None else names
            table |= {f"{key}_{name}": rows[:, c].tolist() for c, name in enumerate(names.tolist())}
        else:
            got, hint = f"{show(key)} of shape {array.shape}", "write .npz or .jsonl, or .average() first"
            raise UsageError("CSV", expected="one member and hard labels", got=got, hint=hint)
    text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    text.detach()


def _write_jsonl(arrays: dict[str, np.ndarray], stream: IO[bytes]) -> None:
    """One object per row; scores of named classes as {class: number}, a list of these for members."""
    arrays, classes, levels = _text_table(arrays)
    columns = {}
    for key, array in arrays.items():
        rows = np.moveaxis(array, row_axis(key, array.ndim), 0).tolist()
        if classes is not None and key == "labels":
            rows = classes[array].tolist()
        elif classes is not None and key in SCORE_KEYS and array.ndim > 1:
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
