"""Where data lie: in the folder that `CALIBRANT_DATA` names."""

from __future__ import annotations

import os
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from calibrant.errors import FileError

VARIABLE = "CALIBRANT_DATA"


def data_folder(given: str | Path | None = None) -> Path:
    """The folder that is given, or that CALIBRANT_DATA names."""
    named = given if given is not None else os.environ.get(VARIABLE)
    if not named or not Path(named).is_dir():
        raise FileError(
            "data",
            expected=f"a folder of data sets, in the variable {VARIABLE}",
            came=f"{named} is no folder" if named else "the variable is not set",
            do=f"export {VARIABLE}=FOLDER",
        )
    return Path(named)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; nothing in it is executed."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError, BadZipFile, KeyError) as error:
        raise FileError(
            str(path), expected="a data set as .npz", came=type(error).__name__, do="copy it again, or name its folder"
        ) from error
