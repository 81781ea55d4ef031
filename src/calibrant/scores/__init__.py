"""Proper scores and uncertainties: functions from rows to one number per row."""
