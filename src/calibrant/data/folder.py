"""The folder of data sets, set by the environment variable `CALIBRANT_DATA`."""

from __future__ import annotations

import os
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from calibrant.errors import FileError

VARIABLE = "CALIBRANT_DATA"


def data_folder(folder: str | Path | None = None) -> Path:
    """`folder`, or by default the value of CALIBRANT_DATA."""
    path = folder if folder is not None else os.environ.get(VARIABLE)
    if not path or not Path(path).is_dir():
        raise FileError(
            "data",
            expected=f"a folder of data sets in the environment variable {VARIABLE}",
            got=f"{path}, which is not a folder" if path else "no value",
            hint=f"export {VARIABLE}=FOLDER",
        )
    return Path(path)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; nothing in it is executed."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError, BadZipFile, KeyError) as error:
        hint = f"copy it again, or export {VARIABLE}=FOLDER"
        raise FileError(str(path), expected="a data set as .npz", got=type(error).__name__, hint=hint) from error
