"""Mixtures of posteriors with equal weights: MultiSWAG, ensembles of Laplace approximations, ensembles of anything.

Members are taken in turn: member k is member k // P of posterior k mod P, of P posteriors.

References: Wilson & Izmailov (2020), NeurIPS 33: 4697-4708, for MultiSWAG; Eschenhagen et al. (2021), for mixtures of
Laplace approximations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from calibrant.errors import UsageError, show
from calibrant.methods.costs import Cost
from calibrant.methods.posterior import ROWS_AT_ONCE, About, Posterior, TensorGroups
from calibrant.training.likelihoods import Scale


def mixture(posteriors: Sequence[Posterior]) -> Mixture:
    """Mix posteriors of one task with equal weights.

    Parameters
    ----------
    posteriors : sequence of Posterior
        Posteriors of the same likelihood and rows of the same shape; their methods and networks may differ.

    Returns
    -------
    Mixture

    Examples
    --------
    >>> from calibrant.methods import SWAG, Cell, Task, Training, fit_together, mixture
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> method = SWAG(Training(epochs=6, rate=0.01), start=3, rank=2)
    >>> mixture(fit_together([Cell(method, task, MLP(1, 2, (4,)), seed) for seed in (0, 1, 2)], device="cpu"))
    Mixture('mixture of 3 swag', any number of members, 'task', seed=0)
    """
    if len(posteriors) < 2 or not all(isinstance(each, Posterior) for each in posteriors):
        hint = "write mixture([posterior, other])"
        raise UsageError("mixture", expected="at least two posteriors", got=show(list(posteriors)), hint=hint)
    first = posteriors[0]
    for each in posteriors[1:]:
        if (each.likelihood, each.recipe.shape) != (first.likelihood, first.recipe.shape):
            raise UsageError(
                "mixture",
                expected=f"posteriors of one task: {first.likelihood} with rows of shape {first.recipe.shape}",
                got=f"{each.likelihood} with rows of shape {each.recipe.shape}",
                hint="mix posteriors that were trained on the same kind of data",
            )
    names = [each.about.method for each in posteriors]
    counted = [f"{names.count(name)} {name}" for name in dict.fromkeys(names)]
    about = About(
        f"mixture of {' and '.join(counted)}",
        {"methods": names},
        first.about.task,
        first.about.n,
        tuple(run for each in posteriors for run in each.about.history),
        sum(each.about.seconds for each in posteriors),
        first.about.device,
        _cost([each.about.cost for each in posteriors]),
    )
    return Mixture(
        posteriors, recipe=first.recipe, likelihood=first.likelihood, seed=first.seed, about=about,
        template=first.template,
    )  # fmt: skip


def _cost(costs: list[Cost | None]) -> Cost | None:
    """The sum of what is stored and trained; a further member costs what the first of another posterior does."""
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        return None
    return Cost(
        first=known[0].first,
        further=sum(cost.first for cost in known) / len(known),
        stored=sum(cost.stored for cost in known),
        network=known[0].network,
        seconds=sum(cost.seconds for cost in known) / len(known),
        training=sum(cost.training for cost in known),
        examples=sum(cost.examples for cost in known),
    )


class Mixture(Posterior):
    """Several posteriors, whose members are taken in turn."""

    kind: ClassVar[str] = "mixture"

    def __init__(self, posteriors: Sequence[Posterior], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.posteriors = list(posteriors)

    def outputs(
        self, x: Tensor, members: int, *, batch: int = ROWS_AT_ONCE, device: str | torch.device = "auto"
    ) -> tuple[Tensor, Scale]:
        """Outputs (M, n, O) of the first members, and the scale of y of each."""
        count = len(self.posteriors)
        shares = [-(-(members - k) // count) for k in range(min(count, members))]
        found = [
            each.outputs(x, share, batch=batch, device=device)
            for each, share in zip(self.posteriors, shares, strict=False)
        ]
        pairs = [(k % count, k // count) for k in range(members)]
        outputs = torch.stack([found[which][0][k] for which, k in pairs])
        mean, std = (torch.stack([getattr(found[which][1], part)[k] for which, k in pairs]) for part in ("mean", "std"))
        return outputs, Scale(mean, std)

    def member(self, k: int) -> Callable[..., Tensor]:
        """Member k // P of posterior k mod P."""
        number = self._check_member(k)
        return self.posteriors[number % len(self.posteriors)].member(number // len(self.posteriors))

    def module(self, k: int = 0) -> nn.Module:
        """Member k as an ordinary `nn.Module`."""
        number = self._check_member(k)
        return self.posteriors[number % len(self.posteriors)].module(number // len(self.posteriors))

    @property
    def max_members(self) -> int | None:
        """As many as keep weights equal; any number if that holds for all posteriors."""
        counts = [each.max_members for each in self.posteriors if each.max_members is not None]
        return min(counts) * len(self.posteriors) if counts else None

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return self.posteriors[0].dtype

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The content of all posteriors."""
        from calibrant.methods.serialization import describe

        described = [describe(each) for each in self.posteriors]
        groups = {f"posterior{k}": tensors for k, (tensors, _) in enumerate(described)}
        return TensorGroups(groups).flat(), {"posteriors": [stored for _, stored in described]}

    @classmethod
    def from_state_dict(cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **kwargs: Any) -> Mixture:
        """The inverse of `state_dict`."""
        from calibrant.methods.serialization import restore
        from calibrant.networks.user_module import UserModule

        architecture = kwargs["recipe"].architecture
        own = architecture if isinstance(architecture, UserModule) else None
        groups = TensorGroups.of(tensors).numbered("posterior")
        parts = zip(groups, settings["posteriors"], strict=True)
        return cls([restore(each, stored, own) for each, stored in parts], **kwargs)
