"""Test-time augmentation: any posterior, whose member k looks at all rows in the k-th variation of images.

One variation for all rows keeps a member one function. Averaging over variations is a strong and cheap baseline, which
needs its temperature mended (Ashukha et al. 2020, section 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor, nn

from calibrant.errors import UsageError
from calibrant.methods.posterior import Member, Posterior
from calibrant.networks.stack import State
from calibrant.training.augmenting import Augmentation
from calibrant.training.seeds import stream


def augmented(posterior: Posterior, augment: Augmentation, seed: int | None = None) -> Augmented:
    """The posterior with variations of images. Its members come in turn, each time with another variation.

    seed: of the variations; that of the posterior unless another is given.
    """
    if len(posterior.recipe.shape) != 3:
        raise UsageError(
            "augmented",
            expected="a posterior of images (C, H, W)",
            came=f"its rows have shape {posterior.recipe.shape}",
            do="augment images only",
        )
    if isinstance(posterior, Augmented):
        raise UsageError(
            "augmented", expected="a posterior without variations", came="it has some already", do="augment once"
        )
    cost = posterior.about.cost
    every = None if cost is None else replace(cost, further=cost.first)  # each member looks at other images
    about = replace(posterior.about, method=f"{posterior.about.method}+augmentation", cost=every)
    return Augmented(
        posterior,
        augment,
        recipe=posterior.recipe,
        likelihood=posterior.likelihood,
        seed=posterior.seed if seed is None else seed,
        about=about,
    )


class Augmented(Posterior):
    """Another posterior, whose members look at variations."""

    kind: ClassVar[str] = "augmented"

    def __init__(self, base: Posterior, augment: Augmentation, **known: Any) -> None:
        super().__init__(**known)
        self.base, self.augment = base, augment

    def member(self, k: int) -> Member:
        """The next member of the posterior below, with the k-th variation."""
        k = self._known(k)
        below = self.base.member(k if self.base.most is None else k % self.base.most)
        vary = self.augment.draw(1, stream(self.seed, k, "member's variation"))
        return replace(below, template=self.template, augment=self.augment, vary=vary)

    def module(self, k: int = 0) -> nn.Module:
        """Member k as a network that varies the images it is given."""
        return Looking(super().module(k), self.member(k)).eval()

    def tensors(self, k: int) -> State:
        """Those of the member below."""
        return self.member(k).tensors

    @property
    def most(self) -> None:
        """As many as one likes."""

    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What the posterior below keeps."""
        tensors, settings = self.base.kept()
        below = {"kind": self.base.kind, "settings": settings, "seed": self.base.seed}
        return tensors, {"pad": self.augment.pad, "flip": self.augment.flip, "below": below}

    @classmethod
    def of_kept(cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **known: Any) -> Augmented:
        """The posterior below, and its variations."""
        from calibrant.methods.kinds import KINDS

        below = settings["below"]
        base = KINDS[below["kind"]].of_kept(tensors, below["settings"], **{**known, "seed": int(below["seed"])})
        return cls(base, Augmentation(int(settings["pad"]), bool(settings["flip"])), **known)


class Looking(nn.Module):  # type: ignore[misc]
    """A network that looks at images as one member does."""

    def __init__(self, network: nn.Module, member: Member) -> None:
        super().__init__()
        self.network, self.member = network, member

    def forward(self, x: Tensor) -> Tensor:
        """What the network says of the variation."""
        return self.network(self.member.seen(x))
