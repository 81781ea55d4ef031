"""Dirichlet calibration and matrix scaling of two real networks beside the scores that Kull et al. (2019) published."""

import numpy as np
import pytest
from scipy.special import softmax

import calibrant as cal
from calibrant.recalibration import recalibrator

PUBLISHED = {
    ("dirichlet", "resnet110"): (6.49, 0.010857, 0.205106, 0.009765),
    ("dirichlet", "densenet40"): (7.53, 0.010973, 0.223705, 0.010970),
    ("matrix", "resnet110"): (6.49, 0.010591, 0.203753, 0.009759),
    ("matrix", "densenet40"): (7.50, 0.009879, 0.222400, 0.010965),
}
"""Error in %, ECE, NLL and Brier/C of the test rows, from the tables of Kull et al. (2019)."""


@pytest.fixture(scope="module")
def networks(data_folder):
    with np.load(data_folder / "predictions" / "cifar10_nn_calibration_logits.npz") as data:
        known = {key: data[key] for key in data.files}
    return {
        str(name): [
            cal.Classification.from_logits(known[f"logits_{part}"][m], known[f"labels_{part}"].ravel())
            for part in ("val", "test")
        ]
        for m, name in enumerate(known["model_names"])
    }


def scores(predictions):
    found = cal.measure(predictions, ["accuracy", "ece", "nll", "brier"])
    return 100 * (1 - found["accuracy"]), found["ece"], found["nll"], found["brier"] / 10


@pytest.mark.parametrize(("name", "network"), list(PUBLISHED))
def test_real_networks_score_as_well_as_published(networks, name, network):
    validation, test = networks[network]
    error, ece, loss, brier = scores(recalibrator(name).fit(validation).transform(test))
    published = PUBLISHED[name, network]
    assert loss <= published[2]
    assert brier <= published[3] + 3e-5
    assert error == pytest.approx(published[0], abs=0.08)
    assert ece == pytest.approx(published[1], abs=5e-4)


@pytest.mark.parametrize(("name", "off", "intercept"), [("dirichlet", 1000, 0.01), ("matrix", 250, 0.0001)])
def test_published_penalties_give_the_published_scores(networks, name, off, intercept):
    """DenseNet-40 with the penalties chosen there: five maps, of four fifths of the rows each, averaged."""
    model_selection = pytest.importorskip("sklearn.model_selection")
    validation, test = networks["densenet40"]
    parts = model_selection.KFold(5, shuffle=True, random_state=15).split(np.zeros(validation.n))
    made = [
        recalibrator(f"{name}(off_diagonal={off},intercept={intercept})").fit(validation[rows]) for rows, _ in parts
    ]
    average = np.mean([softmax(each.transform(test).scores[0], axis=1) for each in made], axis=0)
    error, ece, loss, brier = scores(cal.Classification.from_probs(average, test.labels))
    published = PUBLISHED[name, "densenet40"]
    assert error == pytest.approx(published[0], abs=0.05)
    assert ece == pytest.approx(published[1], abs=8e-4)
    assert loss == pytest.approx(published[2], abs=3e-4)
    assert brier == pytest.approx(published[3], abs=2e-5)
