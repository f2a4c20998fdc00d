"""Fewer bits, if the hardware computes faster with them and the recipe or the user allows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from trainer.distributed import World
from trainer.recipes import Recipe


def choose(recipe: Recipe, world: World) -> torch.dtype:
    """The type of products in training: bfloat16 if the recipe and every rank's GPU or CPU allow it, else float32.

    Weights, sums of gradients and evaluation are float32. GPUs with TF32 use TF32 for float32 products in training.
    """
    if world.device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without this, cuBLAS adds in any order
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = (
            False  # nothing reads such memory, and filling takes time
        )
    settle(world.device)
    everywhere = world.all(recipe.bf16 and _multiplies_bf16(world.device))
    return torch.bfloat16 if everywhere else torch.float32


def settle(device: torch.device) -> None:
    """Let the next step on a GPU compute the same products in a resumed run as in an uninterrupted run.

    A network may have changed torch's settings of TF32 and cuDNN, for example in evaluation; a resumed run would begin
    without the change.
    """
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = False  # cuDNN would choose by speed, again in each process
        torch.backends.cudnn.deterministic = True


def forward_pass(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[object]:
    """The context in which the forward pass, and the backward pass after it, multiply numbers of `dtype`."""
    return nullcontext() if dtype is torch.float32 else torch.autocast(device.type, dtype)


@contextmanager
def whole_float32() -> Iterator[None]:
    """Inside, float32 products and convolutions keep all bits, also on GPUs that have TF32."""
    flags = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [flag.allow_tf32 for flag in flags]
    for flag in flags:
        flag.allow_tf32 = False
    try:
        yield
    finally:
        for flag, value in zip(flags, before, strict=True):
            flag.allow_tf32 = value


def _multiplies_bf16(device: torch.device) -> bool:
    """Whether the GPU, or the CPU with AMX or AVX-512, multiplies bfloat16; other processors emulate this slowly."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
