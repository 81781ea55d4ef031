"""Compiled loops over all pairs of rows."""
