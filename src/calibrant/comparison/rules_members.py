"""Pitfalls of members: their number, the pool and its members, averaged logits, one model twice, one run each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant.comparison.listing import by_number, listed, shown
from calibrant.comparison.setup import Setup, note
from calibrant.predictions import Classification, InMemory, Judged, Regression
from calibrant.predictions.base import Note

Averaged = Classification | Judged
LOOKED_AT = 512
"""Rows at which predictions of two models are held against each other."""
FEW = 64
"""Rows at which single members are."""


def different_members(setup: Setup) -> Iterator[Note]:
    """Models of more and of fewer members.

    A pool counts them; single networks beside the ensemble of just these are what was asked for; and the average of an
    ensemble has as many members as that.
    """
    counts = dict(setup.counts)
    if setup.pool is not None or len(set(counts.values())) < 2:
        return
    for names in _alike(setup):
        counts |= dict.fromkeys(names, max(counts[name] for name in names))
    if _members_beside_their_ensembles(setup, counts):
        counts = {name: count for name, count in counts.items() if count > 1}
    if len(set(counts.values())) > 1:
        do = "compare as many of each, by cll_curve, or count them in a pool (--pool, pool=)"
        yield note("different-members", f"numbers of members differ ({by_number(counts)}): {do}")


def _members_beside_their_ensembles(setup: Setup, counts: dict[str, int]) -> bool:
    """Whether every model of one member is a member of one of several."""
    singles = [name for name, count in counts.items() if count == 1]
    if not singles or any(name not in setup.together for name in singles):
        return False
    at_rows = {name: _member_rows(setup.together[name]) for name in setup.counts}
    ensembles = [rows for name, rows in at_rows.items() if rows is not None and setup.counts[name] > 1]
    return all(any(_shared(at_rows[name], rows) for rows in ensembles) for name in singles)


def pool_of_one(setup: Setup) -> Iterator[Note]:
    """A pool that cannot count."""
    pool = None if setup.pool is None else setup.everyone.get(setup.pool)
    if pool is not None and pool.members == 1:
        said = f"the pool {shown(setup.pool)} has one member and tells only whether a model is below or above it"
        yield note("pool-of-one", f"{said}: give several independently trained members")


def pool_overlap(setup: Setup) -> Iterator[Note]:
    """Members that are members of the pool, too."""
    pool = None if setup.pool is None else setup.together.get(setup.pool)
    if not isinstance(pool, Classification):
        return
    known, found = _member_rows(pool), []
    for name in setup.models:
        if name == setup.pool:
            continue
        own = _member_rows(setup.together[name])
        shared = _shared(own, known)
        found += [f"{shared} of {len(own)} of {name}"] if shared and own is not None else []
    if found:
        said = f"members of models are members of the pool {shown(setup.pool)}, too"
        yield note("pool-overlap", f"{said}: leave them out of one or the other ({listed(found)})")


def identical_models(setup: Setup) -> Iterator[Note]:
    """Several names of the same predictions."""
    for names in _alike(setup):
        if len(names) > 1:
            yield note("identical-models", f"{listed(names)} predict the same in every row: look at the files")


def _alike(setup: Setup) -> list[list[str]]:
    """The models, those together that predict the same."""
    alike: dict[str, list[str]] = {}
    for name in (name for name in setup.together if name in setup.models):
        first = next((one for one in alike if equal_predictions(setup.together[one], setup.together[name])), name)
        alike.setdefault(first, []).append(name)
    return list(alike.values())


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
                said = (
                    f"{shown(name)} is the softmax of the mean logits of the {source.members} members of {shown(other)}"
                )
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


def _member_rows(model: InMemory) -> np.ndarray | None:
    """What each member predicts (M, n, K) at some of the rows; nothing of numbers without members."""
    places = _places(model.n, FEW)
    if isinstance(model, Classification):
        return _looked_at(model, FEW)
    if isinstance(model, Judged):
        return np.asarray(model.confidence[:, places, None], np.float64)
    if model.kind != "gaussian" or model.mean is None or model.std is None:
        return None
    return np.stack([model.mean[:, places], model.std[:, places]], axis=2).astype(np.float64)


def _shared(one: np.ndarray | None, other: np.ndarray | None) -> int:
    """How many members of one are members of the other."""
    if one is None or other is None or one.shape[1:] != other.shape[1:]:
        return 0
    return sum(bool((np.abs(other - member).max(axis=(1, 2)) < 1e-6).any()) for member in one)


def _looked_at(model: Classification, most: int = LOOKED_AT) -> np.ndarray:
    """Probabilities (M, n, C) at some of the rows."""
    return model[_places(model.n, most)].as_probs().scores


def equal_predictions(one: InMemory, two: InMemory) -> bool:
    """Whether two models predict the same: of classes and judged answers the averages of members, up to rounding."""
    if isinstance(one, Regression) and isinstance(two, Regression):
        pairs = [(getattr(one, key), getattr(two, key)) for key in ("mean", "std", "samples", "quantiles")]
        return one.kind == two.kind and all(a is b or np.array_equal(a, b) for a, b in pairs)
    if isinstance(one, Judged) and isinstance(two, Judged):
        right = one.correct is two.correct or np.array_equal(one.correct, two.correct)  # type: ignore[arg-type]
        return bool(right and _equal_averages(one, two, one.confidence, two.confidence))
    if not isinstance(one, Classification) or not isinstance(two, Classification) or one.classes != two.classes:
        return False
    return _equal_averages(one, two, one.scores, two.scores)


def _equal_averages(one: Averaged, two: Averaged, scores: np.ndarray, others: np.ndarray) -> bool:
    """The same scores, or the same probabilities; of one member each in one form, nothing but the same scores."""
    few = _places(one.n, 16)  # more rows are looked at only where these are equal
    alike = getattr(one, "kind", "") == getattr(two, "kind", "") and scores.shape == others.shape
    if alike and all(np.array_equal(scores[:, rows], others[:, rows]) for rows in (few, slice(None))):
        return True
    if alike and len(scores) == 1:
        return False
    looked_at = (few, _places(one.n, LOOKED_AT))
    return all(np.allclose(_average(one[at]), _average(two[at]), rtol=0.0, atol=1e-6) for at in looked_at)


def _average(model: Averaged) -> np.ndarray:
    mean = model.average()
    return mean.confidence if isinstance(mean, Judged) else mean.as_probs().scores


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


RULES = (different_members, pool_of_one, pool_overlap, identical_models, averaged_logits, single_seed)
