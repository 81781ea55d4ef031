"""Shifts of tables, click logs and text, and of the user."""

from itertools import pairwise

import numpy as np
import pytest

from calibrant.errors import CalibrantError
from calibrant.shift import (
    class_split,
    names,
    out_of_domain,
    outside_region,
    randomise_tokens,
    register,
    registry,
    shift_named,
)

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(4000, 6)) * [1, 2, 3, 4, 5, 6] + [0, 10, 0, -3, 0, 1]
TEXTS = ["the cat sat on the mat", "a dog", "", "one"] * 50


@pytest.mark.parametrize("name", names("tabular"))
def test_tables_keep_their_form_and_need_no_seed_state(name):
    for severity in (1, 5):
        result = shift_named(name).apply(TABLE.astype(np.float32), severity, seed=5)
        assert result.dtype == np.float32
        assert result.shape[1] == 6
        np.testing.assert_array_equal(result, shift_named(name).apply(TABLE.astype(np.float32), severity, seed=5))


@pytest.mark.parametrize("name", names("tabular"))
def test_tables_of_torch(name):
    torch = pytest.importorskip("torch")
    expected = shift_named(name).apply(TABLE, 3)
    result = shift_named(name).apply(torch.from_numpy(TABLE), 3)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-9, atol=1e-6)


def test_noise_has_its_share_of_the_standard_deviation():
    for severity, share in ((1, 0.1), (4, 0.8)):
        noise = shift_named("feature_noise").apply(TABLE, severity) - TABLE
        np.testing.assert_allclose(noise.std(0), share * TABLE.std(0), rtol=0.05)
        assert np.abs(noise.mean(0) / TABLE.std(0)).max() < 5 * share / np.sqrt(len(TABLE))


def test_missing_columns_are_nested_and_replaced_by_their_mean():
    lost = []
    for severity in range(1, 6):
        result = shift_named("missing_columns").apply(TABLE, severity, seed=2)
        columns = set(np.flatnonzero((result != TABLE).any(0)))
        np.testing.assert_allclose(
            result[:, sorted(columns)], TABLE.mean(0)[sorted(columns)] + 0 * result[:, : len(columns)]
        )
        lost.append(columns)
    assert [len(each) for each in lost] == [1, 1, 2, 2, 3]
    assert all(low <= high for low, high in pairwise(lost))


def test_covariate_shift_has_the_mean_of_a_tilted_normal():
    """For z ~ N(0, 1), weights exp(tz) give N(t, 1)."""
    x = np.random.default_rng(1).normal(size=(20_000, 1))
    for severity, tilt in ((1, 0.25), (3, 1.0)):
        rows = shift_named("covariate_shift").indices(x, severity)
        z = x[rows, 0] * np.sign(tilt)
        assert abs(z.mean() - tilt) < 0.08
        assert abs(z.std() - 1) < 0.08
        np.testing.assert_array_equal(shift_named("covariate_shift").apply(x, severity), x[rows])


def test_removed_region_and_the_rest_are_a_partition():
    inside = shift_named("removed_region").indices(TABLE, 4)
    outside = outside_region(TABLE, 4)
    assert sorted([*inside, *outside]) == list(range(len(TABLE)))
    assert abs(len(inside) / len(TABLE) - 0.4) < 0.001
    x = np.linspace(-4, 4, 101)[:, None]  # one column: the region is an interval of its values
    inside = x[shift_named("removed_region").indices(x, 2), 0]
    outside = x[outside_region(x, 2), 0]
    assert ((outside < inside.min()) | (outside > inside.max())).all()


def test_tokens_change_with_their_probability_within_their_column():
    tokens = np.stack([RNG.integers(0, 10, 20_000), RNG.integers(100, 1000, 20_000)], 1)
    for severity in (2, 20):
        p = 0.05 * severity
        result = shift_named("token_randomization").apply(tokens, severity)
        for column, size in ((0, 10), (1, 900)):
            changed = (result[:, column] != tokens[:, column]).mean()
            assert abs(changed - p * (1 - 1 / size)) < 5 * np.sqrt(0.25 / 20_000)
            assert np.isin(result[:, column], tokens[:, column]).all()
    half = randomise_tokens(tokens, 0.5, seed=1)
    parts = [
        randomise_tokens(tokens[s], 0.5, 1, s.start, [np.unique(t) for t in tokens.T])
        for s in (slice(0, 7), slice(7, 20_000))
    ]
    np.testing.assert_array_equal(np.concatenate(parts), half)
    np.testing.assert_array_equal(randomise_tokens(tokens, 0.0), tokens)


