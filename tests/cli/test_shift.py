"""calibrant shift: a contact sheet, or one line that says what is wrong."""

import numpy as np
import pytest

PIL = pytest.importorskip("PIL.Image")


@pytest.fixture
def npz(tmp_path):
    path = tmp_path / "images.npz"
    np.savez(path, images=np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8))
    return path


def test_sheet_has_a_row_a_corruption(run_here, npz, tmp_path):
    sheet = tmp_path / "sheet.png"
    result = run_here("shift", npz, "-o", sheet, "--row", "2")
    assert result.code == 0
    assert "19 shifts of an image of 32 × 32 pixels, parameters of the cifar set" in result.out
    with PIL.open(sheet) as picture:
        assert picture.size == (150 + 6 * 100, 22 + 19 * 100)
        with np.load(npz) as stored:
            shown = np.asarray(picture)[22 : 22 + 96 : 3, 150 : 150 + 96 : 3]
            np.testing.assert_array_equal(shown, stored["images"][2])


def test_some_shifts_and_a_plugin(run_cli, npz, tmp_path):
    plugin = tmp_path / "own.py"
    plugin.write_text(
        "from calibrant.shift import register\n"
        "@register('black', kind='corruption', severities=[1], summary='black')\n"
        "def black(rows, severity, draws):\n    return rows * 0\n"
    )
    sheet = tmp_path / "s.png"
    result = run_cli("shift", npz, "-o", sheet, "--only", "fog,black", "--plugin", plugin)
    assert result.code == 0, result.err
    with PIL.open(sheet) as picture:
        assert not np.asarray(picture)[22 + 100 : 22 + 196, 250 : 250 + 96].any()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.png", "-o", "s.png"], "missing.png"),
        (["{npz}", "-o", "s.txt"], "ending in .png"),
        (["{npz}", "-o", "{folder}/none/s.png"], "none"),
        (["{npz}", "-o", "s.png", "--only", "fogg"], "did you mean 'fog'"),
        (["{npz}", "-o", "s.png", "--only", "token_dropout"], "of kind text"),
        (["{npz}", "-o", "s.png", "--row", "3"], "from 0 to 2"),
        (["{npz}", "-o", "s.png", "--plugin", "none.py"], "--plugin"),
        (["{text}", "-o", "s.png"], "a picture"),
        (["{folder}/large.png", "-o", "s.png"], "9000 × 9000 pixels"),
    ],
)
def test_bad_input(arguments, words, run_here, npz, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.png").write_text("no picture")
    PIL.new("1", (9000, 9000)).save(tmp_path / "large.png")
    filled = [each.format(npz=npz, folder=tmp_path, text=tmp_path / "text.png") for each in arguments]
    result = run_here("shift", *filled)
    assert result.code == 2
    assert words in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "s.png").exists()
