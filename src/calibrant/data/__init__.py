"""Data sets: read from a folder that the user has (`CALIBRANT_DATA`), never fetched and never shipped."""
