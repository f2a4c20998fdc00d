"""The recorded behaviour of the real plugin, and how to compare ours with it."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("golden_records")

# What no two runs have in common.
_GENERATED = {
    "creationTimestamp",
    "lastPhaseTransitionTime",
    "lastProbeTime",
    "lastTransitionTime",
    "lastUpdateTime",
    "resourceVersion",
    "startTime",
    "completionTime",
    "time",
    "uid",
    "clusterIP",
    "clusterIPs",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "ca.crt",
    "volumeName",
}
_SECRET = "4dabf18193072939515e22adb298388d"
_SUFFIX = re.compile(r"-[0-9a-f]{8}\b")


def program() -> str:
    """The recorded program."""
    return (FOLDER / "program" / "__main__.py").read_text()


def states(step: int) -> dict[str, dict[str, Any]]:
    """The recorded state after a step, by name; what only waited to be deleted is left out."""
    exported = json.loads((FOLDER / f"{step}-state.json").read_text())
    resources = exported["deployment"]["resources"]
    return {r["urn"].split("::")[-1]: r for r in resources if not r.get("delete")}


def changes(step: int) -> dict[str, tuple[str, dict[str, str]]]:
    """What the recorded preview of a step said: operation and kinds of the detailed diff, by name."""
    return summary(json.loads((FOLDER / f"{step}-preview.json").read_text())["steps"])


def summary(steps: list[dict[str, Any]]) -> dict[str, tuple[str, dict[str, str]]]:
    """Operation and kinds of the detailed diff, by name, of a preview's steps; those that do nothing left out."""
    found = {}
    for step in steps:
        if step["op"] in ("same", "read"):
            continue
        detailed = {path: diff["kind"] for path, diff in (step.get("detailedDiff") or {}).items()}
        found[step["urn"].split("::")[-1]] = (step["op"], detailed)
    return found


def comparable(value: Any) -> Any:
    """Without what is generated: times, versions, addresses, name suffixes; secrets are only known to be such."""
    if isinstance(value, dict):
        if _SECRET in value:
            return "[secret]"
        return {
            _masked(key): comparable(item)
            for key, item in value.items()
            if key not in _GENERATED and not key.startswith("k:")
        }
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return _masked(value) if isinstance(value, str) else value


def _masked(text: str) -> str:
    return _SUFFIX.sub("-<suffix>", text)


def inputs(resource: dict[str, Any]) -> Any:
    """A resource's inputs, comparable."""
    return comparable(resource["inputs"])


def own_outputs(resource: dict[str, Any]) -> Any:
    """What the plugin itself adds to the outputs, and the part of the object that the program determines."""
    outputs = copy.deepcopy(resource["outputs"])
    for controlled in ("status", "apiVersion"):
        outputs.pop(controlled, None)
    metadata = outputs["metadata"]
    metadata["managers"] = sorted(
        [entry["manager"], entry["operation"]]
        for entry in metadata.pop("managedFields", [])
        if entry["manager"].startswith("pulumi")
    )
    # Controllers write here, in their own time.
    metadata.pop("annotations", None)
    metadata.pop("generation", None)
    metadata.pop("finalizers", None)
    return comparable(outputs)
