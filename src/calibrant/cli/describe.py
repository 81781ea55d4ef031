"""calibrant describe: what a prediction file holds, and how it was understood."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import inputs


def command(
    files: Annotated[list[str], typer.Argument(help="Prediction files.", metavar="FILE")],
    labels: inputs.Labels = None,
    probs: inputs.Probs = None,
    logits: inputs.Logits = None,
    log_probs: inputs.LogProbs = None,
    prob: inputs.Prob = None,
    confidence: inputs.Confidence = None,
    correct: inputs.Correct = None,
    y: inputs.Y = None,
    mean: inputs.Mean = None,
    std: inputs.Std = None,
    var: inputs.Var = None,
    samples: inputs.Samples = None,
    quantiles: inputs.Quantiles = None,
    strict: inputs.Strict = False,
    blocks: inputs.Blocks = False,
) -> None:
    """Say what was found in prediction files: kind, shape, labels, columns, and what was ignored."""
    from calibrant.cli.output import emit
    from calibrant.predictions.describing import describe

    read = inputs.read_all(
        files,
        {
            "labels": labels, "probs": probs, "logits": logits, "log_probs": log_probs, "prob": prob,
            "confidence": confidence, "correct": correct, "y": y, "mean": mean, "std": std, "var": var,
            "samples": samples, "quantiles": quantiles,
        },
        strict=strict,
        blocks=blocks,
    )  # fmt: skip
    emit("\n\n".join(describe(item) for item in read))
