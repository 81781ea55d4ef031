"""How the program refuses: one line that says what was expected, what came and what to do, and no trace in files."""

import numpy as np
import pytest


def check_refusal(ran, says=()):
    """Exit code 2 and one line `calibrant: … expected …, got …; what to do` on stderr, nothing on stdout."""
    assert "Traceback" not in ran.err
    assert ran.code == 2, ran.err
    lines = [line for line in ran.err.splitlines() if line.strip()]
    assert len(lines) == 1, ran.err
    assert ran.out == ""
    line = lines[0]
    assert line.startswith("calibrant: ")
    head, _, rest = line.partition(", got ")
    assert "expected " in head, line
    got, mark, hint = rest.rpartition("; ")
    assert mark, line
    assert got.strip(), line
    assert hint.strip(), line
    assert "�" not in line
    for word in says:
        assert word in line, line


@pytest.fixture
def told_in_one_line():
    """told_in_one_line(ran, says): that the program refused, and in which words."""
    return check_refusal


def content(folder):
    """Every file under a folder with its bytes."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def expect_refusal(tmp_path):
    """Check that a command is refused, and that it leaves every file as it was; then the same over an older result."""

    def check(run, args, says=(), **env):
        out = tmp_path / "out.json"
        takes_json = args[0] == "evaluate" and "--json" not in args
        command = [*args, "--json", out] if takes_json else args
        before = content(tmp_path)
        check_refusal(run(*command, **env), says)
        assert content(tmp_path) == before
        if takes_json:
            out.write_text("an older result\n")
            check_refusal(run(*command, **env), says)
            assert content(tmp_path) == before | {out: b"an older result\n"}

    return check


@pytest.fixture
def good(tmp_path):
    """A file of sound predictions: 40 rows, 3 classes, 2 members, a few columns."""
    rng = np.random.default_rng(0)
    path = tmp_path / "good.npz"
    np.savez(
        path,
        logits=rng.normal(size=(2, 40, 3)),
        labels=rng.integers(0, 3, 40),
        age=rng.normal(50, 9, 40),
        site=np.array(["north", "south"] * 20),
    )
    return path
