"""Journals, proceedings and publishers that several works share, and the short names that references give them."""

from __future__ import annotations

AAS = "The Annals of Applied Statistics"
AISTATS = "International Conference on Artificial Intelligence and Statistics"
ANNALS = "The Annals of Statistics"
BIOMETRICS = "Biometrics"
BIOMETRIKA = "Biometrika"
CVPR = "IEEE Conference on Computer Vision and Pattern Recognition"
ECCV = "European Conference on Computer Vision"
ECONOMETRICA = "Econometrica"
ICCV = "IEEE International Conference on Computer Vision"
ICLR = "International Conference on Learning Representations"
ICML = "International Conference on Machine Learning"
JASA = "Journal of the American Statistical Association"
JMLR = "Journal of Machine Learning Research"
JRSS_A = "Journal of the Royal Statistical Society: Series A (Statistics in Society)"
JRSS_A_GENERAL = "Journal of the Royal Statistical Society. Series A (General)"
JRSS_B = "Journal of the Royal Statistical Society: Series B (Statistical Methodology)"
JRSS_B_METHODOLOGICAL = "Journal of the Royal Statistical Society: Series B (Methodological)"
MATHEMATICAL = "The Annals of Mathematical Statistics"
NEURIPS = "Advances in Neural Information Processing Systems"
PMLR = "Proceedings of Machine Learning Research"
QJRMS = "Quarterly Journal of the Royal Meteorological Society"
STATISTICS_IN_MEDICINE = "Statistics in Medicine"
UAI = "Conference on Uncertainty in Artificial Intelligence"
WEATHER = "Weather and Forecasting"

SHORT = {
    AAS: ("Annals of Applied Statistics",),
    AISTATS: ("AISTATS",),
    ANNALS: ("Annals of Statistics",),
    CVPR: ("CVPR",),
    ECCV: ("ECCV",),
    ICCV: ("ICCV",),
    ICLR: ("ICLR",),
    ICML: ("ICML",),
    JASA: ("JASA",),
    JMLR: ("JMLR",),
    JRSS_A: ("JRSS A", "J. R. Statist. Soc. A"),
    JRSS_A_GENERAL: ("JRSS A", "J. R. Statist. Soc. A"),
    JRSS_B: ("JRSS B", "J. R. Statist. Soc. B"),
    JRSS_B_METHODOLOGICAL: ("JRSS B", "J. R. Statist. Soc. B"),
    MATHEMATICAL: ("Annals of Mathematical Statistics",),
    NEURIPS: ("NeurIPS",),
    QJRMS: ("QJRMS",),
    UAI: ("UAI",),
}
"""By venue."""
