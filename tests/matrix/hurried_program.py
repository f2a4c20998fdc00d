"""The program, with guards that do not wait for an API server that is away: a test's `main` of Pulumi.yaml."""

from __future__ import annotations

import runpy
from dataclasses import replace

from infra.clusters import selection
from infra.config import Stack
from infra.objects import retry
from infra.objects.look import Look

ANSWER_S = 3.0
"""How long one answer may take, in seconds."""
look = selection.look


def hurried(stack: Stack) -> Look:
    """As `selection.look`, without its patience."""
    return replace(look(stack), limit_s=0, answer_s=ANSWER_S)


if __name__ == "__main__":
    selection.look, retry.PAUSE_S = hurried, 0.1
    runpy.run_module("infra", run_name="__main__")
