"""A metric that is added to a family file appears everywhere: nothing else has to know its name."""

import importlib.util
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import calibrant as cal
from calibrant.cli import completion
from calibrant.gates.suggestions import suggest_metric
from calibrant.kernels.rows import Rows
from calibrant.registry import lookup
from calibrant.registry.metric import ROLES, Metric
from calibrant.registry.metrics import proper
from calibrant.registry.state.accumulators import Mean
from calibrant.render.evaluation import group_table, main_table
from calibrant.render.verdicts.api import verdict
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections import overview, scores

ROOT = Path(__file__).parents[2]


def spherical(rows: Rows) -> np.ndarray:
    return 1.0 - rows.label_p / np.sqrt(rows.sum_squares)


SPHERICAL = Metric(
    name="spherical",
    label="Spherical",
    aliases=("spherical_score",),
    title="Spherical score",
    definition="mean 1 − p(label)/‖p‖₂.",
    reference="Gneiting & Raftery (2007), JASA 102: 359-378",
    family="scores",
    axis="scores",
    direction="lower",
    limits=(0.0, 1.0),
    needs=frozenset({"labels"}),
    proper=True,
    roles=dict.fromkeys(("default", "comparison", "check", "shift_trend"), 9)
    | dict.fromkeys(("main", "group", "group_column", "recalibration"), 2),
    bias="Unbiased.",
    cost="linear",
    merge="exact",
    interval="studentised",
    accumulate=lambda spec, predictions: Mean(spherical, (0.0, 1.0)),
)
CACHED = (lookup.metrics, lookup.families, lookup.with_role, lookup.on_axis, lookup.compared_by_default, lookup.aliases,
          lookup.parse)  # fmt: skip


@pytest.fixture
def added(monkeypatch):
    """With the metric at the end of its family."""
    monkeypatch.setattr(proper, "METRICS", (*proper.METRICS, SPHERICAL))
    for cached in CACHED:
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in CACHED:
        cached.cache_clear()


@pytest.fixture
def evaluation(added):
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4), 200), rng.integers(0, 4, 200)
    columns = {"site": rng.integers(0, 2, 200), "severity": rng.integers(0, 3, 200)}
    return cal.evaluate(cal.Classification.from_probs(p, y, columns=columns), by="site", resamples=20)


def test_it_is_evaluated_by_default_and_in_groups(evaluation):
    result = evaluation.results[0]
    assert 0.0 < result.metrics["spherical"].low < result.metrics["spherical"].high < 1.0
    assert all("spherical" in group.metrics for group in result.groups)
    assert "spherical ↓" in group_table(evaluation, result, "site").heads
    families = [row[0].split()[0] for row in main_table(evaluation, result).rows]
    assert families.index("spherical") < families.index("ece")


def test_it_is_in_the_report(evaluation):
    page = str(scores.section(collect([evaluation])))
    assert "Spherical score (spherical)" in page
    several = cal.evaluate({"a": points(0), "b": points(1)}, resamples=20)
    table = next(block.table for block in overview.section(collect([several])).blocks if hasattr(block, "table"))
    assert "spherical ↓" in table.heads


def points(seed):
    labels = np.random.default_rng(9).integers(0, 3, 100)
    return cal.Classification.from_probs(np.random.default_rng(seed).dirichlet(np.ones(3), 100), labels)


def test_it_is_compared_checked_and_measured_before_and_after_recalibration(added):
    compared = cal.compare({"a": points(0), "b": points(1)}, resamples=20)
    assert "spherical" in compared.comparison.ranks
    checked = cal.check(points(0), draws=50)
    assert "spherical" in checked.results[0].checks
    done = cal.recalibrate(points(0), points(1), "temperature", resamples=20)
    assert "spherical" in done.improvement.gains


