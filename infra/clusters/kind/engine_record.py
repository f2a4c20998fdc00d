"""Records which container engine holds a cluster: another engine without its containers proves nothing."""

from __future__ import annotations

import json
from pathlib import Path

from infra import docker


class AnotherEngineError(RuntimeError):
    """The engine that answers is not the one that the cluster was made in."""


def of(marker: Path) -> dict[str, str]:
    """`id` and `host` of the engine that a cluster's marker names; empty for none, and for markers of release 0.1."""
    try:
        found: dict[str, str] = json.loads(marker.read_text()).get("engine") or {}
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found


def refuse_another(cluster: str, marker: Path) -> None:
    """Raises AnotherEngineError where the engine that answers differs from the recorded one by its id and its host.

    With the same host it was made anew in the same place: what the old one held is gone.
    """
    recorded = of(marker)
    if not recorded.get("id"):
        return
    present = docker.identity()
    if any(present[key] == recorded[key] for key in ("id", "host")):
        return
    raise AnotherEngineError(
        f"cluster {cluster} was made in the container engine at {recorded['host']}, and the one at {present['host']} "
        "answers now; nothing was touched.\n"
        f"  fix: export DOCKER_HOST={recorded['host']}; or, where that engine is gone for good, rm {marker}"
    )
