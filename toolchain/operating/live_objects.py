"""Looks up objects in the cluster, and warning events about objects, with kubectl."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from toolchain.operating import state
from toolchain.operating.environment import for_child
from toolchain.steps import SetupError

Manifest = Mapping[str, Any]
NO_SUCH_KIND = "the server doesn't have a resource type"
RECENT = timedelta(minutes=30)
SHOWN = 3


def kubectl(
    variables: Mapping[str, str],
    access: state.Access,
    *arguments: str,
    answer_s: int = 20,
    whole_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run kubectl on the cluster of `access`. The caller checks the exit status.

    Parameters:
        answer_s: seconds that the server may take for each request.
        whole_s: seconds until a hanging kubectl counts as failed; None for no limit.
    """
    program = shutil.which("kubectl", path=variables["PATH"]) or "kubectl"
    cmd = [program, "--kubeconfig", access.kubeconfig, "--request-timeout", f"{answer_s}s"]
    cmd += ["--context", access.context] if access.context else []
    try:
        return subprocess.run(
            [*cmd, *arguments], env=for_child(variables), capture_output=True, text=True, timeout=whole_s
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(cmd, 1, "", "no answer")


def lookup(
    variables: Mapping[str, str], access: state.Access | None
) -> Callable[[Manifest], Manifest | None]:
    """A function that returns the live object of a manifest's kind and name, or None if the cluster has none.

    That function raises SetupError if the cluster does not answer.
    """

    def live(manifest: Manifest) -> Manifest | None:
        if access is None:
            raise SetupError(
                f"the state names no cluster for {manifest['kind']} {manifest['metadata']['name']}"
            )
        metadata = manifest["metadata"]
        group, _, version = str(manifest["apiVersion"]).rpartition("/")
        kind = f"{manifest['kind']}.{version}.{group}" if group else manifest["kind"]
        namespace = ["--namespace", metadata["namespace"]] if metadata.get("namespace") else []
        options = ("--ignore-not-found", "--show-managed-fields", "--output", "json")
        done = kubectl(variables, access, "get", kind, metadata["name"], *namespace, *options)
        if done.returncode:
            # Not even the definition of the kind exists.
            if NO_SUCH_KIND in done.stderr:
                return None
            raise SetupError(f"cannot read {kind} {metadata['name']} from the cluster: {done.stderr.strip()}")
        found: Manifest | None = json.loads(done.stdout) if done.stdout.strip() else None
        return found

    return live


def recent_warnings(
    variables: Mapping[str, str], access: state.Access, namespace: str, names: Iterable[str]
) -> list[str]:
    """A sentence for each of the latest recent warnings, with its age. Raises SetupError if events cannot be read.

    Parameters:
        names: names of objects. An event counts if its object has one of these names, or one of them with a dash and
            more after it, as the pods of a job have.
    """
    chosen = ("--field-selector", "type=Warning", "--output", "json")
    done = kubectl(variables, access, "get", "events", "--namespace", namespace, *chosen)
    if done.returncode:
        raise SetupError(f"cannot list events: {done.stderr.strip()}")
    return warnings(json.loads(done.stdout)["items"], set(names), datetime.now(UTC))


def warnings(events: Iterable[dict[str, Any]], names: set[str], now: datetime) -> list[str]:
    """A sentence for each of the latest `SHOWN` of `events`, not older than `RECENT` at `now`."""
    seen = [
        (_seen_last(each), each)
        for each in events
        if any(_is_named_after(each["involvedObject"].get("name", ""), name) for name in names)
    ]
    recent = sorted(
        ((when, each) for when, each in seen if when and now - when <= RECENT), key=lambda pair: pair[0]
    )
    return [_warning(each, now - when) for when, each in recent[-SHOWN:]]


def _is_named_after(found: str, name: str) -> bool:
    return found == name or found.startswith(f"{name}-")


def _seen_last(event: dict[str, Any]) -> datetime | None:
    """When the event was last seen. A series has its own time, and newer reporters leave `lastTimestamp` empty."""
    series = (event.get("series") or {}).get("lastObservedTime")
    written = series or event.get("lastTimestamp") or event.get("eventTime")
    return datetime.fromisoformat(written) if written else None


def _warning(event: dict[str, Any], age: timedelta) -> str:
    about = event["involvedObject"]
    minutes = int(age.total_seconds() // 60)
    message = " ".join(str(event.get("message", "")).split())
    return f"{minutes} min ago: {about.get('kind')}/{about.get('name')} {event.get('reason')}: {message}"
