r"""Text as BibTeX takes it: ASCII, with accents such as {\"o}, and capitals that styles must not lower in braces."""

from __future__ import annotations

import unicodedata

ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c", "\u0328": "k",
}  # fmt: skip
"""Combining marks, and the commands that set them."""
LETTERS = {
    "ł": r"{\l}", "Ł": r"{\L}", "ø": r"{\o}", "Ø": r"{\O}", "ß": r"{\ss}", "æ": r"{\ae}", "Æ": r"{\AE}", "œ": r"{\oe}",
    "Œ": r"{\OE}", "ı": r"{\i}", "–": "--", "—": "---", "‘": "`", "’": "'", "“": "``", "”": "''",
    "\\": r"{\textbackslash}", "~": r"{\textasciitilde}", "^": r"{\textasciicircum}",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}  # fmt: skip
DOTLESS = {"i": r"\i", "j": r"\j"}
END = ".,:;?!)"


def tex(text: str) -> str:
    """The text in LaTeX; a character that is not known stays as it is."""
    return "".join(_letter(c) for c in unicodedata.normalize("NFC", text))


def _letter(c: str) -> str:
    if c in LETTERS:
        return LETTERS[c]
    apart = unicodedata.normalize("NFD", c)
    base, mark = apart[0], apart[1:]
    if mark not in ACCENTS or not base.isascii():
        return c
    above = mark not in "\u0327\u0328"
    letter = DOTLESS.get(base, base) if above else base
    command = ACCENTS[mark]
    return f"{{\\{command}{{{letter}}}}}" if command.isalpha() else f"{{\\{command}{letter}}}"


def protected(title: str) -> str:
    """The title in LaTeX, with braces around words whose capitals are not just those of a first word.

    Styles lower all letters but the first of a title and of what follows a colon.
    """
    words, first = [], True
    for word in title.split(" "):
        core = word.lstrip("(").rstrip(END)
        start, end = word[: word.index(core)], word[word.index(core) + len(core) :]
        kept = core[1:] if first and not start else core
        shown = tex(core) if kept == kept.lower() else f"{{{tex(core)}}}"
        words.append(f"{tex(start)}{shown}{tex(end)}")
        first = word.endswith(":")
    return " ".join(words)
