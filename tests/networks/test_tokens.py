"""Networks of tokens: the LSTM against PyTorch's own, the click-log network by hand, both with every method."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from calibrant import methods  # noqa: E402
from calibrant.data.clicks import BUCKETS as HASH_BUCKETS  # noqa: E402
from calibrant.errors import UsageError  # noqa: E402
from calibrant.networks import LSTM, EmbeddingMLP, architecture_from  # noqa: E402
from calibrant.networks.embedding_mlp import BUCKETS, WIDTHS  # noqa: E402

TEXT = LSTM(classes=3, vocabulary=20, embedding=6, width=5)
CLICKS = EmbeddingMLP(classes=2, numbers=2, buckets=(7, 3), widths=(4, 0), hidden=(8,))
RNG = np.random.default_rng(0)


def texts(n=24, length=9):
    x = RNG.integers(1, 20, (n, length)).astype(np.int32)
    for row, words in zip(x, RNG.integers(1, length + 1, n), strict=True):
        row[words:] = 0
    return x


def clicks(n=24):
    columns = [RNG.normal(size=(n, 2)), RNG.integers(0, 7, (n, 1)), RNG.integers(0, 3, (n, 1))]
    return np.concatenate(columns, 1).astype(np.float32)


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_lstm_is_pytorchs_on_the_words_of_each_text(pooling):
    network = LSTM(3, 20, 6, 5, pooling).build()
    own = torch.nn.LSTM(6, 5, batch_first=True)
    with torch.no_grad():
        own.weight_ih_l0.copy_(network.words.weight)
        own.bias_ih_l0.copy_(network.words.bias)
        own.weight_hh_l0.copy_(network.recurrent.T)
        own.bias_hh_l0.zero_()
    x = texts()
    for row, logits in zip(x, network(torch.from_numpy(x)), strict=True):
        states, _ = own(network.embedding(torch.from_numpy(row[row > 0]).long())[None])
        state = states[0].mean(0) if pooling == "mean" else states[0, -1]
        torch.testing.assert_close(network.output(state), logits)


def test_an_empty_text_has_the_prior_of_the_output_layer():
    network = TEXT.build()
    torch.testing.assert_close(network(torch.zeros(1, 4, dtype=torch.int32))[0], network.output.bias)


def test_click_network_by_hand():
    network = CLICKS.build().eval()
    x = clicks(5)
    rows = []
    for row in x:
        one_hot = np.eye(3)[int(row[3])]
        embedded = network.embeddings["0"].weight[int(row[2])].detach().numpy()
        rows.append(np.concatenate([row[:2], embedded, one_hot]))
    expected = network.dense(network.norm(torch.tensor(np.array(rows), dtype=torch.float32)))
    torch.testing.assert_close(network(torch.from_numpy(x)), expected)


def test_sizes_of_the_paper():
    assert BUCKETS == HASH_BUCKETS
    assert [bucket for bucket, width in zip(BUCKETS, WIDTHS, strict=True) if not width] == [
        28, 14, 46, 23, 12, 23, 61, 494,
    ]  # fmt: skip
    shrunk = EmbeddingMLP.criteo(0.1)
    assert shrunk.hidden == (257, 145, 160)
    assert architecture_from("embedding_mlp", shrunk.settings()) == shrunk
    assert EmbeddingMLP.criteo() == EmbeddingMLP()
    full = sum(value.numel() for value in EmbeddingMLP().build().parameters())
    inputs = 13 + sum(width or bucket for bucket, width in zip(BUCKETS, WIDTHS, strict=True))
    tables = sum(bucket * width for bucket, width in zip(BUCKETS, WIDTHS, strict=True))
    widths = (inputs, *EmbeddingMLP().hidden, 2)
    dense = sum((a + 1) * b for a, b in pairwise(widths))
    assert full == tables + 2 * inputs + dense


@pytest.mark.parametrize(("architecture", "rows"), [(TEXT, texts), (CLICKS, clicks)])
def test_members_batch_without_a_fallback(architecture, rows):
    """Under vmap, with gradients: a fallback to one network after another would warn, which is an error here."""
    x = rows()
    labels = np.arange(len(x)) % architecture.classes
    task = methods.Task.classification(x, labels, classes=architecture.classes, standardise=False)
    training = methods.Training(epochs=2, batch=8, optimiser="adam", rate=1e-2, decay=0.0)
    pool = methods.DeepEnsemble(members=3, training=training).fit(task, architecture, device="cpu")
    together = pool.predict(x)
    single = methods.Vanilla(training=training).fit(task, architecture, device="cpu")
    np.testing.assert_allclose(together.scores[0], single.predict(x).scores[0], atol=1e-5)


METHODS = {
    "vanilla": (methods.Vanilla, {}),
    "deep_ensemble": (methods.DeepEnsemble, {"members": 2}),
    "mc_dropout": (methods.MCDropout, {"p": 0.1}),
    "last_layer_dropout": (methods.LastLayerDropout, {"p": 0.1}),
    "swag": (methods.SWAG, {"start": 2, "rank": 2, "draws": 2}),
    "snapshot_ensemble": (methods.SnapshotEnsemble, {"cycles": 2}),
    "fge": (methods.FastGeometricEnsemble, {"start": 2, "cycle": 2}),
    "csgld": (methods.CyclicalSGLD, {"cycles": 2, "samples": 1}),
    "laplace": (methods.Laplace, {"draws": 2}),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("architecture", "rows"), [(TEXT, texts), (CLICKS, clicks)], ids=["lstm", "clicks"])
def test_every_method_takes_tokens(name, architecture, rows):
    kind, settings = METHODS[name]
    x = rows()
    labels = np.arange(len(x)) % architecture.classes
    task = methods.Task.classification(x, labels, classes=architecture.classes, standardise=False)
    training = replace(kind().training, epochs=4, batch=8, rate=0.05)
    predictions = kind(training=training, **settings).fit(task, architecture, device="cpu").predict(x)
    assert predictions.scores.shape[1:] == (len(x), architecture.classes)
    assert np.isfinite(predictions.scores).all()


def test_standardised_words_are_refused():
    x = texts()
    task = methods.Task.classification(x, np.arange(len(x)) % 3, classes=3)
    with pytest.raises(UsageError, match="standardise=False"):
        methods.Vanilla().fit(task, TEXT, device="cpu")
    with pytest.raises(UsageError, match="one a feature"):
        EmbeddingMLP(buckets=(3, 4), widths=(1,))
    with pytest.raises(UsageError, match="pooling"):
        LSTM(pooling="max")
