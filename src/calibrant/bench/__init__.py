"""Reproductions of papers: data, methods and evaluation in one recipe each."""
