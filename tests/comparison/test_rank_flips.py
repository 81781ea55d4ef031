"""How the order of models by a calibration error turns with its settings."""

import csv
import io
import json
import math

import numpy as np
import pytest
from compared_models import made

import calibrant as cal
from calibrant.errors import UsageError
from calibrant.render.table import markdown
from calibrant.results.rank_flips import RankFlips

TOY = RankFlips(
    "tace",
    ("a", "b", "c"),
    ("tace(bins=5)", "tace(bins=10)", "tace(bins=20)"),
    ((0.1, 0.2, 0.3), (0.3, 0.2, 0.1), (0.1, 0.1, math.nan)),
)


def test_ranks_orders_and_extremes_of_a_table_by_hand():
    assert TOY.ranks == ((1, 2, 3), (3, 2, 1), (1, 1, 3))
    assert len(TOY.orders) == 3
    assert TOY.first == {"a": 2, "b": 1, "c": 1}
    assert TOY.rank_range("c") == (1, 3)
    assert TOY.largest_range == ("a", 1, 3)
    assert TOY.extremes == ("tace(bins=5)", "tace(bins=10)", 3)
    assert "give 3 rankings of 3 models, with 3 of them in first place" in TOY.reading()


def test_one_order_is_said_to_be_one():
    flat = RankFlips("ece", ("a", "b"), ("ece", "ece(bins=5)"), ((0.1, 0.2), (0.2, 0.3)))
    assert flat.reading() == "2 settings of ece give the same ranking of 2 models"
    assert flat.extremes[2] == 0


@pytest.mark.parametrize(("metric", "count"), [("tace", 4), ("ece", 4), ("cwce(p=1)", 2), ("ece(norm=l2)", 4)])
def test_values_are_those_of_measure_under_every_setting(metric, count):
    models = {"a": made(1), "b": made(2)}
    found = cal.comparison.rank_flips(models, metric, bins=(5, 15), thresholds=(0.0, 0.01))
    assert len(found.settings) == count
    for setting, row in zip(found.settings, found.values, strict=True):
        assert row == tuple(cal.measure(model, setting)[setting] for model in models.values())
    assert all(setting.startswith(metric.partition("(")[0]) for setting in found.settings)


def test_stored_and_shown(tmp_path):
    back = RankFlips.from_json(json.loads(json.dumps(TOY.to_json())))
    assert back.ranks == TOY.ranks
    assert back.to_json() == TOY.to_json()
    assert "best rank" in str(TOY)
    assert "| a | 1 | 3 | 2 of 3 |" in markdown(TOY.table())
    rows = list(csv.DictReader(io.StringIO(TOY.csv())))
    assert len(rows) == 9
    assert rows[3] == {"setting": "tace(bins=10)", "model": "a", "value": "0.3", "rank": "3"}


@pytest.mark.parametrize(
    ("models", "given", "said"),
    [
        ({"a": made(1)}, {}, "at least two"),
        ({"a": made(1), "b": made(2)}, {"metric": "nll"}, "bins"),
        ({"a": made(1), "b": made(2)}, {"bins": ()}, "setting"),
        ({"a": made(1), "b": made(2)}, {"bins": (0,)}, "an integer from 1 to"),
    ],
)
def test_what_cannot_be_is_refused(models, given, said):
    with pytest.raises(UsageError, match=said):
        cal.comparison.rank_flips(models, **given)


def test_eight_real_networks_change_places(data_folder):
    """Ashukha's figure 7 on the eight networks: the order by TACE depends on bins and threshold."""
    path = data_folder / "predictions" / "cifar10_test_8cnn_logits.npz"
    if not path.exists():
        pytest.skip(f"the eight networks are not at {path}")
    with np.load(path) as file:
        logits, labels, names = file["logits"], file["labels"], file["model_names"]
    models = {str(name): cal.Classification.from_logits(logits[k], labels) for k, name in enumerate(names)}
    found = cal.comparison.rank_flips(models, bins=(5, 10), thresholds=(0.0, 1e-4))
    assert sum(count > 0 for count in found.first.values()) == 4
    assert found.extremes == ("tace(threshold=0,bins=5)", "tace(threshold=0.0001,bins=5)", 10)
    assert found.rank_range("pyramidnet_basic_110_270") == (1, 4)
    by_ece = cal.comparison.rank_flips(models, "ece", bins=(5, 15, 100))
    assert len(by_ece.orders) == 1  # these networks are so far from calibrated that bins do not matter to ECE
