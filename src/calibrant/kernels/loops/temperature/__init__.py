"""Compiled loops over log-likelihoods as functions of temperatures."""
