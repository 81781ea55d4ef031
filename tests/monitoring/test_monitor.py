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
    monitor = cal.monitoring.Monitor().add(over_confident)
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
    whole = known(cal.monitoring.Monitor(of).add(over_confident))
    for cuts in ([850], [1, 2, 3, 500, 501, 1000, 1001], range(100, N, 100)):
        monitor, start = cal.monitoring.Monitor(of), 0
        for stop in [*cuts, N]:
            monitor.add(over_confident[start:stop])
            monitor = cal.monitoring.Monitor.load(monitor.save(tmp_path / "state.json"))
            start = stop
        assert known(monitor) == whole


def test_a_stream_and_pairs_are_the_same(over_confident, tmp_path):
    cal.write(over_confident, tmp_path / "a.npz")
    streamed = cal.monitoring.Monitor().add(cal.scan(tmp_path / "a.npz"))
    assert known(streamed) == known(cal.monitoring.Monitor().add(over_confident))
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = rng.random(300) < p**2
    by_pairs = cal.monitoring.Monitor().add_pairs(p[:100], y[:100]).add_pairs(p[100:], y[100:])
    assert known(by_pairs) == known(cal.monitoring.Monitor().add(cal.Judged.from_confidence(p, y)))


def test_nothing_yet():
    monitor = cal.monitoring.Monitor()
    assert (monitor.n, monitor.log_e_value, monitor.highest, monitor.crossed_at) == (0, 0.0, 0.0, None)
    assert monitor.path == {"n": [0], "log_e_value": [0.0]}
    assert not monitor.rejected


def test_points_are_thinned_by_n_alone():
    p, y = np.full(40_000, 0.5), np.tile([0, 1], 20_000)
    one, many = cal.monitoring.Monitor().add_pairs(p, y), cal.monitoring.Monitor()
    for part in np.split(np.arange(40_000), [1, 499, 500, 501, 1002, 33_333]):
        many.add_pairs(p[part], y[part])
        assert len(many.path["n"]) <= 502
    assert many.path == one.path
    assert one.path["n"][1] == 128


def test_once_crossed_it_stays(tmp_path):
    """Evidence may fall again; the verdict is of the first time."""
    monitor = cal.monitoring.Monitor().add_pairs(np.full(30, 0.5), np.ones(30, int))
    first = monitor.crossed_at
    assert monitor.rejected
    assert first < 30
    monitor.add_pairs(np.full(400, 0.5), np.tile([0, 0, 1, 0, 1], 80))
    assert monitor.crossed_at == first
    assert monitor.log_e_value < monitor.highest
    assert "rejected at 5%: the e-value first reached 20 at row" in str(monitor)
    assert not monitor.persists
    assert (monitor.verdict.status, monitor.verdict.direction) == ("inconclusive", ())
    assert f"was rejected at row {first}, but the evidence has since faded" in str(monitor)


def test_the_impossible(tmp_path):
    monitor = cal.monitoring.Monitor().add_pairs([0.5, 0.0, 0.5], [1, 1, 0])
    assert monitor.log_e_value == monitor.highest == math.inf
    assert monitor.crossed_at == 2
    assert monitor.p_value == 0
    assert "infinite now" in str(monitor)
    again = cal.monitoring.Monitor.load(monitor.save(tmp_path / "s.json"))
    assert known(again) == known(monitor)
    assert again.add_pairs([0.5], [1]).path["log_e_value"][-1] == math.inf


def test_what_cannot_be_followed_is_refused_and_leaves_it_as_it_was(over_confident):
    monitor = cal.monitoring.Monitor().add(over_confident[:50])
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
    for p, y, said in [([1.2], [1], "from 0 to 1"), ([0.2], [2], "0 and 1"), ([0.2, 0.3], [1], "one value per row")]:
        with pytest.raises(cal.CalibrantError, match=said):
            monitor.add_pairs(p, y)
    with pytest.raises(cal.CalibrantError, match="give y, 0 or 1"):
        monitor.add_pairs([0.2], None)
    with pytest.raises(cal.CalibrantError, match="average the members first"):
        monitor.add_pairs([[0.2], [0.3]], [1])
    assert known(monitor) == before
    with pytest.raises(cal.CalibrantError, match="no classes"):
        cal.monitoring.Monitor("cat").add(cal.Judged.from_confidence([0.5], [1]))
    with pytest.raises(cal.CalibrantError, match="between 0 and 1"):
        cal.monitoring.Monitor(alpha=5)


