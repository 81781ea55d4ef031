"""Write docs/metrics.md from the registry, so that the page and the program cannot tell two stories.

`python scripts/make_metric_pages.py` writes the page; with `--check` it writes nothing and exits 1 if the page differs
from what it would be.
"""

import argparse
import difflib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from calibrant.registry.lookup import metrics, report_specs, with_role
from calibrant.registry.metric import Metric

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
COMMAND = "python scripts/make_metric_pages.py"
BETTER = {"lower": "lower is better", "higher": "higher is better", "none": "neither way is better as such"}
MERGES = {"exact": "exactly", "rows": "by keeping a few numbers a row"}
INTRODUCTION = f"""<!-- Made from the registry by {COMMAND}. Do not edit this page: edit the registry. -->
# Metrics

What every metric means, what it needs and where it misleads. The same facts are printed by `calibrant metrics NAME`.
Name a metric as it stands here, with its options in brackets: `nll`, `ece(bins=10,norm=l2)`.

*Proper*: in expectation no prediction scores better than the true probabilities. *Comparable*: two models may be ranked
by it as it is. `calibrant evaluate` computes the metrics marked *default* that apply; `--metrics report`, which reports
use, every metric below but for those marked *when named*; `--metrics all` every metric.
"""


def escaped(text: str) -> str:
    """The text as plain words in Markdown, in a table cell too."""
    return "".join("\\" + sign if sign in r"\`*_[]|<>" else sign for sign in text)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A pipe table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def needs(metric: Metric) -> str:
    """What predictions must have, in words."""
    words = sorted(need.replace("_", " ") for need in metric.needs)
    return ", ".join("two classes" if word == "binary" else word for word in words) or "predictions only"


def limits(metric: Metric) -> str:
    """The range of the metric, in words."""
    ends = (f"{end:g}".replace("-", "−").replace("inf", "∞") for end in metric.limits)
    return " to ".join(ends)


def runs_unasked(metric: Metric) -> bool:
    """Whether a report computes it without being asked."""
    return any(spec.metric is metric for spec in report_specs())


def overview() -> list[str]:
    """One row a metric."""
    roles = ("default", "test_binary", "test_classes", "test_judged", "test_regression")
    default = {spec for role in roles for spec in with_role(role)}
    rows = [
        (
            f"[`{m.name}`](#{m.name})",
            escaped(m.title),
            "" if m.direction == "none" else m.direction,
            limits(m),
            needs(m),
            "yes" if m.proper else "",
            "yes" if m.comparable else "no",
            m.cost + ("" if runs_unasked(m) else ", when named"),
            "yes" if m.name in default else "",
        )
        for m in metrics().values()
    ]
    return table(("metric", "title", "better", "range", "needs", "proper", "comparable", "cost", "default"), rows)


def section(metric: Metric) -> list[str]:
    """Everything that is known of one metric."""
    facts = {
        "Direction": BETTER[metric.direction],
        "Range": limits(metric),
        "Needs": needs(metric),
        "Defined for": ", ".join(sorted(metric.tasks)),
        "Proper": "yes" if metric.proper else "no",
        "Comparable across models": "yes" if metric.comparable else "no",
        "Bias": escaped(metric.bias),
        "Interval": escaped(metric.interval),
        "Cost": metric.cost + ("" if runs_unasked(metric) else "; computed when named"),
        "Merges": MERGES[metric.merge],
        "Reference": escaped(metric.reference),
    }
    lines = [f"## {metric.name}", "", f"**{escaped(metric.title)}.** {escaped(metric.definition)}", ""]
    lines += [f"- {key}: {fact}" for key, fact in facts.items() if fact]
    if metric.options:
        rows = [(f"`{o.name}`", f"`{_written(o.default)}`", o.allowed(), escaped(o.help)) for o in metric.options]
        lines += ["", *table(("option", "default", "allowed", "meaning"), rows)]
    return lines


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION.rstrip(), *("\n".join(lines) for lines in (overview(), *map(section, metrics().values())))]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it; the exit code."""
    parser = argparse.ArgumentParser(description="Write docs/metrics.md from the registry.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is stale")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page (default: docs/metrics.md)")
    given = parser.parse_args(arguments)
    wanted = page()
    if not given.check:
        given.out.write_text(wanted, encoding="utf-8")
        return 0
    found = given.out.read_text(encoding="utf-8") if given.out.exists() else ""
    if found == wanted:
        return 0
    changes = difflib.unified_diff(
        found.splitlines(), wanted.splitlines(), str(given.out), "registry", lineterm="", n=0
    )
    print("\n".join([*list(changes)[:20], f"{given.out} is stale: run `{COMMAND}`"]), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
