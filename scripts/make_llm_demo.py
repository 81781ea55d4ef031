"""Cut the slice of the 84-model file that ships inside the package (src/calibrant/demo_data/mmlu_pro.npz).

Six models on all 12,032 MMLU-Pro questions: the confidence that each model stated in numbers, as found (missing where
it stated none), whether its answer is right, and the category of the question. The source is MIT-licensed; the notice
is in src/calibrant/demo_data/mmlu_pro_LICENSE.txt.

    python scripts/make_llm_demo.py DATA_FOLDER
"""

import sys
from pathlib import Path

import numpy as np

MODELS = ("claude-3-7-sonnet-20250219", "gpt-4.1", "gpt-4o-2024-08-06", "Qwen2.5-7B-Instruct", "gemma-2-9b-it",
          "Meta-Llama-3.1-8B-Instruct-Turbo")  # fmt: skip
OUT = Path(__file__).parents[1] / "src" / "calibrant" / "demo_data" / "mmlu_pro.npz"

if __name__ == "__main__":
    whole = np.load(Path(sys.argv[1]) / "llm_logs" / "mmlu_pro_84_models.npz")
    rows = [whole["models"].tolist().index(name) for name in MODELS]
    np.savez_compressed(
        OUT, models=np.array(MODELS), confidence=whole["verbal_numerical"][rows], correct=whole["correct"][rows],
        category=whole["category"],
    )  # fmt: skip
    print(OUT, OUT.stat().st_size)
