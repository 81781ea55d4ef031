"""Prediction files: what can be read and written, one module a format, all bounded while they are read."""
