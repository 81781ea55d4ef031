"""Models, rows and maps that comparisons of the tests are made of."""

import warnings
from dataclasses import replace

import numpy as np
from scipy.special import softmax

import calibrant as cal

N, C = 400, 4


def made(seed=0, members=1, n=N, classes=C, start=0, **known):
    """Logits of n cases and their labels; the labels of a case are those of its number, whatever the model's seed."""
    truth = np.random.default_rng(99).normal(size=(5000, classes))[start : start + n]
    labels = (truth + np.random.default_rng(98).gumbel(size=(5000, classes))[start : start + n]).argmax(axis=1)
    logits = truth + 0.8 * np.random.default_rng(seed + 7).normal(size=(members, n, classes))
    return cal.Classification.from_logits(logits.astype(np.float32), labels, **known)


def judged(seed=0, flip=0, **known):
    rng = np.random.default_rng(3)
    confidence = np.random.default_rng(seed + 50).uniform(0.3, 1.0, N)
    correct = rng.random(N) < 0.7
    correct[:flip] = ~correct[:flip]
    return cal.Judged.from_confidence(confidence, correct, **known)


def gaussian(seed=0, **known):
    y = np.random.default_rng(4).normal(size=N)
    return cal.Regression.from_gaussian(y + np.random.default_rng(seed).normal(size=N), np.full(N, 1.1), y, **known)


def fitted(rows, to, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cal.recalibration.TemperatureScaling(**options).fit(rows).transform(to)


def mean_logits(source, **known):
    return cal.Classification.from_logits(source.scores.mean(axis=0), source.labels, **known)


def mean_probs(source, **known):
    probs = softmax(source.scores.astype(np.float64), axis=2).mean(axis=0).astype(np.float32)
    return cal.Classification.from_probs(probs, source.labels, **known)


def twice(model, share=0.5):
    """The model with some of its rows again."""
    return model[np.r_[np.arange(model.n), np.arange(int(share * model.n))]]


def other(seed, **known):
    """Other cases of the same model."""
    return made(seed, start=1000, **known)


def named(model, names):
    return replace(model, class_names=tuple(names))


def turned(model):
    """The classes the other way round."""
    labels = model.classes - 1 - model.labels
    return replace(model, scores=model.scores[:, :, ::-1], labels=labels, class_names=model.class_names[::-1])


def half(model):
    return replace(model, scores=model.scores.astype(np.float16))


def with_ids(model, ids=None):
    return replace(model, info=replace(model.info, ids=IDS if ids is None else ids))


def answers(seed, accuracy):
    """Judged answers of cases of their own, whose ids are row numbers."""
    rng = np.random.default_rng(seed)
    return cal.Judged.from_confidence(rng.uniform(0.3, 1.0, N), rng.random(N) < accuracy, ids=NUMBERS)


def alike():
    """Members that agree so well that both means are one."""
    one = made(1).scores
    return replace(FIVE, scores=np.repeat(one, 5, axis=0))


def nudged(model):
    scores = model.scores.copy()
    scores[0, 333] += np.array([0, 0, 0, 1e-3], np.float32)
    return replace(model, scores=scores)


def run(method, seed):
    return made(seed + 17 * len(method), meta={"method": method, "seed": seed})


def rounded(seed):
    rng = np.random.default_rng(seed)
    confidence = np.round(rng.uniform(0.5, 1.0, N), 2)
    return cal.Judged.from_confidence(confidence, np.random.default_rng(0).random(N) < 0.8)


def tree(seed):
    """A tree of eight leaves: cases of one leaf have one prediction, and labels of their own."""
    rng = np.random.default_rng(0)
    leaf = rng.integers(0, 8, N)
    probs = np.random.default_rng(seed).dirichlet(np.ones(C), 8)
    true = np.random.default_rng(5).dirichlet(np.ones(C), 8)
    labels = np.array([rng.choice(C, p=true[k]) for k in leaf])
    return cal.Classification.from_probs(probs[leaf], labels)


def stacked(cells, labels=None):
    """Cells of one type of shift, one severity after the other."""
    severity = np.repeat(np.arange(len(cells)), [cell.n for cell in cells])
    columns = {"severity": severity, "shift": np.full(len(severity), "noise")}
    logits = np.concatenate([cell.scores[0] for cell in cells])
    own = np.concatenate([cell.labels for cell in cells])
    return cal.Classification.from_logits(logits, own if labels is None else labels, columns=columns)


def saturated(seed):
    """Mostly one-hot, as float32 makes of confident networks."""
    scores = np.eye(C)[made(0).labels]
    scores[:40] = softmax(made(seed).scores[0, :40].astype(np.float64), axis=1)
    return cal.Classification.from_probs(scores, made(0).labels)


NUMBERS = np.arange(N)
IDS = np.array([f"row{k}" for k in range(N)])
BACK = np.arange(N)[::-1]
FIVE = made(5, members=5)
