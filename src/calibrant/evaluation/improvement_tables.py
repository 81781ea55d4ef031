"""Improvements as tables and words."""

from __future__ import annotations

import html
import math
import textwrap

from calibrant.evaluation import rendering
from calibrant.evaluation.gains import DIVERGENCES, REFERENCE, ROOTS, Gain, Improvement
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.wording import number, span


def gain_table(found: Improvement) -> Table:
    """One row a score: before, after, what was gained with its interval, and the p-value of no difference."""
    heads = ("score", "before", "after", "gain", f"{100 * found.level:g} % interval", "p")
    rows = tuple(
        (gain.score, number(gain.before), number(gain.after), number(gain.gain), span(gain.low, gain.high), _p(gain))
        for gain in found.gains.values()
    )
    made = f" · {found.method}" if found.method else ""
    return Table(f"{found.before} → {found.after} · {found.n} rows{made}", heads, rows)


def _p(gain: Gain) -> str:
    if math.isnan(gain.p_value):
        return ""
    return "< 0.0001" if gain.p_value < 1e-4 else f"{gain.p_value:.4f}"


def reading(found: Improvement) -> tuple[str, ...]:
    """What the gains say, and what they do not."""
    return tuple(line for line in (_gained(found), *_proposition(found), _misled(found)) if line)


def _gained(found: Improvement) -> str:
    """Which scores became better or worse beyond chance."""
    better = [gain.score for gain in found.gains.values() if gain.low > 0]
    worse = [gain.score for gain in found.gains.values() if gain.high < 0]
    open_ = [gain.score for gain in found.gains.values() if gain.score not in [*better, *worse]]
    parts = [f"better beyond chance: {', '.join(better)}"] * bool(better)
    parts += [f"worse beyond chance: {', '.join(worse)}"] * bool(worse)
    parts += [f"these rows do not tell: {', '.join(open_)}"] * bool(open_)
    return "; ".join(parts)


def _proposition(found: Improvement) -> list[str]:
    """What proposition 4.5 says of these gains, and what it does not."""
    known = [(gain, DIVERGENCES.get(gain.score.partition("(")[0])) for gain in found.gains.values()]
    named = [(gain, what) for gain, what in known if what and math.isfinite(gain.gain)]
    if found.map in ("not known", "several"):
        why = (
            "nothing is known of the map" if found.map == "not known" else "each fold, or member, had a map of its own"
        )
        return [f"{why}: these are gains in scores, which mix calibration and sharpness"]
    if not named:
        return []
    each = "; ".join(f"{gain.score} {number(gain.gain)}: {what}" for gain, what in named)
    roots = [score for score in found.gains if score in ROOTS]
    not_roots = f", nor does the gain in {', '.join(roots)} estimate one" if roots else ""
    if found.map == "injective":
        return [
            f"the map is injective, so that a gain estimates the fall of the score's own calibration error ({each}); "
            f"{REFERENCE}",
            f"it does not say how large that error is, before or after{not_roots}",
        ]
    return [
        "the map is not known to be injective: it may lose sharpness, and a calibration error fell by at least the "
        f"gain ({each})",
        f"it does not say how large that error is, before or after{not_roots}",
    ]


def _misled(found: Improvement) -> str:
    """How the usual errors would have been misread at other sizes."""
    said = "" if found.sizes is None else found.sizes.reading()
    return f"by the size of the test set: {said}" if said else ""


def as_text(found: Improvement, width: int = 80) -> str:
    """Tables and words in plain text."""
    lines = [line for said in reading(found) for line in textwrap.wrap(said, width, subsequent_indent="  ")]
    return "\n\n".join([*(rendering.text(table, width) for table in _tables(found)), "\n".join(lines)])


def as_html(found: Improvement) -> str:
    """The same as HTML, without a page around it."""
    said = "".join(f"<p>{html.escape(line)}</p>" for line in reading(found))
    return "".join(rendering.as_html(table) for table in _tables(found)) + said


def _tables(found: Improvement) -> list[Table]:
    from calibrant.evaluation.tables import size_table

    return [gain_table(found), *([] if found.sizes is None else [size_table(found.sizes)])]
