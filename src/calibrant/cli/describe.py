"""calibrant describe: what a prediction file holds, and how it was understood."""

from __future__ import annotations

from calibrant.cli import inputs


def command(
    files: inputs.Files,
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
    columns = inputs.columns_of(locals())
    from calibrant.cli.output import emit, refuse_warnings
    from calibrant.predictions.describing import described

    read = inputs.read_all(files, columns, strict=strict, blocks=blocks)
    texts, notes = zip(*(described(item) for item in read), strict=True)
    if strict:
        refuse_warnings(note for item in notes for note in item)
    emit("\n\n".join(texts))
