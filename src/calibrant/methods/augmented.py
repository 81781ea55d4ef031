"""Test-time augmentation of any posterior: member k sees all images in the k-th variation.

With one variation for all rows, a member is still one function. Averaging over variations is a strong, cheap baseline
that needs temperature scaling (Ashukha et al. 2020, section 3.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor, nn

from calibrant.errors import UsageError
from calibrant.methods.posterior import Member, Posterior, WeightPosterior
from calibrant.networks.stack import State
from calibrant.training.augmentation import Augmentation
from calibrant.training.seeds import stream


def augmented(posterior: Posterior, augment: Augmentation, seed: int | None = None) -> AugmentedPosterior:
    """Add test-time augmentation to a posterior of images.

    Parameters
    ----------
    posterior : Posterior
        Its members are used in turn, each time with another variation.
    augment : Augmentation
        The random variations.
    seed : int, optional
        Seed of the variations; by default that of the posterior.

    Returns
    -------
    AugmentedPosterior

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.methods import Augmentation, Task, Training, Vanilla, augmented
    >>> from calibrant.networks import LeNet
    >>> images = np.random.default_rng(0).normal(size=(8, 1, 8, 8)).astype("float32")
    >>> task = Task.classification(images, [0, 1] * 4, classes=2)
    >>> posterior = Vanilla(Training(epochs=1)).fit(task, LeNet(2, 1, 8), device="cpu")
    >>> augmented(posterior, Augmentation(pad=1))
    AugmentedPosterior('vanilla+augmentation', any number of members, 'task', seed=0)
    """
    if len(posterior.recipe.shape) != 3:
        got, hint = f"rows of shape {posterior.recipe.shape}", "use augmented() for images only"
        raise UsageError("augmented", expected="a posterior of images (C, H, W)", got=got, hint=hint)
    if not isinstance(posterior, WeightPosterior):
        got, hint = type(posterior).__name__, "augment its posteriors first, then mix them"
        raise UsageError("augmented", expected="a posterior whose members are networks", got=got, hint=hint)
    if isinstance(posterior, AugmentedPosterior):
        got, hint = "an augmented one", "call augmented() once"
        raise UsageError("augmented", expected="a posterior without augmentation", got=got, hint=hint)
    cost = posterior.about.cost
    every = None if cost is None else replace(cost, further=cost.first)  # each member sees other images
    about = replace(posterior.about, method=f"{posterior.about.method}+augmentation", cost=every)
    return AugmentedPosterior(
        posterior,
        augment,
        recipe=posterior.recipe,
        likelihood=posterior.likelihood,
        seed=posterior.seed if seed is None else seed,
        about=about,
    )


class AugmentedPosterior(WeightPosterior):
    """Another posterior whose members see variations of the images."""

    kind: ClassVar[str] = "augmented"

    def __init__(self, base: WeightPosterior, augment: Augmentation, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.base, self.augment = base, augment

    def member(self, k: int) -> Member:
        """A member of the base posterior with the k-th variation."""
        k = self._check_member(k)
        vary = self.augment.draw(1, stream(self.seed, k, "member's variation"))
        return replace(self.base.member(self._base_member(k)), augment=self.augment, vary=vary)

    def _base_member(self, k: int) -> int:
        return k if self.base.max_members is None else k % self.base.max_members

    def module(self, k: int = 0) -> nn.Module:
        """Member k as an `nn.Module` that varies its input images."""
        return AugmentedNetwork(self.base.module(self._base_member(self._check_member(k))), self.member(k)).eval()

    def tensors(self, k: int) -> State:
        """The tensors of the base member."""
        return self.member(k).tensors

    @property
    def max_members(self) -> None:
        """Any number."""

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The state of the base posterior, and the augmentation."""
        tensors, settings = self.base.state_dict()
        base = {"kind": self.base.kind, "settings": settings, "seed": self.base.seed}
        return tensors, {"pad": self.augment.pad, "flip": self.augment.flip, "below": base}

    @classmethod
    def from_state_dict(
        cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **kwargs: Any
    ) -> AugmentedPosterior:
        """The inverse of `state_dict`."""
        from calibrant.methods.registry import KINDS

        below = settings["below"]
        base: Any = KINDS[below["kind"]].from_state_dict(
            tensors, below["settings"], **{**kwargs, "seed": int(below["seed"])}
        )
        return cls(base, Augmentation(int(settings["pad"]), bool(settings["flip"])), **kwargs)


class AugmentedNetwork(nn.Module):  # type: ignore[misc]
    """A network with the image variation of one member."""

    def __init__(self, network: nn.Module, member: Member) -> None:
        super().__init__()
        self.network, self.member = network, member

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of the varied images."""
        return self.network(self.member.augmented(x))
