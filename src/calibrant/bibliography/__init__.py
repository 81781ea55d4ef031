"""The works that the project refers to, and how references in free text are told which of them they name.

`cited` gives the works that texts name, `unknown` what texts cite that stands here nowhere, and `bibtex` the entries to
copy. To add a work, write it in the module of its subject; a reference anywhere in the package whose work is lacking
fails a test.
"""

from calibrant.bibliography.citing import cited, unknown
from calibrant.bibliography.work import Work
from calibrant.bibliography.works import WORKS, bibtex

__all__ = ["WORKS", "Work", "bibtex", "cited", "unknown"]
