"""Fewer bits where the hardware computes faster with them and the recipe allows it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from trainer.recipes import Recipe


def forward_pass(recipe: Recipe, device: torch.device) -> AbstractContextManager[object]:
    """The context of the forward pass: bfloat16 where the GPU or the CPU multiplies it, else float32.

    Weights, gradients and evaluation stay float32. GPUs with TF32 use it for float32 products and convolutions.
    """
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    has = torch.cuda.is_bf16_supported() if device.type == "cuda" else _cpu_multiplies_bf16()
    return torch.autocast(device.type, torch.bfloat16) if recipe.bf16 and has else nullcontext()


def _cpu_multiplies_bf16() -> bool:
    """Whether the CPU has AMX or AVX-512's bfloat16 products; elsewhere oneDNN would emulate them, slowly."""
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
