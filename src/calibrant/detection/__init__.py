"""OOD detection, error detection and selective prediction: functions of sorted rows."""
