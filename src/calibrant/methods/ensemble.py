"""Single networks, and deep ensembles: networks with different initial weights and orders of rows.

Reference: Lakshminarayanan et al. (2017), NeurIPS 30: 6402-6413; also for a Gaussian with mean and variance of x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calibrant.methods.base import Method, TrainingResult
from calibrant.methods.posterior import WeightSamples
from calibrant.training.settings import check_count


@dataclass(frozen=True)
class Vanilla(Method):
    """A single network, without uncertainty about its weights.

    Parameters
    ----------
    training : Training
        Epochs, optimiser and learning rate.

    Examples
    --------
    >>> from calibrant.methods import Vanilla, Task, Training
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> Vanilla(Training(epochs=2, optimiser="adam", rate=0.01)).fit(task, MLP(1, 2, (4,)), device="cpu")
    WeightSamples('vanilla', 1 member, 'task', seed=0)
    """

    name: ClassVar[str] = "vanilla"
    reference: ClassVar[str] = "Lakshminarayanan et al. (2017)"

    def posterior(self, trained: TrainingResult) -> WeightSamples:
        """The network."""
        return WeightSamples(trained.states, **trained.posterior_arguments)


@dataclass(frozen=True)
class DeepEnsemble(Method):
    """Independently initialised networks, trained as one computation.

    Parameters
    ----------
    training : Training
        Epochs, optimiser and learning rate.
    members : int
        The number of networks.

    Examples
    --------
    >>> from calibrant.methods import DeepEnsemble, Task, Training
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> method = DeepEnsemble(Training(epochs=2, optimiser="adam", rate=0.01), members=3)
    >>> method.fit(task, MLP(1, 2, (4,)), device="cpu")
    WeightSamples('deep_ensemble', 3 members, 'task', seed=0)
    """

    members: int = 10
    name: ClassVar[str] = "deep_ensemble"
    reference: ClassVar[str] = "Lakshminarayanan et al. (2017)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", check_count("members", self.members))

    @property
    def networks(self) -> int:
        """The number of members."""
        return self.members

    def posterior(self, trained: TrainingResult) -> WeightSamples:
        """The networks."""
        return WeightSamples(trained.states, **trained.posterior_arguments)
