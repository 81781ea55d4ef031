"""Posterior types and methods by name; files of posteriors store these names."""

from __future__ import annotations

from collections.abc import Mapping

from calibrant.methods.augmented import AugmentedPosterior
from calibrant.methods.base import Method
from calibrant.methods.batch_ensemble import BatchEnsemble, BatchEnsemblePosterior
from calibrant.methods.csgld import CyclicalSGLD
from calibrant.methods.dropout import DropoutPosterior, LastLayerDropout, MCDropout
from calibrant.methods.ensemble import DeepEnsemble, Vanilla
from calibrant.methods.laplace import Laplace
from calibrant.methods.laplace_posterior import LaplacePosterior
from calibrant.methods.last_layer_ensemble import LastLayerPosterior
from calibrant.methods.mixture import Mixture
from calibrant.methods.posterior import Posterior, WeightSamples
from calibrant.methods.ridge import BayesianRidge, LinearPosterior
from calibrant.methods.snapshot import FastGeometricEnsemble, SnapshotEnsemble
from calibrant.methods.swag import SWAG, SwagPosterior

KINDS: Mapping[str, type[Posterior]] = {
    kind.kind: kind
    for kind in (
        WeightSamples,
        DropoutPosterior,
        AugmentedPosterior,
        LinearPosterior,
        SwagPosterior,
        LaplacePosterior,
        Mixture,
        LastLayerPosterior,
        BatchEnsemblePosterior,
    )
}
METHODS: Mapping[str, type[Method]] = {
    method.name: method
    for method in (
        Vanilla, MCDropout, LastLayerDropout, DeepEnsemble, SnapshotEnsemble, FastGeometricEnsemble, SWAG, CyclicalSGLD,
        BayesianRidge, Laplace, BatchEnsemble,
    )
}  # fmt: skip
