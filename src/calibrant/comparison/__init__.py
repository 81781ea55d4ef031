"""Comparing models: calibrated likelihood, deep-ensemble equivalents, paired tests and the pitfalls of comparing."""
