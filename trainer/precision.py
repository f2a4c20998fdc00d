"""Fewer bits where the hardware computes faster with them and the recipe or the user allows it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from trainer.recipes import Recipe


def choose(recipe: Recipe, device: torch.device) -> torch.dtype:
    """What the forward pass multiplies: bfloat16 if wanted and the GPU or the CPU has it, else float32.

    Weights, gradients and evaluation stay float32. GPUs with TF32 use it for float32 products and convolutions.
    """
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    has = torch.cuda.is_bf16_supported() if device.type == "cuda" else _cpu_multiplies_bf16()
    return torch.bfloat16 if recipe.bf16 and has else torch.float32


def forward_pass(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[object]:
    """The context in which the forward pass multiplies numbers of `dtype`."""
    return nullcontext() if dtype is torch.float32 else torch.autocast(device.type, dtype)


def _cpu_multiplies_bf16() -> bool:
    """Whether the CPU has AMX or AVX-512's bfloat16 products; elsewhere oneDNN would emulate them, slowly."""
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
