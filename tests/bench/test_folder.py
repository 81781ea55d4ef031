"""A folder belongs to one plan and to one process at a time."""

import json

import pytest

from calibrant.bench.folder import experiment
from calibrant.errors import CalibrantError, FileError, UsageError, WriteError

PLAN = {"paper": "gopal", "epochs": 500, "hidden": [128, 128]}


def test_the_plan_is_written_and_the_same_one_goes_on(tmp_path):
    with experiment(tmp_path / "a" / "b", PLAN) as folder:
        assert json.loads((folder / "plan.json").read_text()) == PLAN
    with experiment(tmp_path / "a" / "b", dict(reversed(PLAN.items()))):
        pass


def test_another_plan_is_refused_and_told_by_what_differs(tmp_path):
    with experiment(tmp_path, PLAN):
        pass
    with pytest.raises(UsageError) as told, experiment(tmp_path, {**PLAN, "epochs": 5}):
        pass
    assert "epochs '500', not '5'" in str(told.value)
    assert "hidden" not in str(told.value)
    assert "--out" in str(told.value)
    assert json.loads((tmp_path / "plan.json").read_text()) == PLAN


def test_a_folder_of_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="got other files"), experiment(tmp_path, PLAN):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_in_use_is_refused_and_free_afterwards(tmp_path):
    pytest.importorskip("fcntl")
    with experiment(tmp_path, PLAN), pytest.raises(UsageError, match="no other process"), experiment(tmp_path, PLAN):
        pass
    with pytest.raises(RuntimeError), experiment(tmp_path, PLAN):
        raise RuntimeError
    with experiment(tmp_path, PLAN):
        pass


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", '"plan"'])
def test_a_damaged_plan_is_refused(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(CalibrantError) as told, experiment(tmp_path, PLAN):
        pass
    assert isinstance(told.value, FileError | UsageError)
    assert (tmp_path / "plan.json").read_text() == text


def test_a_place_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="--out"), experiment(tmp_path / "file" / "a", PLAN):
        pass
