"""Pitfalls of the compared rows: different rows, dependent rows, rows of a recalibration, and of another data set.

Two data sets contain the same rows if a model makes the same predictions in both, in all rows or in at least a tenth
of those with a fingerprint; or if both have the same ids with the same labels. Row numbers are not ids: labels must
agree in every row whose id is in both, for so many rows that at least five labels of unrelated rows would disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np

from calibrant.comparison.alignment import LABELS, ROWS, error_note, truth_of
from calibrant.comparison.name_lists import by_number, listed, shown
from calibrant.comparison.pitfalls.members import equal_predictions
from calibrant.comparison.pitfalls.setup import Setup, note
from calibrant.predictions import Classification, InMemory, Judged, Regression
from calibrant.predictions.base import Note, repeated_unit, unit_text
from calibrant.predictions.row_fingerprints import (
    matching_rows,
    parse_fingerprints,
    prediction_hashes,
    row_fingerprints,
    row_hashes,
)
from calibrant.recalibration.leakage import leaked_share
from calibrant.registry.comparison_scores import CALIBRATED

LEAST = 5
"""The smallest number of labels that would disagree if rows were unrelated, and of matching fingerprints."""
SHARE = 0.1
"""The fraction of the smaller of two data sets that must be in the other one."""
PREFIX = 32
"""The number of first labels by which cells of a shift are compared."""


def different_rows(setup: Setup) -> Iterator[Note]:
    """Rows missing from some models, different labels, or rows that cannot be matched."""
    error = error_note(setup.matched)
    for each in [*setup.matched.notes, *([] if error is None else [error])]:
        if each.code in (ROWS, LABELS):
            yield note(each.code, each.message)


def own_answers(setup: Setup) -> Iterator[Note]:
    """Judged answers that are correct for some models and wrong for others, compared by proper scores."""
    models = [model for name, model in setup.together.items() if name in setup.models and isinstance(model, Judged)]
    proper = [t for t, metric in setup.compared.items() if t in CALIBRATED or (metric is not None and metric.proper)]
    judgements = [model.correct for model in models if model.correct is not None]
    if len(judgements) < 2 or not proper:
        return
    differ = int(np.any([judgements[0] != other for other in judgements[1:]], axis=0).sum())
    if differ:
        text = (
            f"in {differ} of {len(judgements[0])} rows some models are correct and others wrong, so {proper[0]} scores"
        )
        hint = "compare accuracy and aurc, or confidences for the same answers"
        yield note("own-answers", f"{text} a different problem for each: {hint}")


def different_classes(setup: Setup) -> Iterator[Note]:
    """Different classes, by number or by name."""
    models = {name: model for name, model in setup.models.items() if isinstance(model, Classification)}
    numbers = {name: model.classes for name, model in models.items()}
    if len(set(numbers.values())) > 1:
        text = f"models have different numbers of classes ({by_number(numbers)})"
        yield note("different-classes", f"{text}: give all models the same classes")
        return
    names = {name: set(model.class_names) for name, model in models.items() if model.class_names}
    for name, other in list(names.items())[1:]:
        first, own = next(iter(names.items()))
        if other != own:
            text = f"{shown(first)} and {shown(name)} differ in class {shown(sorted(other ^ own)[0])!r}"
            yield note("different-classes", f"{text}: give all models the same classes")
            return


def scored_on_fitted_rows(setup: Setup) -> Iterator[Note]:
    """Recalibration maps fitted on scored rows, and clean rows that are scored."""
    fitted: dict[str, list[str]] = {}
    for name, model in setup.models.items():
        if leaked_share(model) > 0.0:
            fitted.setdefault(model.info.meta["recalibration"].get("method", "a map"), []).append(name)
    for method, names in fitted.items():
        text = f"{listed(names)}: {shown(method)} was fitted on rows that are scored"
        yield note("scored-on-fitted-rows", f"{text}: fit it on other rows, or use cal.recalibration.cross_fit")
    clean = {name: rows for name, rows in (setup.clean or {}).items() if name in setup.models}
    shared = {name: shared_rows(rows, setup.models[name]) for name, rows in clean.items()}
    counts = [f"{count} of {clean[name].n} of {name}" for name, count in shared.items() if count]
    if counts:
        text = "clean rows, which fit the temperature, are also scored"
        hint = "give other rows, or use --temperature same (temperature='same')"
        yield note("scored-on-fitted-rows", f"{text}: {hint} ({listed(counts)})")


def shared_rows(clean: InMemory, scored: InMemory) -> int:
    """The number of rows in both, by ids with equal labels, or by equal predictions.

    Row numbers of two files are not ids: labels must agree in nine of ten rows, and in many more than for unrelated
    rows. If ids do not match, for example of renumbered rows, predictions that occur once do.
    """
    one, two = clean.info.ids, scored.info.ids
    truths = truth_of(clean), truth_of(scored)
    if one is None or two is None or (one.dtype.kind in "OUS") != (two.dtype.kind in "OUS"):
        one = two = np.empty(0)
    if truths[0] is not None and truths[1] is not None:
        common, first, second = np.intersect1d(one, two, return_indices=True)
        own, other = truths[0][first], truths[1][second]
        differ = int((own != other).sum())
        if len(common) and differ < 0.1 * len(own) and _expected_differences(own, other) >= LEAST + 3.0 * differ:
            return len(common)
    return len(np.intersect1d(_unique_hashes(clean), _unique_hashes(scored)))


def _expected_differences(one: np.ndarray, two: np.ndarray) -> float:
    """The expected number of differences between labels of unrelated rows with the same frequencies."""
    counts = [dict(zip(*np.unique(labels, return_counts=True), strict=True)) for labels in (one, two)]
    agree = sum(int(count) * int(counts[1].get(label, 0)) for label, count in counts[0].items())
    return len(one) - agree / len(one)


def _unique_hashes(rows: InMemory) -> np.ndarray:
    """Hashes of predictions that occur once; none if many repeat, as for trees: equal predictions prove nothing."""
    hashes = row_hashes(rows if rows.info.ids is None else rows._with_info(replace(rows.info, ids=None)))
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
        verbs = ["are" if len(names) > 1 else "is" for names in (done, others)]
        text = f"{listed(done, 2)} {verbs[0]} recalibrated and {listed(others, 2)} {verbs[1]} not"
        yield note("uneven-recalibration", f"{text}: recalibrate all in the same way, or rank by cll")


def dependent_rows(setup: Setup) -> Iterator[Note]:
    """Without units: repeated ids, repeated values of a column named like a unit, shifted cases, copies."""
    if setup.units is not None or not setup.models:
        return
    for name, model in setup.models.items():
        if found := repeated_unit(model):
            yield note("dependent-rows", f"{shown(name)}: {unit_text(model.n, *found)}")
            return
    cases = shifted_cases(setup)
    if cases:
        rows, cells = cases
        text = f"{cells} cells of a shift start with the same {rows} labels, as copies of the same cases do"
        hint = "store the case of each row in ids or a column, and name it with --units (units=)"
        yield note("dependent-rows", f"{text}: {hint}")
        return
    copies = copied_rows(setup.together)
    if copies:
        text = f"{copies} rows are copies of others (same predictions and labels) and are treated as independent"
        yield note("dependent-rows", f"{text}: remove them, or name the column of their source with --units (units=)")


def different_units(setup: Setup) -> Iterator[Note]:
    """A column of units that groups rows differently in different models; names of units may differ."""
    if setup.units is None:
        return
    by_model = {name: _codes(model.columns[setup.units]) for name, model in setup.together.items()
                if setup.units in model.columns}  # fmt: skip
    if len(by_model) < 2:
        return
    (first, own), *others = by_model.items()
    count, different = int(own.max()) + 1, []
    for name, units in others:
        pairs = len(np.unique(own * (int(units.max()) + 1) + units))
        different += [] if pairs == count == int(units.max()) + 1 else [name]
    if different:
        text = f"column {setup.units!r} groups rows differently in {listed(different)} than in {shown(first)}"
        yield note("different-units", f"{text}, whose {count} units are used: give all models the same column of units")


def _codes(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1].ravel()


def shifted_cases(setup: Setup) -> tuple[int, int] | None:
    """The number of first labels that some cells of a shift share, and of these cells; None if that may be chance."""
    model = next(iter(setup.models.values()))
    truth = truth_of(model)
    if setup.shift is None or truth is None or not all(name in model.columns for name in setup.shift):
        return None
    kinds, levels = (_codes(model.columns[name]) for name in setup.shift)
    cells = _codes(kinds * (int(levels.max()) + 1) + levels)
    order = np.argsort(cells, kind="stable")
    by_prefix: dict[bytes, list[np.ndarray]] = {}
    for own in np.split(truth[order], np.flatnonzero(np.diff(cells[order])) + 1):
        if len(own) >= PREFIX and is_unordered(own):
            by_prefix.setdefault(own[:PREFIX].tobytes(), []).append(own)
    for cells_of_prefix in by_prefix.values():
        longest = max(cells_of_prefix, key=len)
        equal = [len(own) for own in cells_of_prefix if np.array_equal(own, longest[: len(own)])]
        if len(equal) > 1:
            return min(equal), len(equal)
    return None


def is_unordered(labels: np.ndarray) -> bool:
    """Whether labels are neither sorted nor periodic, so that other cases would hardly have the same ones."""
    first = labels[:1000]
    periodic = any(np.array_equal(first[k:], first[:-k]) for k in range(1, len(first) // 2 + 1))
    return int((first[1:] < first[:-1]).sum()) >= LEAST and not periodic


def copied_rows(models: dict[str, InMemory]) -> int:
    """The number of rows that repeat the predictions of others in all models, if labels agree too often for chance.

    Independent rows with equal features have equal predictions too, and their labels agree with probability Σ_c p_c²:
    there must be so many pairs that at least five would disagree, and hardly any that do. Saturated rows have round
    numbers and are ignored.
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
    differ = int((~agreed).sum())
    return count if differ <= 0.005 * len(agreed) and expected >= LEAST + 3.0 * differ else 0