def test_text_loses_words_with_their_probability():
    texts = ["word " * 100] * 200
    for severity in (1, 5):
        kept = [len(text.split()) for text in shift_named("token_dropout").apply(texts, severity)]
        p = 0.1 * severity
        assert abs(np.mean(kept) - 100 * (1 - p)) < 5 * np.sqrt(100 * p * (1 - p) / 200)
    result = shift_named("token_dropout").apply(TEXTS, 5)
    assert [len(each) > 0 for each in result] == [len(each) > 0 for each in TEXTS]
    for text, shorter in zip(TEXTS, result, strict=True):
        words = iter(text.split())
        assert all(word in words for word in shorter.split())  # in order


def test_text_is_replaced_by_words_as_frequent():
    texts = ["a a a b"] * 5000
    result = " ".join(shift_named("token_replacement").apply(texts, 5)).split()
    assert len(result) == 20_000
    assert abs(result.count("a") / 20_000 - 0.75) < 0.02
    firsts = [text.split()[3] for text in shift_named("token_replacement").apply(texts, 5)]
    assert abs(firsts.count("b") / 5000 - (0.5 + 0.5 * 0.25)) < 0.035


def test_text_does_not_depend_on_the_batch():
    whole = shift_named("token_dropout").apply(TEXTS, 3, seed=4)
    assert whole == [shift_named("token_dropout").apply([t], 3, seed=4, first=k)[0] for k, t in enumerate(TEXTS)]


def test_splits_of_classes_and_sources():
    inside, outside = class_split(np.arange(20) % 4, [0, 2])
    assert (np.arange(20)[inside] % 2 == 0).all()
    assert (np.arange(20)[outside] % 2 == 1).all()
    mixed, flags = out_of_domain(TEXTS, ["zzz"], 0.25, seed=1)
    assert [text == "zzz" for text in mixed] == list(flags)
    assert flags.sum() == 50


def test_a_shift_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setattr(registry, "SHIFTS", dict(registry.SHIFTS))

    @register("halved", kind="tabular", severities=(1, 2), summary="divided by 2 or 4")
    def halved(rows, severity, draws):
        return rows / 2**severity

    np.testing.assert_array_equal(shift_named("halved").apply(TABLE, 2), TABLE / 4)
    assert "halved" in names("tabular")
    plugin = tmp_path / "own.py"
    plugin.write_text(
        "from calibrant.shift import register\n"
        "@register('zero', kind='corruption', severities=[1], summary='black')\n"
        "def zero(rows, severity, draws):\n    return rows * 0\n"
    )
    registry.load_plugin(str(plugin))
    assert not shift_named("zero").apply(np.ones((1, 4, 4, 3), np.uint8), 1).any()
    plugin.write_text("1 / 0")
    with pytest.raises(CalibrantError, match="ZeroDivisionError"):
        registry.load_plugin(str(plugin))


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("feature_noise", TABLE[:, 0], "numbers"),
        ("feature_noise", TABLE * np.nan, "NaN"),
        ("feature_noise", np.array([["a"]]), "dtype"),
        ("token_randomization", TABLE, "integer tokens"),
        ("token_dropout", [b"bytes"], "bytes in row 0"),
        ("token_dropout", 3, "rows"),
    ],
)
def test_rows_of_another_kind(name, rows, words):
    with pytest.raises(CalibrantError, match=words):
        shift_named(name).apply(rows, 1)
    with pytest.raises(CalibrantError, match="labels"):
        class_split([0, 1], [7])


def test_the_page_has_the_parameters_of_the_code():
    import subprocess
    import sys
    from pathlib import Path

    script = Path(__file__).parents[2] / "scripts" / "make_shift_page.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
