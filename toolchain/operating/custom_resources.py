"""Custom resource definitions that the API server holds and does not serve yet.

It serves one a moment after it was created. Where its etcd was away just then, it tries again after longer and longer
pauses. Pulumi's plugin waits a minute for one that it creates, and for no other.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping

from toolchain.operating import live_objects, state
from toolchain.steps import step

KIND = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
# The longest pause of the server's controllers: DefaultTypedControllerRateLimiter of client-go.
PATIENCE_S = 1000.0
PAUSE_S = 1.0


def wait(variables: Mapping[str, str], deployment: state.Deployment) -> bool:
    """Wait until the API server serves the stack's definitions; whether it serves all now, and did not before."""
    names = [each["outputs"]["metadata"]["name"] for each in state.resources(deployment) if _is_made(each)]
    access = state.access(deployment)
    if access is None or not (missing := _unserved(variables, access, names)):
        return False
    deadline = time.monotonic() + PATIENCE_S
    with step(f"waiting for the API server to serve {', '.join(missing)}"):
        while missing and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
            missing = _unserved(variables, access, missing)
    return not missing


def _is_made(resource: state.Resource) -> bool:
    return resource["type"] == KIND and bool((resource.get("outputs") or {}).get("metadata"))


def _unserved(variables: Mapping[str, str], access: state.Access, names: list[str]) -> list[str]:
    """Those of `names` that the server holds and does not serve. One that does not answer names none."""

    def get(*words: str) -> subprocess.CompletedProcess[str]:
        return live_objects.kubectl(
            variables, access, "get", *words, "--ignore-not-found", "--output", "name"
        )

    held = [name for name in names if get("customresourcedefinitions", name).stdout.strip()]
    # A definition has the name of what it defines: resource and group.
    return [name for name in held if live_objects.NO_SUCH_KIND in get(name, "--all-namespaces").stderr]
