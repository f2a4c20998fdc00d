"""The stack's mark on its objects: the stack's name and a random id, which the state holds.

Two people may have stacks of the same name in one cluster; only the id says whose an object is. A user who lost the
state passes the id in TRAINSTACK_ADOPT.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult

from infra import agreed
from infra.dynamic import DynamicResource, Props, Provider, plain_props
from infra.objects.labels import MANAGED_BY, OWNER, STACK


class OwnerIdError(agreed.ProgramError):
    """The user's ADOPT is no owner id, or not the id in the state."""


def id_to_adopt(environment: Mapping[str, str] = os.environ) -> str | None:
    """The owner id that the user passes as ADOPT; None without ADOPT. Raises OwnerIdError."""
    given = environment.get(agreed.ADOPT) or None
    if given and not agreed.OWNER_ID.fullmatch(given):
        raise OwnerIdError(
            f"ADOPT={given} is not an owner id, which has 16 characters: digits 0 to 9 and letters a to f\n"
            "  fix: use the id that `make status` shows"
        )
    return given


class OwnerProvider(Provider):
    """Property: `stack`, its name. Nothing changes or replaces an id after its creation."""

    def create(self, props: Props) -> CreateResult:
        owner = id_to_adopt() or secrets.token_hex(8)
        return CreateResult(owner, plain_props(props) | {"owner": owner})


class Owner(DynamicResource, provider=OwnerProvider):
    """Output `owner`: the random id of this stack, 16 hexadecimal digits."""

    owner: pulumi.Output[str]


def marked(metadata: Mapping[str, Any], stack: str, owner: object) -> dict[str, Any]:
    """An object's `metadata` with the mark in its labels. No selector uses the mark."""
    labels = {**(metadata.get("labels") or {}), **MANAGED_BY, STACK: stack, OWNER: owner}
    return {**metadata, "labels": labels}


def mark_objects(stack: str) -> None:
    """Create the stack's id, and mark every Kubernetes object that the program registers after this."""
    owner = Owner(stack, {"stack": stack}).owner

    def mark(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not args.type_.startswith(agreed.OBJECT):
            return None
        # In a preview, only the id may be unknown: with unknown metadata Pulumi would show every object as replaced.
        metadata = pulumi.Output.from_input(args.props["metadata"])
        labelled = metadata.apply(lambda known: marked(known, stack, owner))
        return pulumi.ResourceTransformationResult({**args.props, "metadata": labelled}, args.opts)

    pulumi.runtime.register_stack_transformation(mark)
