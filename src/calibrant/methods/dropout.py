"""Monte Carlo dropout: a member is one mask, held fixed over all rows.

A mask that is drawn anew for every row would make rows independent of each other, and a posterior predictive check of
such predictions checks another model (Gopal 2021, section 3.3 and appendix F).

References: Gal & Ghahramani (2016), ICML: 1050-1059; Ovadia et al. (2019), NeurIPS 32: 13991-14002, for dropout before
the last layer alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from calibrant.methods.base import Method, Trained
from calibrant.methods.posterior import Posterior
from calibrant.networks.dropping import Dropout, draw_mask
from calibrant.networks.stack import State
from calibrant.training.seeds import stream


@dataclass(frozen=True)
class MCDropout(Method):
    """Dropout in training and in prediction. where: all, dense, last or own (see `networks.dropping`)."""

    rate: float = 0.1
    where: str = "all"
    name: ClassVar[str] = "mc_dropout"
    reference: ClassVar[str] = "Gal & Ghahramani (2016)"

    def __post_init__(self) -> None:
        Dropout(self.rate, self.where)

    @property
    def dropout(self) -> Dropout:
        """As its fields say."""
        return Dropout(self.rate, self.where)

    def posterior(self, trained: Trained) -> Masked:
        """The network, and masks without end."""
        return Masked(trained.states[0], **trained.known)


@dataclass(frozen=True)
class LastLayerDropout(MCDropout):
    """Dropout before the last layer alone: what comes before it is computed once for all members.

    Dropout of the network's own is there in training, and not in prediction.
    """

    where: str = "last"
    name: ClassVar[str] = "last_layer_dropout"
    reference: ClassVar[str] = "Ovadia et al. (2019)"


class Masked(Posterior):
    """One network; member k is the k-th draw of its masks."""

    kind: ClassVar[str] = "masked"

    def __init__(self, state: State, **known: Any) -> None:
        super().__init__(**known)
        self.state = state
        dropout = self.recipe.dropout or Dropout(0.0, "own")
        self.rate, last = dropout.rate, dropout.where == "last"
        self.sites = [site for site in self.template.sites if site.rate is None or not last]
        self.shares_features = last and self.template.last == self.template.layers[-1]

    def tensors(self, k: int) -> State:
        """The network with one mask for each site, for all rows alike."""
        generator = stream(self.seed, k, "member's masks")
        like = next(value for value in self.state.values() if value.is_floating_point())
        masks = {
            site.mask: draw_mask((1, *site.shape), self.rate if site.rate is None else site.rate, generator, like.dtype)
            for site in self.sites
        }
        return {**self.state, **masks}

    @property
    def most(self) -> None:
        """As many as one likes."""

    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The network; masks are drawn again."""
        return dict(self.state), {}

    @classmethod
    def of_kept(cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **known: Any) -> Masked:
        """The network that a file held."""
        return cls(dict(tensors), **known)
