"""Entries of the registry: calibration of the whole predicted distribution."""

from __future__ import annotations

from calibrant.registry.metric import Metric

METRICS: tuple[Metric, ...] = ()
