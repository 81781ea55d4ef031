"""The LSTM of Ovadia et al. (2019) on the even-numbered newsgroups, and a TF-IDF linear model on the same texts.

python -m evidence.newsgroups [--epochs 10] [--members 1] [--splits by-date random]

By date is the published split; random moves posts of the ten in-distribution classes between training and test sets of
the same sizes. Needs CALIBRANT_DATA.
"""

import argparse
import time

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from calibrant import methods
from calibrant.data import Vocabulary, billion_words, newsgroups
from calibrant.networks import LSTM
from calibrant.shift import class_split


def posts(split):
    """Texts and labels 0 … 9 of the even classes, for training and test, and the test texts of the odd classes."""
    parts = []
    for part in ("train", "test"):
        texts, labels, _ = newsgroups(part)
        inside, outside = class_split(labels, range(0, 20, 2))
        parts.append(([texts[k] for k in inside], labels[inside] // 2, [texts[k] for k in outside]))
    (train, y_train, _), (test, y_test, skewed) = parts
    if split == "random":
        order = np.random.default_rng(0).permutation(len(train) + len(test))
        texts, labels = train + test, np.concatenate([y_train, y_test])
        first, rest = order[: len(train)], order[len(train) :]
        train, y_train, test, y_test = [texts[k] for k in first], labels[first], [texts[k] for k in rest], labels[rest]
    return train, y_train, test, y_test, skewed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=1e-2)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--pooling", default="mean")
    parser.add_argument("--splits", nargs="+", default=["by-date", "random"])
    given = parser.parse_args()
    print("| split | model | accuracy | mean confidence inside | odd classes | other sentences | seconds |")
    print("|---|---|---|---|---|---|---|")
    for split in given.splits:
        train, y_train, test, y_test, skewed = posts(split)
        start = time.time()
        vectors = TfidfVectorizer(sublinear_tf=True, min_df=2)
        linear = LogisticRegression(C=30.0, max_iter=300).fit(vectors.fit_transform(train), y_train)
        others = (test, skewed, billion_words()[: len(test)])
        confidences = [linear.predict_proba(vectors.transform(texts)).max(1).mean() for texts in others]
        accuracy = linear.score(vectors.transform(test), y_test)
        report(split, "TF-IDF, linear", accuracy, confidences, start)
        start = time.time()
        words = Vocabulary.of(train)
        x = words.indices(train)
        task = methods.Task.classification(x, y_train, classes=10, standardise=False)
        training = methods.Training(
            epochs=given.epochs, batch=64, optimiser="adam", rate=given.rate, decay=0.0, clip=1.0
        )
        network = LSTM(classes=10, vocabulary=30_000, pooling=given.pooling)
        posterior = methods.DeepEnsemble(members=given.members, training=training).fit(task, network)
        probs = [_average(posterior.predict(words.indices(texts)).scores) for texts in others]
        accuracy = (probs[0].argmax(1) == y_test).mean()
        report(split, f"LSTM ({given.pooling}), {given.members}", accuracy, [p.max(1).mean() for p in probs], start)


def _average(logits):
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return (shifted / shifted.sum(-1, keepdims=True)).mean(0)


def report(split, model, accuracy, confidences, start):
    """One row of the table."""
    cells = " | ".join(f"{value:.3f}" for value in (accuracy, *confidences))
    print(f"| {split} | {model} | {cells} | {time.time() - start:.0f} |", flush=True)


if __name__ == "__main__":
    main()
