"""Every metric that looks at labels can be checked, in memory and in groups, and agrees with `measure`."""

import numpy as np
import pytest

import calibrant as cal
from calibrant.checks.label_statistics import OWN
from calibrant.checks.statistics import statistics_of
from calibrant.registry import lookup
from calibrant.registry.metric import Spec

RNG = np.random.default_rng(0)
SITE = np.arange(60) % 2
LOGITS = RNG.normal(size=(60, 3)) * 2 + 0.4 * RNG.normal(size=(3, 60, 3))
MEANS = RNG.normal(size=60) + 0.2 * RNG.normal(size=(3, 60))
Y = MEANS[0] + RNG.normal(size=60)
INPUTS = {
    "classes": cal.Classification.from_logits(LOGITS, (LOGITS[0] + RNG.gumbel(size=(60, 3))).argmax(1),
                                              columns={"site": SITE}),
    "binary": cal.Classification.from_logits(LOGITS[..., :1], RNG.integers(0, 2, 60), columns={"site": SITE}),
    "judged": cal.Judged.from_confidence(1 / (1 + np.exp(-LOGITS[..., 0])), RNG.random(60) < 0.6,
                                         columns={"site": SITE}),
    "gaussian": cal.Regression.from_gaussian(MEANS, np.full((3, 60), 1.1), Y, columns={"site": SITE}),
    "samples": cal.Regression.from_samples(RNG.normal(size=(15, 60)) + MEANS[0], Y, columns={"site": SITE}),
}  # fmt: skip


def _specs():
    for name, predictions in INPUTS.items():
        for metric in lookup.metrics().values():
            spec = Spec.make(metric, **({"k": 2} if any(o.name == "k" for o in metric.options) else {}))
            looks = metric.needs & {"labels", "hard_labels"} and predictions.task in metric.tasks
            if looks and metric.unsupported_reason(spec, predictions) is None:
                yield pytest.param(name, spec.text, id=f"{name}-{spec.text}")


@pytest.mark.parametrize(("name", "spec"), list(_specs()))
@pytest.mark.parametrize("members", ["bayesian", "independent"])
def test_every_metric_that_looks_at_labels_can_be_checked(name, spec, members):
    p = INPUTS[name]
    found = cal.check(p, spec, draws=4, members=members, by="site")
    expected = cal.measure(p, spec)[spec]
    assert found[spec].observed == pytest.approx(expected, rel=1e-5, abs=1e-6, nan_ok=True)
    for group in found.results[0].groups:
        alone = cal.measure(p[group.value == SITE], spec)[spec]
        assert group.checks[spec].observed == pytest.approx(alone, rel=1e-5, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("own", sorted(OWN))
def test_every_statistic_of_labels_agrees_with_its_function(own):
    p = INPUTS["classes" if "classification" in OWN[own].tasks else "gaussian"]
    for statistic in statistics_of(own, p):
        by_hand = cal.checks.Statistic(statistic.function, "by hand", vectorised=True)
        found = cal.check(p, [own, by_hand], draws=30)
        theirs, ours = found.results[0].checks["by hand"], found.results[0].checks[statistic.key]
        for name in ("observed", "p_value", "mid_p", "mean", "sd", "q05", "q95"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-9, abs=1e-9)
