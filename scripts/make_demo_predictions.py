"""Make the demo predictions that ship inside the package (src/calibrant/demo_data).

Twenty small networks, alike but for their random seed, are trained on scikit-learn's digits.
Their logits are stored for a validation set, a clean test set, the test images rotated or
overlaid with noise at five severities, and drawn glyphs that are no digits at all.  With these
files every judgement the library makes can be tried at once: a deep ensemble against its own
members, calibration in distribution and under shift, and detection of unfamiliar inputs, with
nothing to download and nothing to train.

Needs numpy, scipy and scikit-learn only; every seed is fixed, so a second run on the same machine
writes the same files.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import rotate
from scipy.special import log_softmax
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

Array = NDArray[Any]
Point = tuple[float, float]

SEED = 0
MEMBERS = 20
HIDDEN_UNITS = 64
EPOCHS = 150
TRAIN_ROWS, VALIDATION_ROWS = 1000, 200
SHIFTED_ROWS = 500
ROTATION_DEGREES = (6, 12, 18, 24, 30)
NOISE_SDS = (0.1, 0.2, 0.3, 0.4, 0.5)
GLYPHS_PER_KIND = 100
CANVAS = 32
ECE_BINS = 15
DEFAULT_OUT = Path(__file__).resolve().parents[1] / "src" / "calibrant" / "demo_data"

# Line drawings on a unit square (x to the right, y downwards), of letters unlike any digit.
LETTERS: dict[str, list[tuple[Point, Point]]] = {
    "A": [((0, 1), (0.5, 0)), ((0.5, 0), (1, 1)), ((0.25, 0.6), (0.75, 0.6))],
    "E": [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 0.5), (0.8, 0.5)), ((0, 1), (1, 1))],
    "F": [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 0.5), (0.8, 0.5))],
    "H": [((0, 0), (0, 1)), ((1, 0), (1, 1)), ((0, 0.5), (1, 0.5))],
    "K": [((0, 0), (0, 1)), ((0, 0.5), (1, 0)), ((0, 0.5), (1, 1))],
    "M": [((0, 1), (0, 0)), ((0, 0), (0.5, 0.6)), ((0.5, 0.6), (1, 0)), ((1, 0), (1, 1))],
    "N": [((0, 1), (0, 0)), ((0, 0), (1, 1)), ((1, 1), (1, 0))],
    "T": [((0, 0), (1, 0)), ((0.5, 0), (0.5, 1))],
    "W": [((0, 0), (0.2, 1)), ((0.2, 1), (0.5, 0.4)), ((0.5, 0.4), (0.8, 1)), ((0.8, 1), (1, 0))],
    "X": [((0, 0), (1, 1)), ((1, 0), (0, 1))],
}


class Split(NamedTuple):
    """Row numbers of load_digits() for the three disjoint parts."""

    train: Array
    validation: Array
    test: Array


def split_rows(labels: Array) -> Split:
    """Shuffle and stratify the rows into train, validation and test."""
    train, rest = train_test_split(np.arange(len(labels)), train_size=TRAIN_ROWS, stratify=labels, random_state=SEED)
    validation, test = train_test_split(rest, train_size=VALIDATION_ROWS, stratify=labels[rest], random_state=SEED)
    return Split(train, validation, test)


def train_member(images: Array, labels: Array, seed: int) -> MLPClassifier:
    """Train one network; the seed sets its initial weights and the order of the data."""
    # No weight decay and no early stopping: members should be as over-confident as they are
    # in practice, or the demo would have no miscalibration to show.
    network = MLPClassifier(
        hidden_layer_sizes=(HIDDEN_UNITS,),
        activation="relu",
        alpha=0.0,
        batch_size=32,
        learning_rate_init=2e-3,
        max_iter=EPOCHS,
        n_iter_no_change=EPOCHS,
        random_state=seed,
    )
    with warnings.catch_warnings():
        # The number of epochs is fixed on purpose.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return network.fit(images, labels)


def forward(network: MLPClassifier, images: Array) -> Array:
    """Logits of one network; scikit-learn itself returns only probabilities."""
    hidden = np.maximum(images @ network.coefs_[0] + network.intercepts_[0], 0.0)
    return hidden @ network.coefs_[1] + network.intercepts_[1]


def ensemble_logits(networks: list[MLPClassifier], images: Array) -> Array:
    """Logits of all members, (members, rows, classes), in the precision that is stored."""
    flat = images.reshape(len(images), -1)
    return np.stack([forward(network, flat) for network in networks]).astype(np.float16)


def rotated(images: Array, degrees: float, signs: Array) -> Array:
    """Turn every image by the angle, to the side its sign names."""
    # "grid-constant", because plain "constant" blanks the outermost rows at any angle, and the
    # digits reach into them.
    turned = [
        rotate(image, sign * degrees, reshape=False, order=1, mode="grid-constant", cval=0.0)
        for image, sign in zip(images, signs, strict=True)
    ]
    return np.stack(turned)


def shifted_images(images: Array) -> tuple[Array, Array, Array]:
    """Images under every shift and severity, with the shift's name and severity of each row."""
    rng = np.random.default_rng(SEED)
    # One side and one noise pattern per image, kept through the severities, so that
    # neighbouring severities differ in severity alone.
    signs = rng.choice([-1, 1], size=len(images))
    noise = rng.standard_normal(images.shape)
    blocks = [rotated(images, degrees, signs) for degrees in ROTATION_DEGREES]
    blocks += [np.clip(images + sd * noise, 0.0, 1.0) for sd in NOISE_SDS]
    shift = np.repeat(["rotation", "noise"], len(images) * len(NOISE_SDS))
    severity = np.tile(np.repeat(np.arange(1, 6), len(images)), 2)
    return np.concatenate(blocks), shift, severity


