"""The program, with guards that do not wait for an API server that is away: a test's `main` of Pulumi.yaml.

The webhooks of controllers that it installs are never asked: nothing in the tests' server answers them.
"""

from __future__ import annotations

import runpy
from dataclasses import replace

from infra import operators
from infra.clusters import selection
from infra.config import Stack
from infra.objects import retry
from infra.objects.look import Look
from infra.objects.manifest import Manifest
from infra.training_operator.plan import Plan

ANSWER_S = 3.0
"""How long one answer may take, in seconds."""
NEVER = [{"name": "nobody-answers", "expression": "false"}]
look, parts = selection.look, operators.parts


def hurried(stack: Stack) -> Look:
    """As `selection.look`, without its patience."""
    return replace(look(stack), limit_s=0, answer_s=ANSWER_S)


def unasked(stack: Stack, planned: Plan) -> dict[str, list[Manifest]]:
    """As `operators.parts`, with webhooks that no request matches."""
    found = parts(stack, planned)
    for each in (each for objects in found.values() for each in objects):
        for webhook in each.get("webhooks") or []:
            webhook["matchConditions"] = NEVER
    return found


if __name__ == "__main__":
    selection.look, operators.parts, retry.PAUSE_S = hurried, unasked, 0.1
    runpy.run_module("infra", run_name="__main__")
