"""calibrant metrics --bibtex: the entries of a metric, and of all."""

from bibtex import entries

from calibrant.bibliography import cited
from calibrant.registry import find, metrics


def test_the_entries_of_a_metric(run_here):
    for spec in ("skce", "skce(width=1)"):
        ran = run_here("metrics", spec, "--bibtex")
        assert (ran.code, ran.err) == (0, "")
        assert list(entries(ran.out)) == ["widmann2019calibration", "widmann2021calibration"]


def test_the_entries_of_all_metrics_each_once(run_here):
    ran = run_here("metrics", "--bibtex")
    assert (ran.code, ran.err) == (0, "")
    found = list(entries(ran.out))
    each = [work.key for name in metrics() for work in cited([find(name).reference])]
    assert found == list(dict.fromkeys(each))


def test_a_statistic_that_is_no_metric_has_the_entries_of_checks(run_here):
    assert "gopal2021calibration" in entries(run_here("metrics", "quantile", "--bibtex").out)


def test_a_metric_that_is_not_there(run_here):
    ran = run_here("metrics", "ecee", "--bibtex")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean 'ece'?" in ran.err
