"""Evaluations: every metric that applies, with its interval, in one object that prints, shows and is stored."""
