"""Calibration errors: bins in one place, errors of binned pairs, and intervals that hold at a perfect model."""
