"""Entries of the registry: evidence against calibration that may be looked at any time."""

from __future__ import annotations

from calibrant.registry.metric import Metric

METRICS: tuple[Metric, ...] = ()
