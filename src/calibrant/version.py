"""The version of the package: evaluations record it."""

__version__ = "0.1.0"
