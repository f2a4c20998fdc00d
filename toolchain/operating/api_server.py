"""Waits for the API server before Pulumi asks it: a restarting server must not look like a deleted cluster."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping

from toolchain.operating import live_objects, state
from toolchain.operating.state import Access
from toolchain.steps import SetupError, say, step

PATIENCE_S = 120.0
PAUSE_S = 1.0
DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
# The longest pause of the server's controllers: DefaultTypedControllerRateLimiter of client-go.
DEFINITIONS_PATIENCE_S = 1000.0
ANSWER_S = 5
READY, MOST_LETTERS = "ok", 60
# kubectl's words if the server does not know this user. So the server answers.
REFUSES = ("Unauthorized", "You must be logged in")
# kubectl's word if this user has no right. A server that has not read its roles yet answers this to everybody.
FORBIDDEN = "Forbidden"
STARTING_S = 30.0
# Each connection has another local port. A message that differs only in this port is not new.
_OWN_PORT = re.compile(r":\d+->")


def is_named(variables: Mapping[str, str], access: Access) -> bool:
    """Whether the kubeconfig exists and names a server. False if the file was moved, or its context renamed."""
    return not live_objects.kubectl(variables, access, "config", "view", "--minify", "-o", "name").returncode


def problem(variables: Mapping[str, str], access: Access) -> str | None:
    """Why the API server does not answer now, in kubectl's words; None if it answers.

    A connection that is refused, reset, cut off or too slow, a TLS or server error, a missing kubeconfig: all are
    problems.
    """
    done = live_objects.kubectl(
        variables, access, "get", "--raw", "/readyz", answer_s=ANSWER_S, whole_s=4 * ANSWER_S
    )
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    if any(word in line for word in REFUSES for line in said) or (not done.returncode and said == [READY]):
        return None
    if not done.returncode:
        return f"/readyz does not say {READY}; this may be another server: {said[0][:MOST_LETTERS] if said else ''}"
    return said[-1] if said else f"kubectl ended with {done.returncode}"


def wait(variables: Mapping[str, str], access: Access, patience: float = PATIENCE_S) -> None:
    """Return when the API server answers, or when it has refused this user for STARTING_S seconds.

    Raises SetupError after `patience` seconds. Nothing is changed then.
    """
    why = problem(variables, access)
    if why is None:
        return
    began, told = time.monotonic(), set[str]()
    with step("waiting for the API server") as running:
        while why is not None:
            if (news := _OWN_PORT.sub("->", why)) not in told:
                told.add(news)
                say(f"   {running.name}: {why}")
            running.note(why)
            if FORBIDDEN in why and time.monotonic() - began > STARTING_S:
                return
            if time.monotonic() - began > patience:
                raise SetupError(
                    f"the cluster's API server has not answered for {patience:.0f} s: {why}\n"
                    "nothing was changed, and nothing was dropped from the state",
                    "repair the cluster or the connection to it, then run the same command again; "
                    "if the cluster is lost: docs/runbooks/cluster-gone.md",
                )
            time.sleep(PAUSE_S)
            why = problem(variables, access)


def wait_for_definitions(variables: Mapping[str, str], deployment: state.Deployment) -> bool:
    """Wait until the API server serves the stack's CustomResourceDefinitions.

    Returns True if it serves all of them after the wait. False if there was nothing to wait for, or after a long wait.

    The server begins to serve a definition a moment after its creation. If etcd does not answer at that moment, the
    server tries again after longer and longer pauses. Pulumi's plugin waits a minute, and only for definitions that it
    creates.
    """
    names = [each["outputs"]["metadata"]["name"] for each in state.resources(deployment) if _is_made(each)]
    access = state.access(deployment)
    if access is None or not (missing := _unserved(variables, access, names)):
        return False
    deadline = time.monotonic() + DEFINITIONS_PATIENCE_S
    with step(f"waiting for the API server to serve {', '.join(missing)}"):
        while missing and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
            missing = _unserved(variables, access, missing)
    return not missing


def _is_made(resource: state.Resource) -> bool:
    return resource["type"] == DEFINITION and bool((resource.get("outputs") or {}).get("metadata"))


def _unserved(variables: Mapping[str, str], access: Access, names: list[str]) -> list[str]:
    """The definitions of `names` that the server holds and does not serve; none if the server does not answer."""

    def get(*words: str) -> subprocess.CompletedProcess[str]:
        return live_objects.kubectl(
            variables, access, "get", *words, "--ignore-not-found", "--output", "name"
        )

    held = [name for name in names if get("customresourcedefinitions", name).stdout.strip()]
    # A definition's name is the resource and the group that it defines.
    return [name for name in held if live_objects.NO_SUCH_KIND in get(name, "--all-namespaces").stderr]
