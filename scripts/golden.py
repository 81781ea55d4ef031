"""Golden files: the JSON of about forty commands, to show that a refactoring changes no number.

    python scripts/golden.py write OUT [NAME...]      run the commands (all or those named) and write one file each
    python scripts/golden.py compare A B [--subset]   list every path whose value differs between two such folders;
                                                      --subset: only the files that B has

The commands cover every verb and every kind of prediction, groups, shift, members, streams and shards. Version numbers,
warnings and prose (reasons, titles, sentences) are removed first: the numbers are the contract, the words are not.
A command that fails is reported, the others still run, and the exit code is 1.
Golden files are not stored in the repository: write them before a change and after it, list what differs and say why.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

PROSE = frozenset(
    {"schema", "kind", "version", "warnings", "reading", "title", "titles", "label", "text", "message", "note", "notes",
     "reference", "verdict", "means", "words", "why", "reason", "said", "answer", "headline", "pitfalls",
     "zero_means", "zero_does_not_mean"}
)  # fmt: skip
"""Keys that are dropped unless they hold a number; `skipped` keeps its keys and loses its values."""
DEMO = Path(__file__).resolve().parents[1] / "src" / "calibrant" / "demo_data"

COMMANDS: dict[str, str] = {
    "evaluate-logits": "evaluate classes.npz",
    "evaluate-all": "evaluate small.npz -m all",
    "evaluate-members": "evaluate members.npz --resamples 200",
    "evaluate-probs-groups": "evaluate probs.npz --by site --by age:4",
    "evaluate-units": "evaluate probs.npz --units patient",
    "evaluate-weights": "evaluate weighted.npz -m default,tce,sweep_ece",
    "evaluate-soft": "evaluate soft.npz --soft",
    "evaluate-unlabelled": "evaluate unlabelled.npz",
    "evaluate-binary": "evaluate binary.npz",
    "evaluate-binary-table": "evaluate binary.csv --prob p --labels answer",
    "evaluate-judged": "evaluate judged.npz --by site",
    "evaluate-judged-members": "evaluate judged_members.npz",
    "evaluate-gaussian": "evaluate gaussian.npz --by site",
    "evaluate-gaussian-members": "evaluate gaussian_members.npz --along x",
    "evaluate-samples": "evaluate samples.npz",
    "evaluate-quantiles": "evaluate quantiles.npz",
    "evaluate-stream": "evaluate members.npz --blocks --resamples 200",
    "evaluate-shards": "evaluate shards --resamples 200",
    "evaluate-folder": "evaluate folder --blocks -m nll,ece,brier,auroc",
    "evaluate-table": "evaluate table.csv --probs p_* --labels label --by site",
    "evaluate-shift": "evaluate {demo}/digits_shifted.npz --shift --resamples 100 -m accuracy,nll,brier,ece",
    "evaluate-hierarchy": "evaluate classes.npz --ladder",
    "evaluate-sizes": "evaluate classes.npz calibrated.npz --at 100,300 --repeats 20 --pairs -m ece,rbs,nll",
    "evaluate-two-inputs": "evaluate classes.npz members.npz -m nll,ece --by site",
    "check-members": "check members.npz --by site",
    "check-exact": "check classes.npz --draws exact",
    "check-binary": "check binary.npz -s accuracy,ece,brier,nll",
    "check-judged": "check judged.npz",
    "check-gaussian": "check gaussian_members.npz",
    "check-samples": "check samples.npz --draws 300",
    "check-temperatures": "check members.npz --temperatures 0.3 --members both --rule range",
    "check-shift": "check {demo}/digits_shifted.npz --shift --draws 100",
    "compare-models": "compare a=classes.npz b=calibrated.npz c=members.npz --flips --resamples 300",
    "compare-pool": "compare a=classes.npz pool=members.npz --pool pool --draws 3 --resamples 300",
    "compare-datasets": "compare one/a=classes.npz one/b=calibrated.npz two/a=small.npz two/b=small_calibrated.npz"
    " --resamples 300",
    "compare-regression": "compare a=gaussian.npz b=gaussian_wide.npz --resamples 300",
    "compare-shift": "compare a={demo}/digits_shifted.npz b={demo}/digits_shifted.npz::member=0"
    " --shift --resamples 100",
    "recalibrate-temperature": "recalibrate --fit validation.npz --apply classes.npz --method temperature",
    "recalibrate-ets": "recalibrate --fit validation.npz --apply classes.npz --method ets(loss=brier) -m nll,ece",
    "recalibrate-isotonic": "recalibrate --fit validation.npz --apply classes.npz --method isotonic -m brier,ece",
    "recalibrate-auto": "recalibrate --fit validation.npz --method auto --candidates temperature,vector -m nll,ece",
    "recalibrate-members": "recalibrate --fit members.npz --method member_temperatures -m nll,ece",
    "recalibrate-variance": "recalibrate --fit gaussian.npz --apply gaussian_wide.npz --method variance",
    "conformal-classes": "conformal --fit validation.npz --apply classes.npz --method raps",
    "conformal-intervals": "conformal --fit quantiles.npz --apply quantiles.npz --method cqr --level 0.8",
    "detect": "detect --inside {demo}/digits_test.npz --outside {demo}/digits_glyphs.npz --resamples 200",
    "monitor": "monitor classes.npz calibrated.npz",
    "gate": "gate {out}/evaluate-logits.raw.json --require ece<0.5 --fail-on nll>9",
}


def write_inputs(folder: Path) -> None:
    """Predictions of every kind, from fixed seeds; nothing here depends on the code under test."""
    rng = np.random.default_rng(20)
    n, classes = 1200, 5
    truth = rng.normal(size=(n, classes)) * 1.5
    p = np.exp(truth) / np.exp(truth).sum(1, keepdims=True)
    labels = (p.cumsum(1) > rng.random((n, 1))).argmax(1)
    columns = {
        "site": rng.integers(0, 3, n),
        "age": rng.normal(50, 10, n),
        "patient": np.sort(rng.integers(0, n // 4, n)),
    }
    logits = (truth * 1.7 + rng.normal(size=(n, classes)) * 0.2).astype(np.float32)
    members = (truth * 1.4 + rng.normal(size=(4, n, classes))).astype(np.float32)

    def save(name: str, **arrays: Any) -> None:
        np.savez(folder / f"{name}.npz", **arrays)

    save("classes", logits=logits, labels=labels, **columns)
    save("calibrated", logits=truth, labels=labels, **columns)
    save("members", logits=members, labels=labels, **columns)
    save("probs", probs=p, labels=labels, classes=np.array(list("abcde")), **columns)
    save("weighted", probs=p, labels=labels, weights=rng.integers(0, 4, n).astype(float))
    save("soft", logits=logits, label_probs=p, labels=labels)
    save("unlabelled", logits=members)
    save("small", logits=logits[:300], labels=labels[:300])
    save("small_calibrated", logits=truth[:300], labels=labels[:300])
    other = rng.normal(size=(900, classes)) * 1.5
    q = np.exp(other) / np.exp(other).sum(1, keepdims=True)
    save("validation", logits=(other * 1.7).astype(np.float32), labels=(q.cumsum(1) > rng.random((900, 1))).argmax(1))

    risk = rng.beta(0.6, 3.0, 1500)
    came = (rng.random(1500) < risk).astype(np.int64)
    save("binary", probs=np.clip(risk * 1.3, 0, 1), labels=came)
    save("judged", confidence=np.clip(risk + 0.3, 0, 1), correct=came, site=rng.integers(0, 4, 1500))
    save("judged_members", confidence=np.clip(risk + rng.normal(0, 0.05, (3, 1500)), 0.001, 0.999), correct=came)
    with (folder / "binary.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["p", "answer"])
        rows.writerows(zip(risk.round(6).tolist(), came.tolist(), strict=True))
    with (folder / "table.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow([*(f"p_{c}" for c in "abcde"), "label", "site"])
        rows.writerows(
            [*(f"{v:.17g}" for v in row), "abcde"[label], site]
            for row, label, site in zip(p, labels, columns["site"], strict=True)
        )

    x = rng.normal(size=n)
    spread = 0.4 + 0.3 * np.abs(x)
    y = np.sin(x) + spread * rng.normal(size=n)
    save("gaussian", mean=np.sin(x), std=spread * 0.8, y=y, x=x, site=columns["site"])
    save("gaussian_wide", mean=np.sin(x) + 0.05, std=spread * 1.2, y=y, x=x)
    means = np.sin(x) + rng.normal(0, 0.2, (4, n))
    save("gaussian_members", mean=means, std=np.broadcast_to(spread, (4, n)).copy(), y=y, x=x, site=columns["site"])
    save("samples", samples=np.sin(x) + spread * rng.normal(size=(40, n)), y=y)
    levels = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
    normal = np.array([-1.6448536269514722, -1.2815515655446004, -0.6744897501960817, 0, 0.6744897501960817,
                       1.2815515655446004, 1.6448536269514722])  # fmt: skip
    save("quantiles", quantiles=np.sin(x)[:, None] + 0.9 * spread[:, None] * normal, levels=levels, y=y)

    (folder / "shards").mkdir()
    for part, rows_of_part in enumerate(np.array_split(np.arange(n), 3)):
        np.savez(folder / "shards" / f"part-{part}.npz", logits=members[:, rows_of_part], labels=labels[rows_of_part])
    (folder / "folder").mkdir()
    np.save(folder / "folder" / "logits.npy", logits)
    np.save(folder / "folder" / "labels.npy", labels)


def normalise(value: Any, key: str = "") -> Any:
    """The value without prose; of skipped metrics only their names are left."""
    if isinstance(value, dict):
        if key in ("skipped", "curves_skipped"):
            return sorted(value)
        return {
            name: normalise(item, name)
            for name, item in value.items()
            if name not in PROSE or (isinstance(item, int | float) and name not in ("schema", "version"))
        }
    return [normalise(item) for item in value] if isinstance(value, list) else value


def write(out: Path, names: list[str]) -> int:
    """Run the commands and write their results; 1 where a command fails."""
    if unknown := set(names) - set(COMMANDS):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; one of {', '.join(COMMANDS)}")
    out.mkdir(parents=True, exist_ok=True)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_inputs(work)
        for name, line in COMMANDS.items():
            if names and name not in names:
                continue
            raw = work / f"{name}.raw.json"
            words = [word.format(demo=DEMO, out=work) for word in line.split()]
            command = [sys.executable, "-m", "calibrant", *words, "--json", str(raw), "--quiet"]
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
            if done.returncode not in (0, 1) or not raw.exists():
                failed.append(name)
                print(f"{name}: exit code {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
                continue
            text = json.dumps(normalise(json.loads(raw.read_text())), indent=1, sort_keys=True)
            (out / f"{name}.json").write_text(text + "\n")
            print(name, len(text))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def differences(first: Any, second: Any, path: str = "") -> list[str]:
    """Where two values differ."""
    if type(first) is type(second) and isinstance(first, dict):
        keys = sorted({*first, *second})
        lost = [f"{path}/{k}: only in one" for k in keys if (k in first) != (k in second)]
        both = [k for k in keys if k in first and k in second]
        return lost + [line for k in both for line in differences(first[k], second[k], f"{path}/{k}")]
    if type(first) is type(second) and isinstance(first, list) and len(first) == len(second):
        pairs = enumerate(zip(first, second, strict=True))
        return [line for k, (a, b) in pairs for line in differences(a, b, f"{path}/{k}")]
    return [] if first == second else [f"{path}: {str(first)[:80]} -> {str(second)[:80]}"]


def compare(first: Path, second: Path, subset: bool = False) -> int:
    """Print every difference; 0 where there is none."""
    names = sorted(
        {path.name for folder in ((second,) if subset else (first, second)) for path in folder.glob("*.json")}
    )
    bad = 0
    for name in names:
        if not ((first / name).exists() and (second / name).exists()):
            print(f"{name}: only in one folder")
            bad += 1
            continue
        one, other = (normalise(json.loads((folder / name).read_text())) for folder in (first, second))
        if one != other:
            bad += 1
            for line in differences(one, other):
                print(f"{name}{line}")
    print(f"{len(names) - bad} of {len(names)} files identical")
    return 1 if bad else 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", folder, *names]:
            sys.exit(write(Path(folder), names))
        case ["compare", one, other]:
            sys.exit(compare(Path(one), Path(other)))
        case ["compare", one, other, "--subset"]:
            sys.exit(compare(Path(one), Path(other), subset=True))
        case _:
            sys.exit(__doc__)
