"""A contact sheet: one image under every corruption (rows) at every severity (columns)."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from calibrant.errors import FileError, MissingExtra, UsageError, plain
from calibrant.shift.registry import names, shift_named

LABELS, HEADER, GAP, CELL = 150, 22, 4, 96
"""Pixels: width of the labels, height of the header, space between images, smallest side of an image."""
MAX_SIDE, MAX_PIXELS = 512, 1 << 26


def pillow() -> Any:
    """The modules Image, ImageDraw and ImageFont of Pillow."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        hint = "run pip install 'calibrant[shift]'"
        raise MissingExtra("shift", expected="Pillow", got="no such module", hint=hint) from error
    return Image, ImageDraw, ImageFont


def read_image(path: str, row: int = 0) -> np.ndarray:
    """One image (H, W, C) as uint8: a picture, or row `row` of the array `images` of an .npz file."""
    if not Path(path).is_file():
        raise FileError(path, expected="a picture or an .npz file", got="no such file", hint="check the path")
    if Path(path).suffix.lower() == ".npz":
        try:
            with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                images = stored["images"]
        except (OSError, ValueError, BadZipFile, KeyError, EOFError) as error:
            got = "no array 'images'" if isinstance(error, KeyError) else type(error).__name__
            hint = "save it with np.savez(path, images=images)"
            raise FileError(path, expected="an .npz file with an array images", got=got, hint=hint) from error
        if images.dtype != np.uint8 or images.ndim not in (3, 4) or not images.size:
            got = f"{images.dtype} of shape {images.shape}"
            raise FileError(path, expected="images as uint8 (N, H, W, C)", got=got, hint="transpose or convert them")
        if not 0 <= row < len(images):
            hint = "use --row 0"
            raise UsageError("row", expected=f"a row from 0 to {len(images) - 1}", got=f"{row}", hint=hint)
        image = images[row]
        return image if image.ndim == 3 else image[:, :, None]
    image_module = pillow()[0]
    try:
        with image_module.open(path) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise ValueError(f"{picture.width} × {picture.height} pixels, more than {MAX_PIXELS}")
            picture.thumbnail((MAX_SIDE, MAX_SIDE))
            return np.asarray(picture.convert("RGB"))
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        got = plain(str(error), 80) or type(error).__name__
        raise FileError(path, expected="a picture or an .npz file", got=got, hint="check the path") from error


def contact_sheet(image: np.ndarray, shifts: Sequence[str] | None = None, seed: int = 0, first: int = 0) -> bytes:
    """The sheet as PNG: `image` (H, W, C) as it is, and under each of the shifts (the 19 corruptions by default)."""
    image_module, draw_module, font_module = pillow()
    pixels = image if image.shape[2] == 3 else np.repeat(image[:, :, :1], 3, 2)
    rows = [shift_named(name) for name in (names() if shifts is None else shifts)]
    height, width = pixels.shape[:2]
    factor = max(-(-CELL // min(height, width)), 1)
    columns = max((len(shift.severities) for shift in rows), default=0) + 1
    size = (LABELS + columns * (factor * width + GAP), HEADER + len(rows) * (factor * height + GAP))
    sheet = image_module.new("RGB", size, "white")
    draw, font = draw_module.Draw(sheet), font_module.load_default(13)
    for column in range(columns):
        text = f"severity {column}" if column else "original"
        draw.text((LABELS + column * (factor * width + GAP), 3), text, fill="black", font=font)
    for line, shift in enumerate(rows):
        top = HEADER + line * (factor * height + GAP)
        draw.text((4, top + factor * height // 2 - 8), shift.name, fill="black", font=font)
        shown = [pixels, *(shift.apply(pixels[None], each, seed, first)[0] for each in shift.severities)]
        for column, each in enumerate(shown):
            cell = np.repeat(np.repeat(each, factor, 0), factor, 1)
            sheet.paste(image_module.fromarray(cell), (LABELS + column * (factor * width + GAP), top))
    stream = BytesIO()
    sheet.save(stream, "PNG", optimize=True)
    return stream.getvalue()
