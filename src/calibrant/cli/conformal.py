"""calibrant conformal: prediction sets and intervals with guaranteed coverage."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from calibrant.cli import completion, inputs, options
from calibrant.cli.options import option

EXAMPLES = """\
calibrant conformal --fit validation.npz --apply test.npz --method aps --level 0.9
calibrant conformal --fit validation.npz --apply test.npz --method scaled -o intervals.npz
calibrant conformal --fit validation.npz --apply test.npz --method abstain --risk 0.05 --delta 0.05
"""
FORMATS = ("table", "json")


@options.with_columns(options.CLASSIFICATION | options.REGRESSION)
def command(
    *,
    fit: Annotated[str, option("--fit", "Held-out predictions with labels.", "FILE")],
    apply: Annotated[str, option("--apply", "New predictions of the same model; labels are optional.", "FILE")],
    method: Annotated[
        str | None,
        option(
            "--method",
            "lac, aps, raps; split, scaled, cqr; abstain.  [default: lac; scaled; cqr]",
            "METHOD",
            completion.conformal,
        ),
    ] = None,
    level: Annotated[float, option("--level", "Coverage to guarantee.", "SHARE")] = 0.9,
    deterministic: Annotated[bool, option("--deterministic", "aps, raps: do not randomise; sets get larger.")] = False,
    penalty: Annotated[
        float | None, option("--penalty", "raps: penalty for each further class.  [default: 0.01]", "NUMBER")
    ] = None,
    k_reg: Annotated[int | None, option("--k-reg", "raps: classes without a penalty.  [default: 5]", "N")] = None,
    risk: Annotated[float | None, option("--risk", "abstain: largest error rate.  [default: 0.05]", "SHARE")] = None,
    delta: Annotated[
        float | None, option("--delta", "abstain: chance that it is exceeded.  [default: 0.05]", "SHARE")
    ] = None,
    units: Annotated[str | None, option("--units", "abstain: use one row of each of these.", "COLUMN")] = None,
    seed: Annotated[int, option("--seed", "Random seed.", "N")] = 0,
    strict: options.Strict = False,
    columns: options.Columns,
    output: Annotated[
        str | None, option("--output -o", "Write the set or interval of every row.", "OUT.npz", panel=options.OUTPUT)
    ] = None,
    json_path: options.JsonPath = None,
    form: Annotated[str, option("--format", "Print a table or json.", "FORMAT", panel=options.OUTPUT)] = "table",
    quiet: options.Quiet = False,
) -> None:
    """Compute conformal prediction sets or intervals.

    Calibrates a threshold on held-out rows so that the sets or intervals of new rows contain the outcome with
    probability at least --level.
    """
    from calibrant.cli.output import check_outputs, strict_end, write_json
    from calibrant.conformal.lookup import conformal, default_method
    from calibrant.errors import CalibrantWarning, UsageError, check_choice, show
    from calibrant.predictions.base import Note
    from calibrant.recalibration.api import shared_rows

    check_choice("--format", form, FORMATS)
    check_outputs(json=json_path)
    if output is not None and Path(output).suffix.lower() != ".npz":
        raise UsageError("--output", expected="a name ending in .npz", got=show(output), hint="for example -o out.npz")
    if output is not None and any(Path(output).resolve() == Path(f.partition("::")[0]).resolve() for f in (fit, apply)):
        got = f"{show(output)}, an input"
        raise UsageError("--output", expected="a file of its own", got=got, hint="choose another name")
    if method == "abstain":
        _abstain(fit, apply, columns, risk=risk, delta=delta, units=units, seed=seed, strict=strict, output=output,
                 json_path=json_path, form=form, quiet=quiet)  # fmt: skip
        return
    for name, value in {"--risk": risk, "--delta": delta, "--units": units}.items():
        if value is not None:
            hint = f"add --method abstain, or remove {name}"
            raise UsageError(name, expected="--method abstain", got=f"--method {method or 'none'}", hint=hint)
    given = {"--deterministic": deterministic, "--penalty": penalty is not None, "--k-reg": k_reg is not None}
    known = {"aps": ("--deterministic",), "raps": tuple(given)}.get(method or "", ())
    for name in (name for name, is_set in given.items() if is_set and name not in known):
        hint = f"remove {name}, or use --method raps"
        raise UsageError(
            name, expected="a method with this option", got=f"--method {method or 'lac, scaled or cqr'}", hint=hint
        )
    limits = {name: value for name, value in (("penalty", penalty), ("k_reg", k_reg)) if value is not None}
    randomisation = {"randomised": not deterministic, "seed": seed} if method in ("aps", "raps") else {}
    if method is not None:
        conformal(method, level, **randomisation, **limits)  # a mistake is found before anything is read
    held_out, new = (inputs.read_in_memory(file, columns, quiet=quiet) for file in (fit, apply))
    predictor = conformal(method or default_method(held_out), level, **randomisation, **limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # the notes below the table say the same
        prediction = predictor.fit(held_out).predict(new)
    shared = shared_rows(held_out, new)
    if shared:
        text = f"{shared} of the {new.n} rows of {new.name} were fitted on: their coverage is not a test"
        prediction = replace(prediction, notes=(*prediction.notes, Note("scored-on-fitted-rows", text)))
    dumped = json.dumps(prediction.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
    if output:
        prediction.save(output)
    with strict_end(strict, prediction.notes):
        write_json(dumped, json_path, dumped if form == "json" else str(prediction), quiet)


def _abstain(
    fit: str,
    apply: str,
    columns: options.Columns,
    *,
    risk: float | None,
    delta: float | None,
    units: str | None,
    seed: int,
    strict: bool,
    output: str | None,
    json_path: str | None,
    form: str,
    quiet: bool,
) -> None:
    """Certify a threshold of confidence, and write which rows are answered."""
    import numpy as np

    from calibrant.cli.output import strict_end, write_json
    from calibrant.conformal.abstention import abstain
    from calibrant.errors import UsageError
    from calibrant.predictions import Regression
    from calibrant.predictions.base import Note, repeated_unit
    from calibrant.predictions.files.write import atomic_write

    held_out, new = (inputs.read_in_memory(file, columns, quiet=quiet) for file in (fit, apply))
    if isinstance(held_out, Regression) or isinstance(new, Regression):
        hint = "use split, scaled or cqr for regression"
        raise UsageError("--method abstain", expected="classes or graded answers", got="regression", hint=hint)
    limits = {"risk": 0.05 if risk is None else risk, "delta": 0.05 if delta is None else delta}
    found = abstain(held_out, new, **limits, units=units, seed=seed)
    notes = list(held_out.notes()) + list(new.notes())
    repeated = repeated_unit(held_out) if units is None else None
    if repeated is not None:
        text = f"{held_out.n} rows have {repeated[1]} values of {repeated[0]}, and are taken as independent"
        notes.append(Note("dependent-rows", f"{held_out.name}: {text}; use --units {repeated[0]}"))
    if output:
        with atomic_write(Path(output)) as stream:
            np.savez(stream, accepted=found.accepted)
    dumped = json.dumps(found.to_json(), indent=2, allow_nan=False)
    text = "\n".join([str(found), *(f"note: {note.message}" for note in notes)])
    with strict_end(strict, notes):
        write_json(dumped, json_path, dumped if form == "json" else text, quiet)
