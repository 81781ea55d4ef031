"""Methods for training networks with predictive uncertainty: `method.fit(task, network, seed)` returns a posterior.

    from calibrant import methods
    from calibrant.networks import ResNet
    task = methods.Task.classification(images, labels, classes=10, augment=methods.Augmentation())
    posterior = methods.DeepEnsemble(members=5).fit(task, ResNet(depth=20))
    predictions = posterior.predict(test_images, y=test_labels)

Requires PyTorch: pip install 'calibrant[torch]'.
"""

from calibrant.training.needed import require_torch

require_torch("calibrant.methods")

from calibrant.methods.augmented import augmented  # noqa: E402
from calibrant.methods.base import Cell, Method, fit_together  # noqa: E402
from calibrant.methods.batch_ensemble import BatchEnsemble  # noqa: E402
from calibrant.methods.csgld import CyclicalSGLD  # noqa: E402
from calibrant.methods.dropout import LastLayerDropout, MCDropout  # noqa: E402
from calibrant.methods.ensemble import DeepEnsemble, Vanilla  # noqa: E402
from calibrant.methods.laplace import Laplace  # noqa: E402
from calibrant.methods.last_layer_ensemble import last_layer_ensemble  # noqa: E402
from calibrant.methods.mixture import Mixture, mixture  # noqa: E402
from calibrant.methods.posterior import Member, Posterior, WeightPosterior  # noqa: E402
from calibrant.methods.pretrained import posterior_of  # noqa: E402
from calibrant.methods.ridge import BayesianRidge  # noqa: E402
from calibrant.methods.serialization import load  # noqa: E402
from calibrant.methods.snapshot import FastGeometricEnsemble, SnapshotEnsemble  # noqa: E402
from calibrant.methods.swag import SWAG  # noqa: E402
from calibrant.training import schedules  # noqa: E402
from calibrant.training.augmentation import Augmentation  # noqa: E402
from calibrant.training.likelihoods import Categorical, FixedGaussian, Gaussian  # noqa: E402
from calibrant.training.settings import Training  # noqa: E402
from calibrant.training.task import Task  # noqa: E402

__all__ = [
    "SWAG",
    "Augmentation",
    "BatchEnsemble",
    "BayesianRidge",
    "Categorical",
    "Cell",
    "CyclicalSGLD",
    "DeepEnsemble",
    "FastGeometricEnsemble",
    "FixedGaussian",
    "Gaussian",
    "Laplace",
    "LastLayerDropout",
    "MCDropout",
    "Member",
    "Method",
    "Mixture",
    "Posterior",
    "SnapshotEnsemble",
    "Task",
    "Training",
    "Vanilla",
    "WeightPosterior",
    "augmented",
    "fit_together",
    "last_layer_ensemble",
    "load",
    "mixture",
    "posterior_of",
    "schedules",
]
