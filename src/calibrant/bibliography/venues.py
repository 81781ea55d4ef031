"""Journals, proceedings and publishers that several works share, and the short names that references give them."""

from __future__ import annotations

AAS = "The Annals of Applied Statistics"
AISTATS = "International Conference on Artificial Intelligence and Statistics"
ANNALS = "The Annals of Statistics"
BIOMETRICS = "Biometrics"
BIOMETRIKA = "Biometrika"
ECONOMETRICA = "Econometrica"
ICLR = "International Conference on Learning Representations"
ICML = "International Conference on Machine Learning"
JASA = "Journal of the American Statistical Association"
JRSS_A = "Journal of the Royal Statistical Society: Series A (Statistics in Society)"
JRSS_A_GENERAL = "Journal of the Royal Statistical Society. Series A (General)"
JRSS_B = "Journal of the Royal Statistical Society: Series B (Statistical Methodology)"
JRSS_B_METHODOLOGICAL = "Journal of the Royal Statistical Society: Series B (Methodological)"
MATHEMATICAL = "The Annals of Mathematical Statistics"
NEURIPS = "Advances in Neural Information Processing Systems"
PMLR = "Proceedings of Machine Learning Research"
QJRMS = "Quarterly Journal of the Royal Meteorological Society"
STATISTICS_IN_MEDICINE = "Statistics in Medicine"
WEATHER = "Weather and Forecasting"

SHORT = {
    AAS: ("Annals of Applied Statistics",),
    AISTATS: ("AISTATS",),
    ANNALS: ("Annals of Statistics",),
    ICLR: ("ICLR",),
    ICML: ("ICML",),
    JASA: ("JASA",),
    JRSS_A: ("JRSS A", "J. R. Statist. Soc. A"),
    JRSS_A_GENERAL: ("JRSS A", "J. R. Statist. Soc. A"),
    JRSS_B: ("JRSS B", "J. R. Statist. Soc. B"),
    JRSS_B_METHODOLOGICAL: ("JRSS B", "J. R. Statist. Soc. B"),
    MATHEMATICAL: ("Annals of Mathematical Statistics",),
    NEURIPS: ("NeurIPS",),
    QJRMS: ("QJRMS",),
}
"""By venue."""
