"""All parameters in one buffer and all gradients in another: one all-reduce per step, and one optimizer call.

torch's DistributedDataParallel fuses gradients too, but lays its buckets out anew after the first step of each
process. Over three ranks and more that changes the order of additions, so a resumed run would not end in the weights
of an undisturbed one, to the bit. Here the layout never changes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Flat:
    """Moves the parameters of `network` into `values`, shape (n,); backward adds into `gradients`.

    The gradients' buffer has one element more, `loss`: it travels with them, so that a step's loss over all ranks
    costs no exchange of its own.
    """

    def __init__(self, network: nn.Module) -> None:
        parameters = list(network.parameters())
        size = sum(parameter.numel() for parameter in parameters)
        device = parameters[0].device
        self.values = torch.empty(size, device=device)
        self.buffer = torch.zeros(size + 1, device=device)
        self.gradients, self.loss = self.buffer[:size], self.buffer[size:]
        start = 0
        for parameter in parameters:
            place = slice(start, start + parameter.numel())
            values = _like(parameter, self.values[place])
            values.copy_(parameter.detach())
            parameter.data = values
            parameter.grad = _like(parameter, self.gradients[place])
            start += parameter.numel()


def _like(parameter: Tensor, piece: Tensor) -> Tensor:
    """`piece` in the parameter's shape and memory format."""
    if parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last):
        out, into, height, width = parameter.shape
        return piece.view(out, height, width, into).permute(0, 3, 1, 2)
    return piece.view(parameter.shape)
