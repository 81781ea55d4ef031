"""Altair charts, built without data in the style of the report."""