def pixel_grid() -> tuple[Array, Array]:
    """Coordinates (x, y) of the canvas's pixel centres."""
    y, x = np.mgrid[0:CANVAS, 0:CANVAS] + 0.5
    return x, y


def draw_segment(start: Array, end: Array, width: float) -> Array:
    """Boolean canvas with a straight stroke from start to end."""
    x, y = pixel_grid()
    along = end - start
    length_squared = max(float(along @ along), 1e-9)
    position = ((x - start[0]) * along[0] + (y - start[1]) * along[1]) / length_squared
    position = np.clip(position, 0.0, 1.0)
    across = np.hypot(x - start[0] - position * along[0], y - start[1] - position * along[1])
    return across <= width / 2


def draw_letter(rng: np.random.Generator) -> Array:
    """A letter of straight lines, its corners jittered as in handwriting."""
    strokes = LETTERS[str(rng.choice(list(LETTERS)))]
    corners = sorted({point for stroke in strokes for point in stroke})
    # Digits fill the full height but leave the outer columns empty.
    placed = {point: np.array([6, 3]) + np.array(point) * [20, 26] + rng.normal(0, 1.2, size=2) for point in corners}
    width = rng.uniform(3.0, 5.0)
    return np.any([draw_segment(placed[a], placed[b], width) for a, b in strokes], axis=0)


def draw_strokes(rng: np.random.Generator) -> Array:
    """Three or four unconnected strokes in random directions."""
    width = rng.uniform(3.0, 5.0)
    canvas = np.zeros((CANVAS, CANVAS), dtype=bool)
    for _ in range(rng.integers(3, 5)):
        centre, angle = rng.uniform([9, 7], [23, 25]), rng.uniform(0, np.pi)
        reach = rng.uniform(5, 9) * np.array([np.cos(angle), np.sin(angle)])
        canvas |= draw_segment(centre - reach, centre + reach, width)
    return canvas


