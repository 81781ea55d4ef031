"""The section on comparisons: its numbers are the stored ones, it stays readable with many models and odd names."""

import json
import math

import numpy as np
import pytest

from calibrant.comparison.api import compare
from calibrant.pipeline.evaluate import evaluate
from calibrant.predictions import Classification, Regression
from calibrant.predictions.base import Note
from calibrant.reporting.document import Details, Figure, Points, TableBlock, Text
from calibrant.reporting.figures import svg
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections.comparison import section
from calibrant.results.comparison import Comparison, Pair, Ranked
from calibrant.results.evaluation import Evaluation

ODD = ("<script>alert(1)</script>", "[/nope] \"x' |", "שלום \u202e", "n" * 10_000, "a\x1b[31m\nb", "=1+1")


def truth(rows=150, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 2, (rows, 4))
    return scores, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1), rng


def networks(names, rows=150, seed=0):
    """Ensembles of growing noise: 1, 3, 1, 3, … members."""
    scores, labels, rng = truth(rows, seed)
    columns = {"shift": np.array(["blur", "noise"])[np.arange(rows) % 2], "severity": np.arange(rows) // 2 % 3}
    made = {}
    for k, name in enumerate(names):
        members = scores + (0.6 + k / 4) * rng.normal(size=(1 + 2 * (k % 2), *scores.shape))
        made[name] = Classification.from_logits(2.0 * members, labels, columns=columns)
    return made


def pool_of(rows=150, seed=0, members=8):
    scores, labels, _ = truth(rows, seed)
    noise = np.random.default_rng(9).normal(size=(members, *scores.shape))
    return Classification.from_logits(scores + noise, labels)


def figures(evaluation):
    return {block.key: block for block in section(collect([evaluation])).blocks if isinstance(block, Figure)}


@pytest.fixture(scope="module")
def compared():
    models = networks(("good", "three", "poor"))
    return compare(models | {"pool": pool_of()}, pool="pool", resamples=100, seed=1)


@pytest.fixture(scope="module")
def shifted():
    return compare(networks(("good", "three")), resamples=50, shift=True)


@pytest.fixture(scope="module")
def sets():
    each = {name: networks(("good", "three", "poor"), seed=k) for k, name in enumerate(("first", "all data sets"))}
    return compare({name: models | {"pool": pool_of(seed=k)} for k, (name, models) in enumerate(each.items())},
                   pool="pool", resamples=50)  # fmt: skip


# ------------------------------------------------------------------------------------------- what there is
def test_no_section_without_a_comparison():
    assert section(collect([evaluate(networks(("one",))["one"], "nll", resamples=50)])) is None


def test_answer_ranking_and_notes_come_before_the_figures(compared):
    blocks = section(collect([compared])).blocks
    kinds = [type(block) for block in blocks]
    assert "CLL" in blocks[0].lines[0]
    assert [row[1] for row in blocks[1].table.rows] == [item.model for item in compared.comparison.ranking]
    assert kinds[:4] == [Text, TableBlock, Text, Points]
    assert kinds.index(Points) < kinds.index(Figure)
    assert blocks[3].items[0][2] == compared.warnings[0].message
    assert list(figures(compared)) == [
        "pairs",
        "before-after",
        "best",
        "equivalents",
        "equivalents-by-members",
        "members",
    ]


def test_two_comparisons_have_headings_with_their_models(compared, shifted):
    texts = [block.text for block in section(collect([compared, shifted])).blocks if hasattr(block, "text")]
    assert [text.partition(":")[0] for text in texts] == ["Comparison 1", "Comparison 2"]
    assert "good" in texts[1]


# ---------------------------------------------------------------------------------------------- the numbers
def test_every_difference_is_that_of_the_two_scores(compared):
    comparison, figure = compared.comparison, figures(compared)["pairs"]
    for score, label in (("cll", "CLL"), ("nll", "NLL"), ("brier", "Brier")):
        values = {str(k): item for k, item in enumerate(comparison.ranking, 1)}
        own = {item.model: item.value for item in comparison.ranks[score]}
        data = figure.data[(label,)]
        assert len(data["label"]) == math.comb(4, 2)
        for text, difference, low, high in zip(*(data[key] for key in ("label", "value", "low", "high")), strict=True):
            first, second = (values[side.split()[0]].model for side in text.split(" − "))
            assert difference == pytest.approx(own[first] - own[second], abs=1e-12)
            assert low <= difference <= high
    assert figure.controls[0].options[0] == "CLL"


def test_significance_is_shown_by_a_word_and_a_shape(compared):
    data = figures(compared)["pairs"].data[("CLL",)]
    better = {pair.better for pair in compared.comparison.pairs if pair.score == "cll"} - {None}
    named = {said.split()[0] for said in data["text"] if said.endswith("is better")}
    numbers = {item.model: str(k) for k, item in enumerate(compared.comparison.ranking, 1)}
    assert named == {numbers[name] for name in better}
    sure = [verdict == "significant" for verdict in data["verdict"]]
    assert sure == [said.endswith("is better") for said in data["text"]]


def test_likelihood_after_temperature_is_the_negative_cll(compared):
    data = figures(compared)["before-after"].data[()]
    means = {result.input: result.metrics["nll"].value for result in compared.results}
    ranks = {item.model: item.value for item in compared.comparison.ranks["cll"]}
    for label, state, value in zip(data["label"], data["state"], data["value"], strict=True):
        name = label.partition(" ")[2]
        assert value == pytest.approx(means[name] if state.startswith("before") else -ranks[name])


def test_probabilities_of_being_best_sum_to_one(compared):
    for data in figures(compared)["best"].data.values():
        assert sum(data["value"]) == pytest.approx(1.0, abs=0.01)


def test_models_within_the_pool_are_on_its_curve(compared):
    data = figures(compared)["equivalents"].data[()]
    rows = [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]
    curve = np.maximum.accumulate([row["cll"] for row in rows if row["kind"] == "pool"])
    within = [row for row in rows if row["where"] == "within the pool"]
    assert within
    for row in within:
        assert np.interp(row["members"], np.arange(1, len(curve) + 1), curve) == pytest.approx(row["cll"], abs=1e-9)
    assert {row["number"] for row in rows} - {None} == {
        k for k, item in enumerate(compared.comparison.ranking, 1) if item.model != "pool"
    }


def test_the_last_point_of_a_curve_over_members_is_the_whole_model(compared):
    data = figures(compared)["members"].data[()]
    three = [y for name, y in zip(data["name"], data["y"], strict=True) if name.endswith("three")]
    own = {item.model: item.value for item in compared.comparison.ranks["cll"]}
    assert len(three) == 3
    assert three[-1] == pytest.approx(own["three"], abs=1e-9)


def test_lines_by_severity_are_means_over_types(shifted):
    drawn = figures(shifted)
    options = drawn["shifted"].controls[0].options
    assert options == ("fitted on clean rows", "fitted on the same rows", "none")
    data = drawn["shifted"].data[(options[1],)]
    for name, severity, value in zip(data["name"], data["x"], data["y"], strict=True):
        cells = [c for c in shifted.comparison.shifted if c.model == name[2:] and c.severity == severity]
        assert value == pytest.approx(-np.mean([cell.same for cell in cells]))
    assert set(drawn["temperatures"].data[()]["x"]) == {0.0, 1.0, 2.0}


# ------------------------------------------------------------------------------------------------ data sets
def test_of_several_data_sets_a_control_chooses_one(sets):
    drawn = figures(sets)
    assert drawn["pairs"].controls[0].options == ("all data sets", "first", "all data sets (2)")
    assert drawn["before-after"].controls[0].options == ("first", "all data sets (2)")
    for figure in drawn.values():
        assert set(figure.data) == _products(figure)


def _products(figure):
    """All choices that controls offer."""
    made = [()]
    for control in figure.controls:
        made = [(*key, option) for key in made for option in control.options]
    return set(made)


def test_mean_rank_and_mean_equivalent_are_means_over_data_sets(sets):
    ranks = figures(sets)["ranks"].data[()]
    rows = list(zip(ranks["label"], ranks["kind"], ranks["value"], strict=True))
    for label in {row[0] for row in rows}:
        (mean,) = [value for name, kind, value in rows if name == label and kind == "mean"]
        assert mean == pytest.approx(np.mean([v for name, kind, v in rows if name == label and kind == "data set"]))
    worth = figures(sets)["equivalents-by-members"]
    each = [worth.data[(option,)]["y"] for option in worth.controls[0].options]
    assert each[0] == pytest.approx(np.mean(each[1:], axis=0))


def test_numbers_of_models_are_those_of_all_data_sets_in_every_chart(sets):
    numbers = {str(k): item.model for k, item in enumerate(sets.comparison.ranking, 1)}
    for data in figures(sets)["before-after"].data.values():
        assert {tuple(label.split(" ", 1)) for label in data["label"]} == set(numbers.items())


# ------------------------------------------------------------------------------------- many, few and odd
def by_hand(count, **more):
    """A comparison of so many models, all differences one."""
    names = [f"net {k}" for k in range(count)]
    ranked = tuple(Ranked(name, k, -k / 10, -k / 10, -k / 10, k, k, float(k == 1)) for k, name in enumerate(names, 1))
    pairs = tuple(Pair("cll", names[0], other, 1.0, 0.5, 1.5, 0.95, 0.01, 0.01, 0.01, 100) for other in names[1:])
    losses = tuple(Ranked(i.model, i.rank, -i.value, i.low, i.high, 1, 1, i.best) for i in ranked)
    made = Comparison("cll", ranked, pairs, {"cll": ranked, "nll": losses}, baseline=names[0])
    return Evaluation("0.1.0", {"level": 0.95, "metrics": []}, (), (), comparison=made, kind="comparison", **more)


def test_of_300_models_the_first_are_drawn_and_all_are_in_a_table():
    blocks = section(collect([by_hand(300)])).blocks
    drawn = figures(by_hand(300))
    assert len(drawn["before-after"].data[()]["label"]) == 2 * 30
    assert "the first 30 of 300 models" in drawn["before-after"].caption
    assert len(drawn["pairs"].data[("CLL",)]["label"]) == 30
    assert "Shows 30 of 299 pairs" in drawn["pairs"].caption
    tables = [block.table for block in blocks if isinstance(block, TableBlock)]
    folded = [item.table for block in blocks if isinstance(block, Details) for item in block.blocks]
    assert (len(tables[0].rows), len(folded[0].rows)) == (20, 300)


def test_many_warnings_are_collapsed_and_none_is_lost():
    notes = tuple(Note("small-test-set", f"note {k}") for k in range(10))
    blocks = section(collect([by_hand(2, warnings=notes)])).blocks
    shown = [item[2] for block in blocks if isinstance(block, Points) for item in block.items]
    shown += [
        item[2] for b in blocks if isinstance(b, Details) for p in b.blocks if isinstance(p, Points) for item in p.items
    ]
    assert shown == [note.message for note in notes]


def test_models_without_finite_likelihood_do_not_break_the_charts():
    models = networks(("good", "three"), rows=60)
    labels = models["good"].labels
    sure = np.full((60, 4), 0.25)
    sure[0] = np.eye(4)[(labels[0] + 1) % 4]
    evaluation = compare(models | {"impossible": Classification.from_probs(sure, labels)}, resamples=50)
    drawn = figures(evaluation)
    assert not any(label.endswith("impossible") for label in drawn["before-after"].data[()]["label"])
    assert any(said == "1 is better" for said in drawn["pairs"].data[("CLL",)]["text"])
    for figure in drawn.values():
        assert "<svg" in svg(figure)


def test_numbers_have_pairs_and_no_temperature():
    rng = np.random.default_rng(0)
    y = rng.normal(size=100)
    models = {name: Regression.from_gaussian(y=y, mean=np.zeros(100), std=np.full(100, std))
              for name, std in (("right", 1.0), ("wide", 3.0))}  # fmt: skip
    drawn = figures(compare(models, resamples=50))
    assert list(drawn) == ["pairs", "best"]
    assert drawn["pairs"].controls[0].options[0] == "NLL"


def test_names_are_data_and_never_part_of_a_chart(compared):
    models = networks(ODD)
    evaluation = compare(models | {"pool": pool_of()}, pool="pool", resamples=50)
    plain, odd = figures(compared), figures(evaluation)
    assert list(odd) == list(plain)
    for key, figure in odd.items():
        assert json.dumps(figure.chart) == json.dumps(plain[key].chart)
        texts = [value for data in figure.data.values() for column in data.values() for value in column]
        assert all(text.isprintable() and len(text) < 120 for text in texts if isinstance(text, str))


def test_charts_have_the_marks_of_their_captions(compared, sets, shifted):
    drawn = {**figures(shifted), **figures(sets), **figures(compared)}
    marks = {key: svg(figure).count("mark-symbol") for key, figure in drawn.items()}
    lines = {key: svg(figure).count('aria-roledescription="line mark"') for key, figure in drawn.items()}
    assert all(marks[key] for key in drawn if key != "best")
    assert svg(drawn["best"]).count('aria-roledescription="bar"') == len(
        drawn["best"].data[drawn["best"].default_choice()]["label"]
    )
    assert lines["members"] == len(set(drawn["members"].data[()]["name"]))
