"""BibTeX read back: entries with their fields, LaTeX as Unicode, and what styles do to titles."""

from __future__ import annotations

import re
import unicodedata

MARKS = {
    "`": "GRAVE", "'": "ACUTE", "^": "CIRCUMFLEX", '"': "DIAERESIS", "~": "TILDE", "=": "MACRON", ".": "DOT ABOVE",
    "u": "BREVE", "v": "CARON", "r": "RING ABOVE", "H": "DOUBLE ACUTE", "c": "CEDILLA", "k": "OGONEK",
}  # fmt: skip
ACCENTS = ("GRAVE", "ACUTE", "CIRCUMFLEX", "DOUBLE ACUTE")
SPELT = {"l": "ł", "L": "Ł", "o": "ø", "O": "Ø", "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "i": "ı"}
WRITTEN = {r"\&": "&", r"\%": "%", r"\#": "#", r"\_": "_", r"\$": "$", "``": "“", "''": "”"}


def entries(text: str) -> dict[str, dict[str, str]]:
    """Entries by key, `kind` among their fields; refuses what is no BibTeX: what BibTeX skips between entries, too."""
    out: dict[str, dict[str, str]] = {}
    place = 0
    while text[place:].strip():
        head = re.compile(r"\s*@(\w+)\{([^\s,{}]+),").match(text, place)
        assert head, f"no entry begins at {text[place : place + 60]!r}"
        kind, key = head.groups()
        assert key not in out, f"{key} is there twice"
        out[key] = {"kind": kind}
        place = head.end()
        while field := re.compile(r"\s*(\w+)\s*=\s*(?=\{)").match(text, place):
            end = closed(text, field.end())
            assert field[1] not in out[key], f"{key} has two fields {field[1]}"
            out[key][field[1]] = text[field.end() + 1 : end - 1]
            comma = re.compile(r"\s*,?").match(text, end)
            place = comma.end()
        last = re.compile(r"\s*\}").match(text, place)
        assert last, f"{key} does not end at {text[place : place + 60]!r}"
        place = last.end()
    return out


def closed(text: str, start: int) -> int:
    """The place behind the brace that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        if text[place] == "{" and text[place - 1] != "\\":
            depth += 1
        elif text[place] == "}" and text[place - 1] != "\\":
            depth -= 1
        if depth == 0:
            return place + 1
    raise AssertionError("a brace is never closed")


def unicode_of(latex: str) -> str:
    """LaTeX as it is printed."""
    latex = re.sub(r"\{\\([`'^\"~=.uvrHck])\{?(\\?[A-Za-z])\}?\}", _accented, latex)
    latex = re.sub(r"\{\\(ss|ae|AE|oe|OE|[lLoOi])\}", lambda m: SPELT[m[1]], latex)
    for written, sign in WRITTEN.items():
        latex = latex.replace(written, sign)
    return latex.replace("{", "").replace("}", "")


def _accented(match: re.Match[str]) -> str:
    mark = unicodedata.lookup(f"COMBINING {MARKS[match[1]]}{' ACCENT' * (MARKS[match[1]] in ACCENTS)}")
    return unicodedata.normalize("NFC", match[2].removeprefix("\\") + mark)


def lowered(title: str) -> str:
    """What plain styles make of a title: small letters but for its first, those after a colon, and those in braces."""
    out, depth, first = [], 0, True
    for place, c in enumerate(title):
        depth += (c == "{") - (c == "}")
        out.append(c if depth or first else c.lower())
        first = (first and not c.isalnum()) or (title[:place].endswith(":") and c == " ")
    return "".join(out)
