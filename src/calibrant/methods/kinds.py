"""The kinds of posteriors that files may hold, and the methods by name."""

from __future__ import annotations

from collections.abc import Mapping

from calibrant.methods.augmented import Augmented
from calibrant.methods.base import Method
from calibrant.methods.csgld import CyclicalSGLD
from calibrant.methods.dropout import LastLayerDropout, Masked, MCDropout
from calibrant.methods.ensemble import DeepEnsemble
from calibrant.methods.laplace import Laplace, LaplacePosterior
from calibrant.methods.points import Points
from calibrant.methods.posterior import Posterior
from calibrant.methods.ridge import BayesianRidge, LinearPosterior
from calibrant.methods.snapshot import FastGeometricEnsemble, SnapshotEnsemble
from calibrant.methods.swag import SWAG, SwagPosterior
from calibrant.methods.vanilla import Vanilla

KINDS: Mapping[str, type[Posterior]] = {
    kind.kind: kind for kind in (Points, Masked, Augmented, LinearPosterior, SwagPosterior, LaplacePosterior)
}
METHODS: Mapping[str, type[Method]] = {
    method.name: method
    for method in (
        Vanilla, MCDropout, LastLayerDropout, DeepEnsemble, SnapshotEnsemble, FastGeometricEnsemble, SWAG, CyclicalSGLD,
        BayesianRidge, Laplace,
    )
}  # fmt: skip
