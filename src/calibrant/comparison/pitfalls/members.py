"""Pitfalls of members: their number, the pool, averaged logits, duplicate models, single training runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant.comparison.name_lists import by_number, listed, shown
from calibrant.comparison.pitfalls.setup import Setup, note
from calibrant.predictions import Classification, InMemory, Judged, Regression
from calibrant.predictions.base import Note

Averaged = Classification | Judged
COMPARED_ROWS = 512
"""Rows at which the predictions of two models are compared."""
MEMBER_ROWS = 64
"""Rows at which single members are compared."""


def different_members(setup: Setup) -> Iterator[Note]:
    """Different numbers of members.

    No pitfall with a pool, which accounts for them, or for single networks compared with their own ensemble. The
    average of an ensemble counts as many members as the ensemble.
    """
    counts = dict(setup.counts)
    if setup.pool is not None or len(set(counts.values())) < 2:
        return
    for names in _alike(setup):
        counts |= dict.fromkeys(names, max(counts[name] for name in names))
    singles = [name for name, count in counts.items() if count == 1]
    if singles and all(name in setup.together for name in singles):
        at_rows = {name: _member_rows(setup.together[name]) for name in setup.counts}
        ensembles = [rows for name, rows in at_rows.items() if rows is not None and setup.counts[name] > 1]
        if all(any(_shared(at_rows[name], rows) for rows in ensembles) for name in singles):
            counts = {name: count for name, count in counts.items() if count > 1}
    if len(set(counts.values())) > 1:
        hint = "compare equal numbers, use comparison.cll_curve, or equivalents in a pool (--pool, pool=)"
        yield note("different-members", f"numbers of members differ ({by_number(counts)}): {hint}")


def pool_of_one(setup: Setup) -> Iterator[Note]:
    """A pool with one member."""
    pool = None if setup.pool is None else setup.everyone.get(setup.pool)
    if pool is not None and pool.members == 1:
        text = f"the pool {shown(setup.pool)} has one member and only shows whether a model is better or worse than it"
        yield note("pool-of-one", f"{text}: use several independently trained members")


def pool_overlap(setup: Setup) -> Iterator[Note]:
    """Members of models that are also in the pool."""
    pool = None if setup.pool is None else setup.together.get(setup.pool)
    if not isinstance(pool, Classification):
        return
    pool_rows, overlaps = _member_rows(pool), []
    for name in setup.models:
        if name == setup.pool:
            continue
        own = _member_rows(setup.together[name])
        shared = _shared(own, pool_rows)
        overlaps += [f"{shared} of {len(own)} of {name}"] if shared and own is not None else []
    if overlaps:
        text = f"the pool {shown(setup.pool)} contains members of other models"
        yield note("pool-overlap", f"{text}: remove them from one or the other ({listed(overlaps)})")


def identical_models(setup: Setup) -> Iterator[Note]:
    """Models with the same predictions."""
    for names in _alike(setup):
        if len(names) > 1:
            yield note("identical-models", f"{listed(names)} make the same predictions in every row: check the files")


def _alike(setup: Setup) -> list[list[str]]:
    """The names of the models, grouped by equal predictions."""
    alike: dict[str, list[str]] = {}
    for name in (name for name in setup.together if name in setup.models):
        first = next((one for one in alike if equal_predictions(setup.together[one], setup.together[name])), name)
        alike.setdefault(first, []).append(name)
    return list(alike.values())


def averaged_logits(setup: Setup) -> Iterator[Note]:
    """A model that is the softmax of another's mean logits instead of its mean probabilities."""
    classes = {name: model for name, model in setup.together.items() if isinstance(model, Classification)}
    for name, model in classes.items():
        if name not in setup.models or model.members > 1:
            continue
        for other, source in classes.items():
            if source.members > 1 and source.classes == model.classes and _is_mean_of_logits(model, source):
                members = f"the {source.members} members of {shown(other)}"
                text = f"{shown(name)} is the softmax of the mean logits of {members}, not the mean of probabilities"
                yield note("averaged-logits", f"{text}: average those")


def single_seed(setup: Setup) -> Iterator[Note]:
    """Methods that were trained once each, according to their meta."""
    runs: dict[str, set[str]] = {}
    for model in setup.models.values():
        meta = model.info.meta
        if model.members > 1 or "method" not in meta or "seed" not in meta:
            return
        runs.setdefault(str(meta["method"]), set()).add(str(meta["seed"]))
    if len(runs) > 1 and all(len(seeds) == 1 for seeds in runs.values()):
        text = f"each of {len(runs)} methods was trained once, with one seed"
        yield note("single-seed", f"{text}: intervals over rows compare networks, not methods; train several")


