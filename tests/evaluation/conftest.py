"""Where the real data lie."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder():
    """`CALIBRANT_DATA`, or shared/data beside the repository."""
    given = os.environ.get("CALIBRANT_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real data are not at {folder}; set CALIBRANT_DATA to their folder")
    return folder
