"""calibrant monitor: a sequential test of the calibration of a deployed model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from calibrant.cli import inputs, options
from calibrant.cli.options import option
from calibrant.errors import UsageError, show

EXAMPLES = """\
calibrant monitor monday.npz --state state.json
calibrant monitor tuesday.npz --state state.json
"""
Of = Annotated[
    str | None, option("--of", "Test this class, or the top label (top).  [default: class 1 if binary]", "CLASS")
]
Alpha = Annotated[float | None, option("--alpha", "Significance level of the test.  [default: 0.05]", "SHARE")]
State = Annotated[
    str | None, option("--state", "Continue from this file if it exists, and save the state to it.", "JSON")
]


@options.with_columns(options.CLASSIFICATION)
def command(
    *,
    files: options.Files,
    of: Of = None,
    alpha: Alpha = None,
    relevant_error: options.RelevantError = None,
    state: State = None,
    strict: options.Strict = False,
    blocks: options.Blocks = False,
    columns: options.Columns,
    json_path: options.JsonPath = None,
    quiet: options.Quiet = False,
) -> None:
    """Test whether a deployed model is still calibrated.

    Adds the rows in the order of the files to an e-value against calibration. The test stays valid however often you
    look at it.
    """
    from calibrant import __version__
    from calibrant.cli.output import check_outputs, strict_end, write_json
    from calibrant.monitoring import Monitor

    check_outputs(json=json_path, state=state)
    if state == "-":
        raise UsageError("--state", expected="a file name", got="'-'", hint="for example --state state.json")
    if state is None or not Path(state).exists():
        levels = {"alpha": alpha, "relevant_error": relevant_error}
        monitor = Monitor(of, **{name: value for name, value in levels.items() if value is not None})
    else:
        monitor = Monitor.load(state)
        pairs = (("alpha", alpha, monitor.alpha), ("of", of, monitor.of))
        for name, given, saved in (*pairs, ("relevant-error", relevant_error, monitor.relevant_error)):
            if given is not None and given != saved:
                expected = f"{'the default' if saved is None else saved}, as in {show(Path(state).name)}"
                hint = f"remove --{name}, or start over with another --state"
                raise UsageError(f"--{name}", expected=expected, got=show(given), hint=hint)
    predictions = inputs.read_all(files, columns, strict=False, blocks=blocks, quiet=quiet)
    for item in predictions:
        if item.sha256 in monitor.taken:
            expected = "a file that has not been added before"
            hint = "pass each file once; rows that count twice invalidate the test"
            raise UsageError(f"{item.name}: monitor", expected=expected, got="one that has", hint=hint)
        monitor.add(item)  # type: ignore[arg-type]
        monitor.taken += [item.sha256] if item.sha256 is not None else []
    notes = tuple(dict.fromkeys(note for item in predictions for note in item.notes()))
    data: dict[str, Any] = {
        "schema": 2,
        "kind": "monitor",
        "version": __version__,
        "settings": {"of": monitor.of, "alpha": monitor.alpha, "relevant_error": monitor.relevant_error},
        "inputs": [
            {"name": p.name, "sha256": p.sha256, "n": p.n, "members": p.example.members} for p in predictions
        ],
        "results": [{"monitor": monitor.to_json(), "verdict": monitor.verdict.to_json()}],
        "warnings": [vars(note) for note in notes],
    }  # fmt: skip
    dumped = json.dumps(data, indent=1, allow_nan=False)
    if state is not None:
        monitor.save(state)
    with strict_end(strict, notes):
        write_json(dumped, json_path, "\n".join([str(monitor), *(f"Note: {note.message}" for note in notes)]), quiet)
