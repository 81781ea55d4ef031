"""The literature that Calibrant cites: BibTeX entries, and the works that free-text references name.

The works are in `references.bib`, which is read on first use. To add one, add an entry there; a test fails for every
reference in the package whose work is missing.
"""

from calibrant.bibliography.references import Work, bibtex, cited_works, unknown_citations, works

__all__ = ["Work", "bibtex", "cited_works", "unknown_citations", "works"]
