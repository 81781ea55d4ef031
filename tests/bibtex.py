"""A BibTeX reader independent of the package: entries and fields, LaTeX as Unicode, and how styles lowercase titles."""

from __future__ import annotations

import re
import unicodedata

MARKS = {
    "`": "GRAVE", "'": "ACUTE", "^": "CIRCUMFLEX", '"': "DIAERESIS", "~": "TILDE", "=": "MACRON", ".": "DOT ABOVE",
    "u": "BREVE", "v": "CARON", "r": "RING ABOVE", "H": "DOUBLE ACUTE", "c": "CEDILLA", "k": "OGONEK",
}  # fmt: skip
ACCENTS = ("GRAVE", "ACUTE", "CIRCUMFLEX", "DOUBLE ACUTE")
LETTERS = {"l": "ł", "L": "Ł", "o": "ø", "O": "Ø", "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "i": "ı"}
SYMBOLS = {r"\&": "&", r"\%": "%", r"\#": "#", r"\_": "_", r"\$": "$", "``": "“", "''": "”"}


def entries(text: str) -> dict[str, dict[str, str]]:
    """Fields by key, the entry type as `kind`; stricter than BibTeX, which skips text between entries."""
    out: dict[str, dict[str, str]] = {}
    position = 0
    while text[position:].strip():
        head = re.compile(r"\s*@(\w+)\{([^\s,{}]+),").match(text, position)
        assert head, f"no entry starts at {text[position : position + 60]!r}"
        kind, key = head.groups()
        assert key not in out, f"duplicate key {key}"
        out[key] = {"kind": kind}
        position = head.end()
        while field := re.compile(r"\s*(\w+)\s*=\s*(?=\{)").match(text, position):
            end = end_of_group(text, field.end())
            assert field[1] not in out[key], f"duplicate field {field[1]} in {key}"
            out[key][field[1]] = text[field.end() + 1 : end - 1]
            comma = re.compile(r"\s*,?").match(text, end)
            position = comma.end()
        last = re.compile(r"\s*\}").match(text, position)
        assert last, f"{key} does not end at {text[position : position + 60]!r}"
        position = last.end()
    return out


def end_of_group(text: str, start: int) -> int:
    """The position after the brace that closes the one at `start`."""
    depth = 0
    for position in range(start, len(text)):
        if text[position] == "{" and text[position - 1] != "\\":
            depth += 1
        elif text[position] == "}" and text[position - 1] != "\\":
            depth -= 1
        if depth == 0:
            return position + 1
    raise AssertionError("a brace is never closed")


def unicode_of(latex: str) -> str:
    """LaTeX as Unicode text."""
    latex = re.sub(r"\{\\([`'^\"~=.uvrHck])\{?(\\?[A-Za-z])\}?\}", _accented, latex)
    latex = re.sub(r"\{\\(ss|ae|AE|oe|OE|[lLoOi])\}", lambda m: LETTERS[m[1]], latex)
    for command, symbol in SYMBOLS.items():
        latex = latex.replace(command, symbol)
    return latex.replace("{", "").replace("}", "")


def _accented(match: re.Match[str]) -> str:
    mark = unicodedata.lookup(f"COMBINING {MARKS[match[1]]}{' ACCENT' * (MARKS[match[1]] in ACCENTS)}")
    return unicodedata.normalize("NFC", match[2].removeprefix("\\") + mark)


def lowered(title: str) -> str:
    """A title as plain styles print it: lowercase except the first letter, after a colon, and in braces."""
    out, depth, first = [], 0, True
    for position, c in enumerate(title):
        depth += (c == "{") - (c == "}")
        out.append(c if depth or first else c.lower())
        first = (first and not c.isalnum()) or (title[:position].endswith(":") and c == " ")
    return "".join(out)
