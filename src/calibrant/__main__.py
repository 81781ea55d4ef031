"""`python -m calibrant` is the program `calibrant`."""

from calibrant.cli.main import run

run()
