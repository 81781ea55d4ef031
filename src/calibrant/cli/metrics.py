"""calibrant metrics: the registry as a table, or one metric in detail."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated

from calibrant.cli import completion
from calibrant.cli.options import argument, option
from calibrant.cli.output import width_of

if TYPE_CHECKING:
    from calibrant.registry.metric import Option

EXAMPLES = """\
calibrant metrics
calibrant metrics ece
calibrant metrics ece --bibtex
"""


def command(
    name: Annotated[str | None, argument("Metric to explain; without it, list all.", "NAME", completion.metric)] = None,
    bibtex: Annotated[bool, option("--bibtex", "Print the references as BibTeX.")] = False,
) -> None:
    """List the metrics, or explain one.

    Explains the definition, the options, the bias, how the interval is computed, and the references.
    """
    from calibrant import bibliography
    from calibrant.checks.label_statistics import OWN
    from calibrant.cli.output import emit
    from calibrant.registry.lookup import find, metrics
    from calibrant.render.references import CHECKS
    from calibrant.render.table import Table, text

    known = metrics()
    if name is None and bibtex:
        emit(bibliography.bibtex(bibliography.cited_works(metric.reference for metric in known.values())))
    elif name is None:
        rows = tuple(
            (m.name, m.title + (" (proper)" if m.proper else ""), m.direction if m.direction != "none" else "")
            for m in known.values()
        )
        families = [m.family for m in known.values()]
        breaks = frozenset(k for k in range(1, len(families)) if families[k] != families[k - 1])
        table = Table("", ("metric", "title", "better"), rows, left=3, breaks=breaks)
        own = Table(
            "label statistics, for calibrant check",
            ("statistic", "title", "task"),
            tuple((one.name, one.title, ", ".join(sorted(one.tasks))) for one in OWN.values()),
            left=3,
        )
        width = width_of()
        emit(f"{text(table, width)}\n\n{text(own, width)}\n\nRun `calibrant metrics NAME` to explain one.")
    else:
        spec = name.partition("(")[0]
        metric = find(spec) if spec in known or spec not in OWN else None
        if bibtex:
            emit(bibliography.bibtex(bibliography.cited_works([metric.reference if metric else CHECKS])))
            return
        cards = []
        if metric:
            facts = {
                "definition": metric.definition,
                "better": metric.direction,
                "range": f"{metric.limits[0]:g} to {metric.limits[1]:g}",
                "needs": ", ".join(sorted(metric.needs)) or "predictions only",
                "task": ", ".join(sorted(metric.tasks)),
                "proper": "yes" if metric.proper else "no",
                "comparable across models": "yes" if metric.comparable else "no",
                "bias": metric.bias,
                "interval": metric.interval,
                "cost": metric.cost,
                "merging shards": {"exact": "exact", "rows": "stores a few numbers per row"}.get(
                    metric.merge, metric.merge
                ),
                "reference": metric.reference,
            }
            cards.append(_card(f"{metric.name}: {metric.title}", facts, metric.options))
        if spec in OWN:
            statistic = OWN[spec]
            facts = {"definition": statistic.definition, "task": ", ".join(sorted(statistic.tasks))}
            title = f"{statistic.name}: {statistic.title}, a label statistic for calibrant check"
            cards.append(_card(title, facts, statistic.options))
        emit("\n\n".join(cards))


def _card(title: str, facts: dict[str, str], options: tuple[Option, ...]) -> str:
    lines = [f"{key}: {fact}" for key, fact in facts.items() if fact]
    for item in options:
        allowed = f" ({item.allowed()})" if item.default != "" else ""
        lines.append(f"{item.name}={item.default}  {item.help}{allowed}")
    width = width_of() - 2
    wrapped = [textwrap.fill(line, width, initial_indent="  ", subsequent_indent="      ") for line in lines]
    return "\n".join([title, *wrapped])
