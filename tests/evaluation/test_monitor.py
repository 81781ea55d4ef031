"""`Monitor`: one go or many calls, with or without a file between them, are the same to the last bit."""

import json
import math

import numpy as np
import pytest

import calibrant as cal
from calibrant.calibration.evalue import log_e_path
from calibrant.kernels.rows import rows_of

N = 1700


@pytest.fixture(scope="module")
def over_confident():
    """Logits that are twice too large."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, 3))
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    labels = (p.cumsum(1) > rng.random((N, 1))).argmax(1)
    return cal.Classification.from_logits(2 * z, labels)


def known(monitor):
    return monitor.to_json() | {"text": str(monitor)}


def test_it_follows_the_path(over_confident):
    monitor = cal.Monitor().add(over_confident)
    rows = rows_of(over_confident)
    path = log_e_path(rows.confidence, rows.hit) / math.log(10)
    assert monitor.n == N
    assert monitor.log_e_value == cal.measure(over_confident, "log_e_value")["log_e_value"]
    assert monitor.log_e_value == pytest.approx(path[-1], rel=1e-12)
    assert monitor.highest == pytest.approx(path.max(), rel=1e-12)
    assert monitor.crossed_at == np.flatnonzero(path >= math.log10(20))[0] + 1
    assert monitor.p_value == 10**-monitor.highest
    shown = monitor.path
    assert shown["n"][:2] == [0, 4]
    assert shown["n"][-1] == N
    assert len(shown["n"]) <= 502
    np.testing.assert_allclose(shown["log_e_value"][1:-1], path[np.array(shown["n"][1:-1]) - 1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("of", ["top", "2"])
def test_many_calls_are_one(over_confident, tmp_path, of):
    whole = known(cal.Monitor(of).add(over_confident))
    for cuts in ([850], [1, 2, 3, 500, 501, 1000, 1001], range(100, N, 100)):
        monitor, start = cal.Monitor(of), 0
        for stop in [*cuts, N]:
            monitor.add(over_confident[start:stop])
            monitor = cal.Monitor.load(monitor.save(tmp_path / "state.json"))
            start = stop
        assert known(monitor) == whole


def test_a_stream_and_pairs_are_the_same(over_confident, tmp_path):
    cal.write(over_confident, tmp_path / "a.npz")
    streamed = cal.Monitor().add(cal.scan(tmp_path / "a.npz"))
    assert known(streamed) == known(cal.Monitor().add(over_confident))
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = rng.random(300) < p**2
    by_pairs = cal.Monitor().add_pairs(p[:100], y[:100]).add_pairs(p[100:], y[100:])
    assert known(by_pairs) == known(cal.Monitor().add(cal.Judged.from_confidence(p, y)))


def test_nothing_yet():
    monitor = cal.Monitor()
    assert (monitor.n, monitor.log_e_value, monitor.highest, monitor.crossed_at) == (0, 0.0, 0.0, None)
    assert monitor.path == {"n": [0], "log_e_value": [0.0]}
    assert not monitor.rejected


def test_points_are_thinned_by_n_alone():
    p, y = np.full(40_000, 0.5), np.tile([0, 1], 20_000)
    one, many = cal.Monitor().add_pairs(p, y), cal.Monitor()
    for part in np.split(np.arange(40_000), [1, 499, 500, 501, 1002, 33_333]):
        many.add_pairs(p[part], y[part])
        assert len(many.path["n"]) <= 502
    assert many.path == one.path
    assert one.path["n"][1] == 128


def test_once_crossed_it_stays(tmp_path):
    """Evidence may fall again; the verdict is of the first time."""
    monitor = cal.Monitor().add_pairs(np.full(30, 0.5), np.ones(30, int))
    first = monitor.crossed_at
    assert monitor.rejected
    assert first < 30
    monitor.add_pairs(np.full(400, 0.5), np.tile([0, 0, 1, 0, 1], 80))
    assert monitor.crossed_at == first
    assert monitor.log_e_value < monitor.highest
    assert "rejected at 5 %: the e-value first reached 20 at row" in str(monitor)


def test_the_impossible(tmp_path):
    monitor = cal.Monitor().add_pairs([0.5, 0.0, 0.5], [1, 1, 0])
    assert monitor.log_e_value == monitor.highest == math.inf
    assert monitor.crossed_at == 2
    assert monitor.p_value == 0
    assert "infinite now" in str(monitor)
    again = cal.Monitor.load(monitor.save(tmp_path / "s.json"))
    assert known(again) == known(monitor)
    assert again.add_pairs([0.5], [1]).path["log_e_value"][-1] == math.inf


def test_what_cannot_be_followed_is_refused_and_leaves_it_as_it_was(over_confident):
    monitor = cal.Monitor().add(over_confident[:50])
    before = known(monitor)
    z, labels = over_confident.scores[0], over_confident.labels
    bad = [
        (cal.Classification.from_logits(z, labels, weights=np.ones(N)), "no weighted form"),
        (cal.Classification.from_logits(z), "it needs hard labels"),
        (cal.Regression.from_gaussian(z[:, 0], np.ones(N), y=z[:, 1]), "not defined for regression"),
        (z, "got ndarray"),
    ]
    for predictions, said in bad:
        with pytest.raises(cal.CalibrantError, match=said):
            monitor.add(predictions)
    for p, y, said in [([1.2], [1], "from 0 to 1"), ([0.2], [2], "0 and 1"), ([0.2, 0.3], [1], "length")]:
        with pytest.raises(cal.CalibrantError, match=said):
            monitor.add_pairs(p, y)
    with pytest.raises(cal.CalibrantError, match="whether it came"):
        monitor.add_pairs([0.2], None)
    with pytest.raises(cal.CalibrantError, match="average members first"):
        monitor.add_pairs([[0.2], [0.3]], [1])
    assert known(monitor) == before
    with pytest.raises(cal.CalibrantError, match="no classes"):
        cal.Monitor("cat").add(cal.Judged.from_confidence([0.5], [1]))
    with pytest.raises(cal.CalibrantError, match="between 0 and 1"):
        cal.Monitor(alpha=5)


def test_a_stream_that_breaks_off_leaves_it_as_it_was(over_confident, tmp_path):
    z = np.array(over_confident.scores[0])
    z[N - 1] = np.nan
    np.savez(tmp_path / "bad.npz", logits=z, labels=over_confident.labels)
    monitor = cal.Monitor().add(over_confident[:50])
    before = known(monitor)
    with pytest.raises(cal.CalibrantError, match=f"row {N - 1}"):
        monitor.add(cal.scan(tmp_path / "bad.npz"))
    assert known(monitor) == before


DAMAGE = {
    "schema": 2,
    "kind": "evaluation",
    "of": 3,
    "alpha": 1.5,
    "n": -1,
    "impossible": "none",
    "highest": "high",
    "crossed_at": 10**9,
    "of_lines": [0],
    "of_bins": [0.5] * 140,
    "points": [[1, 0.0]],
    "taken": [3],
}


@pytest.mark.parametrize("key", DAMAGE)
def test_a_damaged_state_is_refused(tmp_path, key):
    path = cal.Monitor().add_pairs(np.full(30, 0.5), np.ones(30, int)).save(tmp_path / "s.json")
    sound = json.loads(path.read_text())
    assert set(DAMAGE) == set(sound)
    for data in (sound | {key: DAMAGE[key]}, {k: v for k, v in sound.items() if k != key}):
        path.write_text(json.dumps(data))
        with pytest.raises(cal.CalibrantError, match="the state of a monitor"):
            cal.Monitor.load(path)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100_000, '{"schema": 1'])
def test_what_is_no_state_is_refused(tmp_path, text):
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(cal.CalibrantError, match="the state of a monitor"):
        cal.Monitor.load(path)
    with pytest.raises(cal.CalibrantError, match="No such file"):
        cal.Monitor.load(tmp_path / "none.json")


def test_a_write_that_fails_leaves_the_old_state(tmp_path, monkeypatch):
    path = tmp_path / "s.json"
    monitor = cal.Monitor().add_pairs([0.5], [1])
    monitor.save(path)
    before = path.read_bytes()
    monitor.add_pairs([0.5], [1])

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        monitor.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
