"""Proper scores and the uncertainty of rows: functions of the row record to one number a row, reduced elsewhere."""
