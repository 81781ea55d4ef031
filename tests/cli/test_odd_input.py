"""Odd but sound input goes through: names are plain text wherever they are shown, and no value breaks the JSON."""

import json
import re

import numpy as np
import pytest

RNG = np.random.default_rng(5)
N = 30
LOGITS = RNG.normal(size=(N, 3))
LABELS = RNG.integers(0, 3, N)
FORMATS = ("table", "json", "csv", "markdown", "latex")
NAMES = {
    "terminal-markup": "[/nope]",
    "more-markup": "[bold red]x[/]",
    "script": "<script>alert(1)</script>",
    "event": "\"'><img src=x onerror=alert(1)>",
    "escape-sequences": "\x1b]0;owned\x07\x1b[31mred\x9b1m",
    "line-breaks": "two\nlines\r\tand\x0b\u2028more",
    "right-to-left": "\u202egnp.exe",
    "lone-surrogate": "a\ud800b",
    "many-signs": "%s{0}$&#_~^\\|*`",
}


def hostile_file(folder, name):
    """A file in which classes, a column, its values, the meta and the file itself bear the name."""
    try:
        path = folder / f"{name.replace('/', '_')}.npz"
        path.touch()
    except (OSError, UnicodeEncodeError):
        path = folder / "plain.npz"
    columns = {} if "\ud800" in name else {name: np.where(LABELS == 0, name, "other")}
    np.savez(
        path,
        logits=LOGITS,
        classes=np.array([name, "b", "c"]),
        labels=np.array([name, "b", "c"])[LABELS],
        where=np.where(LABELS == 0, name, "other"),
        meta=np.array(json.dumps({name: name})),
        **columns,
    )
    return path, [*columns, "where"]


def shows_plain_text(text):
    return all(c == "\n" or c.isprintable() for c in text)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_are_printed_as_plain_text(name, form, tmp_path, run_here):
    path, columns = hostile_file(tmp_path, name)
    ran = run_here("evaluate", path, "-m", "nll,accuracy", "--format", form, *(f"--by={c}" for c in columns))
    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert shows_plain_text(ran.out), repr(ran.out)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_describe_shows_names_as_plain_text(name, tmp_path, run_here):
    path, columns = hostile_file(tmp_path, name)
    ran = run_here("describe", path)
    assert ran.code == 0, ran.err
    assert shows_plain_text(ran.out), repr(ran.out)
    facts = [line.split()[0] for line in ran.out.splitlines()[1:]]
    assert facts.count("column") == len(columns)
    assert facts.count("classes") == 1


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_are_escaped_in_the_page_and_kept_in_the_json(name, tmp_path, run_here):
    path, columns = hostile_file(tmp_path, name)
    out, page = tmp_path / "out.json", tmp_path / "page.html"
    args = ["evaluate", path, "-m", "nll", "-q", "--json", out, "--html", page, *(f"--by={c}" for c in columns)]
    ran = run_here(*args)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    stored = json.loads(out.read_text())
    assert {group["by"] for group in stored["results"][0]["groups"]} == set(columns)
    assert {group["value"] for group in stored["results"][0]["groups"]} == {name, "other"}
    assert stored["inputs"][0]["meta"] == {name: name}
    html = page.read_text(encoding="utf-8").partition("<body>")[2].partition("</main>")[0]
    html = re.sub(r'<script type="application/json"[^>]*>[^<]*</script>', "", html)  # what charts are drawn from
    assert "<script" not in html
    assert "<img" not in html
    assert shows_plain_text(html), "control characters in the page"
    if "<script>" in name:
        assert "&lt;script&gt;" in html


def test_not_finite_groups_and_meta_are_valid_json(tmp_path, run_here):
    dose = np.where(LABELS == 0, np.nan, np.where(LABELS == 1, np.inf, 1.0))
    path = tmp_path / "a.npz"
    np.savez(path, logits=LOGITS, labels=LABELS, dose=dose, meta=np.array('{"loss": NaN, "best": Infinity}'))
    ran = run_here("evaluate", path, "-m", "nll", "--by", "dose", "--json", "-")
    assert ran.code == 0, ran.err

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    stored = json.loads(ran.out, parse_constant=refuse)
    assert sorted(group["n"] for group in stored["results"][0]["groups"]) == sorted(np.bincount(LABELS).tolist())


def test_certain_and_wrong_is_infinite_not_an_error(tmp_path, run_here):
    path = tmp_path / "a.npz"
    np.savez(path, probs=np.eye(3)[LABELS], labels=(LABELS + 1) % 3)
    ran = run_here("evaluate", path, "-m", "nll,accuracy", "--json", "-")
    assert ran.code == 0, ran.err
    metrics = json.loads(ran.out)["results"][0]["metrics"]
    assert metrics["nll"]["value"] is None
    assert metrics["nll"]["status"] == "infinite"
    assert metrics["accuracy"]["value"] == 0.0
