"""Objects as the cluster holds them, looked up with kubectl."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from toolchain.operating import state
from toolchain.operating.environment import for_child
from toolchain.steps import SetupError

Manifest = Mapping[str, Any]
NO_SUCH_KIND = "the server doesn't have a resource type"


def kubectl(
    variables: Mapping[str, str], access: state.Access, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run kubectl on the cluster of `access`; its exit status is the caller's to judge."""
    program = shutil.which("kubectl", path=variables["PATH"]) or "kubectl"
    cmd = [program, "--kubeconfig", access.kubeconfig, "--request-timeout", "20s"]
    cmd += ["--context", access.context] if access.context else []
    return subprocess.run([*cmd, *arguments], env=for_child(variables), capture_output=True, text=True)


def lookup(
    variables: Mapping[str, str], deployment: state.Deployment
) -> Callable[[Manifest], Manifest | None]:
    """As `lookup_in`, in the cluster of `deployment`."""
    return lookup_in(variables, state.access(deployment))


def lookup_in(
    variables: Mapping[str, str], access: state.Access | None
) -> Callable[[Manifest], Manifest | None]:
    """A function that finds the live object of a manifest's kind and name, or None where the cluster has none.

    It raises SetupError where the cluster cannot be asked.
    """

    def live(manifest: Manifest) -> Manifest | None:
        if access is None:
            raise SetupError(
                f"nothing says in which cluster {manifest['kind']} {manifest['metadata']['name']} is"
            )
        metadata = manifest["metadata"]
        group, _, version = str(manifest["apiVersion"]).rpartition("/")
        kind = f"{manifest['kind']}.{version}.{group}" if group else manifest["kind"]
        namespace = ["--namespace", metadata["namespace"]] if metadata.get("namespace") else []
        options = ("--ignore-not-found", "--show-managed-fields", "--output", "json")
        done = kubectl(variables, access, "get", kind, metadata["name"], *namespace, *options)
        if done.returncode:
            # A kind whose definition was not created, either.
            if NO_SUCH_KIND in done.stderr:
                return None
            raise SetupError(f"cannot read {kind} {metadata['name']} from the cluster: {done.stderr.strip()}")
        found: Manifest | None = json.loads(done.stdout) if done.stdout.strip() else None
        return found

    return live
