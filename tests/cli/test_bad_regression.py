"""Predictions of numbers that are not what they should be: one helpful line, whole or block by block, in any format."""

import json

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

RNG = np.random.default_rng(2)
N, S = 12, 7
Y = RNG.normal(size=N)
MEAN, STD = Y + RNG.normal(size=N), RNG.random(N) + 0.2
SAMPLES = MEAN + STD * RNG.normal(size=(S, N))
LEVELS = np.array([0.1, 0.5, 0.9])
QUANTILES = MEAN[:, None] + STD[:, None] * np.array([-1.28, 0.0, 1.28])
LOGITS = RNG.normal(size=(N, 3))
GAUSSIAN = {"y": Y, "mean": MEAN, "std": STD}
MIXTURE = {"y": Y, "mean": np.stack([MEAN, MEAN + 1]), "std": np.stack([STD, STD])}
DRAWN = {"y": Y, "samples": SAMPLES}
AT_LEVELS = {"y": Y, "quantiles": QUANTILES, "levels": LEVELS}
CROSSING = {**AT_LEVELS, "quantiles": np.where(np.isin(np.arange(N), (0, 5))[:, None], -QUANTILES, QUANTILES)}


def changed(array, place, value):
    """The array with one entry changed."""
    array = np.array(array, np.float64)
    array[place] = value
    return array


def npz(given, *options, command="evaluate", suffix="", **other):
    """A case: an archive of arrays, some of them replaced; None leaves one out."""

    def make(folder):
        arrays = {key: value for key, value in {**given, **other}.items() if value is not None}
        np.savez(folder / "bad.npz", **arrays)
        return [command, f"{folder / 'bad.npz'}{suffix}", *options]

    return make


def csv(columns, *options, suffix=""):
    """A case: a CSV file of these columns."""

    def make(folder):
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        (folder / "bad.csv").write_text("\n".join(lines) + "\n")
        return ["evaluate", f"{folder / 'bad.csv'}{suffix}", *options]

    return make


