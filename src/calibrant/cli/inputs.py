"""Options that several commands share, and reading what they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from calibrant.predictions import Classification, Judged

Labels = Annotated[str | None, typer.Option("--labels", help="Tables: the column of labels.", metavar="COL")]
Probs = Annotated[str | None, typer.Option("--probs", help="Tables: columns of probabilities.", metavar="'p_*'")]
Logits = Annotated[str | None, typer.Option("--logits", help="Tables: columns of logits.", metavar="'z_*'")]
LogProbs = Annotated[
    str | None,
    typer.Option("--log-probs", help="Tables: columns of log-probabilities.", metavar="'l_*'"),
]
Prob = Annotated[str | None, typer.Option("--prob", help="Tables: the column of P(class 1).", metavar="COL")]
Confidence = Annotated[
    str | None,
    typer.Option("--confidence", help="Tables: confidence in the answer.", metavar="COL"),
]
Correct = Annotated[
    str | None,
    typer.Option("--correct", help="Tables: whether the answer was right.", metavar="COL"),
]
Strict = Annotated[bool, typer.Option("--strict", help="Make warnings errors.")]


def read_all(
    files: list[str],
    *,
    labels: str | None,
    probs: str | None,
    logits: str | None,
    log_probs: str | None,
    prob: str | None,
    confidence: str | None,
    correct: str | None,
    strict: bool,
) -> list[Classification | Judged]:
    """Read every file that was named, with the column options."""
    from calibrant.predictions.files.reading import Source, read_source
    from calibrant.predictions.files.tables import ColumnOptions

    options = ColumnOptions(
        labels=labels, logits=logits, log_probs=log_probs, probs=probs, prob=prob,
        confidence=confidence, correct=correct,
    )  # fmt: skip
    return [read_source(Source.parse(file), options, strict=strict) for file in files]
