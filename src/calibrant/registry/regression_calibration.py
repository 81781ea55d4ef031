"""Entries of the registry: calibration of predictive distributions of a number."""

from __future__ import annotations

from calibrant.registry.metric import Metric

METRICS: tuple[Metric, ...] = ()
