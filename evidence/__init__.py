"""Simulations too long for a test; `make evidence` writes their tables into docs/evidence.md."""