def test_a_stream_that_breaks_off_leaves_it_as_it_was(over_confident, tmp_path):
    z = np.array(over_confident.scores[0])
    z[N - 1] = np.nan
    np.savez(tmp_path / "bad.npz", logits=z, labels=over_confident.labels)
    monitor = cal.monitoring.Monitor().add(over_confident[:50])
    before = known(monitor)
    with pytest.raises(cal.CalibrantError, match=f"row {N - 1}"):
        monitor.add(cal.scan(tmp_path / "bad.npz"))
    assert known(monitor) == before


def shifted_labels(n=2000, seed=0):
    """Binary predictions whose positive class is 3.3 times too likely."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 4.0, n)
    odds = 6.0 * p / (1.0 - p)
    return cal.Classification.from_probs(odds / (1.0 + odds), (rng.random(n) < p).astype(int))


def test_binary_predictions_are_monitored_by_their_positive_class(tmp_path):
    """The top label of rare events hides that they are predicted too often."""
    overall = shifted_labels()
    monitor = cal.monitoring.Monitor().add(overall)
    assert known(monitor) == known(cal.monitoring.Monitor("1").add(overall))
    assert monitor.rejected
    assert monitor.crossed_at < 100
    assert monitor.direction == monitor.verdict.direction == ("overestimates",)
    assert monitor.verdict.status == "miscalibrated"
    assert "Overestimates class 1: predicts 36%, 11% observed" in str(monitor)
    flipped = cal.Classification.from_probs(1.0 - overall.scores[0, :, 0], 1 - overall.labels)
    assert cal.monitoring.Monitor().add(flipped).direction == ("underestimates",)
    top = cal.monitoring.Monitor("top").add(overall)
    assert top.log_e_value < monitor.log_e_value / 2
    assert top.direction == ()
    again = cal.monitoring.Monitor.load(monitor.save(tmp_path / "s.json"))
    assert known(again) == known(monitor)


def test_directions_of_top_labels_and_of_models_that_are_not_rejected(over_confident):
    assert cal.monitoring.Monitor().add(over_confident).direction == ("overconfident",)
    calm = cal.monitoring.Monitor().add(over_confident[:20])
    assert (calm.direction, calm.verdict.status) == ((), "inconclusive")
    assert cal.monitoring.Monitor().verdict.status == "not_tested"


def test_a_state_of_an_earlier_version_goes_on_with_the_top_label(tmp_path):
    overall = shifted_labels()
    path = cal.monitoring.Monitor("top").add(overall[:500]).save(tmp_path / "s.json")
    data = json.loads(path.read_text()) | {"schema": 1}
    path.write_text(json.dumps({key: value for key, value in data.items() if key not in ("sums", "classes")}))
    monitor = cal.monitoring.Monitor.load(path).add(overall[500:])
    assert monitor.of == "top"
    assert monitor.log_e_value == cal.monitoring.Monitor("top").add(overall).log_e_value


def test_a_state_without_rows_decides_later(tmp_path):
    again = cal.monitoring.Monitor.load(cal.monitoring.Monitor().save(tmp_path / "s.json"))
    assert again.of is None
    assert again.add(shifted_labels(50)).of == "1"


DAMAGE = {
    "schema": 4,
    "classes": "two",
    "sums": [31, 1, 1, 1, 1] + [0] * 45,
    "sums_at_lowest": [1] * 50,
    "before": [1, 0, 0, 0],
    "lowest": "low",
    "relevant_error": 0.0,
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


def drifting(calm, wrong, gap=0.3, seed=0):
    """Calibrated forecasts, then forecasts that are too high."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.35, 0.65, calm + wrong)
    chance = p - np.where(np.arange(len(p)) < calm, 0.0, gap)
    return p, (rng.random(len(p)) < chance).astype(int)


