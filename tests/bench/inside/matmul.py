"""GFLOP/s of a 2048x2048x2048 product with all threads, best of 20.

Usage: matmul.py float32|bfloat16
"""

import sys
import time

import torch

a = torch.randn(2048, 2048).to(getattr(torch, sys.argv[1]))
best = float("inf")
for _ in range(20):
    began = time.perf_counter()
    a @ a
    best = min(best, time.perf_counter() - began)
print(2 * 2048**3 / best / 1e9)
