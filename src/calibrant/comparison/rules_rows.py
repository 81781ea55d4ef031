"""Pitfalls of the rows that models are compared on: others, dependent ones, and those that a map was fitted on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from calibrant.comparison.alignment import LABELS, ROWS, refusal, truth_of
from calibrant.comparison.listing import by_number, listed, shown
from calibrant.comparison.setup import CALIBRATED, Setup, note
from calibrant.predictions import Classification, InMemory, Judged, Regression
from calibrant.predictions.base import Note
from calibrant.predictions.marks import prediction_hashes, row_hashes
from calibrant.recalibration.seen import scored_share

UNITS = frozenset({
    "author", "call", "chat", "child", "client", "clip", "conversation", "customer", "dialog", "dialogue", "doc",
    "document", "donor", "encounter", "episode", "eye", "family", "household", "image", "img", "individual",
    "lesion", "litter", "mouse", "page", "participant", "passage", "patient", "person", "photo", "picture",
    "prompt", "query", "question", "recording", "respondent", "scan", "scene", "sentence", "sequence", "session",
    "slide", "speaker", "specimen", "story", "student", "study", "subject", "template", "text", "thread", "track",
    "trajectory", "user", "utterance", "video", "visit", "volunteer",
})  # fmt: skip
"""What several rows may be of, and then depend on each other."""
NUMBERED = frozenset({"cluster", "group", "item", "sample", "site", "unit"})
"""The same, where the name says that it is the number of one: `group_id`, not `group`."""
NUMBER = frozenset({
    "code", "hash", "id", "identifier", "idx", "index", "key", "name", "nr", "number", "no", "num", "pk", "ref",
    "uid", "uuid",
})  # fmt: skip
LEAST = 5
"""Labels that should have disagreed, of rows that are not the same."""
BEGUN = 32
"""Labels by which cells of a shift are known to begin alike."""
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def different_rows(setup: Setup) -> Iterator[Note]:
    """Rows that not all models have, labels that are not the same, or rows that cannot be matched at all."""
    refused = refusal(setup.matched)
    for found in [*setup.matched.notes, *([] if refused is None else [refused])]:
        if found.code in (ROWS, LABELS):
            yield note(found.code, found.message)


def own_answers(setup: Setup) -> Iterator[Note]:
    """Judged answers of which some models are right and others wrong, compared by proper scores."""
    models = [model for name, model in setup.together.items() if name in setup.models and isinstance(model, Judged)]
    proper = [t for t, metric in setup.compared.items() if t in CALIBRATED or (metric is not None and metric.proper)]
    known = [model.correct for model in models if model.correct is not None]
    if len(known) < 2 or not proper:
        return
    others = int(np.any([known[0] != other for other in known[1:]], axis=0).sum())
    if others:
        said = f"in {others} of {len(known[0])} rows some models are right and others wrong, so that {proper[0]} is of "
        yield note(
            "own-answers", f"{said}another problem for each: compare accuracy and aurc, or confidences of one answer"
        )


def different_classes(setup: Setup) -> Iterator[Note]:
    """Other classes, by number or by name."""
    models = {name: model for name, model in setup.models.items() if isinstance(model, Classification)}
    numbers = {name: model.classes for name, model in models.items()}
    if len(set(numbers.values())) > 1:
        said = f"models have different numbers of classes ({by_number(numbers)})"
        yield note("different-classes", f"{said}: give all the same")
        return
    names = {name: set(model.class_names) for name, model in models.items() if model.class_names}
    for name, other in list(names.items())[1:]:
        first, known = next(iter(names.items()))
        if other != known:
            said = f"{shown(first)} and {shown(name)} differ in class {shown(sorted(other ^ known)[0])!r}"
            yield note("different-classes", f"{said}: give all models the same classes")
            return


# -------------------------------------------------------------------------------------------------- fitted on
def scored_on_fitted_rows(setup: Setup) -> Iterator[Note]:
    """Maps that were fitted on rows that are scored, and clean rows that are the rows that are scored."""
    fitted: dict[str, list[str]] = {}
    for name, model in setup.models.items():
        if scored_share(model) > 0.0:
            fitted.setdefault(model.info.meta["recalibration"].get("method", "a map"), []).append(name)
    for method, names in fitted.items():
        said = f"{listed(names)}: {shown(method)} was fitted on rows that are scored"
        yield note("scored-on-fitted-rows", f"{said}: fit on other rows, or use cross_fit")
    clean = {name: rows for name, rows in (setup.clean or {}).items() if name in setup.models}
    shared = {name: shared_rows(rows, setup.models[name]) for name, rows in clean.items()}
    found = [f"{count} of {clean[name].n} of {name}" for name, count in shared.items() if count]
    if found:
        do = "give other rows, or --temperature same (temperature='same')"
        said = "clean rows, which fit the temperature, are rows that are scored"
        yield note("scored-on-fitted-rows", f"{said}: {do} ({listed(found)})")


def shared_rows(clean: InMemory, scored: InMemory) -> int:
    """Rows in both, by ids whose labels agree, or by the very predictions.

    Row numbers of two files are no ids: labels must agree in nine of ten rows and in many more than those of other
    rows would. Where ids do not tell, as of rows that were numbered anew, predictions that occur once do.
    """
    common, first, second = _same_ids(clean, scored)
    truths = truth_of(clean), truth_of(scored)
    if len(common) and truths[0] is not None and truths[1] is not None:
        own, other = truths[0][first], truths[1][second]
        odd = int((own != other).sum())
        if odd < 0.1 * len(own) and _by_chance(own, other) >= LEAST + 3.0 * odd:
            return len(common)
    ours, theirs = (_hashes_once(_without_ids(rows)) for rows in (clean, scored))
    return len(np.intersect1d(ours, theirs))


def _same_ids(clean: InMemory, scored: InMemory) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ids in both, and where they stand; none where there are none, or of two kinds."""
    one, two = clean.info.ids, scored.info.ids
    if one is None or two is None or (one.dtype.kind in "OUS") != (two.dtype.kind in "OUS"):
        one = two = np.empty(0)
    return np.intersect1d(one, two, return_indices=True)


