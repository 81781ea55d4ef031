"""`python -m calibrant` is the program `calibrant`."""

from calibrant.cli.start import run

run()
