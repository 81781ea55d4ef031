"""calibrant demo llm: the bundled slice, and what it shows."""

import json

import numpy as np

from calibrant.demo import FOLDER


def test_demo_llm_shows_the_accuracies_of_the_slice(run_here, tmp_path):
    done = run_here("demo", "llm", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "Do six language models know what they know?" in done.out
    stored = np.load(FOLDER / "mmlu_pro.npz")
    evaluation = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    for result, name, confidence, correct in zip(
        evaluation["results"], stored["models"], stored["confidence"], stored["correct"], strict=True
    ):
        answered = ~np.isnan(confidence) & (confidence <= 1)
        assert result["input"] == name
        assert result["metrics"]["accuracy"]["value"] == correct[answered].mean()
        assert result["verdict"]["status"] == "miscalibrated"
        assert len(result["groups"]) % 14 == 0
    assert (tmp_path / "out" / "report.html").exists()
    assert run_here("demo", "llms").err.startswith("calibrant: demo: expected 'digits' or 'llm'")


def test_slice_is_small_and_has_its_licence():
    assert (FOLDER / "mmlu_pro.npz").stat().st_size <= 400_000
    assert "MIT License" in (FOLDER / "mmlu_pro_LICENSE.txt").read_text()
