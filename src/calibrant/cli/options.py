"""Options that several commands share, in the groups that `--help` shows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from calibrant.cli import completion

COLUMNS = "Table columns (CSV, JSON Lines, Parquet, Arrow)"
LOGS = "Evaluation logs, and confidences as they are found"
INPUT = "Input"
INTERVALS = "Intervals and computation"
GATES = "Gates"
OUTPUT = "Output"


def option(names: str, text: str, metavar: str | None = None, complete: Any = None, panel: str | None = None) -> Any:
    """An option with its names, separated by spaces, and its help; panel: its heading in `--help`."""
    return typer.Option(*names.split(), help=text, metavar=metavar, autocompletion=complete, rich_help_panel=panel)


def argument(text: str, metavar: str, complete: Any = None) -> Any:
    """A positional argument with its help."""
    return typer.Argument(help=text, metavar=metavar, autocompletion=complete)


Files = Annotated[
    list[str],
    argument(
        "Prediction files, folders, or patterns of shards. FILE::logits=NAME,labels=NAME,member=K picks arrays.", "FILE"
    ),
]
Metrics = Annotated[
    list[str] | None,
    option(
        "--metrics -m",
        "Metrics to compute, such as 'nll,ece(bins=10)'; 'report' and 'all' are sets.",
        "METRICS",
        completion.metrics,
    ),
]
DetectMetrics = Annotated[
    list[str] | None,
    option(
        "--metrics -m", "Metrics to compute, such as 'auroc,fpr95'.  [default: all]", "METRICS", completion.detection
    ),
]
By = Annotated[
    list[str] | None,
    option("--by", "Group rows by a column; COLUMN:BINS bins a numeric one. Repeatable.", "COLUMN", completion.columns),
]
Shift = Annotated[bool, option("--shift", "Summarise by the columns shift and severity.")]
Over = Annotated[
    str,
    option(
        "--over", "With --shift: correlate severity with the mean or median over types.", "mean|median", completion.over
    ),
]
Hierarchy = Annotated[
    bool, option("--hierarchy", "Show the hierarchy of errors, from strictest (√BS) to mildest (ECE).")
]
Ladder = Annotated[bool, typer.Option("--ladder", hidden=True)]
"""The former name of --hierarchy."""
Sizes = Annotated[bool, option("--sizes", "Recompute metrics on random subsets of several sizes, to show their bias.")]
At = Annotated[str | None, option("--at", "Subset sizes, such as 100,1000,5000; implies --sizes.", "N,N,…")]
Repeats = Annotated[
    int | None, option("--repeats", "With --sizes: subsets per size.  [default: 100, fewer if large]", "N")
]
Pairs = Annotated[bool, option("--pairs", "With --sizes: compare files in pairs (before, after, before, after, …).")]
WorstRows = Annotated[int, option("--rows", "Store the N rows with the largest loss in the JSON.", "N")]
Along = Annotated[str | None, option("--along", "Regression: plot the members' functions along this column.", "COLUMN")]

# -------------------------------------------------------------------------- intervals and computation
Units = Annotated[
    str | None,
    option(
        "--units",
        "Resample by this column, which groups dependent rows (patient, prompt).",
        "COLUMN",
        completion.columns,
        panel=INTERVALS,
    ),
]
CompareBy = Annotated[
    str | None,
    option("--compare-by", "Several models in one file: the column that names them.", "COLUMN", completion.columns),
]
Select = Annotated[str | None, option("--select", "With --compare-by: only these models.", "NAME,NAME")]
Level = Annotated[float, option("--level", "Confidence level.", "SHARE", panel=INTERVALS)]
Resamples = Annotated[int, option("--resamples", "Replicates for intervals and null ranges.", "N", panel=INTERVALS)]
RelevantError = Annotated[
    float | None,
    option(
        "--relevant-error",
        "Calibration error that matters.  [default: 0.02; 0.05 for classes, coverage]",
        "X",
        panel=INTERVALS,
    ),
]
Seed = Annotated[int, option("--seed", "Random seed.", "N", panel=INTERVALS)]
Threads = Annotated[int | None, option("--threads", "Number of threads.  [default: all]", "N", panel=INTERVALS)]

# ------------------------------------------------------------------------------------------------ input
Soft = Annotated[bool, option("--soft", "Score against soft labels (label_probs).", panel=INPUT)]
Strict = Annotated[
    bool, option("--strict", "Exit with 2 if there is any warning, after outputs are written.", panel=INPUT)
]
Blocks = Annotated[bool, option("--blocks", "Stream small files block by block too.", panel=INPUT)]
Hash = Annotated[bool, option("--hash", "Record the SHA-256 of streamed files too; reads them twice.", panel=INPUT)]


# ----------------------------------------------------------------------------------- gates and output
def _fail_on(condition: str) -> Any:
    return option("--fail-on", f"Exit with code 1 if {condition}.", "GATE", panel=GATES)


def _require(condition: str) -> Any:
    return option("--require", f"Exit with code 1 unless {condition}.", "GATE", panel=GATES)


FailOn = Annotated[list[str] | None, _fail_on("the whole interval satisfies this, such as 'nll > 0.3'")]
Require = Annotated[list[str] | None, _require("the whole interval satisfies this, such as 'nll < 0.3'")]
CheckFailOn = Annotated[list[str] | None, _fail_on("this holds, such as 'ece fails'")]
CheckRequire = Annotated[list[str] | None, _require("this holds, such as 'all pass'")]
CompareFailOn = Annotated[list[str] | None, _fail_on("this is significant, such as 'a worse than b by nll'")]
CompareRequire = Annotated[list[str] | None, _require("this is significant, such as 'a better than b by nll'")]
DetectFailOn = Annotated[list[str] | None, _fail_on("the whole interval satisfies this, such as 'auroc < 0.8'")]
DetectRequire = Annotated[list[str] | None, _require("the whole interval satisfies this, as in 'auroc > 0.9'")]
RecalibrateFailOn = Annotated[list[str] | None, _fail_on("the whole interval satisfies this, such as 'nll > 0.3'")]
RecalibrateRequire = Annotated[list[str] | None, _require("the whole interval satisfies this: 'nll gain > 0.1'")]
JsonPath = Annotated[str | None, option("--json", "Write the result as JSON; '-' prints it.", "OUT|-", panel=OUTPUT)]
HtmlPath = Annotated[str | None, option("--html", "Write an HTML report.", "OUT", panel=OUTPUT)]
Format = Annotated[
    str, option("--format", "Print a table, json, csv, markdown or latex.", "FORMAT", completion.formats, panel=OUTPUT)
]
Quiet = Annotated[bool, option("--quiet -q", "Print nothing but errors.", panel=OUTPUT)]


# --------------------------------------------------------------------------------------- table columns
def _column(name: str, metavar: str, text: str) -> Any:
    return Annotated[str | None, option(name, text, metavar, panel=COLUMNS)]


def _reading(name: str, metavar: str, text: str) -> Any:
    return Annotated[str | None, option(name, text, metavar, panel=LOGS)]


CLASSIFICATION: dict[str, Any] = {
    "labels": _column("--labels", "COL", "Labels."),
    "probs": _column("--probs", "'p_*'|A,B,C", "Class probabilities: a pattern, or columns."),
    "logits": _column("--logits", "'z_*'", "Logits."),
    "log_probs": _column("--log-probs", "'l_*'", "Log-probabilities."),
    "prob": _column("--prob", "COL", "Binary: probability of class 1, or of --positive."),
    "positive": _column("--positive", "NAME", "Binary: the label that --prob is the probability of."),
    "classes": _column("--classes", "A,B,C", "Class names, in the order of the columns."),
    "confidence": _column("--confidence", "COL", "Confidence in an answer; of a log, the field; 'none' leaves it out."),
    "correct": _column("--correct", "COL", "Whether the answer is correct."),
}
REGRESSION: dict[str, Any] = {
    "y": _column("--y", "COL", "Regression: observed outcome."),
    "mean": _column("--mean", "COL", "Regression: predicted mean; a pattern gives one column per member."),
    "std": _column("--std", "COL", "Regression: predicted standard deviation."),
    "var": _column("--var", "COL", "Regression: predicted variance."),
    "samples": _column("--samples", "'s_*'", "Regression: predictive samples."),
    "quantiles": _column("--quantiles", "'q_*'", "Regression: quantiles, named by level (q_0.05)."),
}
READING: dict[str, Any] = {
    "scorer": _reading("--scorer", "NAME", "Logs: the score that grades the answers."),
    "filter": _reading("--filter", "NAME", "Logs of lm_eval: the filter of the answers."),
    "split": _reading("--split", "NAME", "Runs of HELM: the split."),
    "partial": _reading("--partial", "wrong|right|drop", "Logs: what a partly right answer counts as."),
    "confidence_scale": _reading("--confidence-scale", "X", "Divide confidences by X, 100 for percent."),
    "vote_share": _reading("--vote-share", "COL", "Use the share of equal answers per question as confidence."),
    "drop_missing": Annotated[
        bool, option("--drop-missing", "Count and drop rows without a usable confidence.", panel=LOGS)
    ],
}
Columns = dict[str, Any]
"""The column of a table by role, None for roles that are not set; and the options for reading logs."""


def with_columns(options: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `columns` of a command by these options, and pass their values in it as a dict."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        kind = inspect.Parameter.KEYWORD_ONLY
        defaults = {"drop_missing": False}
        added = [
            inspect.Parameter(name, kind, default=defaults.get(name), annotation=option)
            for name, option in options.items()
        ]
        parameters = [item.replace(kind=kind) for item in signature.parameters.values()]
        place = [item.name for item in parameters].index("columns")

        @functools.wraps(command)
        def run(**values: Any) -> None:
            columns = {name: values.pop(name) for name in options}
            command(columns=columns, **values)

        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*parameters[:place], *added, *parameters[place + 1 :]]
        )
        return run

    return decorate
