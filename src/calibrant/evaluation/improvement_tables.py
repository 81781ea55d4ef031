"""Improvements as tables and words."""

from __future__ import annotations

import html
import math

from calibrant.evaluation import bars, rendering
from calibrant.evaluation.bars import Bar
from calibrant.evaluation.gains import DIVERGENCES, REFERENCE, ROOTS, Gain, Improvement
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.wording import number, span

NO_SCORE = "no proper score can be taken of both"
BETTER, WORSE, UNDECIDED = "better beyond chance", "worse beyond chance", "these rows do not tell"
UNCHANGED = "unchanged"
WORST = "now infinite, for a label has probability 0"


def gain_table(found: Improvement) -> Table:
    """One row a score: before, after, what was gained with its interval, and the p-value of no difference."""
    heads = ("score", "before", "after", "gain", f"{100 * found.level:g} % interval", "p")
    rows = tuple(
        (gain.score, number(gain.before), number(gain.after), number(gain.gain), span(gain.low, gain.high), _p(gain))
        for gain in found.gains.values()
    )
    made = f" · {found.method}" if found.method else ""
    drawn = tuple(Bar(gain.gain, gain.low, gain.high, zero=0.0) for gain in found.gains.values())
    return Table(f"{found.before} → {found.after} · {found.n} rows{made}", heads, rows, bars=drawn)


def gain_rows(found: Improvement) -> list[tuple[object, ...]]:
    """The gains as rows of a table of values: of the input after, in the group of the one before."""
    where = (found.after, "gain", found.before)
    return [
        (*where, gain.score, *_known(gain.gain, gain.low, gain.high), found.level, gain.method, found.n, "", "",
         *_known(gain.p_value), "", "")
        for gain in found.gains.values()
    ]  # fmt: skip


def _known(*values: float) -> tuple[object, ...]:
    return tuple("" if math.isnan(value) else value for value in values)


def _p(gain: Gain) -> str:
    if math.isnan(gain.p_value):
        return ""
    return "< 0.0001" if gain.p_value < 1e-4 else f"{gain.p_value:.4f}"


def reading(found: Improvement) -> tuple[str, ...]:
    """What the gains say, and what they do not."""
    return tuple(line for line in (_gained(found), *_proposition(found), _misled(found)) if line)


def _gained(found: Improvement) -> str:
    """Which scores became better or worse beyond chance, and which have no difference that could be one."""
    said: dict[str, list[str]] = {}
    for gain in found.gains.values():
        said.setdefault(verdict(gain), []).append(gain.score)
    return "; ".join(f"{what}: {', '.join(scores)}" for what, scores in said.items()) or NO_SCORE


def verdict(gain: Gain) -> str:
    """What the interval of a gain says of it."""
    if math.isinf(gain.before) or math.isinf(gain.after):
        ends = (math.isinf(gain.before), math.isinf(gain.after))
        return {(True, False): "no longer infinite", (False, True): WORST, (True, True): "infinite before and after"}[
            ends
        ]
    if gain.gain == 0.0 and math.isnan(gain.low):
        return UNCHANGED
    if gain.low > 0:
        return BETTER
    return WORSE if gain.high < 0 else UNDECIDED


def _proposition(found: Improvement) -> list[str]:
    """What proposition 4.5 says of these gains, and what it does not."""
    known = [(gain, DIVERGENCES.get(gain.score.partition("(")[0])) for gain in found.gains.values()]
    named = [(gain, what) for gain, what in known if what and math.isfinite(gain.gain) and gain.gain != 0.0]
    if not named:
        return []
    if found.map in ("not known", "several"):
        why = (
            "nothing is known of the map" if found.map == "not known" else "each fold, or member, had a map of its own"
        )
        return [f"{why}: these are gains in scores, which mix calibration and sharpness"]
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
        "the map is not known to be injective: it may lose sharpness, and a gain is at most the fall of the score's "
        f"own calibration error ({each})",
        f"it does not say how large that error is, before or after{not_roots}",
    ]


def _misled(found: Improvement) -> str:
    """How the usual errors would have been misread at other sizes."""
    said = "" if found.sizes is None else found.sizes.reading()
    return f"by the size of the test set: {said}" if said else ""


def as_text(found: Improvement, width: int = 80) -> str:
    """Tables and words in plain text."""
    shown = [rendering.text(table, width) for table in _tables(found)]
    signs = bars.legend("\n".join(shown))
    said = [*([signs] if signs else []), *reading(found)]
    return "\n\n".join([*shown, "\n".join(line for text in said for line in rendering.wrap(text, width))])


def as_html(found: Improvement) -> str:
    """The same as HTML, without a page around it."""
    said = "".join(f"<p>{html.escape(line)}</p>" for line in reading(found))
    return "".join(rendering.as_html(table) for table in _tables(found)) + said


def _tables(found: Improvement) -> list[Table]:
    from calibrant.evaluation.tables import size_table

    return [gain_table(found), *([] if found.sizes is None else [size_table(found.sizes)])]
