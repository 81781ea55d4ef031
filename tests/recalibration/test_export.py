"""Fitted maps as modules and as ONNX: they say what `transform` says."""

from __future__ import annotations

import logging
import sys
import warnings

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import calibrant as cal
from calibrant.errors import CalibrantWarning, MissingExtra, UsageError, WriteError
from calibrant.recalibration import methods_for, recalibrator
from calibrant.recalibration.lookup import method_class

torch = pytest.importorskip("torch")
from calibrant.recalibration.export import MODULES, MapModule, Recalibration, module_class, onnx_bytes  # noqa: E402

OF_CLASSES = methods_for("classification")
VARIANTS = {
    "spline": ["spline", "spline(of=classes)", "spline(curve=hits)"],
    "ets": ["ets", "ets(loss=brier)"],
    "isotonic": ["isotonic", "isotonic(ends=inside)"],
    "histogram": ["histogram(binning=mass)", "histogram"],
}
SPECS = [text for name in OF_CLASSES for text in VARIANTS.get(name, [name])]


def logits_of(classes: int = 4, n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(0.0, 1.5, (n, classes))
    labels = np.array([rng.choice(classes, p=row) for row in softmax(truth, axis=1)])
    return 1.8 * (truth + rng.normal(0.0, 0.6, (n, classes))), labels


def fitted(text: str, classes: int = 4):
    scores, labels = logits_of(classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return recalibrator(text).fit(cal.Classification.from_logits(scores, labels))


def log_probs(made, scores: np.ndarray) -> np.ndarray:
    """What `transform` gives, as log-probabilities (n, C)."""
    after = made.transform(cal.Classification.from_logits(scores))
    with np.errstate(divide="ignore"):
        return np.log(after.scores[0]) if after.kind == "probs" else log_softmax(after.scores[0], axis=1)


def odd_rows(classes: int = 4) -> np.ndarray:
    """Rows as they come, and rows that are certain, tied or far away."""
    usual, _ = logits_of(classes, seed=7)
    some = np.zeros((4, classes))
    some[1, 0], some[2, 1], some[3, :2] = 30.0, 60.0, 5.0
    return np.concatenate([usual, some])


def run_onnx(path, scores: np.ndarray) -> np.ndarray:
    runtime = pytest.importorskip("onnxruntime")
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"scores": scores})[0]


# -------------------------------------------------------------------------------------------- modules
@pytest.mark.parametrize("name", OF_CLASSES)
def test_every_map_has_a_module(name):
    assert module_class(method_class(name).map_class)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("text", SPECS)
def test_a_module_gives_what_transform_gives(text, classes):
    made, scores = fitted(text, classes), odd_rows(classes)
    expected = log_probs(made, scores)
    given = {"logits": scores, "log_probs": log_softmax(scores, axis=1), "probs": softmax(scores, axis=1)}
    for kind, values in given.items():
        out = made.to_module(kind=kind)(torch.from_numpy(values)).numpy()
        np.testing.assert_allclose(np.exp(out), np.exp(expected), atol=1e-9)
        likely = expected > -50.0  # what is less is cut off in float64 probabilities
        np.testing.assert_allclose(out[likely], expected[likely], atol=1e-7)
    probs = made.to_module(output="probs")(torch.from_numpy(scores)).numpy()
    np.testing.assert_allclose(probs, np.exp(expected), atol=1e-9)


@pytest.mark.parametrize("text", SPECS)
def test_modules_have_derivatives(text):
    """Against differences, at rows where curves have no bend; steps have none but 0."""
    module = fitted(text).to_module(output="probs")
    scores = torch.tensor(logits_of(n=20, seed=5)[0], requires_grad=True)
    target = torch.tensor(np.random.default_rng(0).normal(size=(20, 4)))
    (module(scores) * target).sum().backward()
    assert torch.isfinite(scores.grad).all()
    step, found = 1e-6, scores.grad.numpy()
    with torch.no_grad():
        shifts = [torch.eye(4, dtype=torch.float64)[k] * step for k in range(4)]
        up, down = ([(module(scores + sign * s) * target).sum(dim=1) for s in shifts] for sign in (1, -1))
    by_difference = (torch.stack(up, dim=1) - torch.stack(down, dim=1)).numpy() / (2 * step)
    close = np.isclose(found, by_difference, atol=1e-4)
    assert close.mean() > 0.95


@pytest.mark.parametrize("text", SPECS)
def test_modules_keep_the_precision_that_they_are_given(text):
    module, scores = fitted(text).to_module(output="probs"), torch.from_numpy(logits_of(seed=3)[0])
    wide, narrow = module(scores), module(scores.float())
    assert (wide.dtype, narrow.dtype) == (torch.float64, torch.float32)
    assert not list(module.parameters())
    near = (wide - narrow).abs().amax(dim=1) < 1e-3  # a score beside the edge of a bin may fall on its other side
    assert near.float().mean() > 0.98
    single = module.float()(scores.float())
    assert torch.isfinite(single).all()