def test_a_late_drift_is_not_averaged_out_by_the_rows_before_it(tmp_path):
    """The relevant error, 0.1, lies above the mean difference of all rows, and below that of rows since the drift."""
    p, y = drifting(2_000, 400)
    monitor = cal.monitoring.Monitor(relevant_error=0.1).add_pairs(p, y)
    assert 0.03 < p.mean() - y.mean() < 0.06
    assert 1_500 < monitor.since < 2_050
    predicted, observed = monitor.recent_shares
    assert (predicted, observed) == pytest.approx((p[monitor.since - 1 :].mean(), y[monitor.since - 1 :].mean()))
    assert (monitor.verdict.status, monitor.verdict.direction) == ("miscalibrated", ("overconfident",))
    assert f"Overconfident since row {monitor.since}: mean confidence {100 * predicted:.0f}%" in str(monitor)
    in_parts = cal.monitoring.Monitor(relevant_error=0.1)
    for part in np.split(np.arange(len(p)), [1, 17, monitor.since - 2, monitor.since, 2_200]):
        in_parts = cal.monitoring.Monitor.load(in_parts.add_pairs(p[part], y[part]).save(tmp_path / "s.json"))
    assert known(in_parts) == known(monitor)


def test_a_small_difference_in_many_rows_is_negligible():
    """Miscalibration of 0.6 points is found in 400,000 rows and is below the relevant error; a stricter one is not."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.8, 400_000)
    y = rng.random(len(p)) < p - 0.006
    monitor, strict = (cal.monitoring.Monitor(relevant_error=x).add_pairs(p, y) for x in (None, 0.005))
    assert monitor.rejected
    assert monitor.persists
    assert 0.006 < monitor.largest_error < 0.02
    assert (monitor.verdict.status, monitor.verdict.direction) == ("negligible", ("overconfident",))
    assert (strict.verdict.status, strict.verdict.direction) == ("miscalibrated", ("overconfident",))


def test_the_size_of_the_error_has_gaps_and_tilts_of_all_bins():
    """Gaps that cancel on average add up, and so does a tilt within a bin; plus 1.96 standard errors."""
    rng = np.random.default_rng(1)
    p = np.concatenate([np.full(1500, 0.35), np.full(1500, 0.65), rng.uniform(0.801, 0.899, 3000)])
    rng.shuffle(p)
    chance = np.select([p < 0.5, p < 0.7], [p + 0.2, p - 0.2], 1.7 - p)  # of the last bin, the opposite tilt
    y = rng.random(6000) < chance
    monitor = cal.monitoring.Monitor().add_pairs(p, y)
    recent = np.arange(len(p)) >= monitor.since - 1
    total = 0.0
    for low, high in ((0.3, 0.4), (0.6, 0.7), (0.8, 0.9)):
        inside = recent & (p >= low) & (p < high)
        total += abs((p - y)[inside].sum())
        if np.ptp(p[inside]) > 1e-3:
            own = p[inside] - p[inside].mean()
            total += abs((own * (p - y)[inside]).sum()) * np.sqrt(inside.sum() / (own**2).sum())
    expected = (total + 1.96 * np.sqrt(2 * (p * (1 - p))[recent].sum())) / recent.sum()
    assert monitor.largest_error == pytest.approx(expected, abs=1e-6)
    assert monitor.verdict.status == "miscalibrated"


@pytest.mark.parametrize("kind", ["rare", "opposite"])
def test_errors_within_one_bin_are_not_small(kind):
    """Forecasts of one bin whose mean is right, and which say nothing, or the opposite."""
    rng = np.random.default_rng(2)
    p = rng.uniform(0.0, 0.1, 40_000) if kind == "rare" else rng.choice([0.41, 0.49], 40_000)
    y = rng.random(len(p)) < (0.05 if kind == "rare" else 0.9 - p)
    known = cal.Classification.from_probs(p, y.astype(int))
    verdict = cal.monitoring.Monitor().add(known).verdict
    assert verdict.status == cal.evaluate(known, "ece", curves=False).verdict.status == "miscalibrated"


@pytest.mark.parametrize("schema", [1, 2])
def test_a_state_of_an_earlier_schema_goes_on(tmp_path, schema):
    """Its rows have no bins: they count for row numbers, and in schema 2 for the shares of all rows."""
    overall = shifted_labels()
    path = cal.monitoring.Monitor("1").add(overall[:500]).save(tmp_path / "s.json")
    p, y = overall.scores[0, :500, -1], overall.labels[:500]
    old = [500, int(y.sum()), int(np.rint(p * 2.0**30).astype(np.int64).sum()), 0]
    data = json.loads(path.read_text()) | {"schema": schema, "sums": old}
    for key in ("sums_at_lowest", "lowest", "relevant_error", "before", *(["sums", "classes"] if schema == 1 else [])):
        del data[key]
    path.write_text(json.dumps(data))
    loaded = cal.monitoring.Monitor.load(path)
    assert (loaded.n, loaded.since) == (500, 501)
    monitor, whole = loaded.add(overall[500:]), cal.monitoring.Monitor().add(overall)
    assert monitor.log_e_value == whole.log_e_value
    assert monitor.shares == (whole.shares if schema == 2 else cal.monitoring.Monitor().add(overall[500:]).shares)
    assert monitor.since >= 501
    assert monitor.verdict.status == "miscalibrated"
    again = cal.monitoring.Monitor.load(monitor.save(tmp_path / "t.json"))
    assert known(again) == known(monitor)


def test_a_rare_class_has_a_smaller_relevant_error():
    """Halved risks of a class of 2% are a percent off: less than 0.02, and half of the rate."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.4, 20.0, 100_000)
    halved = cal.Classification.from_probs(0.5 * p, (rng.random(len(p)) < p).astype(int))
    verdict = cal.monitoring.Monitor().add(halved).verdict
    assert (verdict.status, verdict.direction) == ("miscalibrated", ("underestimates",))
    assert cal.evaluate(halved, "ece", curves=False).verdict.direction[0] == "underestimates"
    assert cal.monitoring.Monitor(relevant_error=0.05).add(halved).verdict.status == "negligible"


