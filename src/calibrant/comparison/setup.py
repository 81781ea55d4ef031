"""What a comparison consists of, as the pitfall guard looks at it, and the table of pitfalls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from calibrant.comparison.alignment import Matched, aligned, matched
from calibrant.comparison.result import Comparison
from calibrant.predictions import InMemory
from calibrant.predictions.base import Note
from calibrant.registry import Metric, metrics

CALIBRATED = ("cll", "brier_ts")
"""Scores at the best temperature."""


class Pitfall(NamedTuple):
    """A way in which comparisons go wrong."""

    title: str
    explanation: str
    reference: str


ASHUKHA = "Ashukha et al. (2020), ICLR 8"
PITFALLS: dict[str, Pitfall] = {
    "biased-errors": Pitfall(
        "Comparing by biased calibration errors",
        "Plug-in errors such as ECE and TACE are biased by an amount that differs between models, and their order "
        "turns with bins and threshold. Compare by calibrated log-likelihood (cll); test each model alone.",
        f"{ASHUKHA}, section 2.5 and figure 7; Nixon et al. (2019); Gruber & Buettner (2022), NeurIPS 35",
    ),
    "misclassification-auc": Pitfall(
        "Comparing by misclassification AUROC or AUPR",
        "Every model has wrong rows of its own, and so a detection problem of its own. Compare by AURC, whose curve "
        "rejects by share, or by proper scores; AUROC of inside against outside rows may be compared.",
        f"{ASHUKHA}, section 2.3",
    ),
    "confidence-thresholds": Pitfall(
        "Comparing at confidence thresholds",
        "At one threshold models of different temperatures leave different shares of rows. Reject by share instead: "
        "the rejection curve, aurc, aac.",
        f"{ASHUKHA}, section 2.4",
    ),
    "uncalibrated-likelihood": Pitfall(
        "Comparing by likelihood before temperature",
        "NLL and Brier score mix how good a model is with how well its temperature happens to be set. Rank by cll, the "
        "log-likelihood at the best temperature, and show the others beside it.",
        f"{ASHUKHA}, sections 2.1 and 2.2, table 1",
    ),
    "spread-alone": Pitfall(
        "Comparing by width or sharpness alone",
        "Narrow intervals are good only where they cover. Compare by crps, nll or interval_score, or among models that "
        "cover alike.",
        "Gneiting, Balabdaoui & Raftery (2007), J. R. Statist. Soc. B 69: 243-268",
    ),
    "no-direction": Pitfall(
        "Ranking by what has no better end",
        "Neither high nor low is good in itself. Rank by a score that has a direction.",
        "Gneiting & Raftery (2007), JASA 102: 359-378",
    ),
    "different-rows": Pitfall(
        "Different rows",
        "A difference between test sets looks like one between models. Evaluate all models on the same rows, with ids.",
        f"{ASHUKHA}, section 2.6",
    ),
    "different-classes": Pitfall(
        "Different classes",
        "Fewer classes are easier: likelihoods of different sets of classes are not of one problem. Give all models "
        "the same classes.",
        "Gneiting & Raftery (2007), JASA 102: 359-378",
    ),
    "different-labels": Pitfall(
        "Different labels", "The same row has other labels for other models. Find out which are right.",
        f"{ASHUKHA}, section 2.6",
    ),
    "same-rows-twice": Pitfall(
        "The same rows in two data sets",
        "Data sets count as independent: rows that are in two of them count twice, and the interval of the mean over "
        "data sets is too narrow. Leave one out, or compare them as shifts of one set.",
        "Demšar (2006), JMLR 7: 1-30",
    ),
    "own-answers": Pitfall(
        "Every model judged on its own answers",
        "A proper score of a confidence rewards knowing that the answer is wrong, not being right: a model that is "
        "always wrong and says so has the best one. Compare accuracy and aurc, or confidences of the same answers.",
        f"{ASHUKHA}, section 2.3",
    ),
    "different-members": Pitfall(
        "Different numbers of members",
        "More members are better whatever the method. Compare as many of each, curves over their number (cll_curve), "
        "or deep-ensemble equivalents.",
        f"{ASHUKHA}, section 3.1 and figure 2",
    ),
    "pool-overlap": Pitfall(
        "Members that are part of the pool",
        "An equivalent counted in a pool that holds the model's own members is no independent measure. Leave them out.",
        f"{ASHUKHA}, section 3.1",
    ),
    "pool-of-one": Pitfall(
        "A pool of one member",
        "An equivalent counts members of the pool: where there is one, it tells only whether a model is below or above "
        "it. Give several independently trained members.",
        f"{ASHUKHA}, section 3.1",
    ),
    "identical-models": Pitfall(
        "One model under two names",
        "Two models predict the same in every row, mostly since a file was given or written twice.",
        "Bouthillier et al. (2021), MLSys 3: 747-769",
    ),
    "averaged-logits": Pitfall(
        "Averaged logits instead of averaged probabilities",
        "The prediction of an ensemble is the mean of its members' probabilities; the softmax of mean logits is "
        "another (geometric) mean, and sharper. Pass the members and let them be averaged.",
        "Lakshminarayanan, Pritzel & Blundell (2017), NeurIPS 30; Ashukha et al. (2020), equation 3",
    ),
    "scored-on-fitted-rows": Pitfall(
        "Scored on rows that a map was fitted on",
        "A temperature, or any map, looks too good on its own rows. Fit on other rows, or cross-fit.",
        f"{ASHUKHA}, section 2.6",
    ),
    "uneven-recalibration": Pitfall(
        "Some models recalibrated, others not",
        "What is measured is the recalibration. Recalibrate all of them in the same way, or rank by cll.",
        f"{ASHUKHA}, section 2.1 and figure 1",
    ),
    "too-small": Pitfall(
        "A test set too small to tell",
        "The best two do not differ beyond chance. Say so, or evaluate more rows.",
        "Card et al. (2020), EMNLP: 9263-9274",
    ),
    "too-few-units": Pitfall(
        "Too few units for any pair",
        "Signs of m units can be flipped in 2^m ways, so that no p-value is below 2/2^m; corrected for many pairs it "
        "may never be small enough. Name a baseline, compare fewer models, or take more units.",
        "Ernst (2004), Statist. Sci. 19: 676-685; Holm (1979), Scandinavian Journal of Statistics 6: 65-70",
    ),
    "different-units": Pitfall(
        "Units that differ between models",
        "Units belong to rows: which rows depend on each other is the same for all models. Give all of "
        "them one column.",
        "Davison & Hinkley (1997), Bootstrap Methods, section 3.8; Miller (2024), arXiv 2411.00640",
    ),
    "dependent-rows": Pitfall(
        "Dependent rows treated as independent",
        "Rows of one patient, prompt or image are not so many observations: intervals are too narrow. Name the column "
        "as units, and rows are resampled by it.",
        "Davison & Hinkley (1997), Bootstrap Methods, section 3.8; Miller (2024), arXiv 2411.00640",
    ),
    "single-seed": Pitfall(
        "One training run of each method",
        "Intervals are over test rows: they tell networks apart, not methods. Train each method from several seeds.",
        "Bouthillier et al. (2021), MLSys 3: 747-769",
    ),
}  # fmt: skip
"""By code, which is stable."""


def note(code: str, message: str) -> Note:
    """One line that says what is wrong and what to do, with the reference of the pitfall."""
    return Note(code, message, PITFALLS[code].reference)


@dataclass(frozen=True)
class Setup:
    """A comparison as it is set up; results where there are some."""

    models: Mapping[str, InMemory] = field(default_factory=dict)
    scores: tuple[str, ...] = ()
    """Spec strings, cll and brier_ts, that models are compared by."""
    rank_by: str = ""
    units: str | None = None
    shift: tuple[str, str] | None = None
    """The columns of type and severity, where rows are those of a shift."""
    pool: str | None = None
    """The name of the pool; its predictions are among the models, or `pool_predictions`."""
    clean: Mapping[str, InMemory] | None = None
    comparison: Comparison | None = None
    curves: tuple[str, ...] = ()
    """Names of curves that models are compared by, as in `Result.curves`."""
    pool_predictions: InMemory | None = None
    members: Mapping[str, int] = field(default_factory=dict)
    """Of models whose predictions are not at hand: how many members each has."""
    task: str = ""
    """Where predictions are not at hand."""

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of members by model."""
        return {name: model.members for name, model in self.models.items()} or dict(self.members)

    @cached_property
    def kind(self) -> str:
        """classification, judged or regression."""
        return next((model.task for model in self.models.values()), self.task)

    @property
    def several(self) -> bool:
        """Whether there is anything to compare."""
        return len(self.counts) > 1

    @cached_property
    def compared(self) -> dict[str, Metric | None]:
        """What models are compared by: the facts of each metric, None of a score at the best temperature."""
        names = dict.fromkeys(filter(None, (*self.scores, self.rank_by)))
        return {text: metrics().get(text.partition("(")[0].strip()) for text in names}

    @cached_property
    def everyone(self) -> dict[str, InMemory]:
        """The models, and the pool where it stands apart."""
        if self.pool is None or self.pool_predictions is None or self.pool in self.models:
            return dict(self.models)
        return {**self.models, self.pool: self.pool_predictions}

    @cached_property
    def matched(self) -> Matched:
        """Which rows are the same."""
        return matched(self.everyone)

    @cached_property
    def together(self) -> dict[str, InMemory]:
        """Everyone's common rows in one order; nothing where they cannot be matched."""
        return {} if self.matched.error is not None else aligned(self.everyone)[0]