def _repeated(models: list[InMemory]) -> tuple[np.ndarray, np.ndarray, int]:
    """The first two rows of each set of equal rows, and the number of rows that repeat an earlier one."""
    hashes, hashed = np.zeros(models[0].n, np.uint64), np.ones(models[0].n, bool)
    for model in models:
        own = prediction_hashes(model)
        hashed &= own != np.iinfo(np.uint64).max
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) ^ own
    rows = np.flatnonzero(hashed)
    rows = rows[np.argsort(hashes[rows], kind="stable")]
    again = np.zeros(len(rows), bool)
    again[1:] = hashes[rows[1:]] == hashes[rows[:-1]]
    at = np.flatnonzero(again & ~np.concatenate([[False], again[:-1]]))
    return rows[at - 1], rows[at], int(again.sum())


def _agreement(model: InMemory, rows: np.ndarray) -> np.ndarray:
    """Σ_c p_c² of the averaged prediction."""
    if isinstance(model, Judged):
        p = model.confidence[:, rows].mean(axis=0)
        return np.asarray(p**2 + (1.0 - p) ** 2)
    return np.asarray((model[rows].average().as_probs().scores[0] ** 2).sum(axis=1))  # type: ignore[union-attr]


RULES = (
    different_rows, own_answers, different_classes, scored_on_fitted_rows, uneven_recalibration, different_units,
    dependent_rows,
)  # fmt: skip


