"""Pitfalls of members: their number, members of the pool, averaged logits, one model twice, one training run each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant.comparison.setup import Setup, note
from calibrant.predictions import Classification, InMemory, Judged, Regression
from calibrant.predictions.base import Note

LOOKED_AT = 512
"""Rows at which predictions of two models are held against each other."""


def different_members(setup: Setup) -> Iterator[Note]:
    """Models of more and of fewer members; the pool is measured by, and excepted."""
    counts = {name: count for name, count in setup.counts.items() if name != setup.pool}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        do = "compare as many of each, by cll_curve, or count them in members of a pool (pool=)"
        yield note("different-members", f"numbers of members differ ({said}): {do}")


def pool_overlap(setup: Setup) -> Iterator[Note]:
    """Members that are members of the pool, too."""
    pool = setup.together.get(setup.pool or "")
    if not isinstance(pool, Classification):
        return
    known, found = _looked_at(pool, 64), []
    for name in setup.models:
        model = setup.together[name]
        if name == setup.pool or not isinstance(model, Classification) or model.classes != pool.classes:
            continue
        own = _looked_at(model, 64)
        shared = sum(bool((np.abs(known - member).max(axis=(1, 2)) < 1e-6).any()) for member in own)
        found += [f"{shared} of {len(own)} of {name}"] if shared else []
    if found:
        said = f"members of models are members of the pool {setup.pool}, too ({', '.join(found)})"
        yield note("pool-overlap", f"{said}: leave them out of one or the other")


def identical_models(setup: Setup) -> Iterator[Note]:
    """Two names of the same predictions."""
    names = [name for name in setup.together if name in setup.models]
    for k, first in enumerate(names):
        for second in names[k + 1 :]:
            if _equal(setup.together[first], setup.together[second]):
                yield note("identical-models", f"{first} and {second} predict the same in every row: look at the files")


def averaged_logits(setup: Setup) -> Iterator[Note]:
    """One prediction that is the softmax of another's mean logits, and not the mean of its probabilities."""
    single = {n: m for n, m in setup.together.items() if n in setup.models and _one(m)}
    for name, model in single.items():
        for other, source in setup.together.items():
            if other == name or not isinstance(source, Classification) or not isinstance(model, Classification):
                continue
            if source.members < 2 or source.classes != model.classes:
                continue
            if _is_mean_of_logits(model, source):
                said = f"{name} is the softmax of the mean logits of the {source.members} members of {other}"
                yield note("averaged-logits", f"{said}, not the mean of probabilities: average those")


def single_seed(setup: Setup) -> Iterator[Note]:
    """Methods that were trained once each, as far as meta tell."""
    runs: dict[str, set[str]] = {}
    for model in setup.models.values():
        meta = model.info.meta
        if model.members > 1 or "method" not in meta or "seed" not in meta:
            return
        runs.setdefault(str(meta["method"]), set()).add(str(meta["seed"]))
    if len(runs) > 1 and all(len(seeds) == 1 for seeds in runs.values()):
        said = f"each of {len(runs)} methods was trained once, from one seed"
        yield note("single-seed", f"{said}: intervals over rows tell networks apart, not methods; train several")


# ----------------------------------------------------------------------------------------------------- at rows
def _one(model: InMemory) -> bool:
    return isinstance(model, Classification) and model.members == 1


def _places(n: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def _looked_at(model: Classification, most: int = LOOKED_AT) -> np.ndarray:
    """Probabilities (M, n, C) at some of the rows."""
    return model[_places(model.n, most)].as_probs().scores


def _equal(one: InMemory, two: InMemory) -> bool:
    if isinstance(one, Regression) and isinstance(two, Regression):
        pairs = [(getattr(one, key), getattr(two, key)) for key in ("mean", "std", "samples", "quantiles")]
        return one.kind == two.kind and all(a is b or np.array_equal(a, b) for a, b in pairs)
    if isinstance(one, Judged) and isinstance(two, Judged):
        right = one.correct is two.correct or np.array_equal(one.correct, two.correct)  # type: ignore[arg-type]
        return bool(right and np.array_equal(one.confidence, two.confidence))
    if not isinstance(one, Classification) or not isinstance(two, Classification) or one.classes != two.classes:
        return False
    if one.kind == two.kind and one.scores.shape == two.scores.shape:
        places = _places(one.n, 16)  # all scores are looked at only where these are equal
        return all(np.array_equal(one.scores[:, rows], two.scores[:, rows]) for rows in (places, slice(None)))
    if one.members != two.members:
        return False
    return bool(np.allclose(_looked_at(one), _looked_at(two), rtol=0.0, atol=1e-6))


def _is_mean_of_logits(model: Classification, source: Classification) -> bool:
    """Whether p is the geometric mean as far as scores are rounded, and ten times as far from the arithmetic one."""
    p, logs = np.exp(_logs(model)[0]), _logs(source)
    arithmetic = np.exp(logs).mean(axis=0)
    with np.errstate(invalid="ignore"):
        mean = logs.mean(axis=0)
        geometric = np.exp(mean - np.logaddexp.reduce(mean, axis=1, keepdims=True))
    rounding = max(float(np.finfo(item.scores.dtype).eps) for item in (model, source)) * _largest(logs)
    near, far = np.abs(p - geometric), np.abs(p - arithmetic)
    return bool(near.max() <= max(1e-4, 4.0 * rounding) and far.mean() > 10.0 * max(near.mean(), 1e-6))


def _largest(logs: np.ndarray) -> float:
    return float(np.abs(logs[np.isfinite(logs)]).max(initial=1.0))


def _logs(model: Classification) -> np.ndarray:
    """log p (M, n, C) at some of the rows; of logits exactly, however small."""
    (_, block), *_ = model[_places(model.n, LOOKED_AT)].score_blocks(LOOKED_AT)
    wide = block.astype(np.float64)
    if model.kind == "probs":
        with np.errstate(divide="ignore"):
            wide = np.log(wide)
    return np.asarray(wide - np.logaddexp.reduce(wide, axis=2, keepdims=True))


RULES = (different_members, pool_overlap, identical_models, averaged_logits, single_seed)
