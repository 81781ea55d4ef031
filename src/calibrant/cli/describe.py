"""calibrant describe: what a prediction file holds, and how it was understood."""

from __future__ import annotations

from calibrant.cli import inputs


@inputs.with_columns(inputs.CLASSES | inputs.NUMBERS)
def command(
    *,
    files: inputs.Files,
    columns: inputs.Columns,
    strict: inputs.Strict = False,
    blocks: inputs.Blocks = False,
) -> None:
    """Say what was found in prediction files: kind, shape, labels, columns, and what was ignored."""
    from calibrant.cli.output import emit, refuse_warnings
    from calibrant.predictions.describing import described

    read = inputs.read_all(files, columns, strict=strict, blocks=blocks)
    texts, notes = zip(*(described(item) for item in read), strict=True)
    if strict:
        refuse_warnings(note for item in notes for note in item)
    emit("\n\n".join(texts))
