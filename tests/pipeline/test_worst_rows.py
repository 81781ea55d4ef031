"""The rows with the largest losses: against a plain sort, whatever the blocks and threads, and whatever their names."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal
from calibrant.pipeline.worst_rows import as_json

N = 60


def classes(members=1, width=4, seed=0, weighted=False, **more):
    rng = np.random.default_rng([members, width, seed])
    z = 2 * rng.normal(size=(members, N, width))
    weights = np.where(np.arange(N) % 5 == 0, 0.0, 1.0 + rng.random(N)) if weighted else None
    z = z if members > 1 else z[0]
    return cal.Classification.from_logits(z, rng.integers(0, width, N), weights=weights, **more)


def judged(**more):
    rng = np.random.default_rng(1)
    return cal.Judged.from_confidence(rng.random(N).round(1), rng.integers(0, 2, N), **more)


def gaussian(members=1, **more):
    rng = np.random.default_rng(members)
    mean, std = rng.normal(size=(members, N)), 0.5 + rng.random((members, N))
    return cal.Regression.from_gaussian(mean, std, mean[0] + 2 * rng.normal(size=N), **more)


def samples(**more):
    rng = np.random.default_rng(3)
    return cal.Regression.from_samples(rng.normal(size=(7, N)), 2 * rng.normal(size=N), **more)


def quantiles(**more):
    rng = np.random.default_rng(4)
    return cal.Regression.from_quantiles(np.sort(rng.normal(size=(N, 3)), axis=1), [0.1, 0.5, 0.9],
                                         2 * rng.normal(size=N), **more)  # fmt: skip


def probabilities(made):
    z = made.scores.astype(np.float64)
    return (np.exp(z) / np.exp(z).sum(axis=2, keepdims=True)).mean(axis=0)


MADE = {
    "classes": (classes(), "nll"),
    "members": (classes(members=3, width=60), "nll"),
    "weighted": (classes(weighted=True), "nll"),
    "judged": (judged(), "nll"),
    "gaussian": (gaussian(), "nll"),
    "mixture": (gaussian(members=3), "nll"),
    "samples": (samples(), "crps"),
    "quantiles": (quantiles(), "pinball"),
}
each = pytest.mark.parametrize("name", MADE)


def worst(made, metrics=None, **settings):
    return evaluate_with(made, metrics, **({"resamples": 20, "curves": False} | settings)).results[0].worst_rows


def by_sort(made, metric, rows):
    """(loss, row) of the worst, by sorting all of them in Python."""
    loss = cal.score_rows(made, metric)[metric].tolist()
    counted = [row for row in range(made.n) if made.weights is None or made.weights[row] > 0]
    return sorted(((loss[row], row) for row in counted), key=lambda pair: (-pair[0], pair[1]))[:rows]


# ------------------------------------------------------------------------------------------- which
@each
@pytest.mark.parametrize("rows", [7, 100])
def test_the_largest_losses_by_a_plain_sort(name, rows):
    made, metric = MADE[name]
    expected = by_sort(made, metric, rows)
    assert len(expected) == min(rows, 48 if name == "weighted" else N)
    result = evaluate_with(made, resamples=20, curves=False, worst_rows=rows).results[0]
    found = [(math.inf if row["loss"] is None else row["loss"], row["row"]) for row in result.worst_rows]
    assert found == expected
    assert result.worst_by == metric


@each
def test_blocks_threads_and_streams_show_nowhere(name, tmp_path):
    made, metric = MADE[name]
    rng = np.random.default_rng(0)
    columns = {"site": rng.choice(["a", "b"], N), "dose": rng.random(N).astype(np.float32)}
    info = replace(made.info, ids=np.array([f"row {k}" for k in range(N)]), columns=columns)
    made = replace(made, info=info)
    whole = worst(made, metric, worst_rows=9)
    path = cal.write(made, tmp_path / "x.npz")
    for block_rows in (1, 7, None):
        for threads in (1, 2):
            for item in (made, cal.scan(path)):
                assert worst(item, metric, worst_rows=9, block_rows=block_rows, threads=threads) == whole
    for row in whole:
        assert row["id"] == f"row {row['row']}"
        assert row["columns"]["site"] == columns["site"][row["row"]]
        assert np.float32(row["columns"]["dose"]) == columns["dose"][row["row"]]


@pytest.mark.parametrize("name", ["weighted", "judged", "samples"])
def test_long_inputs_are_sorted_in_stretches(name, monkeypatch):
    made, metric = MADE[name]
    whole = worst(made, metric, worst_rows=9)
    monkeypatch.setattr("calibrant.pipeline.worst_rows.SORTED_ROWS", 4)
    assert worst(made, metric, worst_rows=9) == whole
    assert worst(made, metric, worst_rows=9, block_rows=10) == whole


def test_equal_losses_stand_in_the_order_of_rows():
    p = np.tile([[0.7, 0.3], [0.2, 0.8]], (N // 2, 1))
    made = cal.Classification.from_probs(p, np.ones(N, int))
    for block_rows in (1, 7, None):
        found = worst(made, worst_rows=35, block_rows=block_rows)
        assert [row["row"] for row in found] == [*range(0, N, 2), 1, 3, 5, 7, 9]


def test_infinite_losses_come_first_and_are_null():
    p = np.full((N, 2), 0.5)
    p[[40, 3]] = [1.0, 0.0]
    for block_rows in (1, None):
        found = worst(cal.Classification.from_probs(p, np.ones(N, int)), worst_rows=3, block_rows=block_rows)
        assert [row["row"] for row in found] == [3, 40, 0]
        assert [(row["loss"], row.get("status")) for row in found[:2]] == [(None, "infinite")] * 2
        assert found[2]["loss"] == pytest.approx(math.log(2))
        assert "status" not in found[2]


def test_rows_of_no_weight_are_left_out_and_weights_do_not_rank():
    made = classes(weighted=True)
    rows = [row["row"] for row in worst(made)]
    assert sorted(rows) == [k for k in range(N) if k % 5]
    plain = replace(made, info=replace(made.info, weights=None))
    assert rows == [row["row"] for row in worst(plain) if row["row"] % 5]


# -------------------------------------------------------------------------------------------- what
@pytest.mark.parametrize("members", [1, 3])
def test_what_is_told_of_classes(members):
    made = classes(members=members, classes=["cat", "dog", "fox", "emu"])
    p = probabilities(made)
    for row in worst(made, worst_rows=12):
        mine = p[row["row"]]
        assert row["label"] == made.class_names[made.labels[row["row"]]]
        assert row["predicted"] == made.class_names[mine.argmax()]
        assert row["confidence"] == pytest.approx(mine.max())
        assert row["entropy"] == pytest.approx(-(mine * np.log(mine)).sum())
        ranked = np.argsort(-mine)[:3]
        assert [name for name, _ in row["top"]] == [made.class_names[k] for k in ranked]
        assert [value for _, value in row["top"]] == pytest.approx(mine[ranked], abs=1e-6)
        assert all(value == round(value, 6) for _, value in row["top"])
        assert ("mutual_information" in row) == (members > 1)
        if members > 1:
            each_member = made.as_probs().scores[:, row["row"]]
            inside = -(each_member * np.log(each_member)).sum(axis=1).mean()
            assert row["mutual_information"] == pytest.approx(row["entropy"] - inside)


def test_what_is_told_of_judged_answers_and_numbers():
    made = judged()
    for row in worst(made, worst_rows=5):
        assert set(row) <= {"row", "loss", "status", "confidence", "correct"}
        assert row["confidence"] == made.confidence[0, row["row"]]
        assert row["correct"] is bool(made.correct[row["row"]])
    mixed = gaussian(members=3)
    for row in worst(mixed, worst_rows=5):
        k = row["row"]
        assert row["y"] == mixed.y[k]
        assert row["mean"] == pytest.approx(mixed.mean[:, k].mean())
        assert row["std"] == pytest.approx(np.sqrt((mixed.std[:, k] ** 2).mean() + mixed.mean[:, k].var()))
        assert row["pit"] == pytest.approx(cal.score_rows(mixed, "pit")["pit"][k])
    drawn = samples()
    for row in worst(drawn, worst_rows=5):
        assert row["std"] == pytest.approx(drawn.samples[:, row["row"]].std(ddof=1))
    for row in worst(quantiles(), worst_rows=5):
        assert [row["low"], row["median"], row["high"]] == quantiles().quantiles[row["row"]].tolist()


def test_soft_labels_have_an_expected_loss_and_no_label():
    soft = np.random.default_rng(0).dirichlet(np.ones(4), N)
    made = replace(classes(), label_probs=soft).with_soft_labels()
    loss = -(soft * np.log(probabilities(made))).sum(axis=1)
    found = worst(made, worst_rows=6)
    assert [row["row"] for row in found] == np.argsort(-loss)[:6].tolist()
    assert [row["loss"] for row in found] == pytest.approx(np.sort(loss)[:-7:-1])
    assert "label" not in found[0]


def test_many_columns_are_cut_and_those_asked_for_come_first():
    columns = {f"c{k}": np.arange(N) % 3 for k in range(20)}
    made = classes(columns=columns)
    (first, *_) = worst(made, by=["c15", "c18:2"], units="c17")
    assert list(first["columns"]) == ["c15", "c18", "c17", *(f"c{k}" for k in range(9))]


# ------------------------------------------------------------------------------------------ whether
def test_none_where_there_is_nothing_to_rank_by():
    made = classes()
    assert worst(replace(made, labels=None)) == ()
    assert worst(made, worst_rows=0) == ()
    detection = cal.Detection.from_scores(np.arange(5.0), np.arange(4.0))
    assert worst(detection) == ()
    result = evaluate_with(made, resamples=20, worst_rows=0).results[0]
    assert result.worst_by is None
    assert "worst_rows" not in result.to_json()


@pytest.mark.parametrize(
    ("made", "metrics", "loss"),
    [
        (classes(), "accuracy", "nll"),  # the pass has p(label) anyway
        (judged(), "ece", None),
        (judged(), "ece,nll(clip=0.01)", "nll"),
        (gaussian(), "mse", None),
        (gaussian(), "crps", "crps"),
        (gaussian(), "crps,nll", "nll"),
        (quantiles(), "mae", None),
    ],
)
def test_nothing_is_computed_for_their_sake(made, metrics, loss):
    result = cal.evaluate(made, metrics, resamples=20).results[0]
    assert result.worst_by == loss
    assert len(result.worst_rows) == (N if loss else 0)


def test_one_sample_a_row_has_the_error_as_its_loss():
    made = cal.Regression.from_samples(np.zeros((1, 4)), [1.0, -3.0, 2.0, 0.5])
    result = cal.evaluate(made, "crps(fair=false)", resamples=20).results[0]
    assert [row["loss"] for row in result.worst_rows] == [3.0, 2.0, 1.0, 0.5]
    assert all("std" not in row for row in result.worst_rows)


@pytest.mark.parametrize("rows", [-1, 10_001, 2.5])
def test_numbers_of_rows_that_cannot_be(rows):
    with pytest.raises(cal.CalibrantError, match="an integer from 0 to 10000"):
        evaluate_with(classes(), worst_rows=rows)


# ---------------------------------------------------------------------------------------- hostile
def test_values_of_any_type_fit_into_json():
    values = [
        np.bool_(True), np.int8(-3), np.uint64(2**64 - 1), np.float32(0.1), np.float64(math.nan), -math.inf,
        np.datetime64("2024-05-06T07:08"), np.timedelta64(3, "D"), b"caf\xc3\xa9 \xff", "a\x1b[31m\u202eb\ud800",
        "x" * 10_000, None, 1 + 2j, np.longdouble("0.5"),
    ]  # fmt: skip
    found = [as_json(value) for value in values]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found[:6] == [True, -3, str(2**64 - 1), 0.1, "nan", "-inf"]
    assert found[6] == "2024-05-06T07:08"
    assert found[7] == "3 days"
    assert found[8] == "café \ufffd"
    assert not set(found[9]) & {"\x1b", "\u202e", "\ud800"}
    assert len(found[10]) == 200
    assert found[11] is None
    assert found[13] == 0.5


def test_hostile_names_stay_text(tmp_path):
    names = ["<script>alert(1)</script>", "[/red]", "\x1b[2J" + "y" * 10_000]
    ids = np.array([f"id \x00{k}\n" + "z" * 999 for k in range(N)])
    columns = {"=cmd()\t": np.where(np.arange(N) % 2, np.nan, np.inf), "long" * 999: np.arange(N) % 2 == 0}
    made = classes(width=3, classes=names, ids=ids, columns=columns)
    evaluation = evaluate_with(made, resamples=20, worst_rows=5)
    text = evaluation.dumps()
    assert "\\u0000" not in text
    assert "\\u001b" not in text.partition('"worst_rows"')[2]
    for row in evaluation.results[0].worst_rows:
        assert len(row["id"]) <= 200
        assert {len(key) <= 200 for key in row["columns"]} == {True}
        assert row["columns"]["=cmd() "] in ("nan", "inf")
        assert all(len(name) <= 200 for name in (row["label"], row["predicted"], *(n for n, _ in row["top"])))


def test_files_bring_rows_back_and_old_files_have_none(tmp_path):
    made = classes(members=2, ids=np.arange(N) + 2**60, columns={"site": np.arange(N) % 3 == 0})
    found = cal.evaluate(made, resamples=20)
    again = cal.Evaluation.load(found.save(tmp_path / "x.json"))
    assert again == found
    assert again.results[0].worst_rows[0]["id"].isdigit()
    old = found.to_json()
    for result in old["results"]:
        del result["worst_rows"], result["worst_by"]
    assert cal.Evaluation.from_json(old).results[0].worst_rows == ()


def test_a_column_that_cannot_be_read_is_left_out_of_a_stream(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    table = {"confidence": rng.random(9), "correct": rng.integers(0, 2, 9), "ids": [f"i{k}" for k in range(9)]}
    table |= {"note": [None, *"abcdefgh"], "site": list("abcabcabc")}
    parquet.write_table(pyarrow.table(table), tmp_path / "x.parquet")
    found = worst(cal.scan(tmp_path / "x.parquet"))
    assert [row["id"] for row in found] == [f"i{row['row']}" for row in found]
    assert {tuple(row["columns"]) for row in found} == {("site",)}


def test_of_a_very_long_stream_no_column_is_read(tmp_path, monkeypatch):
    from calibrant.pipeline import worst_rows

    made = classes(ids=np.arange(N), columns={"site": np.arange(N) % 3})
    stream = cal.scan(cal.write(made, tmp_path / "x.npz"))
    monkeypatch.setattr(worst_rows, "MAX_KEPT_ROWS", N - 1)
    assert not any({"id", "columns"} & set(row) for row in worst(stream))
    assert all({"id", "columns"} <= set(row) for row in worst(made))


def test_tables_do_not_show_them():
    made = classes(ids=np.array([f"secret{k}" for k in range(N)]))
    assert "secret" not in str(cal.evaluate(made, resamples=20))
