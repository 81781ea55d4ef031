"""The section on reliability: points are the stored bins, bands are there where they were computed and only there."""

from __future__ import annotations

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal
from calibrant.reporting.document import figures_of
from calibrant.reporting.figures import svg
from calibrant.reporting.report import document_of


def judged():
    rng = np.random.default_rng(0)
    return cal.Judged.from_confidence(rng.random(90), np.arange(90) % 2)


def figures(evaluation):
    return {
        figure.key: figure for section, figure, _ in figures_of(document_of([evaluation])) if section == "reliability"
    }


@pytest.fixture(scope="module", params=[True, False], ids=["bands", "none"])
def drawn(request):
    evaluation = evaluate_with(judged(), resamples=40, intervals=request.param)
    return request.param, evaluation.results[0].curves, figures(evaluation)


def test_bands_are_drawn_and_mentioned_only_if_computed(drawn):
    banded, curves, found = drawn
    figure = found["diagram"]
    assert ("band_low" in curves["reliability"]) is banded
    assert ("Shaded" in figure.caption) is banded
    assert any(value is not None for value in figure.data[figure.default_choice()]["band_low"]) is banded
    bins = len(curves["reliability"]["n"])
    assert svg(figure).count('aria-roledescription="rect mark"') == (bins if banded else 0)


def test_points_are_the_stored_bins_for_every_choice(drawn):
    _, curves, found = drawn
    data = found["diagram"].data
    assert data["equal width", "15"]["accuracy"] == curves["reliability"]["accuracy"]
    assert data["equal mass", "10"]["confidence"] == curves["reliability(bins=10,binning=mass)"]["confidence"]
    assert len(data) == sum(name.partition("(")[0] == "reliability" for name in curves)


def test_right_and_wrong_rows_are_all_rows(drawn):
    _, _, found = drawn
    assert sum(found["confidence"].data[()]["rows"]) == judged().n
