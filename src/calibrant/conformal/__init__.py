"""Conformal prediction: intervals and class sets with a coverage guarantee, whatever the model.

    import calibrant as cal
    sets = cal.conformal.ConformalSets(level=0.9).fit(validation).predict(test)
    print(sets)

From n held-out rows with nonconformity scores s₁ … sₙ, the threshold is the ⌈(n + 1)·level⌉-th smallest. A new row that
is exchangeable with them has a score up to the threshold with probability at least `level`, and at most
level + 1/(n + 1) if no two scores are equal. This is marginal coverage, on average over held-out and new rows, not
conditional coverage for each kind of row.
"""

from calibrant.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
