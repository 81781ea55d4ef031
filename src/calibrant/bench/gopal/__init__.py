"""Gopal (2021): "Why calibration error is wrong given model uncertainty", the experiment on simulated data.

from calibrant.bench import gopal
result = gopal.table1("folder", quick=True)
print(result)
"""

from calibrant.bench.gopal.plan import Plan
from calibrant.bench.gopal.runner import table1, train

__all__ = ["Plan", "table1", "train"]