def test_rows_of_a_model_with_other_classes_are_refused():
    monitor = cal.monitoring.Monitor().add(shifted_labels(100))
    three = cal.Classification.from_probs(np.full((10, 3), 1 / 3), np.arange(10) % 3)
    with pytest.raises(cal.CalibrantError, match="expected 2 classes, as in the rows before, got 3"):
        monitor.add(three)
    assert monitor.n == 100


@pytest.mark.parametrize("key", DAMAGE)
def test_a_damaged_state_is_refused(tmp_path, key):
    path = cal.monitoring.Monitor().add_pairs(np.full(30, 0.5), np.ones(30, int)).save(tmp_path / "s.json")
    sound = json.loads(path.read_text())
    assert set(DAMAGE) == set(sound)
    for data in (sound | {key: DAMAGE[key]}, {k: v for k, v in sound.items() if k != key}):
        path.write_text(json.dumps(data))
        with pytest.raises(cal.CalibrantError, match="a monitor state"):
            cal.monitoring.Monitor.load(path)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100_000, '{"schema": 1'])
def test_what_is_no_state_is_refused(tmp_path, text):
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(cal.CalibrantError, match="a monitor state"):
        cal.monitoring.Monitor.load(path)
    with pytest.raises(cal.CalibrantError, match="No such file"):
        cal.monitoring.Monitor.load(tmp_path / "none.json")


def test_a_write_that_fails_leaves_the_old_state(tmp_path, monkeypatch):
    path = tmp_path / "s.json"
    monitor = cal.monitoring.Monitor().add_pairs([0.5], [1])
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
