"""`calibrant monitor` as a nightly job runs it: files in, a verdict out, a state kept between the nights."""

import json

import numpy as np
import pytest

import calibrant as cal


@pytest.fixture
def nights(tmp_path):
    """Three nights of an over-confident model, and a table of one."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(900, 3))
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    labels = (p.cumsum(1) > rng.random((900, 1))).argmax(1)
    whole = cal.Classification.from_logits(2 * z, labels)
    for k in range(3):
        cal.write(whole[300 * k : 300 * (k + 1)], tmp_path / f"night{k}.npz")
    cal.write(whole, tmp_path / "all.npz")
    lines = [f"{a:.3f},{int(b)}" for a, b in zip(rng.random(50), rng.integers(0, 2, 50), strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(["conf,right", *lines]) + "\n")
    return tmp_path


def test_a_reading_in_plain_words(nights, run_here):
    ran = run_here("monitor", nights / "all.npz")
    assert ran.code == 0, ran.err
    monitor = cal.monitoring.Monitor().add(cal.read(nights / "all.npz"))
    assert ran.out.strip() == str(monitor)
    assert "top label · 900 rows" in ran.out
    assert f"Calibration is rejected at 5%: the e-value first reached 20 at row {monitor.crossed_at}." in ran.out
    assert "at any time" in ran.out
    calm = run_here("monitor", nights / "table.csv", "--confidence", "conf", "--correct", "right", "--alpha", "1e-9")
    assert "Calibration is not rejected at 1e-07%" in calm.out
    assert "does not show that the model is calibrated" in calm.out


def test_files_in_the_order_given_blocks_and_states_are_the_same(nights, run_here):
    parts = [nights / f"night{k}.npz" for k in range(3)]
    whole = run_here("monitor", nights / "all.npz").out
    assert run_here("monitor", *parts).out == whole
    assert run_here("monitor", *parts, "--blocks").out == whole
    state = nights / "state.json"
    for part in parts:
        last = run_here("monitor", part, "--state", state).out
    assert last == whole
    assert known(run_here("monitor", nights / "night0.npz", "--json", "-")) != known(
        run_here("monitor", nights / "night1.npz", "--json", "-")
    )


def test_a_file_counts_once(nights, run_here):
    """Also when it comes again another night, under another name; the state stays as it was."""
    state, again = nights / "state.json", nights / "again.npz"
    assert run_here("monitor", nights / "night0.npz", "--state", state).code == 0
    before = state.read_bytes()
    again.write_bytes((nights / "night0.npz").read_bytes())
    ran = run_here("monitor", again, "--state", state)
    assert ran.code == 2
    assert "a file that has not been added before, got one that has" in ran.err
    assert state.read_bytes() == before
    assert run_here("monitor", nights / "night1.npz", nights / "night1.npz").code == 2


def known(ran):
    return json.loads(ran.out)["results"][0]["monitor"]


def test_json_and_a_class(nights, run_here):
    out = nights / "out.json"
    assert run_here("monitor", nights / "all.npz", "--of", "2", "--alpha", "0.01", "--json", out, "-q").out == ""
    stored = json.loads(out.read_text())
    monitor = cal.monitoring.Monitor(2, 0.01).add(cal.read(nights / "all.npz"))
    assert stored["results"] == [{"monitor": monitor.to_json(), "verdict": monitor.verdict.to_json()}]
    assert stored["settings"] == {"of": "2", "alpha": 0.01, "relevant_error": None}
    assert stored["inputs"][0]["n"] == 900
    assert len(stored["inputs"][0]["sha256"]) == 64
    assert (stored["schema"], stored["kind"], stored["warnings"]) == (2, "monitor", [])


def test_a_state_goes_with_its_settings(nights, run_here, expect_refusal):
    state = nights / "state.json"
    run_here("monitor", nights / "night0.npz", "--alpha", "0.01", "--of", "1", "--state", state)
    again = ("monitor", nights / "night1.npz", "--state", state)
    expect_refusal(run_here, (*again, "--alpha", "0.05"), ["expected 0.01, as in 'state.json'", "remove --alpha"])
    expect_refusal(run_here, (*again, "--of", "2"), ["expected 1, as in 'state.json'"])
    expect_refusal(run_here, (*again, "--relevant-error", "0.1"), ["expected the default", "remove --relevant-error"])
    assert "class 1 · 600 rows" in run_here(*again, "--alpha", "0.01").out
    state.write_text(state.read_text()[:-40])
    expect_refusal(run_here, again, ["a monitor state", "it cannot be read"])


def test_bad_input_is_one_line_and_keeps_the_state(nights, run_here, expect_refusal):
    state = nights / "state.json"
    run_here("monitor", nights / "night0.npz", "--state", state)
    rng = np.random.default_rng(0)
    z, labels = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    cal.write(cal.Classification.from_logits(z, labels, weights=rng.random(40)), nights / "weighted.npz")
    cal.write(cal.Regression.from_gaussian(z[:, 0], np.ones(40), y=z[:, 1]), nights / "numbers.npz")
    z[7] = np.nan
    np.savez(nights / "bad.npz", logits=z, labels=labels)
    for name, says in [("weighted", "no weighted form"), ("numbers", "not defined for regression"), ("bad", "row 7")]:
        files = (nights / "night1.npz", nights / f"{name}.npz")
        expect_refusal(run_here, ("monitor", *files, "--state", state), [says])
    one = nights / "night1.npz"
    for args, says in [
        (("--of", "cat"), "cat"),
        (("--alpha", "2"), "between 0 and 1"),
        (("--state", nights / "x.npz"), "is for predictions"),
        (("--state", "-"), "a file name"),
        (("--state", nights / "s.json", "--json", nights / "s.json"), "a different file for each result"),
        (("--state", nights), "it cannot be read"),
        (("--state", nights / "no" / "s.json"), "a writable path"),
    ]:
        expect_refusal(run_here, ("monitor", one, *args), [says])
    expect_refusal(run_here, ("monitor", nights / "none.npz", "--state", state), ["none.npz"])
