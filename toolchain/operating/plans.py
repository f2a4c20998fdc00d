"""The update of a protected stack: by a plan that is made and shown first, and that Pulumi then keeps to.

`--save-plan` and `--plan` are experimental in Pulumi (3.246). An update that would do something else fails.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from toolchain.operating import pulumi_cli
from toolchain.steps import step


def update(
    variables: Mapping[str, str],
    stack: str,
    options: tuple[str, ...],
    quiet: tuple[str, ...],
    ensure_reviewed: Callable[[], None],
) -> int:
    """Show what an update of `stack` will do, then do that; the exit status of what has failed, else 0.

    Parameters:
        options: of the preview and of the update alike.
        quiet: of the update alone.
        ensure_reviewed: called when the plan is made: files that have changed meanwhile may be in it.
    """
    with tempfile.TemporaryDirectory(prefix="trainstack-plan-") as folder:
        plan = str(Path(folder) / "plan.json")
        common = (*options, "--stack", stack)
        shown = ("--diff", "--non-interactive", "--color", "never")
        with step("pulumi preview"):
            status = pulumi_cli.stream(variables, "preview", "--save-plan", plan, *shown, *common)
        if status:
            return status
        ensure_reviewed()
        with step("pulumi up"):
            return pulumi_cli.stream(variables, "up", "--plan", plan, *quiet, *common)