def _sample(n: int, most: int) -> np.ndarray:
    """The numbers of at most so many evenly spaced rows."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def _member_rows(model: InMemory) -> np.ndarray | None:
    """The predictions (M, n, K) of each member at some rows; None for regression without members."""
    rows = _sample(model.n, MEMBER_ROWS)
    if isinstance(model, Classification):
        return model[rows].as_probs().scores
    if isinstance(model, Judged):
        return np.asarray(model.confidence[:, rows, None], np.float64)
    if model.kind != "gaussian" or model.mean is None or model.std is None:
        return None
    return np.stack([model.mean[:, rows], model.std[:, rows]], axis=2).astype(np.float64)


def _shared(one: np.ndarray | None, other: np.ndarray | None) -> int:
    """The number of members of one that are members of the other."""
    if one is None or other is None or one.shape[1:] != other.shape[1:]:
        return 0
    return sum(bool((np.abs(other - member).max(axis=(1, 2)) < 1e-6).any()) for member in one)


def equal_predictions(one: InMemory, two: InMemory) -> bool:
    """Whether two models predict the same, up to rounding; for classes and judged answers, on average."""
    if isinstance(one, Regression) and isinstance(two, Regression):
        pairs = [(getattr(one, key), getattr(two, key)) for key in ("mean", "std", "samples", "quantiles")]
        return one.kind == two.kind and all(a is b or np.array_equal(a, b) for a, b in pairs)
    if isinstance(one, Judged) and isinstance(two, Judged):
        same_labels = one.correct is two.correct or np.array_equal(one.correct, two.correct)  # type: ignore[arg-type]
        return bool(same_labels and _equal_averages(one, two, one.confidence, two.confidence))
    if not isinstance(one, Classification) or not isinstance(two, Classification) or one.classes != two.classes:
        return False
    return _equal_averages(one, two, one.scores, two.scores)


def _equal_averages(one: Averaged, two: Averaged, scores: np.ndarray, others: np.ndarray) -> bool:
    """Whether scores are the same, or average probabilities are; only scores for single members of one kind."""
    few = _sample(one.n, 16)  # more rows are compared only if these are equal
    alike = getattr(one, "kind", "") == getattr(two, "kind", "") and scores.shape == others.shape
    if alike and all(np.array_equal(scores[:, rows], others[:, rows]) for rows in (few, slice(None))):
        return True
    if alike and len(scores) == 1:
        return False
    samples = (few, _sample(one.n, COMPARED_ROWS))
    return all(np.allclose(_average(one[rows]), _average(two[rows]), rtol=0.0, atol=1e-6) for rows in samples)


def _average(model: Averaged) -> np.ndarray:
    mean = model.average()
    return mean.confidence if isinstance(mean, Judged) else mean.as_probs().scores


def _is_mean_of_logits(model: Classification, source: Classification) -> bool:
    """Whether p equals the geometric mean up to rounding, and is ten times as far from the arithmetic mean."""
    p, logs = np.exp(_logs(model)[0]), _logs(source)
    arithmetic = np.exp(logs).mean(axis=0)
    with np.errstate(invalid="ignore"):
        mean = logs.mean(axis=0)
        geometric = np.exp(mean - np.logaddexp.reduce(mean, axis=1, keepdims=True))
    rounding = max(float(np.finfo(item.scores.dtype).eps) for item in (model, source))
    rounding *= float(np.abs(logs[np.isfinite(logs)]).max(initial=1.0))
    near, far = np.abs(p - geometric), np.abs(p - arithmetic)
    return bool(near.max() <= max(1e-4, 4.0 * rounding) and far.mean() > 10.0 * max(near.mean(), 1e-6))


def _logs(model: Classification) -> np.ndarray:
    """log p (M, n, C) at some rows; exact for logits, however small."""
    (_, block), *_ = model[_sample(model.n, COMPARED_ROWS)].score_blocks(COMPARED_ROWS)
    wide = block.astype(np.float64)
    if model.kind == "probs":
        with np.errstate(divide="ignore"):
            wide = np.log(wide)
    return np.asarray(wide - np.logaddexp.reduce(wide, axis=2, keepdims=True))


RULES = (different_members, pool_of_one, pool_overlap, identical_models, averaged_logits, single_seed)
