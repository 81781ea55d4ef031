"""The map of folders and the walk through `calibrant evaluate FILE` in CONTRIBUTING.md, against the package."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

import calibrant

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(calibrant.__file__).parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NOT_MAPPED = {"__init__", "__main__", "__pycache__", "demo_data"}


def section(title):
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def mapped():
    """The names in the first column of the map, table by table."""
    tables = section("Where things are").split("| layer |")[1:]
    return [
        [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines() if row.startswith("| `")]
        for table in tables
    ]


def test_every_folder_and_module_is_in_the_map():
    names = [name for table in mapped() for row in table for name in row]
    present = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))
    }
    assert set(names) == present - NOT_MAPPED
    assert len(set(names)) == len(names)


def test_the_map_has_the_order_of_the_layers():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [
        [{part.strip().removeprefix("calibrant.") for part in layer.split("|")} for layer in contract["layers"]]
        for contract in contracts
        if contract["type"] == "layers"
    ]
    evaluation, training = ([set(row) for row in table] for table in mapped())
    assert evaluation == layers[0]
    order = {name: place for place, layer in enumerate(layers[1]) for name in layer}
    places = [order[name] for row in training for name in sorted(row)]
    assert places == sorted(places)


@pytest.fixture(scope="module")
def profile_files():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import profile_files
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return profile_files


def small_logits(profile_files, folder):
    file = folder / "logits.npz"
    profile_files.write_logits(file, n=500, classes=4)
    return file


def test_the_walk_is_the_path_of_evaluate(profile_files, tmp_path):
    """Every step is called, and for the first time after the step before it."""
    steps = [
        (match[1], match[2])
        for line in re.findall(r"^\d+\. .*$", section("How `calibrant evaluate FILE` works"), re.MULTILINE)
        if (match := re.match(r"\d+\. `([\w/]+\.py)`: `([\w.]+)`", line))
    ]
    assert len(steps) >= 14
    calls = profile_files.profile(["evaluate", "{file}", "--resamples", "50"], small_logits(profile_files, tmp_path))
    assert [step for step in steps if step not in calls] == []
    places = [calls.index(step) for step in steps]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "case", ["calibrant evaluate FILE -m nll", "calibrant evaluate FILE", 'cal.evaluate(p, "nll")']
)
def test_a_reader_has_few_files_to_follow(case, profile_files, tmp_path):
    calls = profile_files.profile(profile_files.CASES[case], small_logits(profile_files, tmp_path))
    assert 10 < len({file for file, _ in calls}) <= profile_files.LIMITS[case]
