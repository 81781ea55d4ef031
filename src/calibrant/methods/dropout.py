"""Monte Carlo dropout: a member is one mask, the same for all rows.

A new mask for every row would make rows independent, and a posterior predictive check of such predictions would check
another model (Gopal 2021, section 3.3 and appendix F).

References: Gal & Ghahramani (2016), ICML: 1050-1059; Ovadia et al. (2019), NeurIPS 32: 13991-14002, for dropout before
the last layer alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from calibrant.methods.base import Method, TrainingResult
from calibrant.methods.posterior import WeightPosterior
from calibrant.networks.dropout import Dropout, draw_mask
from calibrant.networks.stack import State
from calibrant.training.seeds import stream


@dataclass(frozen=True)
class MCDropout(Method):
    """Dropout in training and prediction; each member is one draw of the masks.

    Parameters
    ----------
    training : Training
        Epochs, optimiser and learning rate.
    p : float
        The dropout probability.
    where : {"all", "dense", "last", "own"}
        Before every dense and convolutional layer but the first, before every dense layer but the first, before the
        last layer, or only in the network's own dropout layers.

    Examples
    --------
    >>> from calibrant.methods import MCDropout, Task, Training
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> method = MCDropout(Training(epochs=2, optimiser="adam", rate=0.01), p=0.2)
    >>> method.fit(task, MLP(1, 2, (4,)), device="cpu")
    DropoutPosterior('mc_dropout', any number of members, 'task', seed=0)
    """

    p: float = 0.1
    where: str = "all"
    name: ClassVar[str] = "mc_dropout"
    reference: ClassVar[str] = "Gal & Ghahramani (2016)"

    def __post_init__(self) -> None:
        self.dropout  # noqa: B018 — validates the fields

    @property
    def dropout(self) -> Dropout:
        """Probability and positions of dropout."""
        return Dropout(self.p, self.where)

    def posterior(self, trained: TrainingResult) -> DropoutPosterior:
        """The network, with any number of masks."""
        return DropoutPosterior(trained.states[0], **trained.posterior_arguments)


@dataclass(frozen=True)
class LastLayerDropout(MCDropout):
    """Dropout before the last layer only; the other layers are computed once for all members.

    The network's own dropout layers are active in training, not in prediction. Parameters as in `MCDropout`.

    Examples
    --------
    >>> from calibrant.methods import LastLayerDropout, Task, Training
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> method = LastLayerDropout(Training(epochs=2, optimiser="adam", rate=0.01), p=0.2)
    >>> method.fit(task, MLP(1, 2, (4,)), device="cpu")
    DropoutPosterior('last_layer_dropout', any number of members, 'task', seed=0)
    """

    where: str = "last"
    name: ClassVar[str] = "last_layer_dropout"
    reference: ClassVar[str] = "Ovadia et al. (2019)"


class DropoutPosterior(WeightPosterior):
    """One network; member k has the k-th draw of its masks."""

    kind: ClassVar[str] = "masked"

    def __init__(self, state: State, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.state = state
        dropout = self.recipe.dropout or Dropout(0.0, "own")
        self.p, last = dropout.p, dropout.where == "last"
        self.sites = [site for site in self.template.sites if site.p is None or not last]
        self.shares_features = last and self.template.last == self.template.layers[-1]

    def tensors(self, k: int) -> State:
        """The network with one mask per site, the same for all rows."""
        generator = stream(self.seed, k, "member's masks")
        like = next(value for value in self.state.values() if value.is_floating_point())
        masks = {
            site.mask: draw_mask((1, *site.shape), self.p if site.p is None else site.p, generator, like.dtype)
            for site in self.sites
        }
        return {**self.state, **masks}

    @property
    def max_members(self) -> None:
        """Any number."""

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The network; masks are drawn again from the seed."""
        return dict(self.state), {}

    @classmethod
    def from_state_dict(
        cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **kwargs: Any
    ) -> DropoutPosterior:
        """The inverse of `state_dict`."""
        return cls(dict(tensors), **kwargs)
