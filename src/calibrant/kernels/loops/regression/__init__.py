"""Compiled loops for regression scores and mixture quantiles."""
