"""Compiled loops that draw replicated data sets from predictions."""