# ------------------------------------------------------------------------------------------- several data sets
def guard_sets(sets: Mapping[str, Mapping[str, InMemory]]) -> tuple[Note, ...]:
    """The pitfalls of comparing models over several data sets."""
    by_predictions, by_ids = [], []
    for (first, one), (second, two) in combinations(sets.items(), 2):
        common = [name for name in one if name in two]
        pair = f"{shown(first)} and {shown(second)}"
        if any(same_predictions(one[name], two[name]) for name in common):
            by_predictions.append(pair)
        elif any(same_cases(one[name], two[name]) for name in common[:1]):
            by_ids.append(pair)
    notes = []
    if by_predictions:
        text = "data sets contain the same rows, which then count twice: predictions are the same in"
        notes.append(note("same-rows-twice", f"{text} {listed(by_predictions, 2)}; remove one of them"))
    if by_ids:
        text = "data sets contain the same cases (by ids and labels) and are not independent: remove one of them, or"
        notes.append(
            note("same-rows-twice", f"{text} compare them as shifts (--shift, shift=True): {listed(by_ids, 2)}")
        )
    return tuple(notes)


def same_predictions(one: InMemory, two: InMemory) -> bool:
    """Whether a model makes the same predictions in all rows of both, or in rows with the same fingerprints."""
    if one.n == two.n and one.task == two.task and equal_predictions(one, two):
        # not the predictions of a constant: there are several different ones, or the labels are equal too
        truths = truth_of(one), truth_of(two)
        same_labels = one.n >= LEAST and truths[0] is not None and np.array_equal(*truths)  # type: ignore[arg-type]
        if same_labels or len(np.unique(prediction_hashes(one))) >= LEAST:
            return True
    few, many = sorted((one, two), key=lambda rows: rows.n)
    fingerprints = parse_fingerprints(row_fingerprints(few))
    matches = np.unique(matching_rows(fingerprints, row_hashes(many)))
    return len(matches) >= max(LEAST, SHARE * len(fingerprints))


def same_cases(one: InMemory, two: InMemory) -> bool:
    """Whether equal ids stand for the same cases."""
    if one.info.ids is None or two.info.ids is None:
        return False
    if (one.info.ids.dtype.kind in "OUS") != (two.info.ids.dtype.kind in "OUS"):
        return False
    common, first, second = np.intersect1d(one.info.ids, two.info.ids, return_indices=True)
    least = SHARE * min(len(np.unique(one.info.ids)), len(np.unique(two.info.ids)))
    truths = truth_of(one), truth_of(two)
    if truths[0] is None or truths[1] is None or len(common) < max(least, LEAST):
        return False
    own, other = truths[0][first], truths[1][second]
    shares = np.unique(own, return_counts=True)[1] / len(own)
    return bool(np.array_equal(own, other)) and len(own) * (1.0 - float((shares**2).sum())) >= LEAST
