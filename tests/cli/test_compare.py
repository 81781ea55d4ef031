"""The command `compare`: names, data sets, pools, what it prints and writes, and its exit codes."""

import csv
import io
import json

import numpy as np
import pytest

import calibrant as cal

N, C = 300, 3
FAST = ("--resamples", "100")


@pytest.fixture
def files(tmp_path):
    """A sure good model, a blunt poor one, and an ensemble of four, on the same rows."""
    rng = np.random.default_rng(0)
    truth = rng.normal(0.0, 2.0, (N, C))
    labels = (truth + rng.gumbel(size=(N, C))).argmax(axis=1)
    made = {
        "good": 4.0 * (truth + 0.2 * rng.normal(size=(N, C))),
        "poor": truth + 3.0 * rng.normal(size=(N, C)),
        "four": truth + 1.5 * rng.normal(size=(4, N, C)),
    }
    for name, logits in made.items():
        cal.write(cal.Classification.from_logits(logits, labels), tmp_path / f"{name}.npz")
    return tmp_path


def test_models_are_ranked_printed_and_written(run_here, files):
    done = run_here(
        "compare", f"sure={files}/good.npz", f"blunt={files}/poor.npz", *FAST, "--json", files / "c.json",
        "--html", files / "c.html",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.out.startswith("sure is best by CLL, significantly better than all others\n")
    assert "\n\nRanking by CLL" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())
    data = json.loads((files / "c.json").read_text())
    assert [item["model"] for item in data["ranking"]] == ["sure", "blunt"]
    assert data["comparison"]["splits"]["repeats"] == 5
    assert {pair["score"] for pair in data["pairs"]} == {"cll", "nll", "brier", "brier_ts", "accuracy"}
    page = (files / "c.html").read_text()
    assert "Ranking by CLL" in page
    assert "sure" in page


def test_files_without_names_are_called_after_themselves(run_here, files):
    done = run_here("compare", files / "good.npz", files / "poor.npz", *FAST, "--json", "-")
    assert done.code == 0, done.err
    assert [item["model"] for item in json.loads(done.out)["ranking"]] == ["good", "poor"]


def test_a_path_with_an_equals_sign_is_a_path(run_here, files):
    folder = files / "lr=0.1"
    folder.mkdir()
    (folder / "good.npz").write_bytes((files / "good.npz").read_bytes())
    done = run_here("compare", folder / "good.npz", f"other={files}/poor.npz::logits=logits", *FAST, "--json", "-")
    assert done.code == 0, done.err
    assert {item["model"] for item in json.loads(done.out)["ranking"]} == {"good", "other"}


def test_members_can_be_models_and_a_pool(run_here, files):
    done = run_here("compare", f"four={files}/four.npz", f"good={files}/good.npz", "--by-member", "--pool", "four",
                    *FAST, "--draws", "3", "--json", "-")  # fmt: skip
    assert done.code == 0, done.err
    data = json.loads(done.out)
    names = {item["model"] for item in data["ranking"]}
    assert names == {"four", "good", "four[0]", "four[1]", "four[2]", "four[3]"}
    assert set(data["comparison"]["equivalents"]) == names - {"four"}
    assert data["comparison"]["equivalents"]["good"]["censored"] == "above"
    apart = run_here("compare", f"good={files}/good.npz", "--pool", f"{files}/four.npz", *FAST, "--json", "-")
    assert json.loads(apart.out)["comparison"]["pool"] is not None


def test_data_sets_stand_before_a_slash(run_here, files):
    names = [f"{s}/{m}={files}/{m}.npz" for s in ("first", "second") for m in ("good", "poor")]
    done = run_here("compare", *names, *FAST, "--json", "-")
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert set(data["comparison"]["datasets"]) == {"first", "second"}
    assert data["ranking"][0]["model"] == "good"


def test_strict_makes_a_pitfall_exit_code_2_after_everything_is_written(run_here, files):
    names = [f"{m}={files}/{m}.npz" for m in ("good", "poor")]
    fine = run_here("compare", *names, *FAST, "--strict", "--quiet")
    assert (fine.code, fine.out) == (0, ""), fine.err
    done = run_here("compare", *names, *FAST, "--scores", "ece,cll", "--strict", "--json", files / "c.json")
    assert done.code == 2
    codes = {note["code"] for note in json.loads((files / "c.json").read_text())["warnings"]}
    assert "biased-errors" in codes
    assert "biased-errors" in done.err


