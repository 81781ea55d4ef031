"""The experiment, step by step: networks, predictions, checks, table, figures, page. Each step is a file.

What a step needs is asked for when its file is not there: with checks at hand nothing is predicted, with predictions
nothing is trained. Hence networks may be trained on one machine, and judged and drawn on another.

    plan.json                             all settings
    checkpoints/                          while networks are trained
    seed-0/deep_ensemble.safetensors      networks
    seed-0/deep_ensemble-in.npz           their predictions (in, out; along: to be drawn)
    seed-0/deep_ensemble-in.json          what `calibrant check` finds in them
    table1.json, table1.md                the table beside the paper's
    figures/figure-3.svg, …, report.html  with the extra `report`
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.bench.folder import experiment, refuse_other, write_text
from calibrant.bench.gopal.data import ALONG
from calibrant.bench.gopal.models import predicted, trained
from calibrant.bench.gopal.plan import STATISTIC, Plan
from calibrant.bench.gopal.readings import MODELS, SETS
from calibrant.bench.recipes import Progress
from calibrant.predictions.files.reading import read
from calibrant.predictions.files.writing import write
from calibrant.predictions.regression import Regression
from calibrant.training.needed import need_torch

if TYPE_CHECKING:
    from calibrant.bench.gopal.table import Table1
    from calibrant.evaluation.result import Evaluation
    from calibrant.methods import Posterior

Key = tuple[int, str, str]
"""Seed, model, set."""
FIGURES, FORMS = ("3", "4", "5", "10"), ("svg", "png", "csv")
"""Figures of the paper that are drawn, and the files of each."""


@dataclass(frozen=True)
class Steps:
    """The steps of a plan in a folder."""

    folder: Path
    plan: Plan
    device: str = "auto"
    progress: Progress | None = None

    def keys(self, *sets: str) -> Iterator[Key]:
        """All that there is of some sets."""
        return ((seed, model, where) for model in MODELS for seed in range(self.plan.seeds) for where in sets)

    def file(self, seed: int, model: str, where: str = "", suffix: str = ".safetensors") -> Path:
        """The file of a step."""
        return self.folder / f"seed-{seed}" / f"{model}{f'-{where}' if where else ''}{suffix}"

    def tell(self, what: str, done: float, total: float) -> None:
        """Say what is being done."""
        if self.progress is not None:
            self.progress(what, done, total)

    @property
    def figures(self) -> list[Path]:
        """The files of all figures."""
        return [self.folder / "figures" / f"figure-{number}.{form}" for number in FIGURES for form in FORMS]

    # --------------------------------------------------------------------------------------- the steps
    def need_networks(self, drawn: bool) -> bool:
        """Whether something is to be trained or predicted; drawn: whether figures can be drawn."""
        missing = [key for key in self.keys(*SETS) if not self.file(*key, suffix=".json").exists()]
        if drawn and not all(path.exists() for path in self.figures):
            missing += [(0, model, ALONG) for model in MODELS]
        return any(not self.file(*key, suffix=".npz").exists() for key in missing)

    def posterior(self, seed: int, model: str) -> Posterior:
        """What was trained; all seeds of a model are trained together, from where it was left."""
        from calibrant.methods import load

        path = self.file(seed, model)
        if not path.exists():
            place = self.folder / "checkpoints" / model
            made = trained(self.plan, model, device=self.device, progress=self.progress, checkpoint=place)
            for number, posterior in enumerate(made):
                if not self.file(number, model).exists():
                    self.file(number, model).parent.mkdir(exist_ok=True)
                    posterior.save(self.file(number, model))
            shutil.rmtree(place, ignore_errors=True)
        return load(path)

    def predictions(self, seed: int, model: str, where: str) -> Regression:
        """A Gaussian of each member for each row."""
        path = self.file(seed, model, where, ".npz")
        if not path.exists():
            self.tell(f"predicting, {MODELS[model]}", seed, self.plan.seeds)
            made = predicted(self.plan, self.posterior(seed, model), where, seed, model=model, device=self.device)
            write(made, path)
        found = read(path).named(f"seed {seed}, {MODELS[model]}, {SETS.get(where, where)}")
        if not isinstance(found, Regression):
            raise _unlike(path)
        return found

    def checks(self, seed: int, model: str, where: str) -> Evaluation:
        """What `calibrant check` finds, by both readings."""
        from calibrant.checks.check import RANGE
        from calibrant.evaluation.check import check
        from calibrant.evaluation.result import Evaluation

        path = self.file(seed, model, where, ".json")
        if not path.exists():
            check(
                self.predictions(seed, model, where), STATISTIC, draws=self.plan.draws, members="both", rule=RANGE,
                seed=self.plan.check_seed,
            ).save(path)  # fmt: skip
        return Evaluation.load(path)

    def judged(self) -> dict[Key, Evaluation]:
        """The checks of all."""
        found: dict[Key, Evaluation] = {}
        every = list(self.keys(*SETS))
        for place, key in enumerate(every):
            self.tell("checking", place, len(every))
            found[key] = self.checks(*key)
        return found

    def along(self) -> dict[str, Regression]:
        """What is drawn: predictions along the grid, of the first seed."""
        return {model: self.predictions(0, model, ALONG) for model in MODELS}

    def tidy(self) -> None:
        """Take away what training goes on from: it is done."""
        shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)


def _unlike(path: Path) -> Exception:
    from calibrant.errors import FileError

    return FileError(
        str(path), expected="predictions of numbers", came="it holds others", do="delete it, and run the command again"
    )


# ------------------------------------------------------------------------------------------------ the whole
def train(
    out: str | Path,
    *,
    seeds: int = 3,
    quick: bool = False,
    plan: Plan | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> list[Path]:
    """Train the networks of table 1 and nothing else, for a machine that is there to train: plan.json and networks.

    `table1` of the same settings goes on from this folder, or from a copy of it elsewhere.
    """
    need_torch("calibrant.bench.gopal.train")
    steps = Steps(Path(out), plan or Plan.of(seeds, quick=quick), device, progress)
    with experiment(steps.folder, steps.plan.to_json()):
        for model in MODELS:
            for seed in range(steps.plan.seeds):
                steps.posterior(seed, model)
        steps.tidy()
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
    """Table 1 of Gopal (2021) beside ours, and figures 3, 4, 5 and 10, in the folder `out`.

    quick: fewer networks, rows and epochs, for a run of a minute; the results say so. plan: other settings, instead of
    seeds and quick. What is finished in the folder is not done again, and a run that was killed goes on from its last
    epoch. Needs the extra `torch` where something is to be trained, and `report` for figures and page.
    """
    from calibrant.bench.gopal.table import Table1
    from calibrant.demo import lacking

    steps = Steps(Path(out), plan or Plan.of(seeds, quick=quick), device, progress)
    lacks = lacking()
    refuse_other(steps.folder, steps.plan.to_json())
    trains = steps.need_networks(drawn=not lacks)
    if trains:
        need_torch("calibrant reproduce gopal table1")
    with experiment(steps.folder, steps.plan.to_json()):
        if trains:  # what is drawn is predicted here too, for a machine that can draw
            steps.along()
        found = steps.judged()
        table = Table1.of(steps.plan, found)
        files = [
            write_text(steps.folder / "table1.json", table.dumps() + "\n"),
            write_text(steps.folder / "table1.md", table.markdown()),
        ]
        if not lacks:
            files += _shown(steps, table, list(found.values()))
        steps.tidy()
    return replace(table, files=tuple(files), lacks=lacks)


def _shown(steps: Steps, table: Table1, found: list[Evaluation]) -> list[Path]:
    """Figures and page, where they are not there yet."""
    from calibrant.bench.gopal.figures import draw_figures
    from calibrant.reporting.report import report

    page = steps.folder / "report.html"
    if not all(path.exists() for path in steps.figures):
        draw_figures(table, steps.along(), steps.figures[0].parent, steps.progress)
    if not page.exists():
        steps.tell("writing the page", 0, 1)
        report(found, page, title=table.title)
    return [*(path for path in steps.figures if path.suffix == ".svg"), page]
