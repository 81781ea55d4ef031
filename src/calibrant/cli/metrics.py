"""calibrant metrics: the registry in words."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.cli import completion
from calibrant.cli.terminal import width_of

if TYPE_CHECKING:
    from calibrant.checks.own import Own
    from calibrant.registry.metric import Metric, Option


def command(
    name: Annotated[
        str | None,
        typer.Argument(help="A metric; all are listed without.", metavar="NAME", autocompletion=completion.metric),
    ] = None,
    bibtex: Annotated[bool, typer.Option("--bibtex", help="Print its references, or those of all, as BibTeX.")] = False,
) -> None:
    """List the metrics, or say of one what it means, what it needs, its reference and its pitfalls."""
    from calibrant.checks.own import OWN
    from calibrant.cli.output import emit
    from calibrant.evaluation.rendering import Table, text
    from calibrant.registry import families, find, metrics

    if bibtex:
        emit(_entries(name))
        return
    if name is not None:
        wanted = name.partition("(")[0]
        cards = [_card(find(wanted))] if wanted in metrics() or wanted not in OWN else []
        emit("\n\n".join(cards + ([_own_card(OWN[wanted])] if wanted in OWN else [])))
        return
    rows = tuple(
        (
            m.name,
            m.title + (" (proper)" if m.proper else ""),
            m.direction if m.direction != "none" else "",
        )
        for m in metrics().values()
    )
    sizes = [len(family) for family in families()]
    breaks = frozenset(sum(sizes[:k]) for k in range(1, len(sizes)))
    table = Table("", ("metric", "title", "better"), rows, left=3, breaks=breaks)
    own = Table(
        "statistics of labels, for calibrant check",
        ("statistic", "title", "for"),
        tuple((one.name, one.title, ", ".join(sorted(one.tasks))) for one in OWN.values()),
        left=3,
    )
    width = width_of()
    emit(f"{text(table, width)}\n\n{text(own, width)}\n\n`calibrant metrics NAME` tells more of one.")


def _entries(name: str | None) -> str:
    """The works that a metric, or all of them, refer to, as BibTeX; of statistics of labels, the works on checks."""
    from calibrant.bibliography import bibtex, cited
    from calibrant.checks.own import OWN
    from calibrant.evaluation.references import CHECKS
    from calibrant.registry import find, metrics

    if name is None:
        return bibtex(cited(metric.reference for metric in metrics().values()))
    wanted = name.partition("(")[0]
    own = wanted in OWN and wanted not in metrics()
    return bibtex(cited([CHECKS if own else find(wanted).reference]))


def _card(metric: Metric) -> str:
    facts = {
        "definition": metric.definition,
        "better": metric.direction,
        "range": f"{metric.limits[0]:g} to {metric.limits[1]:g}",
        "needs": ", ".join(sorted(metric.needs)) or "nothing but predictions",
        "for": ", ".join(sorted(metric.tasks)),
        "proper": "yes" if metric.proper else "no",
        "comparable across models": "yes" if metric.comparable else "no",
        "bias": metric.bias,
        "interval": metric.interval,
        "cost": metric.cost,
        "merges": {"exact": "exactly", "rows": "by keeping a few numbers a row"}.get(metric.merge, metric.merge),
        "reference": metric.reference,
    }
    return _lines(f"{metric.name}: {metric.title}", facts, metric.options)


def _own_card(own: Own) -> str:
    facts = {"definition": own.definition, "for": ", ".join(sorted(own.tasks))}
    return _lines(f"{own.name}: {own.title}, a statistic of labels for calibrant check", facts, own.options)


def _lines(title: str, facts: dict[str, str], options: tuple[Option, ...]) -> str:
    lines, width = [title], width_of() - 2
    for key, fact in facts.items():
        if fact:
            lines += textwrap.wrap(f"{key}: {fact}", width, initial_indent="  ", subsequent_indent="      ")
    for option in options:
        allowed = f" ({option.allowed()})" if option.default != "" else ""
        said = f"{option.name}={option.default}  {option.help}{allowed}"
        lines += textwrap.wrap(said, width, initial_indent="  ", subsequent_indent="      ")
    return "\n".join(lines)