@pytest.mark.parametrize("form", ["markdown", "latex", "csv"])
def test_other_formats_have_the_pairs(run_here, files, form):
    done = run_here("compare", f"a={files}/good.npz", f"b={files}/poor.npz", *FAST, "--format", form)
    assert done.code == 0, done.err
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(done.out)))
        pairs = {row["metric"]: row for row in rows if row["kind"] == "pair"}
        assert set(pairs) >= {"cll", "nll"}
        assert float(pairs["cll"]["p_holm"]) == float(pairs["cll"]["p_value"])
        assert pairs["cll"]["better"] == "a"
        models = [row for row in rows if row["kind"] == "model" and row["metric"] == "cll"]
        assert [(row["input"], row["rank"], row["n"]) for row in models] == [("a", "1", "300"), ("b", "2", "300")]
        assert all(float(row["temperature"]) > 0 for row in models)
    else:
        assert "Ranking by CLL" in done.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a={}/good.npz", "a={}/poor.npz"], "name for each"),
        (["s/a={}/good.npz", "b={}/poor.npz"], "data set"),
        (["a={}/nope.npz"], "nope"),
        (["a={}/good.npz", "b={}/poor.npz", "--pool", "c"], "pool"),
        (["a={}/good.npz", "--scores", "cll,nope"], "nope"),
        (["a={}/good.npz", "--temperature", "cold"], "cold"),
        (["a={}/good.npz", "--units", "nope"], "nope"),
        (["a={}/good.npz", "--resamples", "1"], "resamples"),
        (["a={}/good.npz", "--baseline", "b"], "baseline"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(run_here, expect_refusal, files, arguments, says):
    expect_refusal(run_here, ["compare", *(a.format(files) for a in arguments)], [says])


def test_members_of_clean_files_are_models_too(run_here, files):
    done = run_here("compare", f"four={files}/four.npz", "--by-member", "--temperature", "clean", "--clean",
                    f"four={files}/four.npz", *FAST, "--scores", "cll", "--json", "-")  # fmt: skip
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert len(data["ranking"]) == 5
    assert "scored-on-fitted-rows" in {note["code"] for note in data["warnings"]}


def test_strict_notes_arrays_that_fit_nothing_after_everything_is_written(run_here, files):
    arrays = dict(np.load(files / "good.npz"))
    np.savez(files / "odd.npz", stuff=np.zeros(7), **arrays)
    asked = ["compare", f"a={files}/odd.npz", f"b={files}/poor.npz", *FAST, "--json", files / "c.json", "-q"]
    for extra, code in (([], 0), (["--strict"], 2)):
        done = run_here(*asked, *extra)
        assert done.code == code, done.err
        notes = json.loads((files / "c.json").read_text())["warnings"]
        assert [note["code"] for note in notes if "stuff" in note["message"]] == ["ignored-arrays"]
        (files / "c.json").unlink()
        assert ("ignored-arrays" in done.err) == (code == 2)


@pytest.fixture
def both(files):
    """Two ensembles in one file, with the names of their members."""
    arrays = dict(np.load(files / "four.npz"))
    logits = arrays.pop("logits")
    other = logits + np.random.default_rng(1).normal(size=logits.shape)
    np.savez(files / "both.npz", soft=logits, hard=other, nets=np.array(["n0", "n1", "n2", "n3"]), **arrays)
    return [f"{name}={files}/both.npz::logits={name},member_names=nets" for name in ("soft", "hard")]


def test_what_another_model_reads_from_the_same_file_is_nothing_to_note(run_here, both):
    done = run_here("compare", *both, *FAST, "--strict", "--json", "-")
    assert done.code == 0, done.err
    assert json.loads(done.out)["warnings"] == []
    alone = run_here("compare", both[0], *FAST, "--json", "-")
    assert "'hard'" in json.loads(alone.out)["warnings"][0]["message"]


@pytest.mark.parametrize("before", ["", "d/"])
def test_members_of_one_name_have_the_name_of_their_file_before_it(run_here, both, before):
    names = [before + argument for argument in both]
    done = run_here("compare", *names, "--by-member", *FAST, "-s", "cll", "--json", "-")
    assert done.code == 0, done.err
    members = {f"{name}/n{k}" for name in ("soft", "hard") for k in range(4)}
    assert {item["model"] for item in json.loads(done.out)["ranking"]} == {"soft", "hard"} | members


def test_a_member_that_is_called_as_a_file_gives_way(run_here, both, files):
    named = f"n1={files}/poor.npz"
    done = run_here("compare", both[0], named, "--by-member", *FAST, "-s", "cll", "--json", "-")
    assert done.code == 0, done.err
    assert {item["model"] for item in json.loads(done.out)["ranking"]} == {"soft", "n0", "soft/n1", "n2", "n3", "n1"}


def test_gates_bring_their_scores_and_equivalents_want_a_pool(run_here, expect_refusal, files):
    names = [f"good={files}/good.npz", f"poor={files}/poor.npz"]
    done = run_here(
        "compare", *names, *FAST, "--fail-on", "good worse than poor by top_k(k=2)", "--require", "good best", "-q"
    )
    assert done.code == 0, done.err
    kept = run_here("compare", *names, *FAST, "--fail-on", "good: ece > 0.9", "--json", "-")
    assert kept.code == 0, kept.err
    assert "ece" in json.loads(kept.out)["results"][0]["metrics"]
    expect_refusal(run_here, ["compare", *names, "--require", "good: dee > 2"], ["--pool"])
