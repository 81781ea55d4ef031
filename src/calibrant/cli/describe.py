"""calibrant describe: what a prediction file contains, and how it was read."""

from __future__ import annotations

from calibrant.cli import inputs, options

EXAMPLES = """\
calibrant describe predictions.npz
calibrant describe predictions.csv --labels truth --probs 'p_*'
"""


@options.with_columns(options.CLASSIFICATION | options.REGRESSION | options.READING)
def command(
    *, files: options.Files, columns: options.Columns, strict: options.Strict = False, blocks: options.Blocks = False
) -> None:
    """Show what a prediction file contains; start here.

    Prints the kind and shape of the predictions, the labels, the columns, and the arrays that are ignored.
    """
    from calibrant.cli.output import emit, strict_end
    from calibrant.predictions.describe import describe_with_notes

    predictions = inputs.read_all(files, columns, strict=False, blocks=blocks)
    texts, notes = zip(*(describe_with_notes(item) for item in predictions), strict=True)
    with strict_end(strict, tuple(note for item in notes for note in item)):
        emit("\n\n".join(texts))
