"""calibrant shift: a contact sheet of an image under every corruption."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from calibrant.cli import options
from calibrant.cli.options import argument, option

EXAMPLES = """\
calibrant shift photo.png -o sheet.png
calibrant shift cifar10_test.npz --row 7 -o sheet.png --only fog,snow,frost
calibrant shift photo.png -o sheet.png --plugin my_shifts.py --only my_shift
"""


def command(
    image: Annotated[str, argument("A picture, or an .npz file with an array images (N, H, W, C) of bytes.", "IMAGE")],
    output: Annotated[str, option("--output -o", "Write the sheet.", "OUT.png", panel=options.OUTPUT)],
    only: Annotated[str | None, option("--only", "Shifts, separated by commas.  [default: the 19]", "NAMES")] = None,
    row: Annotated[int, option("--row", "The image of an .npz file.", "N")] = 0,
    seed: Annotated[int, option("--seed", "Random seed.", "N")] = 0,
    plugin: Annotated[list[str] | None, option("--plugin", "Run a file that registers shifts.", "FILE.py")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Show an image under every corruption and severity.

    The corruptions are those of CIFAR-10-C and ImageNet-C, with the parameters of the nearer image size.
    """
    from calibrant.cli.output import emit
    from calibrant.errors import UsageError, show
    from calibrant.predictions.files.write import atomic_write
    from calibrant.shift.images.parameters import parameter_set
    from calibrant.shift.registry import load_plugin, names, shift_named
    from calibrant.shift.sheet import contact_sheet, read_image

    if Path(output).suffix.lower() != ".png":
        raise UsageError(
            "--output", expected="a name ending in .png", got=show(output), hint="for example -o sheet.png"
        )
    if Path(output).resolve() == Path(image).resolve():
        raise UsageError("--output", expected="a file of its own", got=f"{show(output)}, the input", hint="rename it")
    for path in plugin or []:
        load_plugin(path)
    chosen = [name.strip() for name in only.split(",")] if only is not None else list(names())
    for name in chosen:
        if shift_named(name).kind not in ("corruption", "geometry"):
            got = f"{show(name)}, of kind {shift_named(name).kind}"
            raise UsageError("--only", expected="shifts of images", got=got, hint="remove it")
    pixels = read_image(image, row)
    with atomic_write(Path(output)) as stream:
        stream.write(contact_sheet(pixels, chosen, seed, row))
    if not quiet:
        height, width = pixels.shape[:2]
        group = parameter_set(height, width)
        emit(f"{output}: {len(chosen)} shifts of an image of {width} × {height} pixels, parameters of the {group} set")