def draw_polygon(rng: np.random.Generator) -> Array:
    """A filled polygon of three to six corners."""
    corners = int(rng.integers(3, 7))
    turn = 2 * np.pi * (np.arange(corners) + rng.uniform(-0.25, 0.25, corners)) / corners
    angles, radii = turn + rng.uniform(0, 2 * np.pi), rng.uniform(9, 15, corners)
    vertex_x, vertex_y = 16 + 0.85 * radii * np.cos(angles), 16 + radii * np.sin(angles)
    x, y = pixel_grid()
    inside = np.zeros((CANVAS, CANVAS), dtype=bool)
    for i in range(corners):  # even-odd rule: count the edges to the right of each pixel
        x0, y0, x1, y1 = vertex_x[i - 1], vertex_y[i - 1], vertex_x[i], vertex_y[i]
        inside ^= ((y0 > y) != (y1 > y)) & (x < x0 + (x1 - x0) * (y - y0) / (y1 - y0))
    return inside


def draw_rings(rng: np.random.Generator) -> Array:
    """Three rings in a triangle: one ring would be a zero, two stacked an eight."""
    x, y = pixel_grid()
    width, turn = rng.uniform(2.5, 3.5), rng.uniform(0, 2 * np.pi)
    canvas = np.zeros((CANVAS, CANVAS), dtype=bool)
    for angle in turn + 2 * np.pi * np.arange(3) / 3:
        centre = 16 + rng.uniform(6, 9) * np.array([np.cos(angle), np.sin(angle)])
        distance = np.hypot(x - centre[0], y - centre[1])
        canvas |= np.abs(distance - rng.uniform(4, 6)) <= width / 2
    return canvas


GLYPH_KINDS: dict[str, Callable[[np.random.Generator], Array]] = {
    "letter": draw_letter,
    "strokes": draw_strokes,
    "polygon": draw_polygon,
    "rings": draw_rings,
}


def glyph_images() -> tuple[Array, Array]:
    """Drawn 8x8 glyphs and the kind of each; the kinds take turns."""
    rng = np.random.default_rng(SEED)
    kinds = np.tile(list(GLYPH_KINDS), GLYPHS_PER_KIND)
    canvases = np.stack([GLYPH_KINDS[str(kind)](rng) for kind in kinds])
    # The digits were made the same way: 32x32 bitmaps, counted in blocks of 4x4.
    return canvases.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4)), kinds


def save(path: Path, logits: Array, ids: Array, details: dict[str, Any], **columns: Array) -> None:
    """Write one file of predictions; the details join the description of the ensemble."""
    meta = {
        "method": "deep ensemble",
        "task": "digits",
        "members": MEMBERS,
        "network": f"MLP 64-{HIDDEN_UNITS}-10",
        "seed": SEED,
    }
    np.savez_compressed(
        path,
        logits=logits,
        ids=ids.astype(np.int32),
        classes=np.array([str(digit) for digit in range(10)]),
        meta=np.array(json.dumps(meta | details)),
        **columns,
    )


