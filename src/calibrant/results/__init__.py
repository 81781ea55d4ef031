"""Stored results: what an `Evaluation` holds, and what other public functions return.

Names are imported when they are first used (PEP 562), so that importing one module of this package imports no other.
"""

from calibrant.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