def jsonl(*records, options=(), suffix=""):
    """A case: JSON Lines."""

    def make(folder):
        (folder / "bad.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        return ["evaluate", f"{folder / 'bad.jsonl'}{suffix}", *options]

    return make


def table(columns, *options, suffix=""):
    """A case: a Parquet file of these columns."""

    def make(folder):
        parquet.write_table(pa.table(columns), folder / "bad.parquet")
        return ["evaluate", f"{folder / 'bad.parquet'}{suffix}", *options]

    return make


def lines(count=3, **values):
    """The same record several times."""
    return [values] * count


ARRAYS = {
    "std-zero": (npz(GAUSSIAN, std=changed(STD, 3, 0.0)), "std: expected numbers above 0, got 0.0 in row 3"),
    "std-negative": (npz(GAUSSIAN, std=changed(STD, 4, -1.0)), "-1.0 in row 4"),
    "std-nan": (npz(GAUSSIAN, std=changed(STD, 5, np.nan)), "nan in row 5"),
    "std-infinite": (npz(GAUSSIAN, std=changed(STD, 6, np.inf)), "inf in row 6"),
    "std-of-one-member-zero": (npz(MIXTURE, std=changed(MIXTURE["std"], (1, 7), 0.0)), "0.0 in row 7, entry 1"),
    "var-negative": (
        npz(GAUSSIAN, std=None, var=changed(STD, 2, -0.5)),
        "var: expected numbers above 0, got -0.5 in row 2",
    ),
    "var-zero": (npz(GAUSSIAN, std=None, var=changed(STD, 2, 0)), "0.0 in row 2"),
    "mean-nan": (npz(GAUSSIAN, mean=changed(MEAN, 11, np.nan)), "mean: expected finite numbers, got nan in row 11"),
    "mean-infinite-in-half-precision": (npz(GAUSSIAN, mean=changed(MEAN, 1, np.inf).astype("f2")), "inf in row 1"),
    "mean-without-spread": (npz(GAUSSIAN, std=None), "exactly one of std and var"),
    "spread-without-mean": (npz(GAUSSIAN, mean=None), "mean with std or var"),
    "std-and-var": (npz(GAUSSIAN, var=STD**2), "exactly one of std and var"),
    "std-of-another-length": (npz(GAUSSIAN, std=STD[:-1]), "the shape of mean, (12,)"),
    "std-of-another-number-of-members": (npz(MIXTURE, std=STD), "the shape of mean, (2, 12)"),
    "std-of-one-number-for-all": (npz(GAUSSIAN, std=np.array(0.5)), "()"),
    "mean-of-three-dimensions": (npz(GAUSSIAN, mean=MEAN[None, None], std=STD[None, None]), "(1, 1, 12)"),
    "mean-of-a-column": (npz(GAUSSIAN, mean=MEAN[:, None], std=STD[:, None]), "(12"),
    "members-last": (npz(MIXTURE, mean=MIXTURE["mean"].T, std=MIXTURE["std"].T), "transpose"),
    "mean-of-text": (npz(GAUSSIAN, mean=MEAN.astype(str)), "real numbers"),
    "mean-of-truth-values": (npz(GAUSSIAN, mean=MEAN > 0), "bool"),
    "mean-of-complex-numbers": (npz(GAUSSIAN, mean=MEAN + 0j), "complex128"),
    "mean-without-dimension": (npz(GAUSSIAN, mean=np.array(0.5)), "mean"),
    "names-of-other-members": (npz(GAUSSIAN, member_names=np.array(["a", "b"])), "1 names"),
    "member-out-of-range": (npz(MIXTURE, suffix="::member=2"), "from 0 to 1"),
    "member-of-samples": (npz(DRAWN, suffix="::member=1"), "from 0 to 0"),
    "y-too-short": (npz(GAUSSIAN, y=Y[:-1]), "got shape (11,)"),
    "y-too-long": (npz(GAUSSIAN, y=np.r_[Y, Y]), "got shape (24,)"),
    "y-of-no-rows": (npz(GAUSSIAN, y=Y[:0]), "got shape (0,)"),
    "y-nan": (npz(GAUSSIAN, y=changed(Y, 8, np.nan)), "y: expected finite numbers, got nan in row 8"),
    "y-infinite": (npz(DRAWN, y=changed(Y, 9, np.inf)), "inf in row 9"),
    "y-text": (npz(GAUSSIAN, y=Y.astype(str)), "y"),
    "y-truth-values": (npz(GAUSSIAN, y=Y > 0), "bool"),
    "y-a-column": (npz(GAUSSIAN, y=Y[:, None]), "(12, 1)"),
    "y-one-number": (npz(GAUSSIAN, y=np.array(1.0)), "()"),
    "labels-instead-of-y": (npz(GAUSSIAN, y=None, labels=Y), "FILE::y=labels"),
    "y-instead-of-labels": (npz({}, logits=LOGITS, y=Y > 0), "FILE::labels=y"),
    "samples-lying-on-their-side": (npz(DRAWN, samples=SAMPLES.T), "transpose"),
    "samples-of-one-dimension": (npz(DRAWN, samples=SAMPLES[0]), "shape (S, N)"),
    "samples-of-three-dimensions": (npz(DRAWN, samples=SAMPLES[None]), "(1, 7, 12)"),
    "no-samples": (npz(DRAWN, samples=SAMPLES[:0]), "(0, 12)"),
    "no-rows-of-samples": (npz(DRAWN, samples=SAMPLES[:, :0], y=Y[:0]), "bad.npz"),
    "no-rows": (npz(GAUSSIAN, y=Y[:0], mean=MEAN[:0], std=STD[:0]), "row"),
    "no-rows-of-quantiles": (npz(AT_LEVELS, y=Y[:0], quantiles=QUANTILES[:0]), "bad.npz"),
    "samples-nan": (npz(DRAWN, samples=changed(SAMPLES, (2, 3), np.nan)), "nan in row 3, entry 2"),
    "quantiles-without-levels": (npz(AT_LEVELS, levels=None), "levels (Q,)"),
    "quantiles-nan": (npz(AT_LEVELS, quantiles=changed(QUANTILES, (4, 1), np.nan)), "nan in row 4, entry 1"),
    "quantiles-lying-on-their-side": (npz(AT_LEVELS, quantiles=QUANTILES.T), "quantiles"),
    "quantiles-of-one-dimension": (npz(AT_LEVELS, quantiles=QUANTILES[:, 0], levels=LEVELS[:1]), "shape (N, 1)"),
    "quantiles-of-three-dimensions": (npz(AT_LEVELS, quantiles=QUANTILES[None]), "(1, 12, 3)"),
    "levels-unsorted": (npz(AT_LEVELS, levels=LEVELS[::-1]), "0.5 after 0.9"),
    "levels-twice": (npz(AT_LEVELS, levels=np.array([0.1, 0.5, 0.5])), "0.5 after 0.5"),
    "levels-at-the-ends": (npz(AT_LEVELS, levels=np.array([0.0, 0.5, 1.0])), "between 0 and 1"),
    "levels-in-percent": (npz(AT_LEVELS, levels=100 * LEVELS), "divide percentages by 100"),
    "levels-nan": (npz(AT_LEVELS, levels=np.array([0.1, np.nan, 0.9])), "nan"),
    "levels-of-text": (npz(AT_LEVELS, levels=LEVELS.astype(str)), "levels"),
    "levels-too-few": (npz(AT_LEVELS, levels=LEVELS[:2]), "2 levels"),
    "levels-too-many": (npz(AT_LEVELS, levels=np.r_[LEVELS, 0.95]), "4 levels"),
    "levels-of-no-dimension": (npz(AT_LEVELS, levels=np.array(0.5)), "shape (Q,)"),
    "levels-of-every-row": (npz(AT_LEVELS, levels=np.tile(LEVELS, (N, 1))), "shape (Q,)"),
    "no-levels": (npz(AT_LEVELS, quantiles=QUANTILES[:, :0], levels=LEVELS[:0]), "bad.npz"),
    "mean-and-samples": (npz(GAUSSIAN, samples=SAMPLES), "mean, samples"),
    "samples-and-quantiles": (npz(DRAWN, **AT_LEVELS), "samples, quantiles"),
    "logits-and-a-gaussian": (npz(GAUSSIAN, y=None, logits=LOGITS), "logits, mean"),
    "confidence-and-a-gaussian": (npz(GAUSSIAN, y=None, confidence=np.full(N, 0.5)), "confidence, mean"),
    "weights-of-another-length": (npz(GAUSSIAN, weights=np.ones(N - 1)), "weights"),
    "weights-negative": (npz(DRAWN, weights=changed(np.ones(N), 0, -1)), "weights"),
    "weights-all-zero": (npz(AT_LEVELS, weights=np.zeros(N)), "not all 0"),
    "weights-of-text": (npz(GAUSSIAN, weights=np.array(["1"] * N)), "weights"),
    "ids-of-another-length": (npz(GAUSSIAN, ids=np.arange(3)), "ids"),
    "meta-that-is-no-object": (npz(GAUSSIAN, meta=np.array("[]")), "JSON object"),
}

USAGE = {
    "metric-of-classes": (npz(GAUSSIAN, "-m", "ece"), "not defined for regression"),
    "metric-of-numbers-for-classes": (npz({}, "-m", "crps", logits=LOGITS), "not defined for classification"),
    "metric-without-outcome": (npz(GAUSSIAN, "-m", "nll", y=None), "nll (it needs y)"),
    "metric-of-distributions-for-quantiles": (npz(AT_LEVELS, "-m", "crps"), "not quantiles"),
    "density-of-samples": (npz(DRAWN, "-m", "nll"), "it needs a density"),
    "level-that-is-not-there": (npz(AT_LEVELS, "-m", "pinball(level=0.3)"), "0.1, 0.5, 0.9"),
    "interval-that-is-not-there": (npz(AT_LEVELS, "-m", "interval_score"), "0.025"),
    "mean-of-quantiles": (npz(AT_LEVELS, "-m", "mae(point=mean)"), "it needs a mean"),
    "fair-perhaps": (npz(DRAWN, "-m", "crps(fair=maybe)"), "true or false"),
    "fair-of-one-sample": (npz(DRAWN, "-m", "crps", samples=SAMPLES[:1]), "two samples"),
    "level-above-one": (npz(GAUSSIAN, "-m", "pinball(level=2)"), "got '2'"),
    "level-nan": (npz(GAUSSIAN, "-m", "pinball(level=nan)"), "got 'nan'"),
    "interval-of-nothing": (npz(GAUSSIAN, "-m", "interval_score(level=0)"), "got '0'"),
    "interval-of-everything": (npz(GAUSSIAN, "-m", "interval_score(level=1)"), "got '1'"),
    "interval-in-percent": (npz(GAUSSIAN, "-m", "interval_score(level=95)"), "got '95'"),
    "point-that-is-none": (npz(GAUSSIAN, "-m", "mae(point=mode)"), "median or mean"),
    "root-perhaps": (npz(GAUSSIAN, "-m", "mse(root=yes)"), "true or false"),
    "half-a-level": (npz(GAUSSIAN, "-m", "pinball(levels=1.5)"), "integer"),
    "misspelt-metric": (npz(GAUSSIAN, "-m", "crsp"), "did you mean 'crps'?"),
    "slices-by-a-column-that-is-not-there": (npz(GAUSSIAN, "--by", "labels"), "'labels'"),
    "column-options-on-an-archive": (npz(GAUSSIAN, "--mean", "mu"), "FILE::key=name"),
}

NAMED = {"truth": Y, "mu": MEAN, "sd": STD}
MEMBERS = {"y": Y, "m_0": MEAN, "m_1": MEAN, "s_0": STD, "s_1": STD}
QUANTILE_COLUMNS = {"y": Y, "q_0.1": QUANTILES[:, 0], "q_0.9": QUANTILES[:, 2]}
OPTIONS = ("--y", "truth", "--mean", "mu", "--std", "sd")
TEXT_IN_ROW_4 = [*Y[:4], "n/a", *Y[5:]]

TABLES = {
    "missing-outcome": (csv(NAMED, "--y", "truht", "--mean", "mu", "--std", "sd"), "did you mean 'truth'?"),
    "missing-mean": (csv(NAMED, "--y", "truth", "--mean", "m", "--std", "sd"), "'m'"),
    "missing-std": (csv(NAMED, "--y", "truth", "--mean", "mu", "--std", "s"), "did you mean 'sd'?"),
    "mean-without-std": (csv(NAMED, "--y", "truth", "--mean", "mu"), "exactly one of std and var"),
    "std-without-mean": (csv(NAMED, "--y", "truth", "--std", "sd"), "--mean mu"),
    "outcome-alone": (csv(NAMED, "--y", "truth"), "--mean mu --std sd"),
    "no-options": (csv(NAMED), "--y truth --mean mu"),
    "one-column-as-std-and-var": (csv(NAMED, *OPTIONS, "--var", "sd"), "'sd'"),
    "std-and-var": (csv({**NAMED, "v": STD}, *OPTIONS, "--var", "v"), "exactly one of std and var"),
    "labels-and-y": (csv({**NAMED, "c": Y}, *OPTIONS, "--labels", "c"), "'c'"),
    "labels-instead-of-y": (csv({"labels": Y, "mean": MEAN, "std": STD}), "'labels'"),
    "text-in-mean": (csv({**NAMED, "mu": TEXT_IN_ROW_4}, *OPTIONS), "row 4: 'n/a'"),
    "text-in-mean-of-the-contract": (csv({**GAUSSIAN, "mean": TEXT_IN_ROW_4}), "mean: expected a number"),
    "text-in-y": (csv({**NAMED, "truth": TEXT_IN_ROW_4}, *OPTIONS), "row 4: 'n/a'"),
    "text-in-y-of-the-contract": (csv({**GAUSSIAN, "y": TEXT_IN_ROW_4}), "row 4: 'n/a'"),
    "blank-in-y": (csv({**GAUSSIAN, "y": [*Y[:4], "", *Y[5:]]}), "row 4: ''"),
    "text-in-weights": (csv({**GAUSSIAN, "weights": TEXT_IN_ROW_4}), "weights"),
    "nan-in-std": (csv({**GAUSSIAN, "std": changed(STD, 4, np.nan)}), "nan in row 4"),
    "infinite-mean": (csv({**GAUSSIAN, "mean": changed(MEAN, 4, -np.inf)}), "-inf in row 4"),
    "patterns-of-different-lengths": (
        csv({**MEMBERS, "s_2": STD}, "--mean", "m_*", "--std", "s_*"),
        "'2' on one side only",
    ),
    "patterns-of-different-endings": (
        csv({"y": Y, "m_a": MEAN, "m_b": MEAN, "s_a": STD, "s_c": STD}, "--mean", "m_*", "--std", "s_*"),
        "'b' on one side only",
    ),
    "members-of-the-contract-without-their-spread": (
        csv({"y": Y, "mean_0": MEAN, "mean_1": MEAN, "std_1": STD, "std_2": STD}),
        "on one side only",
    ),
    "one-spread-for-two-members": (csv({"y": Y, "mean_0": MEAN, "mean_1": MEAN, "std": STD}), "the shape of mean"),
    "members-by-a-pattern-and-one-spread": (csv(MEMBERS, "--mean", "m_*", "--std", "s_0"), "the shape of mean"),
    "quantiles-by-names": (
        csv({"y": Y, "q_low": Y, "q_high": Y}, "--quantiles", "q_*"),
        "levels between 0 and 1 at the '*', got 'low'",
    ),
    "quantiles-in-percent": (csv({"y": Y, "q_10": Y, "q_90": Y}, "--quantiles", "q_*"), "such as q_0.05"),
    "quantiles-at-nan": (csv({"y": Y, "q_nan": Y, "q_0.9": Y}, "--quantiles", "q_*"), "'nan'"),
    "quantiles-in-percent-of-the-contract": (csv({"y": Y, "quantiles_10": Y, "quantiles_90": Y}), "'quantiles_10'"),
    "quantiles-twice": (csv({"y": Y, "q_0.5": Y, "q_0.50": Y}, "--quantiles", "q_*"), "0.5 after 0.5"),
    "quantiles-unsorted": (csv({"y": Y, "q_0.9": Y, "q_0.1": Y}, "--quantiles", "q_*"), "0.1 after 0.9"),
    "quantiles-without-a-star": (csv(QUANTILE_COLUMNS, "--quantiles", "q_0.1"), "one '*'"),
    "quantiles-that-fit-nothing": (csv(QUANTILE_COLUMNS, "--quantiles", "z_*"), "'q_0.1'"),
    "text-in-quantiles": (csv({**QUANTILE_COLUMNS, "q_0.9": TEXT_IN_ROW_4}, "--quantiles", "q_*"), "row 4: 'n/a'"),
    "samples-without-a-star": (csv(QUANTILE_COLUMNS, "--samples", "q_0.1"), "one '*'"),
    "two-kinds": (csv({**NAMED, **QUANTILE_COLUMNS}, *OPTIONS, "--quantiles", "q_*"), "mean, quantiles"),
    "probability-and-gaussian": (csv({**NAMED, "p": Y}, *OPTIONS, "--prob", "p"), "probs, mean"),
    "semicolons": (csv({"y;mean;std": ["1;2;3", "2;3;4"]}), "commas"),
    "semicolons-and-decimal-commas": (csv({"y;mean;std": ['"1,5;2,5;3,5"', "2;3;4"]}), "commas"),
    "tabs": (csv({"y\tmean\tstd": ["1\t2\t3"]}), "commas"),
}

RECORD = {"y": 1.0, "mean": 2.0, "std": 0.5}
LISTS = {"y": 1.0, "quantiles": [1.0, 2.0], "levels": [0.1, 0.9]}
JSONL = {
    "missing-value": (jsonl(RECORD, {**RECORD, "y": None}), "'None'"),
    "text-for-y": (jsonl(RECORD, {**RECORD, "y": "abc"}), "row 1: 'abc'"),
    "text-for-std": (jsonl(RECORD, {**RECORD, "std": "?"}), "std: expected a number in every row, got row 1: '?'"),
    "numbers-as-text": (jsonl(*lines(y="1.5", mean=1.0, std=1.0)), "'1.5'"),
    "list-for-y": (jsonl(*lines(y=[1.0], mean=1.0, std=1.0)), "y"),
    "object-for-mean": (jsonl(*lines(y=1.0, mean={"a": 1}, std=1.0)), "'mean'"),
    "missing-key": (jsonl(RECORD, {"y": 1.0, "mean": 2.0}), "record 2 without 'std'"),
    "ragged-samples": (jsonl({"y": 1, "samples": [1, 2]}, {"y": 1, "samples": [1]}), "'samples'"),
    "ragged-members": (jsonl({**RECORD, "mean": [1, 2], "std": [1, 2]}, {**RECORD, "mean": [1], "std": [1]}), "'mean'"),
    "members-without-their-spread": (jsonl(*lines(y=1.0, mean=[1.0, 2.0], std=1.0)), "the shape of mean"),
    "fewer-spreads-than-members": (jsonl(*lines(y=1.0, mean=[1.0, 2.0], std=[1.0])), "the shape of mean"),
    "levels-that-differ": (jsonl(LISTS, {**LISTS, "levels": [0.1, 0.8]}), "others in row 1"),
    "levels-of-different-number": (jsonl(LISTS, {**LISTS, "levels": [0.1]}), "'levels'"),
    "levels-that-are-one-number": (jsonl(*lines(y=1.0, quantiles=[1.0, 2.0], levels=0.5)), "levels"),
    "levels-in-percent": (jsonl(*lines(y=1.0, quantiles=[1.0, 2.0], levels=[10, 90])), "divide percentages by 100"),
    "levels-with-a-gap": (jsonl(*lines(y=1.0, quantiles=[1.0, 2.0], levels=[0.1, None])), "'levels'"),
    "no-levels": (jsonl(*lines(y=1.0, quantiles=[1.0, 2.0])), "levels (Q,)"),
    "named-levels-that-differ": (
        jsonl({"y": 1, "quantiles": {"0.1": 1, "0.9": 2}}, {"y": 1, "quantiles": {"0.1": 1, "0.8": 2}}),
        "others in record 2",
    ),
    "named-levels-in-some-lines-only": (
        jsonl({"y": 1, "quantiles": {"0.1": 1, "0.9": 2}}, {"y": 1, "quantiles": [1, 2]}),
        "others in record 2",
    ),
    "named-levels-that-are-none": (jsonl(*lines(y=1, quantiles={"low": 1, "high": 2})), "'low', 'high'"),
    "named-levels-in-percent": (jsonl(*lines(y=1, quantiles={"10": 1, "90": 2})), "divide percentages by 100"),
    "named-levels-unsorted": (jsonl(*lines(y=1, quantiles={"0.9": 1, "0.1": 2})), "0.1 after 0.9"),
    "named-levels-and-levels": (jsonl(*lines(y=1, quantiles={"0.1": 1, "0.9": 2}, levels=[0.2, 0.8])), "levels"),
    "no-named-levels": (jsonl(*lines(y=1, quantiles={})), "("),
    "text-under-a-level": (jsonl(*lines(y=1, quantiles={"0.1": "a", "0.9": 2})), "quantiles"),
    "number-of-too-many-digits": (jsonl({**RECORD, "y": 10**400}), "'y'"),
    "lists-by-an-option": (
        jsonl(*lines(y=1.0, m=[1.0, 2.0], s=[1.0, 1.0]), options=["--mean", "m", "--std", "s"]),
        "'m'",
    ),
    "draws-by-an-option": (jsonl(*lines(y=1.0, draws=[1.0, 2.0]), options=["--samples", "draws"]), "FILE::"),
}

PARQUET = {
    "missing-column": (table(GAUSSIAN, "--y", "yy", "--mean", "mean", "--std", "std"), "did you mean 'y'?"),
    "missing-float": (table({**GAUSSIAN, "y": pa.array([None, *Y[1:]])}), "in row 0"),
    "missing-whole-number": (table({**GAUSSIAN, "y": pa.array([1, None] * (N // 2))}), "null in row 1"),
    "text-for-y": (table({**GAUSSIAN, "y": ["a"] * N}), "row 0: 'a'"),
    "text-by-an-option": (table({**GAUSSIAN, "mu": ["a"] * N}, "--mean", "mu", "--std", "std"), "column 'mu'"),
    "ragged-samples": (table({"y": Y, "samples": [[1.0, 2.0]] * (N - 1) + [[1.0]]}), "a list of 1 in row 11"),
    "members-without-their-spread": (table({"y": Y, "mean": [[1.0, 2.0]] * N, "std": STD}), "the shape of mean"),
    "levels-that-differ": (
        table({"y": Y, "quantiles": [[1.0, 2.0]] * N, "levels": [[0.1, 0.9]] * (N - 1) + [[0.1, 0.8]]}),
        "others in row 11",
    ),
    "patterns-of-different-endings": (
        table({"y": Y, "m_a": MEAN, "m_b": MEAN, "s_a": STD, "s_c": STD}, "--mean", "m_*", "--std", "s_*"),
        "on one side only",
    ),
}

CASES = (
    ARRAYS
    | USAGE
    | {f"csv-{name}": case for name, case in TABLES.items()}
    | {f"jsonl-{name}": case for name, case in JSONL.items()}
    | {f"parquet-{name}": case for name, case in PARQUET.items()}
)
WITHOUT_A_FILE = ("fair", "level-", "interval-of", "interval-in", "point-", "root-", "half-", "misspelt", "crossing")


@pytest.mark.parametrize(
    ("name", "blocks"),
    [(name, blocks) for name in CASES for blocks in ([], ["--blocks"]) if not blocks or name not in USAGE],
    ids=lambda value: value if isinstance(value, str) else "blocks" if value else "whole",
)
def test_refused_with_one_helpful_line(name, blocks, tmp_path, run_here, expect_refusal):
    make, said = CASES[name]
    file = [] if name.startswith(WITHOUT_A_FILE) else ["bad"]
    expect_refusal(run_here, [*make(tmp_path), *blocks, "--json", "-"], [said, *file])


def test_refused_alike_by_the_program_itself(tmp_path, run_cli, expect_refusal):
    make, said = CASES["std-zero"]
    expect_refusal(run_cli, ["describe", *make(tmp_path)[1:], "--blocks"], [said, "bad.npz"])


@pytest.mark.parametrize("blocks", [[], ["--blocks"]], ids=["whole", "blocks"])
@pytest.mark.parametrize("name", ["std-zero", "samples-lying-on-their-side", "no-rows", "y-too-short", "levels-twice"])
def test_describe_refuses_what_evaluate_refuses(name, blocks, tmp_path, run_here, expect_refusal):
    make, said = CASES[name]
    expect_refusal(run_here, ["describe", *make(tmp_path)[1:], *blocks], [said, "bad.npz"])


def test_the_file_at_fault_is_named_among_several(tmp_path, run_here, expect_refusal):
    np.savez(tmp_path / "good.npz", **GAUSSIAN)
    bad = npz(GAUSSIAN, std=changed(STD, 3, 0.0))(tmp_path)[1]
    for blocks in ([], ["--blocks"]):
        expect_refusal(run_here, ["evaluate", tmp_path / "good.npz", bad, *blocks], ["bad.npz", "row 3"])


@pytest.mark.parametrize("place", [0, 5, 11])
def test_the_row_is_that_of_the_file_whatever_the_blocks(place, tmp_path, monkeypatch, run_here, expect_refusal):
    monkeypatch.setattr("calibrant.predictions.files.stream.BLOCK_BYTES", 100)
    for bad in ({"std": changed(STD, place, 0.0)}, {"y": changed(Y, place, np.nan)}):
        expect_refusal(run_here, [*npz(GAUSSIAN, **bad)(tmp_path), "--blocks"], [f"in row {place};", "bad.npz"])


# ------------------------------------------------------------------------------------- what goes through
@pytest.mark.parametrize("blocks", [[], ["--blocks"]], ids=["whole", "blocks"])
def test_crossing_quantiles_are_noted_once_with_their_number(blocks, tmp_path, run_here):
    for command in ("evaluate", "describe"):
        ran = run_here(*npz(CROSSING, command=command)(tmp_path), *blocks)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.count("cross;") == 1
        assert "the quantiles of 2 of 12 rows cross; they are used as given" in ran.out
    assert run_here("describe", tmp_path / "bad.npz", "--strict", *blocks).code == 2


@pytest.mark.parametrize("blocks", [[], ["--blocks"]], ids=["whole", "blocks"])
@pytest.mark.parametrize(
    "given", [GAUSSIAN, MIXTURE, DRAWN, AT_LEVELS], ids=["gaussian", "mixture", "samples", "quantiles"]
)
def test_one_row_is_enough(given, blocks, tmp_path, run_here):
    one = {
        key: value if key == "levels" else value[:1] if key in ("y", "quantiles") else value[..., :1]
        for key, value in given.items()
    }
    ran = run_here(*npz(one)(tmp_path), *blocks)
    assert (ran.code, ran.err) == (0, "")
    assert "1 row" in ran.out


def results(ran):
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)["results"]


@pytest.mark.parametrize("blocks", [[], ["--blocks"]], ids=["whole", "blocks"])
@pytest.mark.parametrize("make", [csv, table], ids=["csv", "parquet"])
def test_members_find_their_spread_by_name(make, blocks, tmp_path, run_here):
    """Whatever the order of the columns, m_1 goes with s_1."""
    columns = {"y": Y, "m_0": MEAN, "m_1": MEAN + 1, "s_0": STD, "s_1": 9 * STD}
    options = ["--mean", "m_*", "--std", "s_*", "--json", "-", *blocks]
    sorted_ones = results(run_here(*make(columns, *options)(tmp_path)))
    moved = {name: columns[name] for name in ("s_1", "m_0", "y", "s_0", "m_1")}
    assert results(run_here(*make(moved, *options)(tmp_path))) == sorted_ones
    usual = {name.replace("m_", "mean_").replace("s_", "std_"): column for name, column in moved.items()}
    assert results(run_here(*make(usual, "--json", "-", *blocks)(tmp_path))) == sorted_ones


@pytest.mark.parametrize("rows", [S, N], ids=["as-many-rows-as-draws", "more-rows"])
def test_draws_keep_their_axis_under_another_name(rows, tmp_path, run_here):
    """JSON Lines hold the draws of a row in a list, also where `::samples=draws` says what they are."""
    found = []
    for key, suffix in (("samples", ""), ("draws", "::samples=draws")):
        records = [{"y": float(Y[k]), key: SAMPLES[:, k].tolist()} for k in range(rows)]
        found.append(results(run_here(*jsonl(*records, options=["--json", "-"], suffix=suffix)(tmp_path))))
    assert found[0] == found[1]


def test_confidences_of_members_keep_their_axis_under_another_name(tmp_path, run_here):
    confidence, found = RNG.random((2, 2)), []
    for names, options in ((("confidence", "correct"), []), (("c", "ok"), ["--confidence", "c", "--correct", "ok"])):
        records = [dict(zip(names, (confidence[:, k].tolist(), k == 1), strict=True)) for k in range(2)]
        found.append(results(run_here(*jsonl(*records, options=[*options, "--json", "-"])(tmp_path))))
    assert found[0] == found[1]


def test_named_classes_are_found_under_another_name(tmp_path, run_here):
    records = [{"truth": "a", "p": {"a": 0.7, "b": 0.3}}, {"truth": "b", "p": {"b": 0.2, "a": 0.8}}]
    ran = run_here(
        *jsonl(*records, suffix="::probs=p,labels=truth", options=["-m", "accuracy", "--json", "-"])(tmp_path)
    )
    assert results(ran)[0]["metrics"]["accuracy"]["value"] == 0.5


def test_columns_that_only_begin_like_draws_are_columns(tmp_path, run_here):
    columns = {"y": Y, "samples_0": SAMPLES[0], "samples_1": SAMPLES[1], "samples_total": [7] * N}
    ran = run_here(*csv(columns, "-m", "crps")(tmp_path))
    assert (ran.code, ran.err) == (0, "")
    assert "2 samples" in ran.out
    assert "column samples_total" in run_here("describe", tmp_path / "bad.csv").out


def test_levels_repeated_in_every_row_of_parquet(tmp_path, run_here):
    make = table(
        {"y": Y, "quantiles": QUANTILES.tolist(), "levels": [LEVELS.tolist()] * N}, "-m", "pinball", "--json", "-"
    )
    whole = results(run_here(*make(tmp_path)))
    assert results(run_here(*make(tmp_path), "--blocks")) == whole
    assert results(run_here(*npz(AT_LEVELS, "-m", "pinball", "--json", "-")(tmp_path))) == whole


def test_labels_may_name_the_outcome_of_a_regression(tmp_path, run_here):
    named = results(run_here(*csv(NAMED, *OPTIONS, "--json", "-")(tmp_path)))
    labels = ["--labels", "truth", "--mean", "mu", "--std", "sd", "--json", "-"]
    assert results(run_here(*csv(NAMED, *labels)(tmp_path))) == named


@pytest.mark.parametrize("blocks", [[], ["--blocks"]], ids=["whole", "blocks"])
@pytest.mark.parametrize(
    "given", [GAUSSIAN, MIXTURE, DRAWN, AT_LEVELS], ids=["gaussian", "mixture", "samples", "quantiles"]
)
def test_numbers_beyond_all_reason_are_infinite_and_not_a_fault(given, blocks, tmp_path, run_here):
    """Fill values such as 1e308: what overflows is said to be infinite or undefined, without a word of NumPy."""
    for scale in ({"y": 1e308}, {"mean": -1e308, "samples": -1e308, "quantiles": 1e308}, {"std": 1e300}):
        huge = {key: np.sign(value) * scale[key] if key in scale else value for key, value in given.items()}
        ran = run_here(*npz(huge)(tmp_path), "--resamples", "20", *blocks)
        assert (ran.code, ran.err) == (0, "")
