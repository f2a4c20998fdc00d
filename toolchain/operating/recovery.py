"""What a stack's backend holds of it, and whether a Pulumi that was killed left operations pending there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolchain.operating import adoption, pulumi_cli, state_copies, user_backend


def has_pending(deployment: Mapping[str, Any]) -> bool:
    """Whether a killed run left operations whose outcome nobody knows."""
    return bool(deployment.get("pending_operations") or adoption.half_replaced(deployment))


def has_resources(deployment: Mapping[str, Any]) -> bool:
    """Whether there is anything to take down."""
    return bool(deployment.get("resources")) or has_pending(deployment)


def deployment_of_any_backend(variables: Mapping[str, str], stack: str) -> dict[str, Any]:
    """What the stack's backend holds of it: of our own without the second that Pulumi takes. Raises SetupError."""
    return pulumi_cli.deployment(variables, stack) if user_backend.backend() else deployment(stack)


def deployment(stack: str) -> dict[str, Any]:
    """What our file backend holds of `stack`, read without Pulumi; empty where it never was up.

    Raises SetupError where the state is torn and no copy is whole.
    """
    state = json.loads(state_copies.read(stack) or "{}")
    latest: dict[str, Any] = (state.get("checkpoint") or {}).get("latest") or {}
    return latest
