"""Reproductions of papers: data, methods and evaluation in one recipe each.

    from calibrant import bench
    result = bench.recipe("gopal", "table1").run(quick=True)

Names are imported when they are first used (PEP 562): the list of recipes needs no PyTorch, running one does.
"""

from calibrant.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
