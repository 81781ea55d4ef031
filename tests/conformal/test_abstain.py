"""abstain: the certificate holds with probability 1 − delta, and finds what can be found, or says that it cannot."""

import json

import numpy as np
import pytest
from scipy.stats import binom

import calibrant as cal
from calibrant.conformal.abstention import binomial_p
from calibrant.errors import CalibrantError


def answers(rng, n, shift=0.0, units=None):
    p = rng.uniform(0.5, 1, n)
    columns = {} if units is None else {"question": units}
    return cal.Judged.from_confidence(p, rng.random(n) < np.clip(p - shift, 0, 1), columns=columns)


def true_risk(threshold, shift):
    """The error rate of rows with uniform confidence p above a threshold, which are right with p − shift."""
    return 1 - ((1 + threshold) / 2 - shift)


@pytest.mark.parametrize("shift", [0.0, 0.05])
def test_certificate_holds_and_is_not_idle(shift):
    rng = np.random.default_rng(0)
    wrong, coverage, runs = 0, [], 300
    for _ in range(runs):
        found = cal.conformal.abstain(answers(rng, 800, shift), answers(rng, 400), risk=0.15, delta=0.1)
        if found.threshold is not None:
            wrong += true_risk(found.threshold, shift) > 0.15
            coverage.append(found.coverage)
    assert wrong / runs <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / runs)
    possible = (2 * (0.15 - shift)) / 0.5  # the share of rows above the best threshold
    assert len(coverage) > 0.6 * runs
    assert np.mean(coverage) > 0.55 * possible


def test_exact_binomial():
    assert binomial_p(2, 100, 0.05) == pytest.approx(sum(binom.pmf(k, 100, 0.05) for k in range(3)))
    assert binomial_p(0, 0, 0.05) == 1.0
    # 58 rows without an error certify nothing at 5%, 59 do
    assert binomial_p(0, 58, 0.05) > 0.05 > binomial_p(0, 59, 0.05)


def test_none_certified_is_an_answer():
    rng = np.random.default_rng(0)
    found = cal.conformal.abstain(answers(rng, 30), answers(rng, 50), risk=0.01)
    assert found.threshold is None
    assert found.coverage == 0.0
    assert "No threshold is certified" in str(found)
    random = cal.Judged.from_confidence(rng.uniform(0.5, 1, 2000), rng.random(2000) < 0.5)
    assert cal.conformal.abstain(random, answers(rng, 200)).threshold is None


def test_units_use_one_row_each():
    rng = np.random.default_rng(0)
    units = np.repeat(np.arange(400), 5)
    fit = answers(rng, 2000, units=units)
    found = cal.conformal.abstain(fit, answers(rng, 500), risk=0.2, units="question")
    assert found.fitted_rows == 400
    # copies of 400 rows certify no more than the rows themselves
    copies = fit[np.repeat(np.arange(0, 2000, 5), 5)]
    single = cal.conformal.abstain(fit[np.arange(0, 2000, 5)], answers(np.random.default_rng(1), 500), risk=0.2)
    again = cal.conformal.abstain(copies, answers(np.random.default_rng(1), 500), risk=0.2, units="question")
    assert again.threshold == single.threshold


def test_command(run_here, tmp_path):
    rng = np.random.default_rng(0)
    fit = cal.write(answers(rng, 2000), tmp_path / "fit.npz")
    new = cal.write(answers(rng, 1000), tmp_path / "new.npz")
    common = ("conformal", "--fit", fit, "--apply", new, "--method", "abstain")
    done = run_here(*common, "--risk", "0.1", "-o", tmp_path / "out.npz", "--json", tmp_path / "out.json")
    assert done.code == 0, done.err
    stored = json.loads((tmp_path / "out.json").read_text())
    accepted = np.load(tmp_path / "out.npz")["accepted"]
    assert accepted.mean() == stored["coverage"]
    assert (cal.read(new).confidence[0][accepted] >= stored["threshold"]).all()
    assert stored["error"] <= 0.1
    assert "No threshold is certified" in run_here(*common, "--risk", "0.001").out
    assert run_here(*common[:-1], "lac", "--risk", "0.1").code == 2
    assert "add --method abstain" in run_here("conformal", "--fit", fit, "--apply", new, "--delta", "0.1").err


@pytest.mark.parametrize("arguments", [{"risk": 0.0}, {"risk": 1.0}, {"delta": 0}, {"units": "nothing"}])
def test_mistakes(arguments):
    rng = np.random.default_rng(0)
    with pytest.raises(CalibrantError):
        cal.conformal.abstain(answers(rng, 50), answers(rng, 50), **arguments)
