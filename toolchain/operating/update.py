"""`pulumi up`, as often as it takes: the program stops it, with nothing touched, where `make up` has to act first.

It writes into a file what that is: objects to put into the state, or a cluster whose objects go with it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infra import agreed
from toolchain.operating import adoption, pulumi_cli, pulumi_output
from toolchain.steps import SetupError, say, step

ROUNDS = 4
"""A lost state takes three: cluster and image, objects, the rest."""

Run = Callable[..., int]


def update(variables: Mapping[str, str], stack: str, pulumi_up: Run, mended: Callable[[], bool]) -> None:
    """Run `pulumi_up(variables, *options)` until the program asks for nothing more. Raises SetupError.

    `mended` is called after a failure, and says whether it could do something about it.
    """
    options = ["--refresh"]
    asked: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    rounds, fix = 0, ""
    with tempfile.TemporaryDirectory(prefix="trainstack-update-") as folder:
        file = Path(folder) / "asked"
        while rounds < ROUNDS:
            file.unlink(missing_ok=True)
            status = pulumi_up({**variables, agreed.LOST_OBJECTS: str(file), **_replacing(asked)}, *options)
            asked = json.loads(file.read_text()) if file.exists() else {}
            if not asked and status == 0:
                break
            failed, said = pulumi_output.failed_jobs(), pulumi_output.fix()
            if status and not any(asked.values()) and not mended():
                fix = fix or said
                if not failed.keys() - left_out.keys():
                    break
                left_out |= failed
                say(f"{_named(left_out)} failed: the others go on, but for what waits for it")
            else:
                rounds += 1
            # What Pulumi was refused is not in the state, and a refresh would not know its name.
            options = _excluding(left_out) if left_out else ["--refresh"]
            if "replaced" in asked:
                say(f"cluster {asked['replaced']} is replaced; its objects go with it")
                options = []  # a refresh would start the plugin while the old cluster is there
            elif lost := asked.get("objects"):
                _adopt_lost(variables, stack, lost)
    if status or asked or left_out:
        where = f"for {_named(left_out)}" if left_out and not status else f"({status})"
        raise SetupError(f"`pulumi up` failed {where}; its messages are above", fix or pulumi_output.fix())


def _named(left_out: Mapping[str, str]) -> str:
    names = sorted({*left_out.values()})
    return f"job{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _excluding(left_out: Mapping[str, str]) -> list[str]:
    """Options that leave out what has failed, and what depends on it.

    `--continue-on-error` goes on, too, but deletes what the program has not registered when it ends early.
    """
    return ["--exclude-dependents", *(word for urn in sorted(left_out) for word in ("--exclude", urn))]


def _replacing(asked: Mapping[str, Any]) -> dict[str, str]:
    return {agreed.DELETE_UNREACHABLE: "true"} if "replaced" in asked else {}


def _adopt_lost(variables: Mapping[str, str], stack: str, lost: list[dict[str, Any]]) -> None:
    """Put the objects `lost` into the state."""
    with step("objects of this stack that its state has lost") as running:
        steps = pulumi_cli.preview({**variables, agreed.ADOPTING: "yes"}, stack)
        taken = pulumi_cli.edit_state(
            variables, stack, lambda deployment: adoption.adopt_lost(deployment, steps, lost)
        )
        running.conclude(f"{len(taken)} of {len(lost)} put into the state")
    if not taken:
        raise SetupError("objects of this stack are in the cluster, and could not be put into its state")


def hand_on_consents(adopt: str, replace_cluster: str) -> None:
    """Hand on to the program, in the environment, what the user allows for this run alone.

    Raises SetupError for what is no owner's id.

    Parameters:
        adopt: id of the owner whose objects are taken over; empty for none.
        replace_cluster: `yes` where the cluster may be replaced.
    """
    if adopt and not agreed.OWNER_ID.fullmatch(adopt):
        raise SetupError(
            f"ADOPT={adopt} is no owner's id: 16 of the characters 0 to 9 and a to f",
            "`make status` shows it",
        )
    for name, value in ((agreed.ADOPT, adopt), (agreed.REPLACE_CLUSTER, replace_cluster)):
        if value:
            os.environ[name] = value