def test_members_have_a_map_each():
    scores, labels = logits_of()
    three = np.stack([scores, 2.0 * scores, scores**3])
    made = recalibrator("temperature(members=each)").fit(cal.Classification.from_logits(three, labels))
    expected = log_softmax(made.transform(cal.Classification.from_logits(three)).scores, axis=2)
    out = made.to_module()(torch.from_numpy(three)).numpy()
    np.testing.assert_allclose(out, expected, atol=1e-10)


def test_judged_answers_are_two_classes():
    rng = np.random.default_rng(4)
    confidence = rng.beta(5.0, 1.5, 400)
    judged = cal.Judged.from_confidence(confidence, rng.random(400) < confidence**2)
    made = recalibrator("temperature").fit(judged)
    given = torch.from_numpy(np.stack([1.0 - confidence, confidence], axis=1))
    out = made.to_module(kind="probs", output="probs")(given).numpy()
    np.testing.assert_allclose(out[:, 1], made.transform(judged).confidence[0], atol=1e-12)


def test_a_module_stands_behind_a_network():
    made = fitted("temperature")
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), made.to_module())
    out = network(torch.ones(5, 3))
    np.testing.assert_allclose(out.exp().sum(dim=1).detach().numpy(), 1.0, atol=1e-6)
    assert [name for name, _ in network.named_parameters()] == ["0.weight", "0.bias"]


@pytest.mark.parametrize("wrong", [{"kind": "scores"}, {"output": "logits"}])
def test_what_is_not_there_is_refused(wrong):
    with pytest.raises(UsageError, match="choose from"):
        fitted("temperature").to_module(**wrong)
    with pytest.raises(UsageError, match="call fit first"):
        recalibrator("temperature").to_module()


def test_methods_for_numbers_have_no_module():
    for name in set(methods_for("regression")) - set(OF_CLASSES):
        assert module_class(method_class(name).map_class) is None


# ----------------------------------------------------------------------------------------------- ONNX
def test_onnx_gives_what_the_modules_give(tmp_path):
    """All maps in one file, as if each were a member's: for other numbers of rows than it was exported with."""
    pytest.importorskip("onnxscript")
    maps = [fitted(name).to_module().maps[0] for name in OF_CLASSES]
    module = Recalibration(maps, kind="logits", output="probs")
    path = tmp_path / "maps.onnx"
    path.write_bytes(onnx_bytes(module, 4, "probs", "float32", "all"))
    scores = np.stack([odd_rows().astype(np.float32)] * len(maps))
    with torch.no_grad():
        expected = module(torch.from_numpy(scores)).numpy()
    for rows in (slice(None), slice(1)):
        for name, ours, theirs in zip(OF_CLASSES, run_onnx(path, scores[:, rows]), expected[:, rows], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5, err_msg=name)


def test_onnx_of_probabilities_in_double_precision(tmp_path):
    pytest.importorskip("onnxscript")
    made, scores = fitted("temperature"), odd_rows()
    path = made.to_onnx(tmp_path / "map.onnx", kind="probs", dtype="float64")
    out = run_onnx(path, softmax(scores, axis=1))
    np.testing.assert_allclose(out, log_probs(made, scores), atol=1e-9)


def test_onnx_says_what_it_is_and_the_exporter_says_nothing(tmp_path, capfd, caplog):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    with caplog.at_level(logging.INFO):
        path = fitted("temperature").to_onnx(tmp_path / "map.onnx")
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert logging.root.manager.disable == logging.NOTSET
    model = onnx.load(path)
    onnx.checker.check_model(model)
    said = {entry.key: entry.value for entry in model.metadata_props}
    assert (said["producer"], said["method"]) == ("calibrant", "temperature")
    (given,) = model.graph.input
    assert [axis.dim_param or axis.dim_value for axis in given.type.tensor_type.shape.dim] == ["rows", 4]


def test_nothing_is_left_behind_where_it_cannot_be_written(tmp_path):
    pytest.importorskip("onnxscript")
    with pytest.raises(WriteError):
        fitted("temperature").to_onnx(tmp_path / "none" / "map.onnx")
    with pytest.raises(UsageError, match="'float32' or 'float64'"):
        fitted("temperature").to_onnx(tmp_path / "map.onnx", dtype="half")
    assert not list(tmp_path.iterdir())


def test_what_is_not_installed_is_named_in_one_line(tmp_path, monkeypatch):
    made = fitted("temperature")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtra, match=r"pip install 'calibrant\[onnx\]'"):
        made.to_onnx(tmp_path / "map.onnx")
    assert not list(tmp_path.iterdir())


def test_modules_are_named_for_maps():
    maps = {each.__name__ for name in OF_CLASSES for each in method_class(name).map_class.__mro__}
    for name, module in MODULES.items():
        assert name in maps
        assert issubclass(module, MapModule)
