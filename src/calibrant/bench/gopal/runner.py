"""The experiment, step by step: networks, predictions, checks, table, figures, report. Each step is a file.

A step computes its inputs only if its file does not exist: existing checks need no predictions, and existing
predictions need no training. Networks can therefore be trained on one machine and evaluated on another.

    plan.json                             all settings
    checkpoints/                          while networks are trained
    seed-0/deep_ensemble.safetensors      networks
    seed-0/deep_ensemble-in.npz           predictions (in, out; along: for figures)
    seed-0/deep_ensemble-in.json          results of `calibrant check`
    table1.json, table1.md                our table and the paper's
    figures/figure-3.svg, …, report.html  with the extra `report`

All seeds of a model, an ensemble of conditional Gaussians or one network with dropout, are trained as one computation.
PyTorch is loaded when networks are needed.

References: Gopal (2021), appendix F; Lakshminarayanan et al. (2017); Gal & Ghahramani (2016).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.bench.folder import experiment, refuse_other, write_text
from calibrant.bench.gopal.data import ALONG, GRID, IN, TRAIN, draw
from calibrant.bench.gopal.paper import ENSEMBLE, MODELS, SETS
from calibrant.bench.gopal.plan import STATISTIC, Plan
from calibrant.bench.papers import Progress
from calibrant.errors import FileError
from calibrant.predictions.files.read import read
from calibrant.predictions.files.write import write
from calibrant.predictions.regression import Regression
from calibrant.training.needed import require_torch

if TYPE_CHECKING:
    from calibrant.bench.gopal.table import Table1
    from calibrant.methods import Method, Posterior
    from calibrant.results.evaluation import Evaluation

Key = tuple[int, str, str]
"""Seed, model, set."""
FIGURES, FORMS = ("3", "4", "5", "10"), ("svg", "png", "csv")
"""The reproduced figures of the paper, and their formats."""


# ---------------------------------------------------------------------------------------------- the models
def train_posteriors(
    plan: Plan, model: str, *, device: str = "auto", progress: Progress | None = None, checkpoint: Path | None = None
) -> list[Posterior]:
    """Train the posterior of each seed. checkpoint: a folder from which interrupted training resumes."""
    from calibrant.methods import Cell, Task, fit_together
    from calibrant.networks import MLP

    parts = [draw(seed, TRAIN, plan.rows) for seed in range(plan.seeds)]
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
    every = Task.regression(as_rows(x), y, name="gopal-table1")
    tasks = [every.with_rows(np.arange(seed * plan.rows, (seed + 1) * plan.rows)) for seed in range(plan.seeds)]
    method, network = method_of(plan, model), MLP(1, 2, plan.hidden, plan.activation)
    cells = [Cell(method, task, network, seed) for seed, task in enumerate(tasks)]
    return fit_together(cells, device=device, progress=progress, checkpoint=checkpoint)


def method_of(plan: Plan, model: str) -> Method:
    """The method of a model: Adam with a halving learning rate, no weight decay."""
    from calibrant.methods import DeepEnsemble, MCDropout, Training
    from calibrant.training.schedules import Halving

    training = Training(
        epochs=plan.epochs, batch=plan.batch, optimiser="adam", rate=plan.rate, decay=0.0,
        schedule=Halving(plan.halved_every), clip=plan.clip,
    )  # fmt: skip
    if model == ENSEMBLE:
        return DeepEnsemble(training, members=plan.members)
    return MCDropout(training, p=plan.dropout, where="dense")


def predict(plan: Plan, posterior: Any, purpose: str, seed: int, *, model: str, device: str = "auto") -> Regression:
    """One Gaussian per member for the rows of a purpose, or along the grid without outcomes."""
    x, y = (GRID, None) if purpose == ALONG else rows_of(plan, purpose, seed)
    count = plan.members if model == ENSEMBLE else plan.masks
    predictions: Regression = posterior.predict(as_rows(x), count, y=y, device=device, columns={"x": x})
    return predictions


def rows_of(plan: Plan, purpose: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """x and y of the checks."""
    rows = draw(seed, purpose, plan.rows_in if purpose == IN else plan.rows_out)
    return rows.x, rows.y


def as_rows(x: np.ndarray) -> np.ndarray:
    """x (n,) as network inputs (n, 1)."""
    return x[:, None].astype(np.float32)


# ------------------------------------------------------------------------------------------------ the steps
@dataclass(frozen=True)
class Steps:
    """The steps of a plan in a folder."""

    folder: Path
    plan: Plan
    device: str = "auto"
    progress: Progress | None = None

    def keys(self, *sets: str) -> Iterator[Key]:
        """Every seed and model, for the given sets."""
        return ((seed, model, where) for model in MODELS for seed in range(self.plan.seeds) for where in sets)

    def file(self, seed: int, model: str, where: str = "", suffix: str = ".safetensors") -> Path:
        """The file of a step."""
        return self.folder / f"seed-{seed}" / f"{model}{f'-{where}' if where else ''}{suffix}"

    def report(self, what: str, done: float, total: float) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(what, done, total)

    @property
    def figures(self) -> list[Path]:
        """The files of all figures."""
        return [self.folder / "figures" / f"figure-{number}.{form}" for number in FIGURES for form in FORMS]

    def need_networks(self, drawn: bool) -> bool:
        """Whether predictions are missing, so that networks are needed; drawn: whether figures can be drawn."""
        missing = [key for key in self.keys(*SETS) if not self.file(*key, suffix=".json").exists()]
        if drawn and not all(path.exists() for path in self.figures):
            missing += [(0, model, ALONG) for model in MODELS]
        return any(not self.file(*key, suffix=".npz").exists() for key in missing)

    def posterior(self, seed: int, model: str) -> Posterior:
        """A trained network. All seeds of a model are trained together; interrupted training resumes."""
        from calibrant.methods import load

        path = self.file(seed, model)
        if not path.exists():
            place = self.folder / "checkpoints" / model
            posteriors = train_posteriors(
                self.plan, model, device=self.device, progress=self.progress, checkpoint=place
            )
            for number, posterior in enumerate(posteriors):
                if not self.file(number, model).exists():
                    self.file(number, model).parent.mkdir(exist_ok=True)
                    posterior.save(self.file(number, model))
            shutil.rmtree(place, ignore_errors=True)
        return load(path)

    def predictions(self, seed: int, model: str, where: str) -> Regression:
        """One Gaussian per member and row."""
        path = self.file(seed, model, where, ".npz")
        if not path.exists():
            self.report(f"predicting, {MODELS[model]}", seed, self.plan.seeds)
            posterior = self.posterior(seed, model)
            write(predict(self.plan, posterior, where, seed, model=model, device=self.device), path)
        predictions = read(path).named(f"seed {seed}, {MODELS[model]}, {SETS.get(where, where)}")
        if not isinstance(predictions, Regression):
            got, hint = f"{type(predictions).__name__}", "delete the file and run the command again"
            raise FileError(str(path), expected="regression predictions", got=got, hint=hint)
        return predictions

    def checks(self, seed: int, model: str, where: str) -> Evaluation:
        """The results of `calibrant check`, by both readings."""
        from calibrant.checks.api import check
        from calibrant.results.check import RANGE
        from calibrant.results.evaluation import Evaluation

        path = self.file(seed, model, where, ".json")
        if not path.exists():
            check(
                self.predictions(seed, model, where), STATISTIC, draws=self.plan.draws, members="both", rule=RANGE,
                seed=self.plan.check_seed,
            ).save(path)  # fmt: skip
        return Evaluation.load(path)

    def all_checks(self) -> dict[Key, Evaluation]:
        """The checks of every seed, model and set."""
        results: dict[Key, Evaluation] = {}
        keys = list(self.keys(*SETS))
        for done, key in enumerate(keys):
            self.report("checking", done, len(keys))
            results[key] = self.checks(*key)
        return results

    def along(self) -> dict[str, Regression]:
        """Predictions along the grid for the figures, of the first seed."""
        return {model: self.predictions(0, model, ALONG) for model in MODELS}

    def remove_checkpoints(self) -> None:
        """Delete the checkpoints of finished training."""
        shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)


# --------------------------------------------------------------------------------------------- entry points
def train(
    out: str | Path,
    *,
    seeds: int = 3,
    quick: bool = False,
    plan: Plan | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> list[Path]:
    """Only train the networks of table 1, for example on a machine with a GPU; writes plan.json and the networks.

    `table1` with the same settings continues from this folder, or from a copy of it on another machine.
    """
    require_torch("calibrant.bench.gopal.train")
    steps = Steps(Path(out), plan or Plan.of(seeds, quick=quick), device, progress)
    with experiment(steps.folder, steps.plan.to_json()):
        for model in MODELS:
            for seed in range(steps.plan.seeds):
                steps.posterior(seed, model)
        steps.remove_checkpoints()
    return [steps.file(seed, model) for model in MODELS for seed in range(steps.plan.seeds)]


def table1(
    out: str | Path = "calibrant-gopal-table1",
    *,
    seeds: int = 3,
    quick: bool = False,
    plan: Plan | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> Table1:
    """Reproduce table 1 and figures 3, 4, 5 and 10 of Gopal (2021) in the folder `out`.

    quick: fewer networks, rows and epochs, for a run of a minute; the results are marked. plan: other settings, instead
    of seeds and quick. Finished steps in the folder are reused, and an interrupted run resumes from its last epoch.
    Training needs the extra `torch`; figures and the report need `report`.
    """
    from calibrant.bench.gopal.table import Table1
    from calibrant.demo import missing_extra

    steps = Steps(Path(out), plan or Plan.of(seeds, quick=quick), device, progress)
    missing = missing_extra()
    refuse_other(steps.folder, steps.plan.to_json())
    trains = steps.need_networks(drawn=not missing)
    if trains:
        require_torch("calibrant reproduce gopal table1")
    with experiment(steps.folder, steps.plan.to_json()):
        if trains:  # even if figures cannot be drawn here: another machine may draw them
            steps.along()
        results = steps.all_checks()
        table = Table1.of(steps.plan, results)
        files = [
            write_text(steps.folder / "table1.json", table.dumps() + "\n"),
            write_text(steps.folder / "table1.md", table.markdown()),
        ]
        if not missing:
            from calibrant.bench.gopal.figures import draw_figures
            from calibrant.reporting.report import report

            page = steps.folder / "report.html"
            if not all(path.exists() for path in steps.figures):
                draw_figures(table, steps.along(), steps.figures[0].parent, progress)
            if not page.exists():
                steps.report("writing the report", 0, 1)
                report(list(results.values()), page, title=table.title)
            files += [*(path for path in steps.figures if path.suffix == ".svg"), page]
        steps.remove_checkpoints()
    return replace(table, files=tuple(files), missing_package=missing)
