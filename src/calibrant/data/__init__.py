"""Data sets, read from a local folder (`CALIBRANT_DATA`); nothing is downloaded."""
