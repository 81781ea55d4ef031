"""Write real evaluation logs with inspect_ai and lm-evaluation-harness and their mock models.

    python tests/predictions/write_logs.py OUT

needs an environment with `inspect_ai` and `lm-eval`. Both pin older releases of packages that other tests use, so they
are not in the test extra: make an environment of their own, and name its interpreter in CALIBRANT_LOG_TOOLS to run
`test_logs.py` with fresh logs. The files in `tests/predictions/logs` were written by this program. It prints the
accuracies that the tools report.
"""

import json
import os
import random
import sys
import zlib
from pathlib import Path

os.environ |= {"INSPECT_DISPLAY": "none", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
QUESTIONS = 10


def write_inspect(out: Path, name: str, epochs: int, seed: int, form: str) -> float:
    """Run one task with the mock model; returns the accuracy that the log reports."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer, stderr
    from inspect_ai.solver import generate

    draw = random.Random(seed)
    samples = [
        Sample(input=f"Question {i}?", target=str(i % 2), id=f"q{i}", metadata={"topic": "ab"[i % 2]})
        for i in range(QUESTIONS)
    ]
    outputs = []
    for _ in range(QUESTIONS * epochs):
        output = ModelOutput.from_content("mockllm/model", str(draw.randrange(2)))
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        outputs.append(output)

    @scorer(metrics=[accuracy(), stderr()], name="graded")
    def graded():  # type: ignore[no-untyped-def]
        async def score(state, target):  # type: ignore[no-untyped-def]
            right = state.output.completion.strip() == target.text
            confidence = round(0.5 + zlib.crc32(state.input_text.encode()) % 50 / 100, 3)
            value = CORRECT if right else INCORRECT
            return Score(value=value, answer=state.output.completion, metadata={"confidence": confidence})

        return score

    folder = out / name
    task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=graded(), epochs=epochs, name=name)
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = eval(task, model=model, log_dir=str(folder), log_format=form, display="none")
    (written,) = folder.glob(f"*.{form}")
    written.rename(out / f"{name}.{form}")
    folder.rmdir()
    return log.results.scores[0].metrics["accuracy"].value


def write_lm_eval(out: Path) -> dict[str, float]:
    """Run two small tasks with the dummy model; returns the accuracies that the tool reports."""
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    draw = random.Random(3)
    tasks = out / "tasks"
    tasks.mkdir(parents=True)
    choices = ["alpha", "be", "gamma ray", "delta é"]
    rows = [{"q": f"Question {i}?", "choices": choices, "gold": draw.randrange(4)} for i in range(QUESTIONS)]
    (tasks / "mc.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [{"q": f"Question {i}?", "a": "lo"[i % 2]} for i in range(QUESTIONS)]
    (tasks / "gen.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    metric = "  - {{metric: {}, aggregation: mean, higher_is_better: true}}\n"
    head = "task: toy_{}\ndataset_path: json\ndataset_kwargs:\n  data_files: {{test: {}}}\ntest_split: test\n"
    (tasks / "mc.yaml").write_text(
        head.format("mc", tasks / "mc.jsonl")
        + 'output_type: multiple_choice\ndoc_to_text: "{{q}}\\nAnswer:"\ndoc_to_choice: choices\ndoc_to_target: gold\n'
        + "metric_list:\n" + metric.format("acc") + metric.format("acc_norm")
    )  # fmt: skip
    (tasks / "gen.yaml").write_text(
        head.format("gen", tasks / "gen.jsonl")
        + 'output_type: generate_until\ndoc_to_text: "{{q}}"\ndoc_to_target: a\ngeneration_kwargs: {until: ["\\n"]}\n'
        + "filter_list:\n  - {name: whole, filter: [{function: take_first}]}\n"
        + '  - {name: first-letter, filter: [{function: regex, regex_pattern: "(l)"}, {function: take_first}]}\n'
        + "metric_list:\n" + metric.format("exact_match")
    )  # fmt: skip
    tracker = EvaluationTracker(output_path=str(out / "lm"))
    found = simple_evaluate(
        model="dummy", tasks=["toy_mc", "toy_gen"], log_samples=True, task_manager=TaskManager(include_path=str(tasks)),
        evaluation_tracker=tracker, bootstrap_iters=0,
    )  # fmt: skip
    samples = found.pop("samples")
    tracker.save_results_aggregated(results=found, samples=samples)
    for task, own in samples.items():
        tracker.save_results_samples(task_name=task, samples=own)
        (written,) = (out / "lm").rglob(f"samples_{task}_*.jsonl")
        written.rename(out / f"samples_{task}.jsonl")
    return {
        f"{task} {key}": value
        for task, values in found["results"].items()
        for key, value in values.items()
        if isinstance(value, float) and "stderr" not in key
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    reported = {
        "single.eval": write_inspect(folder, "single", 1, 0, "eval"),
        "epochs.eval": write_inspect(folder, "epochs", 3, 1, "eval"),
        "other.json": write_inspect(folder, "other", 1, 2, "json"),
    }
    sys.stdout.write(json.dumps(reported | write_lm_eval(folder)) + "\n")
