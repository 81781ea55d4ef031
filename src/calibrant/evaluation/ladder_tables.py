"""The ladder of calibration errors in words: what holds between the errors, and what zero would mean."""

from __future__ import annotations

from calibrant.evaluation.ladder import Ladder, Rung, Standing, symbol_of
from calibrant.evaluation.rendering import Table

RULES = {"must": "must hold", "limit": "holds in the limit", "may cross": "may cross"}


def links_table(name: str, ladder: Ladder) -> Table:
    """One row a link: what is known of it, and how it is here."""
    rows = tuple((_written(s), RULES[s.link.kind], _here(s)) for s in ladder.standings)
    title = " · ".join(filter(None, (name, "the ladder: what holds between the errors")))
    return Table(title, ("link", "rule", "here"), rows, left=3)


def _written(standing: Standing) -> str:
    return f"{symbol_of(standing.link.upper)} ≥ {symbol_of(standing.link.lower)}"


def _here(standing: Standing) -> str:
    return "holds" if standing.holds else "crossed"


def ladder_lines(ladder: Ladder, name: str = "") -> list[str]:
    """Why links are crossed that are, what each error's being zero would mean, and what it would not."""
    crossed = [f"{name}{_written(s)} is crossed: {s.link.why}" for s in ladder.standings if not s.holds]
    return crossed + [_zero(rung) for rung in ladder.rungs]


def _zero(rung: Rung) -> str:
    without = f"; not that {rung.not_zero}" if rung.not_zero else ""
    return f"{rung.symbol} = 0 would mean that {rung.zero}{without}"
