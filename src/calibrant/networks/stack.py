"""Many networks of one architecture, computed as one.

Parameters lie member by member in one flat tensor, [first parameter of all K members | second | …], so that an
optimiser takes one step for all of them. The forward pass is `torch.vmap` over the members: dense layers become batched
products, convolutions grouped ones, and activations of images lie channels-last with members side by side. Layers that
vmap does not know are computed member after member.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from calibrant.errors import CalibrantWarning, plain
from calibrant.networks.recipe import SCALES, Template, is_mask

ALIGNED = 16
"""Numbers to a multiple of which each parameter is padded: kernels like whole cache lines."""
State = dict[str, Tensor]


@dataclass
class Stack:
    """K networks: parameters and buffers with a leading axis of K."""

    template: Template
    parameters: State
    buffers: State
    flat: Tensor
    slopes: Tensor
    size: int
    together: bool = True
    compiled: Callable[[State, Tensor], Tensor] | None = None

    @classmethod
    def of(cls, template: Template, states: list[State], device: torch.device, dtype: torch.dtype) -> Stack:
        """Networks with the given states, on a device."""
        module = template.module.to(device=device, dtype=dtype)
        names = [name for name, _ in module.named_parameters()]
        shapes = {name: (len(states), *states[0][name].shape) for name in names}
        sizes = [_padded(torch.Size(shapes[name]).numel()) for name in names]
        flat, slopes = (torch.zeros(sum(sizes), device=device, dtype=dtype) for _ in range(2))
        parameters: State = {}
        for name, part, slope in zip(names, flat.split(sizes), slopes.split(sizes), strict=True):
            count = torch.Size(shapes[name]).numel()
            parameters[name] = part[:count].view(shapes[name])
            parameters[name].copy_(torch.stack([state[name].to(dtype) for state in states]))
            parameters[name].requires_grad_()
            parameters[name].grad = slope[:count].view(shapes[name])
        buffers = {
            name: torch.stack([state[name] if name in SCALES else _cast(state[name], dtype) for state in states]).to(
                device
            )
            for name, _ in module.named_buffers()
            if not is_mask(name)
        }
        return cls(template, parameters, buffers, flat, slopes, len(states))

    # ----------------------------------------------------------------------------------- computing
    def __call__(self, x: Tensor, masks: State | None = None, *, train: bool = False) -> Tensor:
        """Outputs (K, n, O) of rows (K, n, …), one set for each member."""
        self.template.module.train(train)
        tensors = {**self.parameters, **self.buffers, **(masks or {})}
        if self.size == 1:
            return self._one({name: value[0] for name, value in tensors.items()}, _beside(x)[0])[None]
        if self.together:
            compute = self.compiled if train and self.compiled is not None else self._all
            return compute(tensors, _beside(x))
        each = [self._one({name: value[k] for name, value in tensors.items()}, x[k]) for k in range(self.size)]
        return torch.stack(each)

    def _all(self, tensors: State, x: Tensor) -> Tensor:
        return torch.vmap(self._one)(tensors, x)

    def compile(self) -> None:
        """Let PyTorch compile what training computes, which takes half a minute and then goes faster on a GPU."""
        self.compiled = torch.compile(self._all)

    def _one(self, tensors: State, x: Tensor) -> Tensor:
        return functional_call(self.template.module, tensors, (x,))

    def try_together(self, x: Tensor, masks: State | None = None) -> None:
        """Find out whether members can be computed at once; where not, say so and compute them one by one."""
        if self.size == 1:
            return
        buffers = {name: value.clone() for name, value in self.buffers.items()}
        try:
            self(x, masks, train=True).sum().backward()
        except (RuntimeError, NotImplementedError) as error:
            if short_of_memory(error):
                raise
            self.together = False
            warnings.warn(
                f"these {self.size} networks are computed one after another, because a layer cannot be batched: "
                f"{plain(str(error), 160)}",
                CalibrantWarning,
                stacklevel=2,
            )
        self.buffers = buffers
        self.slopes.zero_()

    # --------------------------------------------------------------------------------------- parts
    @property
    def scale(self) -> tuple[Tensor, Tensor]:
        """What y of each member is standardised by (K,)."""
        return self.buffers["y_mean"], self.buffers["y_std"]

    def state(self, k: int) -> State:
        """All tensors of one network, copied to this machine's memory."""
        return {name: value[k].detach().cpu().clone() for name, value in {**self.parameters, **self.buffers}.items()}

    def spread(self, values: list[float]) -> Tensor | float:
        """A number for each member as one number for each parameter; one number for all where they agree."""
        if len(set(values)) == 1:
            return values[0]
        wide = torch.zeros_like(self.flat)
        given = torch.tensor(values, device=self.flat.device, dtype=self.flat.dtype)
        for part in self.parts(wide):
            part.view(self.size, -1).copy_(given[:, None])
        return wide

    def parts(self, flat: Tensor) -> list[Tensor]:
        """The parts of a flat tensor that belong to the parameters, member by member, without what pads them."""
        counts = [parameter.numel() for parameter in self.parameters.values()]
        return [part[:count] for part, count in zip(flat.split([_padded(n) for n in counts]), counts, strict=True)]

    def keep(self, better: Tensor, kept: State) -> None:
        """Take over, into `kept`, the tensors of the members for which `better` (K,) holds."""
        for name, value in {**self.parameters, **self.buffers}.items():
            where = better.view(-1, *(1 for _ in value.shape[1:]))
            kept[name] = torch.where(where, value.detach(), kept[name]) if name in kept else value.detach().clone()

    def restore(self, kept: Mapping[str, Tensor]) -> None:
        """Put back what was kept."""
        with torch.no_grad():
            for name, value in {**self.parameters, **self.buffers}.items():
                value.copy_(kept[name])


def _padded(count: int) -> int:
    return -(-count // ALIGNED) * ALIGNED


def _beside(x: Tensor) -> Tensor:
    """Images (K, n, C, H, W) on an accelerator with members side by side and channels last; else as they come."""
    if x.dim() != 5 or x.device.type != "cuda":
        return x
    return x.permute(1, 3, 4, 0, 2).contiguous().permute(3, 0, 4, 1, 2)


def _cast(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to(dtype) if value.is_floating_point() else value


def fresh_state(network: torch.nn.Module, scales: Mapping[str, Tensor]) -> State:
    """The tensors of a fresh network, with what its data are standardised by."""
    tensors = {name: value.detach().clone() for name, value in network.state_dict(keep_vars=True).items()}
    tensors |= {name: value.detach().clone() for name, value in network.named_buffers() if not is_mask(name)}
    return tensors | {name: scales[name] for name in SCALES}


def short_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory does not suffice: that of a processor comes without a class of its own."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "enough memory" in str(error)
