"""What the ranks exchange in a step: one packed tensor. Parameters, gradients and buffers stay in the module.

torch's DistributedDataParallel also packs gradients, but changes its buckets after the first step of each process.
With three ranks or more, that changes the order of additions: a resumed run would not end with exactly the weights of
an undisturbed run. Here the layout never changes. docs/adr/0025 has the other ways that were considered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from trainer.distributed import World


class Exchange:
    """Adds up the gradients of all ranks, and makes the buffers of all ranks the same.

    One tensor, `packed`, is added up once a step: the gradients in the order of the parameters, one flag for each
    parameter (whether a rank has a gradient of it), the loss, one flag for changed buffers, and the changes of
    BatchNorm's running statistics. The type of `packed` is the widest type among these, and float32 at least.

    Parameters:
        parameters: the trained parameters, by name.
    """

    def __init__(self, network: nn.Module, world: World) -> None:
        self.network, self.world = network, world
        self.parameters = {name: each for name, each in network.named_parameters() if each.requires_grad}
        self.norms = [each for each in network.modules() if isinstance(each, _BatchNorm)]
        self.loss = torch.zeros((), device=world.device)
        self.before: dict[str, Tensor] = {}  # buffers after the last whole step
        self.numbers = numbers_of(network)
        if world.size == 1:
            return
        self.before = {name: each.clone() for name, each in network.named_buffers()}
        tensors = [real(each.detach()) for each in self.parameters.values()]
        statistics = running_statistics(self.norms)
        wide = any(each.dtype is torch.float64 for each in (*tensors, *statistics))
        sizes = [each.numel() for each in (*tensors, *statistics)]
        self.packed = torch.zeros(
            sum(sizes) + len(tensors) + 2,
            dtype=torch.float64 if wide else torch.float32,
            device=world.device,
        )
        gradients, flags, rest = self.packed.split(
            [sum(sizes[: len(tensors)]), len(tensors), 2 + sum(sizes[len(tensors) :])]
        )
        pieces = gradients.split(sizes[: len(tensors)])
        self.places = [_in_order_of(each, piece) for each, piece in zip(tensors, pieces, strict=True)]
        self.flags, self.sum_of_losses, self.changed, self.averaged = flags, rest[:1], rest[1:2], rest[2:]

    def begin(self) -> None:
        """Delete the gradients of the last step."""
        for each in self.network.parameters():
            each.grad = None

    def end(self, weight: float, loss: Tensor) -> None:
        """Set each gradient to its sum over all ranks, or to None if no rank has it. Set `loss` to the sum of losses.

        BatchNorm's running statistics become their mean over the ranks, weighted by `weight`, each rank's part of the
        step's examples. All other buffers become rank 0's. Raises PeerLostError; `undo` then restores the buffers.
        """
        parameters = list(self.parameters.values())
        for each in parameters:
            if each.grad is not None and each.grad.layout is not torch.strided:
                each.grad = each.grad.to_dense()
        self.loss = loss
        if self.world.size == 1:
            return
        own = [None if each.grad is None else real(each.grad) for each in parameters]
        there = [(place, each) for place, each in zip(self.places, own, strict=True) if each is not None]
        missing = [place for place, each in zip(self.places, own, strict=True) if each is None]
        if there:
            torch._foreach_copy_([place for place, _ in there], [each for _, each in there])
        if missing:
            torch._foreach_zero_(missing)
        self.flags.copy_(torch.tensor([float(each is not None) for each in own]))
        self.sum_of_losses.copy_(loss)
        others = self.others()
        self.changed.fill_(any(not same(each, self.before.get(name)) for name, each in others.items()))
        statistics = running_statistics(self.norms)
        if statistics:
            then = torch.cat([self.before[name].flatten() for name in self.names_of(statistics)])
            now = torch.cat([each.flatten() for each in statistics])
            self.averaged.copy_((now - then).mul_(weight))
        self.world.sum(self.packed)
        self.loss = self.sum_of_losses[0]
        # A flag is read only if this rank has no gradient: reading it waits for the GPU.
        used = self.flags.tolist() if missing else [1.0] * len(parameters)
        for each, place, flag in zip(parameters, self.places, used, strict=True):
            each.grad = _gradient(each, place) if flag else None
        if statistics:
            means = (then + self.averaged).split([each.numel() for each in statistics])
            for each, mean in zip(statistics, means, strict=True):
                each.copy_(mean.view(each.shape))
        if others and self.changed.item():
            self.take_buffers_of_rank_zero()
        self.remember()

    def others(self) -> dict[str, Tensor]:
        """All buffers except BatchNorm's running statistics."""
        averaged = {id(each) for each in running_statistics(self.norms)}
        return {name: each for name, each in self.network.named_buffers() if id(each) not in averaged}

    def names_of(self, buffers: Iterable[Tensor]) -> list[str]:
        """Names of these buffers, in the same order."""
        names = {id(each): name for name, each in self.network.named_buffers()}
        return [names[id(each)] for each in buffers]

    def take_buffers_of_rank_zero(self) -> None:
        """Set all buffers except BatchNorm's running statistics to those of rank 0. Raises PeerLostError."""
        theirs = self.world.from_rank_zero(
            lambda: {name: each.detach().cpu() for name, each in self.others().items()}
        )
        if not self.world.leads:
            for name, value in theirs.items():
                put(self.network, name, value)

    def remember(self) -> None:
        """Remember the present buffers, and the present attributes of `numbers_of`."""
        self.numbers = numbers_of(self.network)
        for name, each in self.network.named_buffers():
            if not same(each, self.before.get(name)):
                self.before[name] = each.clone()

    def undo(self) -> None:
        """Restore buffers, and attributes of `numbers_of`, as they were before an interrupted step."""
        put_numbers(self.network, self.numbers)
        now = dict(self.network.named_buffers())
        for name, each in self.before.items():
            if not same(now.get(name), each):
                put(self.network, name, each)

    def finite(self) -> bool:
        """Whether all trained parameters and BatchNorm's averages are finite."""
        found = (*(each.detach() for each in self.parameters.values()), *running_statistics(self.norms))
        return all(bool(torch.isfinite(each).all()) for each in found)


