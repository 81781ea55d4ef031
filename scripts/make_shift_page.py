"""Write the contact sheet and the tables of docs/shift.md: python scripts/make_shift_page.py [--check]."""

import sys
from pathlib import Path

from calibrant.shift import names, shift_named
from calibrant.shift.images.parameters import PARAMETERS

DOCS = Path(__file__).resolve().parent.parent / "docs"
START, END = "<!-- tables: python scripts/make_shift_page.py -->", "<!-- end of tables -->"
TITLES = {
    "corruption": "Corruptions of images",
    "geometry": "Rotation and translation",
    "tabular": "Tables",
    "clicks": "Click logs",
    "text": "Text",
}
MEANING = {
    "gaussian_noise": "standard deviation on [0, 1]",
    "shot_noise": "photons",
    "impulse_noise": "share of values",
    "speckle_noise": "standard deviation",
    "gaussian_blur": "σ in pixels",
    "glass_blur": "σ, reach, rounds",
    "defocus_blur": "radius, σ",
    "motion_blur": "radius, σ",
    "zoom_blur": "zooms, step",
    "fog": "weight, decay",
    "frost": "weights of image and texture",
    "snow": "mean, sd, zoom, threshold, radius, σ, weight of image",
    "spatter": "mean, sd, σ, threshold, strength, mud",
    "contrast": "factor",
    "brightness": "added value",
    "saturate": "factor, offset",
    "jpeg_compression": "quality",
    "pixelate": "scale",
    "elastic_transform": "displacement, σ, jitter as shares of the side",
}


def tables() -> str:
    """The tables of all shifts, in Markdown."""
    lines = []
    for kind, title in TITLES.items():
        lines += [f"### {title}", ""]
        if kind == "corruption":
            lines += [
                "| name | what it does | parameters | 32 × 32, severity 1 … 5 | 224 × 224 |",
                "|---|---|---|---|---|",
            ]
            for name in names(kind):
                values = [" · ".join(map(_setting, PARAMETERS[group][name])) for group in PARAMETERS]
                summary = shift_named(name).summary.rstrip(".").replace("|", "\\|")
                lines.append(f"| `{name}` | {summary} | {MEANING[name]} | {values[0]} | {values[1]} |")
        else:
            lines += ["| name | what it does | severities | selects rows |", "|---|---|---|---|"]
            for name in names(kind):
                shift = shift_named(name)
                levels = f"{shift.severities[0]} … {shift.severities[-1]}"
                lines.append(f"| `{name}` | {shift.summary} | {levels} | {'yes' if shift.selects else 'no'} |")
        lines.append("")
    return "\n".join(lines)


def _setting(values: tuple[float, ...]) -> str:
    text = ", ".join(f"{value:.3g}" for value in values)
    return text if len(values) == 1 else f"({text})"


def page(text: str) -> str:
    """The page with its tables rewritten."""
    before, _, rest = text.partition(START)
    return f"{before}{START}\n\n{tables()}\n{END}{rest.partition(END)[2]}"


def write_sheet() -> None:
    """A photograph of scikit-learn's samples, shrunk to 32 × 32, under every corruption."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_sample_image

    from calibrant.shift.sheet import contact_sheet

    photograph = Image.fromarray(load_sample_image("flower.jpg")).crop((140, 60, 460, 380))
    pixels = np.asarray(photograph.resize((32, 32), Image.Resampling.BOX))
    (DOCS / "figures" / "shift.png").write_bytes(contact_sheet(pixels))


if __name__ == "__main__":
    path = DOCS / "shift.md"
    old = path.read_text("utf-8")
    if "--check" in sys.argv:
        sys.exit(f"{path} is out of date; run python scripts/make_shift_page.py" if page(old) != old else 0)
    path.write_text(page(old), "utf-8")
    write_sheet()