def write_files(out: Path) -> None:
    """Train the ensemble and write its predictions on the four data sets."""
    digits = load_digits()
    images, labels = digits.images / 16.0, digits.target.astype(np.uint8)
    split = split_rows(labels)
    flat_train = images[split.train].reshape(TRAIN_ROWS, -1)
    networks = [train_member(flat_train, labels[split.train], SEED + i) for i in range(MEMBERS)]
    for name, rows in (("validation", split.validation), ("test", split.test)):
        logits = ensemble_logits(networks, images[rows])
        save(out / f"digits_{name}.npz", logits, rows, {"split": name}, labels=labels[rows])
    rows = split.test[:SHIFTED_ROWS]
    shifted, shift, severity = shifted_images(images[rows])
    ids = np.tile(rows, len(shifted) // len(rows))
    details = {"split": "test", "rotation_degrees": ROTATION_DEGREES, "noise_sd": NOISE_SDS}
    columns = {"labels": labels[ids], "shift": shift, "severity": severity}
    save(out / "digits_shifted.npz", ensemble_logits(networks, shifted), ids, details, **columns)
    glyphs, kinds = glyph_images()
    details = {"split": "glyphs"}
    logits = ensemble_logits(networks, glyphs)
    save(out / "digits_glyphs.npz", logits, np.arange(len(glyphs)), details, glyph=kinds)


def expected_calibration_error(probabilities: Array, labels: Array) -> float:
    """Top-label ECE over equal-width bins of confidence."""
    confidence = probabilities.max(axis=1)
    gap = (probabilities.argmax(axis=1) == labels) - confidence
    bins = np.minimum((confidence * ECE_BINS).astype(int), ECE_BINS - 1)
    return float(np.abs(np.bincount(bins, weights=gap, minlength=ECE_BINS)).sum() / len(labels))


def scores(log_probabilities: Array, labels: Array) -> Array:
    """Accuracy, negative log-likelihood and ECE of one predictor."""
    accuracy = (log_probabilities.argmax(axis=1) == labels).mean()
    likelihood = log_probabilities[np.arange(len(labels)), labels]
    error = expected_calibration_error(np.exp(log_probabilities), labels)
    return np.array([accuracy, -likelihood.mean(), error])


def summary_line(name: str, logits: Array, labels: Array) -> str:
    """Scores of the ensemble beside the mean scores of its members."""
    members = log_softmax(logits.astype(float), axis=-1)
    ensemble = np.log(np.exp(members).mean(axis=0))
    single = np.mean([scores(member, labels) for member in members], axis=0)
    pairs = np.stack([scores(ensemble, labels), single], axis=1)
    return f"{name:<14}" + "".join(f"{value:7.3f}" for value in pairs.ravel())


def mean_entropy(logits: Array) -> float:
    """Mean entropy, in nats, of the ensemble's mean prediction."""
    mean = np.exp(log_softmax(logits.astype(float), axis=-1)).mean(axis=0)
    return float(-(mean * np.log(mean)).sum(axis=1).mean())


def summarise(out: Path) -> list[str]:
    """Score the files as they were written."""
    names = ("validation", "test", "shifted", "glyphs")
    files = {name: np.load(out / f"digits_{name}.npz") for name in names}
    lines = ["accuracy, NLL, ECE; each: ensemble, then mean single member"]
    for name in ("validation", "test"):
        lines.append(summary_line(name, files[name]["logits"], files[name]["labels"]))
    shifted = dict(files["shifted"])
    for shift in ("rotation", "noise"):
        for severity in range(1, 6):
            rows = (shifted["shift"] == shift) & (shifted["severity"] == severity)
            logits, labels = shifted["logits"][:, rows], shifted["labels"][rows]
            lines.append(summary_line(f"{shift} {severity}", logits, labels))
    lines.append(f"mean entropy, test: {mean_entropy(files['test']['logits']):.3f}")
    glyphs = dict(files["glyphs"])
    lines.append(f"mean entropy, glyphs: {mean_entropy(glyphs['logits']):.3f}")
    for kind in GLYPH_KINDS:
        entropy = mean_entropy(glyphs["logits"][:, glyphs["glyph"] == kind])
        lines.append(f"mean entropy, {kind}: {entropy:.3f}")
    return lines


def main() -> None:
    """Write the files and print what is in them."""
    parser = argparse.ArgumentParser(description="Make the bundled demo predictions.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder to write into")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    write_files(out)
    sizes = {path.name: path.stat().st_size for path in sorted(out.glob("digits_*.npz"))}
    for line in summarise(out):
        print(line)
    print(*(f"{name} {size:,} bytes" for name, size in sizes.items()), sep="\n")
    print(f"total {sum(sizes.values()):,} bytes")


if __name__ == "__main__":
    main()
