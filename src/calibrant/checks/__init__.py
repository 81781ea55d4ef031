"""Posterior predictive checks: `check`, the statistics it can test and the records it returns.

Names are imported when they are first used (PEP 562), so that importing one module of this package imports no other.
"""

from calibrant.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
