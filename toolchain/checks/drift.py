"""`make drift`: checks whether the cluster matches the stack file. It changes nothing and trains nothing."""

from __future__ import annotations

import json
from typing import Any

from infra import agreed
from toolchain import stack_files
from toolchain.operating import backend, environment, pulumi_cli, setup, state, user_backend
from toolchain.steps import SetupError, step

NONE, DRIFT = 0, 1
"""Exit statuses. An error has another one. `pulumi preview --expect-no-changes` has one for drift and for an error
(pulumi/pulumi#8992)."""

# Steps that change nothing in the cluster: reads of a refresh, and unchanged objects.
QUIET = ("same", "read", "refresh")
# Resources that are files on this machine: a clone or a CI runner without a copy of the model is not drift.
HERE = "pulumi-python:dynamic/trainstack:ModelCopy"
MOST_LETTERS = 60


def drift(stack: str) -> int:
    """Print what an update would change in the cluster; returns NONE or DRIFT. Raises SetupError if that is unknown."""
    found = differences(stack)
    print("\n".join(found or [f"stack {stack}: no drift"]))
    return DRIFT if found else NONE


def differences(stack: str) -> list[str]:
    """A line for each object that is being deleted or differs from the stack file.

    Raises SetupError if the differences are unknown.
    """
    stack_files.check(stack)
    user_backend.check(stack)
    with setup.project_lock():
        variables = environment.load() or setup.prepare_pulumi()
        variables = environment.for_stack(variables, stack)
        if not state.has_resources(pulumi_cli.deployment(variables, stack)):
            raise SetupError(f"stack {stack} is not up", f"make up STACK={stack}")
        backend.prepare(stack, variables)
        with step("pulumi preview"):
            return lines(*pulumi_cli.preview(variables, stack, "--refresh"))


def lines(steps: list[dict[str, Any]], warnings: list[str]) -> list[str]:
    """The warnings about objects that are being deleted, and a line for each step that changes something."""
    return [*dict.fromkeys(each for each in warnings if agreed.LEAVING in each), *changed_steps(steps)]


def changed_steps(steps: list[dict[str, Any]]) -> list[str]:
    """A line for each step that changes something."""
    return [_line(each) for each in steps if each["op"] not in QUIET and f"{HERE}::" not in each["urn"]]


def _line(each: dict[str, Any]) -> str:
    kind, _, name = str(each["urn"]).rpartition("::")
    kind = kind.rpartition("$")[2].rpartition("::")[2].rpartition(":")[2]
    fields = ", ".join(_field(each, path) for path in each.get("detailedDiff") or {})
    return f"{each['op']}: {kind} {name}" + (f" ({fields})" if fields else "")


def _field(each: dict[str, Any], path: str) -> str:
    """`path: now -> wanted` for short top-level values, else `path`."""
    values = [(each.get(state) or {}).get("inputs", {}) for state in ("oldState", "newState")]
    for word in path.split("."):
        values = [value.get(word) if isinstance(value, dict) else None for value in values]
    shown = [json.dumps(value) for value in values]
    too_long = any(len(text) > MOST_LETTERS for text in shown)
    return path if too_long or shown[0] == shown[1] else f"{path}: {shown[0]} -> {shown[1]}"
