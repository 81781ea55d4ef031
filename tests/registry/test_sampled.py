"""Rows that are kept for metrics over all pairs: which they are, and that nothing but their number decides it."""

import tracemalloc

import numpy as np
import pytest
from evaluations import evaluate_with
from scipy.special import softmax

import calibrant as cal
from calibrant.kernels.records import PREDICTIONS, take
from calibrant.kernels.rows import rows_of
from calibrant.registry.state.row_sample import MOST_ENTRIES, SampledClasses, most_rows

SPECS = ("ce(rows=60)", "skce(rows=60)", "skce(form=block,rows=60)")


def classes(n=400, count=4, seed=0):
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, count))
    labels = (softmax(z, axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    columns = {"side": np.where(np.arange(n) % 3 == 0, "a", "b")}
    return cal.Classification.from_probs(softmax(1.5 * z, axis=1), labels, columns=columns)


def gaussians(n=400):
    rng = np.random.default_rng(1)
    mean, std = rng.normal(size=n), 0.5 + rng.random(n)
    return cal.Regression.from_gaussian(mean, std, y=mean + std * rng.normal(size=n))


def kept(predictions, most, blocks=1):
    """The rows that are kept when they come in so many blocks."""
    state, n = SampledClasses(most), predictions.n
    whole = rows_of(predictions, frozenset({PREDICTIONS}))
    for part in np.array_split(np.arange(n), blocks):
        state.add(take(whole, part))
    return state


def test_all_rows_are_kept_where_they_fit():
    predictions = classes(50)
    p, y = kept(predictions, 50).pairs()
    found = {(*row, label) for row, label in zip(p.tolist(), y.tolist(), strict=True)}
    given = {
        (*row, label) for row, label in zip(predictions.scores[0].tolist(), predictions.labels.tolist(), strict=True)
    }
    assert found == given


@pytest.mark.parametrize("blocks", [2, 7, 400])
def test_blocks_keep_the_same_rows(blocks):
    predictions = classes()
    one, many = kept(predictions, 60), kept(predictions, 60, blocks)
    assert (one.rows() == many.rows()).all()
    assert one.n == many.n == 400


def test_merged_parts_keep_the_rows_of_the_whole():
    predictions = classes()
    whole = rows_of(predictions, frozenset({PREDICTIONS}))
    first, second = SampledClasses(60), SampledClasses(60)
    first.add(take(whole, np.arange(250)))
    second.add(take(whole, np.arange(250, 400)))
    first.merge(second)
    assert (first.rows() == kept(predictions, 60).rows()).all()


def test_every_row_is_as_likely_to_be_kept():
    """Of 20 000 rows a quarter: as many of each tenth of the input, within four standard errors."""
    n = 20_000
    numbered = cal.Classification.from_probs(np.full((n, 2), 0.5), np.arange(n) % 2)
    state = kept(numbered, n // 4)
    tenth = (np.sort(np.concatenate(state.keys)) & np.uint64(0xFFFFFFFF)).astype(int)[: n // 4] // (n // 10)
    counts = np.bincount(tenth, minlength=10)
    assert counts.sum() == n // 4
    assert np.abs(counts - n // 40).max() < 4 * np.sqrt(n / 10 * 0.25 * 0.75)


@pytest.mark.parametrize("spec", SPECS)
def test_the_same_digits_from_files_blocks_groups_and_threads(tmp_path, spec):
    predictions = classes()
    path = cal.write(predictions, tmp_path / "p.npz")
    whole = cal.evaluate(predictions, spec, by="side", resamples=30, threads=1).results[0]
    for source, options in (
        (predictions, {"block_rows": 37}),
        (predictions, {"threads": 3}),
        (cal.scan(path), {"block_rows": 53, "threads": 2}),
    ):
        found = evaluate_with(source, spec, by="side", resamples=30, **options).results[0]
        assert dict(found.metrics) == dict(whole.metrics)
        assert [dict(group.metrics) for group in found.groups] == [dict(group.metrics) for group in whole.groups]


def test_the_same_digits_of_regressions_from_blocks(tmp_path):
    predictions = gaussians()
    path = cal.write(predictions, tmp_path / "p.npz")
    whole = cal.evaluate(predictions, "skce(rows=60)", resamples=30)
    for source, rows in ((predictions, 37), (cal.scan(path), 53)):
        found = evaluate_with(source, "skce(rows=60)", resamples=30, block_rows=rows)
        assert dict(found.results[0].metrics) == dict(whole.results[0].metrics)


def test_what_was_left_out_is_said_and_counted():
    evaluation = cal.evaluate(classes(), "skce(rows=60),nll", resamples=20)
    assert evaluation["skce(rows=60)"].n == 60
    assert evaluation["nll"].n == 400
    (note,) = [note for note in evaluation.warnings if note.code == "subsampled"]
    assert "skce(rows=60) uses 60 rows" in note.message
    assert not cal.evaluate(classes(60), "skce(rows=60)", resamples=20).warnings


def test_memory_does_not_grow_with_the_rows():
    """What is kept fits into 16 MB of probabilities, whatever is asked for."""
    assert most_rows(10**9, 10) * 10 <= MOST_ENTRIES
    assert most_rows(10**9, 1000) * 1000 <= MOST_ENTRIES
    assert most_rows(10_000, 11) == 10_000
    n = 200_000
    p = np.random.default_rng(0).dirichlet(np.ones(10), n).astype(np.float32)
    predictions = cal.Classification.from_probs(p, np.arange(n) % 10)
    cal.measure(predictions[:100], "ce(bandwidth=0.1),skce")  # compiled before it is counted
    tracemalloc.start()
    cal.measure(predictions, "ce(bandwidth=0.1,rows=2000),skce(rows=2000)")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6  # the record of all rows, and what is kept
