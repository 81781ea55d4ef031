"""calibrant metrics: the registry in words."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from calibrant.registry.metric import Metric


def command(
    name: Annotated[str | None, typer.Argument(help="A metric; all are listed without.", metavar="[NAME]")] = None,
) -> None:
    """List the metrics, or say of one what it means, what it needs, its reference and its pitfalls."""
    from calibrant.cli.output import emit
    from calibrant.evaluation.rendering import Table, text
    from calibrant.registry import families, find, metrics

    if name is not None:
        emit(_card(find(name.partition("(")[0])))
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
    emit(text(table) + "\n\n`calibrant metrics NAME` tells more of one.")


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
    lines = [f"{metric.name}: {metric.title}"]
    for key, fact in facts.items():
        if fact:
            lines += textwrap.wrap(f"{key}: {fact}", 78, initial_indent="  ", subsequent_indent="      ")
    for option in metric.options:
        said = f"{option.name}={option.default}  {option.help} ({option.allowed()})"
        lines += textwrap.wrap(said, 78, initial_indent="  ", subsequent_indent="      ")
    return "\n".join(lines)