def _by_chance(one: np.ndarray, two: np.ndarray) -> float:
    """In how many places labels of other rows, as frequent as these, would differ."""
    shares = [dict(zip(*np.unique(labels, return_counts=True), strict=True)) for labels in (one, two)]
    agree = sum(int(count) * int(shares[1].get(label, 0)) for label, count in shares[0].items())
    return len(one) - agree / len(one)


def _without_ids(rows: InMemory) -> InMemory:
    return rows if rows.info.ids is None else rows._with_info(replace(rows.info, ids=None))


def _hashes_once(rows: InMemory) -> np.ndarray:
    """The hashes of rows that occur once; none where many repeat, as of trees: equal predictions are then no rows."""
    hashes = row_hashes(rows)
    values, times = np.unique(hashes[hashes < 1 << 48], return_counts=True)
    return values[times == 1] if (times > 1).sum() <= 0.1 * (times == 1).sum() else values[:0]


def uneven_recalibration(setup: Setup) -> Iterator[Note]:
    """Some models recalibrated and others not, compared by scores that recalibration changes."""
    if "cll" in setup.compared and setup.rank_by in CALIBRATED:
        return
    done = [name for name, model in setup.models.items() if "recalibration" in model.info.meta]
    raw = [text for text, metric in setup.compared.items() if metric is not None and (metric.proper or metric.pitfall)]
    if 0 < len(done) < len(setup.models) and raw:
        others = [name for name in setup.models if name not in done]
        said = f"{listed(done, 2)} {'are' if len(done) > 1 else 'is'} recalibrated and {listed(others, 2)} not"
        yield note("uneven-recalibration", f"{said}: recalibrate all in the same way, or rank by cll")


# ------------------------------------------------------------------------------------------------- dependent
def dependent_rows(setup: Setup) -> Iterator[Note]:
    """Without units: repeated ids or values of a column named like a unit, cases under several shifts, copies."""
    if setup.units is not None or not setup.models:
        return
    for name, model in setup.models.items():
        if model.info.ids is not None:
            distinct = len(np.unique(model.info.ids))
            if distinct < model.n:
                said = f"{shown(name)}: {model.n} rows have {distinct} ids and are treated as independent"
                yield note("dependent-rows", f"{said}: resample them by their ids (--units ids, units='ids')")
                return
    for column, values in {k: v for model in setup.models.values() for k, v in model.columns.items()}.items():
        distinct = len(np.unique(values)) if is_unit(column) else 0
        if 1 < distinct < len(values):
            said = f"{len(values)} rows are of {distinct} values of column {column!r} and treated as independent"
            do = f"if rows of one value depend on each other, give --units {column} (units={column!r})"
            yield note("dependent-rows", f"{said}: {do}")
            return
    cases = shifted_cases(setup)
    if cases:
        rows, cells = cases
        said = f"{cells} cells of a shift begin with the same {rows} labels in one order, as copies of cases do"
        do = "name the case of each row in ids or a column, and give it as --units (units=)"
        yield note("dependent-rows", f"{said}: {do}")
        return
    copies = copied_rows(setup.together)
    if copies:
        said = f"{copies} rows are copies of others, predictions and labels alike, and treated as independent"
        yield note(
            "dependent-rows", f"{said}: leave them out, or name the column of what they are of (--units, units=)"
        )


def different_units(setup: Setup) -> Iterator[Note]:
    """A column of units by which rows belong together otherwise in another model; names of units may differ."""
    if setup.units is None:
        return
    known = {name: _numbered(model.columns[setup.units]) for name, model in setup.together.items()
             if setup.units in model.columns}  # fmt: skip
    if len(known) < 2:
        return
    (first, own), *others = known.items()
    odd = [name for name, units in others if not _together_alike(own, units)]
    if odd:
        said = f"column {setup.units!r} puts rows together otherwise in {listed(odd)} than in {shown(first)}"
        do = "give all models one column of units"
        yield note("different-units", f"{said}, whose {int(own.max()) + 1} units are used: {do}")


