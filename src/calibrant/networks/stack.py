"""Many networks of one architecture, computed together.

All parameters are views of one flat tensor, [first parameter of all K members | second | …], so that a single optimiser
step updates all of them. The forward pass is `torch.vmap` over the members: dense layers become batched matrix products
and convolutions grouped convolutions, and image activations are channels-last with members adjacent. If vmap does not
support a layer, members are computed one by one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from calibrant.errors import CalibrantWarning, plain
from calibrant.networks.mixed_precision import castable_layers, computing_in
from calibrant.networks.recipe import SCALES, Template, is_mask

ALIGNED = 16
"""Each parameter is padded to a multiple of this many elements, for aligned memory access."""
State = dict[str, Tensor]


@dataclass
class Stack:
    """K networks: parameters, and buffers (frozen parameters among them), with a leading axis of K."""

    template: Template
    parameters: State
    buffers: State
    flat: Tensor
    gradients: Tensor
    size: int
    together: bool = True
    compute_dtype: torch.dtype | None = None
    """The dtype of products and convolutions; None for that of the parameters."""
    compiled: Callable[[State, Tensor], Tensor] | None = None

    @classmethod
    def of(cls, template: Template, states: list[State], device: torch.device, dtype: torch.dtype) -> Stack:
        """Networks with the given states, on a device."""
        module = template.module.to(device=device, dtype=dtype)
        names = list(template.trained)
        shapes = {name: (len(states), *states[0][name].shape) for name in names}
        sizes = [_padded(torch.Size(shapes[name]).numel()) for name in names]
        flat, gradients = (torch.zeros(sum(sizes), device=device, dtype=dtype) for _ in range(2))
        parameters: State = {}
        for name, part, gradient in zip(names, flat.split(sizes), gradients.split(sizes), strict=True):
            count = torch.Size(shapes[name]).numel()
            parameters[name] = part[:count].view(shapes[name])
            parameters[name].copy_(torch.stack([state[name].to(dtype) for state in states]))
            parameters[name].requires_grad_()
            parameters[name].grad = gradient[:count].view(shapes[name])
        buffers = {
            name: torch.stack([state[name] for state in states]).to(device)
            for name in (*template.frozen, *(name for name, _ in module.named_buffers()))
            if not is_mask(name)
        }
        for name, value in buffers.items():
            if value.is_floating_point() and name not in SCALES:
                buffers[name] = value.to(dtype)
        return cls(template, parameters, buffers, flat, gradients, len(states))

    # ----------------------------------------------------------------------------------- computing
    def __call__(self, x: Tensor, masks: State | None = None, *, train: bool = False) -> Tensor:
        """Outputs (K, n, O) of rows (K, n, …), one batch per member."""
        autocast = torch.autocast(
            self.flat.device.type, self.compute_dtype, enabled=self.compute_dtype is not None, cache_enabled=False
        )  # casts other products, such as those of attention
        with autocast, computing_in(self.compute_dtype, castable_layers(self.template.module)):
            return self._compute(x, masks, train)

    def _compute(self, x: Tensor, masks: State | None, train: bool) -> Tensor:
        self.template.module.train(train)
        for layer in self.template.frozen_norms:
            layer.eval()
        tensors = {**self.parameters, **self.buffers, **(masks or {})}
        if self.size == 1:
            return self._one({name: value[0] for name, value in tensors.items()}, _members_adjacent(x)[0])[None]
        if self.together:
            compute = self.compiled if train and self.compiled is not None else self._all
            return compute(tensors, _members_adjacent(x))
        each = [self._one({name: value[k] for name, value in tensors.items()}, x[k]) for k in range(self.size)]
        return torch.stack(each)

    def _all(self, tensors: State, x: Tensor) -> Tensor:
        return torch.vmap(self._one)(tensors, x)

    def compile(self) -> None:
        """Compile the forward pass of training: takes about half a minute, and makes training on a GPU faster."""
        self.compiled = torch.compile(self._all)

    def _one(self, tensors: State, x: Tensor) -> Tensor:
        return functional_call(self.template.module, tensors, (x,))

    def check_vmap(self, x: Tensor, masks: State | None = None) -> None:
        """Try `torch.vmap`; if a layer does not support it, warn and compute members one by one."""
        if self.size == 1:
            return
        buffers = {name: value.clone() for name, value in self.buffers.items()}
        try:
            self(x, masks, train=True).sum().backward()
        except (RuntimeError, NotImplementedError) as error:
            if is_out_of_memory(error):
                raise
            self.together = False
            warnings.warn(
                f"these {self.size} networks are computed one after another, because a layer cannot be batched: "
                f"{plain(str(error), 160)}",
                CalibrantWarning,
                stacklevel=2,
            )
        self.buffers = buffers
        self.gradients.zero_()

    # --------------------------------------------------------------------------------------- parts
    @property
    def scale(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation by which y is standardised, (K,) each."""
        return self.buffers["y_mean"], self.buffers["y_std"]

    def state(self, k: int) -> State:
        """Copies of all tensors of one network, on the CPU."""
        return {name: value[k].detach().cpu().clone() for name, value in {**self.parameters, **self.buffers}.items()}

    def spread(self, values: list[float]) -> Tensor | float:
        """Expand one value per member to one per parameter; a plain number if all members have the same."""
        if len(set(values)) == 1:
            return values[0]
        wide = torch.zeros_like(self.flat)
        per_member = torch.tensor(values, device=self.flat.device, dtype=self.flat.dtype)
        for part in self.parts(wide):
            part.view(self.size, -1).copy_(per_member[:, None])
        return wide

    def parts(self, flat: Tensor) -> list[Tensor]:
        """The slices of a flat tensor that belong to each parameter, without padding."""
        counts = [parameter.numel() for parameter in self.parameters.values()]
        return [part[:count] for part, count in zip(flat.split([_padded(n) for n in counts]), counts, strict=True)]

    def keep(self, better: Tensor, kept: State) -> None:
        """Copy into `kept` the tensors of members for which `better` (K,) is true."""
        for name, value in {**self.parameters, **self.buffers}.items():
            where = better.view(-1, *(1 for _ in value.shape[1:]))
            kept[name] = torch.where(where, value.detach(), kept[name]) if name in kept else value.detach().clone()

    def restore(self, kept: Mapping[str, Tensor]) -> None:
        """Restore tensors saved by `keep`."""
        with torch.no_grad():
            for name, value in {**self.parameters, **self.buffers}.items():
                value.copy_(kept[name])


def _padded(count: int) -> int:
    return -(-count // ALIGNED) * ALIGNED


def _members_adjacent(x: Tensor) -> Tensor:
    """On a GPU, images (K, n, C, H, W) laid out channels-last with members adjacent; x itself otherwise."""
    if x.dim() != 5 or x.device.type != "cuda":
        return x
    return x.permute(1, 3, 4, 0, 2).contiguous().permute(3, 0, 4, 1, 2)


def initial_state(network: torch.nn.Module, standardisation: Mapping[str, Tensor]) -> State:
    """The tensors of a newly initialised network, with the standardisation of its data."""
    tensors = {name: value.detach().clone() for name, value in network.state_dict(keep_vars=True).items()}
    tensors |= {name: value.detach().clone() for name, value in network.named_buffers() if not is_mask(name)}
    return tensors | {name: standardisation[name] for name in SCALES}


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means out of memory; on a CPU, PyTorch raises a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "enough memory" in str(error)
