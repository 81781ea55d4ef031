"""calibrant data: list, prepare and where."""

import pytest


def test_list_where_and_details(run_here, tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path))
    result = run_here("data", "list")
    assert result.code == 0
    assert "cifar10 " in result.out
    assert "built in" in result.out
    assert run_here("data", "where").out.strip() == str(tmp_path)
    assert "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd" in run_here("data", "list", "cifar10").out


def test_prepare_verifies_what_is_there(run_here, data_folder):
    result = run_here("data", "prepare", "yacht", "--folder", data_folder)
    assert result.code == 0
    assert result.out.strip().endswith("yacht.npz: verified")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lst"], "did you mean 'list'"),
        (["prepare"], "a data set"),
        (["prepare", "cifar11", "--folder", "."], "did you mean 'cifar10'"),
        (["prepare", "yacht", "--folder", "{folder}"], "copy it there"),
        (["prepare", "cifar10c", "--folder", "{folder}"], "zenodo"),
        (["prepare", "cifar10"], "--folder FOLDER"),
        (["where"], "CALIBRANT_DATA"),
    ],
)
def test_bad_input(arguments, words, run_here, tmp_path, monkeypatch):
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    result = run_here("data", *[each.format(folder=tmp_path) for each in arguments])
    assert result.code == 2
    assert words in result.err
    assert result.err.count("\n") == 1