def _numbered(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1].ravel()


def _together_alike(one: np.ndarray, two: np.ndarray) -> bool:
    """Whether both put the same rows together: as many pairs of values as values."""
    pairs = len(np.unique(one * (int(two.max()) + 1) + two))
    return pairs == int(one.max()) + 1 == int(two.max()) + 1


def is_unit(column: str) -> bool:
    """Whether a column is named like what several rows may be of: patient, patient_id, PromptHash, but not class."""
    words = [word.lower() for word in WORDS.findall(column)]
    named = [word for word in words if word not in NUMBER]
    known = UNITS | NUMBERED if len(named) < len(words) else UNITS
    return bool(named) and all(word in known or word.removesuffix("s") in known for word in named)


def shifted_cases(setup: Setup) -> tuple[int, int] | None:
    """How many labels some cells of a shift begin with alike, and how many cells; None where that may be chance."""
    model = next(iter(setup.models.values()))
    truth = truth_of(model)
    if setup.shift is None or truth is None or not all(name in model.columns for name in setup.shift):
        return None
    kinds, levels = (_numbered(model.columns[name]) for name in setup.shift)
    cells = _numbered(kinds * (int(levels.max()) + 1) + levels)
    order = np.argsort(cells, kind="stable")
    begun: dict[bytes, list[np.ndarray]] = {}
    for own in np.split(truth[order], np.flatnonzero(np.diff(cells[order])) + 1):
        if len(own) >= BEGUN and in_no_order(own):
            begun.setdefault(own[:BEGUN].tobytes(), []).append(own)
    for found in begun.values():
        longest = max(found, key=len)
        alike = [len(own) for own in found if np.array_equal(own, longest[: len(own)])]
        if len(alike) > 1:
            return min(alike), len(alike)
    return None


def in_no_order(labels: np.ndarray) -> bool:
    """Whether labels are neither sorted nor in turn, so that other cases would hardly have the same ones."""
    some = labels[:1000]
    in_turn = any(np.array_equal(some[k:], some[:-k]) for k in range(1, len(some) // 2 + 1))
    return int((some[1:] < some[:-1]).sum()) >= LEAST and not in_turn


def copied_rows(models: dict[str, InMemory]) -> int:
    """Rows that repeat the predictions of others in all models, where labels agree too often for different cases.

    Independent rows of equal features have equal predictions too, and then labels agree with probability Σ_c p_c²: it
    takes so many pairs that at least five should disagree, and hardly one that does. Saturated rows have round numbers
    and are left out.
    """
    if not models or any(not model.has_labels for model in models.values()):
        return 0
    first, second, count = _repeated(list(models.values()))
    for model in models.values():
        if isinstance(model, Classification):
            equal = (model.scores[:, first] == model.scores[:, second]).all(axis=(0, 2))
            first, second = first[equal], second[equal]
    if len(first) < LEAST:
        return 0
    example = next(iter(models.values()))
    if isinstance(example, Regression):
        y = np.asarray(example.y, np.float64)
        fine = np.abs(y[first] * 1e4 - np.rint(y[first] * 1e4)) > 1e-6
        agreed, expected = (y[first] == y[second]), float(fine.sum())
    else:
        truth = example.labels if isinstance(example, Classification) else example.correct
        if truth is None:
            return 0
        agreed = truth[first] == truth[second]
        expected = float(np.sum(1.0 - np.mean([_agreement(m, first) for m in models.values()], axis=0)))
    odd = int((~agreed).sum())
    return count if odd <= 0.005 * len(agreed) and expected >= LEAST + 3.0 * odd else 0


def _repeated(models: list[InMemory]) -> tuple[np.ndarray, np.ndarray, int]:
    """The first two rows of each set of equal ones, and how many rows repeat one before them."""
    hashes, known = np.zeros(models[0].n, np.uint64), np.ones(models[0].n, bool)
    for model in models:
        own = prediction_hashes(model)
        known &= own != np.iinfo(np.uint64).max
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) ^ own
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(hashes[rows], kind="stable")]
    again = np.zeros(len(rows), bool)
    again[1:] = hashes[rows[1:]] == hashes[rows[:-1]]
    at = np.flatnonzero(again & ~np.concatenate([[False], again[:-1]]))
    return rows[at - 1], rows[at], int(again.sum())


def _agreement(model: InMemory, rows: np.ndarray) -> np.ndarray:
    """Σ_c p_c² of the average."""
    if isinstance(model, Judged):
        p = model.confidence[:, rows].mean(axis=0)
        return np.asarray(p**2 + (1.0 - p) ** 2)
    return np.asarray((model[rows].average().as_probs().scores[0] ** 2).sum(axis=1))  # type: ignore[union-attr]


RULES = (
    different_rows, own_answers, different_classes, scored_on_fitted_rows, uneven_recalibration, different_units,
    dependent_rows,
)  # fmt: skip
