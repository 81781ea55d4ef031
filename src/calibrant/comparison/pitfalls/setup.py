"""The table of pitfalls, and the setup of a comparison that they are searched in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from calibrant.comparison.alignment import Matched, aligned, matched
from calibrant.predictions import InMemory
from calibrant.predictions.base import Note
from calibrant.registry.lookup import metrics
from calibrant.registry.metric import Metric
from calibrant.results.comparison import Comparison


class Pitfall(NamedTuple):
    """A way in which comparisons go wrong: title, explanation with the remedy, and reference."""

    title: str
    explanation: str
    reference: str


ASHUKHA = "Ashukha et al. (2020), ICLR 8"
PITFALLS: dict[str, Pitfall] = {
    "biased-errors": Pitfall(
        "Comparing biased calibration errors",
        "Plug-in errors such as ECE and TACE have a bias that differs between models, and their ranking depends on "
        "bins and thresholds. Compare by calibrated log-likelihood (cll); use them to test each model by itself.",
        f"{ASHUKHA}, section 2.5 and figure 7; Nixon et al. (2019); Gruber & Buettner (2022), NeurIPS 35",
    ),
    "misclassification-auc": Pitfall(
        "Comparing misclassification AUROC or AUPR",
        "Every model makes different errors, so each one solves a different detection problem. Compare by AURC, whose "
        "curve fixes the coverage, or by proper scores. AUROC for OOD detection can be compared.",
        f"{ASHUKHA}, section 2.3",
    ),
    "confidence-thresholds": Pitfall(
        "Comparing at confidence thresholds",
        "At a fixed threshold, models with different temperatures retain different fractions of rows. Compare at "
        "fixed coverage instead: the rejection curve, aurc, aac.",
        f"{ASHUKHA}, section 2.4",
    ),
    "uncalibrated-likelihood": Pitfall(
        "Comparing likelihood before temperature scaling",
        "NLL and Brier score mix the quality of a model with how well its temperature happens to be set. Rank by cll, "
        "the log-likelihood at the best temperature, and report the others next to it.",
        f"{ASHUKHA}, sections 2.1 and 2.2, table 1",
    ),
    "spread-alone": Pitfall(
        "Comparing width or sharpness alone",
        "Narrow intervals are better only at equal coverage. Compare by crps, nll or interval_score, or compare models "
        "with the same coverage.",
        "Gneiting, Balabdaoui & Raftery (2007), J. R. Statist. Soc. B 69: 243-268",
    ),
    "no-direction": Pitfall(
        "Ranking by a metric without a direction",
        "Neither high nor low values are better. Rank by a score that has a direction.",
        "Gneiting & Raftery (2007), JASA 102: 359-378",
    ),
    "different-rows": Pitfall(
        "Different rows",
        "A difference between test sets looks like a difference between models. Evaluate all models on the same rows, "
        "with ids.",
        f"{ASHUKHA}, section 2.6",
    ),
    "different-classes": Pitfall(
        "Different classes",
        "Fewer classes are easier to predict, so likelihoods over different classes are not comparable. Give all "
        "models the same classes.",
        "Gneiting & Raftery (2007), JASA 102: 359-378",
    ),
    "different-labels": Pitfall(
        "Different labels",
        "The same row has different labels for different models. Find out which ones are correct.",
        f"{ASHUKHA}, section 2.6",
    ),
    "same-rows-twice": Pitfall(
        "The same rows in two data sets",
        "Data sets are treated as independent. Rows in two of them count twice, and the interval of the mean over data "
        "sets is too narrow. Remove one data set, or compare them as shifts of one.",
        "Demšar (2006), JMLR 7: 1-30",
    ),
    "own-answers": Pitfall(
        "Every model judged on its own answers",
        "A proper score of a confidence rewards knowing whether the answer is correct, not being correct: a model that "
        "is always wrong, with confidence 0, gets the best score. Compare accuracy and aurc, or confidences for the "
        "same answers.",
        f"{ASHUKHA}, section 2.3",
    ),
    "different-members": Pitfall(
        "Different numbers of members",
        "More members improve any method. Compare equal numbers, curves over their number (comparison.cll_curve), or "
        "deep-ensemble equivalents.",
        f"{ASHUKHA}, section 3.1 and figure 2",
    ),
    "pool-overlap": Pitfall(
        "Members shared with the pool",
        "An equivalent is not an independent measure if the pool contains the model's own members. Remove them from "
        "the pool.",
        f"{ASHUKHA}, section 3.1",
    ),
    "pool-of-one": Pitfall(
        "A pool with one member",
        "An equivalent counts members of the pool. A pool with one member only shows whether a model is better or "
        "worse than it. Use several independently trained members.",
        f"{ASHUKHA}, section 3.1",
    ),
    "identical-models": Pitfall(
        "One model under two names",
        "Two models make the same predictions in every row, usually because a file was given or written twice.",
        "Bouthillier et al. (2021), MLSys 3: 747-769",
    ),
    "averaged-logits": Pitfall(
        "Averaged logits instead of averaged probabilities",
        "The prediction of an ensemble is the mean of its members' probabilities. The softmax of mean logits is a "
        "different (geometric) mean, which is sharper. Pass the members, and they are averaged correctly.",
        "Lakshminarayanan, Pritzel & Blundell (2017), NeurIPS 30; Ashukha et al. (2020), equation 3",
    ),
    "scored-on-fitted-rows": Pitfall(
        "Scored on the rows of a fit",
        "A temperature, or any recalibration map, looks too good on the rows that it was fitted on. Fit it on other "
        "rows, or cross-fit.",
        f"{ASHUKHA}, section 2.6",
    ),
    "uneven-recalibration": Pitfall(
        "Only some models are recalibrated",
        "The comparison measures recalibration rather than the models. Recalibrate all of them in the same way, or "
        "rank by cll.",
        f"{ASHUKHA}, section 2.1 and figure 1",
    ),
    "too-small": Pitfall(
        "Test set too small",
        "The best two models are not significantly different. Say so, or evaluate more rows.",
        "Card et al. (2020), EMNLP: 9263-9274",
    ),
    "too-few-units": Pitfall(
        "Too few units for any pair",
        "The signs of m units can be flipped in 2^m ways, so no p-value is below 2/2^m, which may never be significant "
        "after correction for many pairs. Name a baseline, compare fewer models, or collect more units.",
        "Ernst (2004), Statist. Sci. 19: 676-685; Holm (1979), Scandinavian Journal of Statistics 6: 65-70",
    ),
    "different-units": Pitfall(
        "Units that differ between models",
        "Units belong to rows: the rows that depend on each other are the same for all models. Give all models the "
        "same column.",
        "Davison & Hinkley (1997), Bootstrap Methods, section 3.8; Miller (2024), arXiv 2411.00640",
    ),
    "dependent-rows": Pitfall(
        "Dependent rows treated as independent",
        "Several rows of one patient, prompt or image count as fewer independent observations, so intervals are too "
        "narrow. Name the column as units, and whole units are resampled.",
        "Davison & Hinkley (1997), Bootstrap Methods, section 3.8; Miller (2024), arXiv 2411.00640",
    ),
    "single-seed": Pitfall(
        "One training run per method",
        "Intervals over test rows compare networks, not methods. Train each method with several seeds.",
        "Bouthillier et al. (2021), MLSys 3: 747-769",
    ),
}
"""By code; codes are stable."""


def note(code: str, message: str) -> Note:
    """A note: the problem and the remedy on one line, with the reference of the pitfall."""
    return Note(code, message, PITFALLS[code].reference)


@dataclass(frozen=True)
class Setup:
    """The models and settings of a comparison, with its results if they are known."""

    models: Mapping[str, InMemory] = field(default_factory=dict)
    scores: tuple[str, ...] = ()
    """Specs of the scores, including cll and brier_ts."""
    rank_by: str = ""
    units: str | None = None
    shift: tuple[str, str] | None = None
    """The columns of type and severity of a shift, if any."""
    pool: str | None = None
    """The name of the pool; its predictions are in `models` or `pool_predictions`."""
    clean: Mapping[str, InMemory] | None = None
    comparison: Comparison | None = None
    curves: tuple[str, ...] = ()
    """Names of compared curves, as in `Result.curves`."""
    pool_predictions: InMemory | None = None
    members: Mapping[str, int] = field(default_factory=dict)
    """The number of members of each model, if predictions are not available."""
    task: str = ""
    """The task, if predictions are not available."""

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
        """Whether there are at least two models."""
        return len(self.counts) > 1

    @cached_property
    def compared(self) -> dict[str, Metric | None]:
        """The registry entry of each score; None for scores at the best temperature."""
        names = dict.fromkeys(filter(None, (*self.scores, self.rank_by)))
        return {text: metrics().get(text.partition("(")[0].strip()) for text in names}

    @cached_property
    def everyone(self) -> dict[str, InMemory]:
        """The models, and the pool if it is not one of them."""
        if self.pool is None or self.pool_predictions is None or self.pool in self.models:
            return dict(self.models)
        return {**self.models, self.pool: self.pool_predictions}

    @cached_property
    def matched(self) -> Matched:
        """The rows that all models share."""
        return matched(self.everyone)

    @cached_property
    def together(self) -> dict[str, InMemory]:
        """The shared rows of all models in one order; empty if they cannot be matched."""
        return {} if self.matched.error is not None else aligned(self.everyone)[0]
