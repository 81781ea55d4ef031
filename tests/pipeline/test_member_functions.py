"""Members as functions along a column: which column, which rows, and what they say there."""

import math

import numpy as np
import pytest
from evaluations import evaluate_with
from scipy import stats
from scipy.optimize import brentq

import calibrant as cal

N, M = 400, 15


def mixture(columns=None, members=M, weights=None, y=True, n=N):
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    mean = np.sin(x) + 0.3 * rng.normal(size=(members, 1)) * x
    std = 0.2 + 0.1 * rng.random((members, n))
    columns = {"x": x} if columns is None else columns
    return cal.Regression.from_gaussian(mean, std, mean[0] if y else None, columns=columns, weights=weights)


def functions(made, **settings):
    result = evaluate_with(made, "epistemic_variance" if made.example.members > 1 else "mse", **settings).results[0]
    found = result.curves.get("functions")
    if found is not None:
        assert all(math.isfinite(value) for column in found.values() for value in column)
        found = {name: np.array(column) for name, column in found.items()}
    return found, result


def test_rows_at_even_ranks_with_what_the_members_say():
    made = mixture()
    found, _ = functions(made)
    x = made.columns["x"]
    assert list(found) == ["x", "y", "mean", "low", "high", *(f"member_{k}" for k in range(1, 13))]
    assert {len(column) for column in found.values()} == {120}
    ranks = np.searchsorted(np.sort(x), found["x"])
    assert ranks.tolist() == [k * (N - 1) // 119 for k in range(120)]
    rows = [int(np.flatnonzero(x == value)[0]) for value in found["x"]]
    assert found["y"].tolist() == made.y[rows].tolist()
    assert found["mean"] == pytest.approx(made.mean[:, rows].mean(axis=0))
    for k in range(12):
        assert found[f"member_{k + 1}"].tolist() == made.mean[k, rows].tolist()


def test_the_interval_is_that_of_the_mixture():
    """Of the distribution function of the mixture itself, not of a Gaussian with its moments."""
    made = mixture()
    found, _ = functions(made)
    row = int(np.flatnonzero(made.columns["x"] == found["x"][3])[0])

    def beyond(value, level):
        return stats.norm.cdf(value, made.mean[:, row], made.std[:, row]).mean() - level

    for level, end in ((0.025, "low"), (0.975, "high")):
        assert found[end][3] == pytest.approx(brentq(beyond, -20, 20, args=(level,)), abs=1e-9)


def test_blocks_threads_and_streams_show_nowhere(tmp_path):
    made = mixture()
    whole, _ = functions(made)
    stream = cal.scan(cal.write(made, tmp_path / "x.npz"))
    for item in (made, stream):
        for rows, threads in ((1, 1), (37, 2)):
            found, _ = functions(item, block_rows=rows, threads=threads)
            assert {name: column.tolist() for name, column in found.items()} == {
                name: column.tolist() for name, column in whole.items()
            }


def test_few_rows_are_all_there_and_those_without_a_number_or_weight_are_not():
    x = np.array([3.0, np.nan, 1.0, np.inf, 2.0, 5.0])
    found, _ = functions(mixture({"x": x}, members=2, weights=[1, 1, 1, 1, 1, 0], n=6))
    assert found["x"].tolist() == [1.0, 2.0, 3.0]
    found, _ = functions(mixture({"x": np.arange(6)}, members=2, y=False, n=6))
    assert "y" not in found
    assert found["x"].tolist() == [0, 1, 2, 3, 4, 5]


RAMP, FLAT, TEXT = np.arange(N) / 7, np.arange(N) % 19, np.array(["a", "b"] * (N // 2))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"x": FLAT, "t": RAMP}, "x"),
        ({"t": RAMP, "kind": TEXT, "few": FLAT}, "t"),
        ({"x": TEXT, "t": RAMP}, "t"),
        ({"t": RAMP, "u": -RAMP}, None),
        ({"few": FLAT}, None),
        ({}, None),
    ],
)
def test_which_column(columns, expected, tmp_path):
    made = mixture(columns)
    for item in (made, cal.scan(cal.write(made, tmp_path / "x.npz"))):
        evaluation = cal.evaluate(item, "mse")
        result = evaluation.results[0]
        assert evaluation.inputs[0].get("along") == expected
        assert ("functions" in result.curves) == (expected is not None)
        assert ("along=" in str(result.curves_skipped.get("functions", ""))) == (expected is None)


def test_the_column_that_is_named():
    made = mixture({"x": FLAT, "t": RAMP, "kind": TEXT})
    evaluation = evaluate_with(made, "mse", along="t")
    assert evaluation.inputs[0]["along"] == evaluation.settings["along"] == "t"
    assert set(evaluation.results[0].curves["functions"]["x"]) <= set(RAMP.tolist())
    with pytest.raises(cal.CalibrantError, match="a numeric column"):
        evaluate_with(made, "mse", along="kind")
    with pytest.raises(cal.CalibrantError, match=r"got 'tt'.*did you mean 't'"):
        evaluate_with(made, "mse", along="tt")


def test_of_what_has_no_functions():
    assert functions(mixture(members=1))[0] is None
    assert "functions" not in functions(mixture(members=1))[1].curves_skipped
    one = mixture(members=1)
    assert "members" in functions(one, along="x")[1].curves_skipped["functions"].text
    assert cal.evaluate(mixture(), "mse", curves=False).results[0].curves == {}


def test_of_many_rows_only_where_the_column_is_named(monkeypatch):
    from calibrant.pipeline.curves import member_functions as drawing

    monkeypatch.setattr(drawing, "MAX_SEARCHED_ROWS", N - 1)
    assert functions(mixture({"t": RAMP}))[0] is None
    assert functions(mixture())[0] is not None
    monkeypatch.setattr(drawing, "MAX_KEPT_ROWS", N - 1)
    assert functions(mixture())[0] is None
    assert functions(mixture(), along="x")[0] is not None
