"""BatchEnsemble: members that share their weights up to factors of rank one, trained as one network.

Member m of a layer has the weights W ∘ s_m r_mᵀ. In training each member computes a share of the rows of a batch; the
members have batch norm and biases in common. It stores little more than one network.

Reference: Wen, Tran & Ba (2020), ICLR 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from calibrant.errors import UsageError, check_range
from calibrant.methods.base import Method, TrainingResult
from calibrant.methods.posterior import TensorGroups, WeightPosterior
from calibrant.networks.rank_one import INPUTS, OUTPUTS, RankOneNetwork, member_weights, split_factors
from calibrant.networks.recipe import Recipe, Template
from calibrant.networks.stack import State
from calibrant.training.optimisers import ParameterGroup
from calibrant.training.settings import check_count
from calibrant.training.task import Task


@dataclass(frozen=True)
class BatchEnsemble(Method):
    """Members that share their weights up to factors of rank one.

    Parameters
    ----------
    training : Training
        Epochs, optimiser and learning rate; each member computes batch / members rows of a step.
    members : int
        The number of members.
    factor_rate : float
        The learning rate of the factors, as a factor of that of the weights; factors have no weight decay.

    Examples
    --------
    >>> from calibrant.methods import BatchEnsemble, Task, Training
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> method = BatchEnsemble(Training(epochs=2, optimiser="adam", rate=0.01), members=2)
    >>> method.fit(task, MLP(1, 2, (4,)), device="cpu")
    BatchEnsemblePosterior('batch_ensemble', 2 members, 'task', seed=0)
    """

    members: int = 4
    factor_rate: float = 0.5
    name: ClassVar[str] = "batch_ensemble"
    reference: ClassVar[str] = "Wen, Tran & Ba (2020)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", check_count("members", self.members))
        check_range("batch_ensemble: factor_rate", self.factor_rate, 0, hint="use factor_rate=0.5")

    def recipe(
        self, task: Task, network: Any, start: str | None = None, train: str | tuple[str, ...] = "all"
    ) -> Recipe:
        """The construction of the network with factors."""
        recipe = super().recipe(task, network, start, train)
        if recipe.given:
            hint = "use start='fresh', or methods.last_layer_ensemble"
            raise UsageError(self.name, expected="networks that start fresh", got="start='given'", hint=hint)
        return replace(recipe, architecture=RankOneNetwork(recipe.architecture, self.members))

    def parameter_groups(self, template: Template) -> Sequence[ParameterGroup]:
        """The factors, without weight decay."""
        return [ParameterGroup(f"*.{part}", rate=self.factor_rate, decay=0.0) for part in (INPUTS, OUTPUTS)]

    def posterior(self, trained: TrainingResult) -> BatchEnsemblePosterior:
        """The members."""
        wrapped: Any = trained.recipe.architecture
        shared, factors = split_factors(trained.states[0])
        arguments = {**trained.posterior_arguments, "template": None}
        arguments["recipe"] = replace(trained.recipe, architecture=wrapped.plain)
        return BatchEnsemblePosterior(shared, factors, **arguments)


class BatchEnsemblePosterior(WeightPosterior):
    """One network, and factors of rank one of each member."""

    kind: ClassVar[str] = "batch_ensemble"

    def __init__(self, shared: State, factors: State, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shared, self.factors = shared, factors

    def tensors(self, k: int) -> State:
        """The network of member k."""
        return {**self.shared, **member_weights(self.shared, self.factors, k)}

    @property
    def max_members(self) -> int:
        """The number of members."""
        return len(next(iter(self.factors.values())))

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The shared tensors, and the factors."""
        return TensorGroups({"shared": self.shared, "factors": self.factors}).flat(), {}

    @classmethod
    def from_state_dict(
        cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **kwargs: Any
    ) -> BatchEnsemblePosterior:
        """The inverse of `state_dict`."""
        groups = TensorGroups.of(tensors).groups
        return cls(groups["shared"], groups["factors"], **kwargs)
