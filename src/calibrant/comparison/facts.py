"""What the scores of comparisons mean that are no metrics of the registry: they need rows to fit a temperature on."""

from __future__ import annotations

from typing import NamedTuple

ASHUKHA = (
    "Ashukha, Lyzhov, Molchanov & Vetrov (2020), Pitfalls of in-domain uncertainty estimation and ensembling, ICLR 8"
)


class Fact(NamedTuple):
    """A title, a definition and where it is from."""

    title: str
    definition: str
    reference: str


FACTS = {
    "cll": Fact(
        "Calibrated log-likelihood",
        "The mean log-likelihood at the best temperature T, p_T ∝ p^(1/T), which is fitted on one half of the rows and "
        "scores the other, both ways and several times, or is that of clean rows. NLL (ts) is its negative.",
        f"{ASHUKHA}, section 2.2",
    ),
    "brier_ts": Fact(
        "Brier score at the best temperature",
        "The mean over rows of Σ(p_T − y)², with the temperature of the calibrated log-likelihood.",
        f"{ASHUKHA}, section 2.2; Brier (1950)",
    ),
    "equivalent": Fact(
        "Deep-ensemble equivalent (DEE)",
        "The number of members of the pool whose average has the calibrated log-likelihood of the model: "
        "min k with CLL(k) ≥ CLL, within 1 and the size of the pool; < 1 and > K lie beyond it.",
        f"{ASHUKHA}, equations 4 and 5",
    ),
}