def running_statistics(norms: Iterable[_BatchNorm]) -> list[Tensor]:
    """Running means and variances of these modules; some keep none."""
    pairs = ((each.running_mean, each.running_var) for each in norms)
    return [each for pair in pairs for each in pair if each is not None]


def real(tensor: Tensor) -> Tensor:
    """A complex tensor (...) as its real and imaginary parts (..., 2); other tensors unchanged."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def raw(tensor: Tensor) -> Any:
    """A copy of a tensor's bytes, as a NumPy array (n,). If these were shared, torch could not resize the tensor."""
    copied = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
    return copied.view(-1).view(torch.uint8).numpy()


def parts_of(tensor: Tensor) -> list[Tensor]:
    """Indices and values of a sparse tensor; another tensor unchanged."""
    if tensor.layout is torch.strided:
        return [tensor]
    found = tensor.detach().to_sparse_coo().coalesce()
    return [found.indices(), found.values()]


def put(network: nn.Module, name: str, value: Tensor) -> None:
    """Set a buffer to this value: in place if it has the same size, else as another tensor."""
    path, _, own = name.rpartition(".")
    module = network.get_submodule(path)
    there = module._buffers.get(own)
    has_room = (
        there is not None
        and there.layout is value.layout is torch.strided
        and not any(step == 0 and count > 1 for step, count in zip(there.stride(), there.shape, strict=True))
    )
    if there is not None and has_room and (there.shape, there.dtype) == (value.shape, value.dtype):
        with torch.no_grad():
            there.copy_(value)
    else:
        device = there.device if there is not None else next(network.parameters()).device
        module._buffers[own] = value.clone().to(device)


def numbers_of(network: nn.Module) -> dict[str, bool | int | float | str]:
    """The modules' attributes that are numbers, booleans or texts, by name. A forward pass may count in them."""
    return {
        f"{path}.{name}": value
        for path, module in network.named_modules()
        for name, value in vars(module).items()
        if type(value) in (bool, int, float, str) and name not in ("training", "call_super_init")
    }


def put_numbers(network: nn.Module, numbers: dict[str, bool | int | float | str]) -> None:
    """Set these attributes of modules; those of a missing module are left out."""
    modules = dict(network.named_modules())
    for name, number in numbers.items():
        path, _, own = name.rpartition(".")
        if path in modules:
            setattr(modules[path], own, number)


def _in_order_of(tensor: Tensor, piece: Tensor) -> Tensor:
    """`piece` (n,) in the shape of `tensor`, and with channels last in memory if `tensor` has them last."""
    channels_last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    if channels_last and tensor.is_contiguous(memory_format=channels_last):
        return piece.as_strided(tensor.shape, tensor.stride(), piece.storage_offset())
    return piece.view(tensor.shape)


def _gradient(parameter: Tensor, place: Tensor) -> Tensor:
    """The gradient of `parameter` that is packed at `place`."""
    if parameter.is_complex():
        place = torch.view_as_complex(place.clone())
    return place.to(parameter.dtype)


def same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether both hold the same numbers; NaN equals NaN here."""
    if one is None or other is None or one.layout is not other.layout:
        return one is other
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    if one.layout is not torch.strided:
        return all(map(same, parts_of(one), parts_of(other)))
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())
