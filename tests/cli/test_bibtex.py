"""calibrant metrics --bibtex: the BibTeX entries of one metric and of all."""

from bibtex import entries

from calibrant.bibliography import cited_works
from calibrant.registry.lookup import find, metrics


def test_entries_of_one_metric(run_here):
    for spec in ("skce", "skce(width=1)"):
        ran = run_here("metrics", spec, "--bibtex")
        assert (ran.code, ran.err) == (0, "")
        assert list(entries(ran.out)) == ["widmann2019calibration", "widmann2021calibration"]


def test_entries_of_all_metrics_without_duplicates(run_here):
    ran = run_here("metrics", "--bibtex")
    assert (ran.code, ran.err) == (0, "")
    expected = [work.key for name in metrics() for work in cited_works([find(name).reference])]
    assert list(entries(ran.out)) == list(dict.fromkeys(expected))


def test_statistics_that_are_not_metrics_print_the_entries_of_checks(run_here):
    assert "gopal2021calibration" in entries(run_here("metrics", "quantile", "--bibtex").out)


def test_unknown_metric(run_here):
    ran = run_here("metrics", "ecee", "--bibtex")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean 'ece'?" in ran.err
