"""Maps of predictions to predictions that mend their calibration."""
