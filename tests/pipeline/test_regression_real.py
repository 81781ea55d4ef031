"""Real regressions: a weather ensemble whose printed scores are met, and a Bayesian ridge on a UCI set."""

import numpy as np
import pytest
from evaluations import evaluate_with
from scipy import stats
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibrant as cal

PRINTED = {1: 0.9146, 2: 0.9545, 3: 1.0117, 4: 1.0721, 5: 1.1704}
"""Mean CRPS of the 52 values as they stand, by lead time in days."""
UCI = ("bostonHousing", "concrete", "energy", "wine-quality-red", "yacht")


@pytest.fixture(scope="module")
def precipitation_path(data_folder):
    path = data_folder / "regression_ensembles" / "precip_frankfurt_ecmwf_ens.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


@pytest.fixture(scope="module")
def ensembles(precipitation_path):
    """Predictions by lead time: 52 values (mm of rain in a day) for each of 3617 days."""
    with np.load(precipitation_path, allow_pickle=False) as stored:
        return {
            lead: cal.Regression.from_samples(stored[f"ens_lead{lead}"].T, stored[f"obs_lead{lead}"])
            for lead in PRINTED
        }


@pytest.mark.parametrize("lead", PRINTED)
def test_crps_of_the_raw_ensemble_is_as_printed(ensembles, lead):
    """The fair score is lower, by the mean difference of two members over 2S."""
    made = ensembles[lead]
    found = cal.evaluate(made, "crps,crps(fair=false)")
    assert (made.n, len(made.samples)) == (3617, 52)
    plain, fair = found["crps(fair=false)"], found["crps"]
    assert plain.value == pytest.approx(PRINTED[lead], abs=5e-5)
    assert plain.low < PRINTED[lead] < plain.high
    x = np.sort(made.samples.astype(np.float64), axis=0)
    pairs = ((2 * np.arange(52) - 51)[:, None] * x).sum(axis=0).mean() / (52 * 51 / 2)
    assert plain.value - fair.value == pytest.approx(pairs / 104, rel=1e-9)


def test_scores_grow_with_the_lead_time(ensembles):
    for spec in ("crps", "mae", "pinball"):
        values = [cal.measure(ensembles[lead], spec)[spec] for lead in PRINTED]
        assert values == sorted(values), spec


@pytest.mark.parametrize("lead", [1, 5])
def test_the_raw_ensemble_is_under_dispersed(ensembles, lead):
    """A lopsided U: drizzle is forecast for dry days; where it rains, the highest bin has twice its share."""
    made = ensembles[lead]
    share, wet = (np.array(cal.evaluate(p, "pit").results[0].curves["pit"]["share"]) for p in (made, made[made.y > 0]))
    assert share.sum() == pytest.approx(1, abs=1e-12)
    assert share[0] > 5 / 20
    assert share[8:12].max() < 0.5 / 20
    assert share[-1] > 2 * share[8:12].mean()
    assert share[-1] == share[10:].max()
    assert wet[-1] > 2 / 20
    assert np.abs(share - np.histogram(cal.score_rows(made, "pit")["pit"], 20, (0, 1))[0] / 3617).max() < 0.05


def test_through_a_file_of_ones_own(ensembles, tmp_path):
    """Keys as in the contract, and under other names with `FILE::samples=…,y=…`: the same bits as from memory."""
    made = ensembles[1]
    named, other = tmp_path / "lead1.npz", tmp_path / "raw.npz"
    np.savez(named, samples=made.samples, y=made.y)
    np.savez(other, ens=made.samples, obs=made.y)
    memory = cal.measure(made)
    for path in (str(named), f"{other}::samples=ens,y=obs"):
        back = cal.read(path)
        assert (back.kind, back.n, back.samples.dtype) == ("samples", 3617, np.float32)
        assert cal.measure(back) == memory
    scanned = evaluate_with(cal.scan(str(named)), "crps(fair=false)", block_rows=500)
    assert scanned["crps(fair=false)"] == cal.evaluate(made, "crps(fair=false)")["crps(fair=false)"]


def test_rows_first_is_refused_and_said(precipitation_path):
    """The file as it came has days first: nobody would notice 52 days of 3617 samples."""
    with pytest.raises(cal.CalibrantError, match=r"rows last.*got shape \(3617, 52\); transpose it"):
        cal.read(f"{precipitation_path}::samples=ens_lead1,y=obs_lead1")


@pytest.mark.parametrize("name", UCI)
def test_bayesian_ridge_on_a_uci_set(data_folder, name):
    """Split 0: density, errors and intervals are those of SciPy and NumPy."""
    path = data_folder / "uci_regression" / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with np.load(path, allow_pickle=False) as stored:
        X, y, train, test = stored["X"], stored["y"], stored["index_train"][0], stored["index_test"][0]
    model = make_pipeline(StandardScaler(), BayesianRidge()).fit(X[train], y[train])
    made = cal.Regression.from_sklearn(model, X[test], y[test])
    found = cal.evaluate(made)
    mean, std = model.predict(X[test], return_std=True)
    nll = -stats.norm.logpdf(y[test], mean, std)
    assert found["nll"].value == pytest.approx(nll.mean(), rel=1e-9)
    assert found["mse"].value == pytest.approx(np.mean((mean - y[test]) ** 2), rel=1e-9)
    assert found["nll"].low < nll.mean() < found["nll"].high
    assert (found["nll"].n, found.inputs[0]["name"]) == (len(test), "BayesianRidge")
    assert found["crps"].value < found["mae"].value  # a spread is better than none
    climate = cal.Regression.from_samples(np.repeat(y[train][:, None], len(test), axis=1), y[test])
    assert found["crps"].value < cal.measure(climate, "crps")["crps"]