def test_it_is_in_the_verdict_where_it_has_the_role(added):
    rng = np.random.default_rng(0)
    cells = {}
    for severity in (0, 1, 2):
        p, y = rng.dirichlet(np.ones(4), 100), rng.integers(0, 4, 100)
        columns = {"shift": np.full(100, "noise" if severity else "clean"), "severity": np.full(100, severity)}
        cells[f"s{severity}"] = (p, y, columns)
    p, y = (np.concatenate([cell[k] for cell in cells.values()]) for k in (0, 1))
    columns = {name: np.concatenate([cell[2][name] for cell in cells.values()]) for name in ("shift", "severity")}
    predictions = cal.Classification.from_probs(p, y, columns=columns)
    shifted = cal.evaluate_shift(predictions, resamples=20)
    assert any("Spherical" in point.text for item in verdict(shifted).inputs for point in item.points)


def test_gates_know_it(evaluation):
    assert cal.gates.gate(evaluation, require="spherical < 1").results
    assert suggest_metric("spherical_score", lookup.metrics()) == "did you mean 'spherical'?"


def test_shells_complete_it(tmp_path, monkeypatch):
    """Completion reads the sources of the families."""
    folder = shutil.copytree(Path(lookup.__file__).parent / "metrics", tmp_path / "metrics")
    with (folder / "proper.py").open("a", encoding="utf-8") as source:
        source.write('\nSPHERICAL = Metric(\n    name="spherical",\n)\n')
    monkeypatch.setattr(lookup, "__file__", str(tmp_path / "lookup.py"))
    assert completion.metrics("nll,spher") == ["nll,spherical"]


def test_the_documentation_lists_it(added):
    spec = importlib.util.spec_from_file_location("make_metric_pages", ROOT / "scripts" / "make_metric_pages.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    assert "## spherical" in module.page()


@pytest.mark.parametrize("name", cal.metrics())
def test_roles_axes_and_families_are_known(name):
    metric = cal.metrics()[name]
    assert {role.partition("(")[0] for role in metric.roles} <= set(ROLES)
    assert metric.family in lookup.families()
    for role in metric.roles:
        _, bracket, options = role.partition("(")
        assert lookup.parse(name + bracket + options).text == name + bracket + options


def test_metrics_of_a_family_follow_each_other():
    families = [metric.family for metric in cal.metrics().values()]
    assert [f for k, f in enumerate(families) if k == 0 or f != families[k - 1]] == list(lookup.families())


def test_aliases_name_one_metric_and_are_no_metrics():
    aliases = [alias for metric in cal.metrics().values() for alias in metric.aliases]
    assert len(aliases) == len(set(aliases))
    assert not set(aliases) & set(cal.metrics())


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_taken(role):
    assert lookup.with_role(role)


ORDERS = {
    ("row_loss", ""): ("nll", "crps", "crps(fair=false)", "pinball"),
    ("hit_rate", ""): ("accuracy", "top_k"),
    ("verdict_error", "classification"): ("ece", "tce", "smooth_ece", "sweep_ece", "kde_tce", "mmce", "ks"),
    ("verdict_error", "regression"): ("mace", "rmsce", "calibration_error"),
    ("check", "classification"): ("accuracy", "ece", "nll", "brier"),
    ("check", "regression"): ("calibration_error", "picp", "mse", "nll", "crps"),
    ("sample_size", "classification"): (
        "rbs", "ece", "tce(bins=100)", "tce(binning=mass,debias=true)", "kde_tce", "ks", "cwce", "cwce(bins=100)",
        "brier",
    ),
    ("regression_sample_size", ""): ("dss", "crps", "nll", "mace", "rmsce", "skce"),
}  # fmt: skip
"""The order of metrics in roles where the first that applies decides, or where lists differ by task."""


@pytest.mark.parametrize(("role", "task"), ORDERS)
def test_orders_of_roles(role, task):
    """A metric that is added may stand anywhere between them."""
    known = ORDERS[role, task]
    assert tuple(name for name in lookup.with_role(role, task) if name in known) == known


def test_orders_of_scores_of_comparisons():
    for task, known in (
        ("classification", ("cll", "nll", "brier_ts", "brier", "accuracy")),
        ("regression", ("nll", "crps", "dss", "mse")),
    ):
        assert tuple(name for name in lookup.compared_by_default(task) if name in known) == known


def test_orders_of_roles_do_not_forbid_a_new_metric(added):
    for role, task in ORDERS:
        test_orders_of_roles(role, task)
    test_orders_of_scores_of_comparisons()
