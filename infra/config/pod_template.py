"""Key `job.pod`: a part of Kubernetes' own pod template, which the stack merges over its own template."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator

from infra.config import pod_schema
from infra.config.section import refusal
from infra.config.strategic_merge import merged
from infra.config.variables import ITSELF, STACKS_OWN

CONTAINER = "pytorch"
"""The container that trains. The operator looks for one of this name."""

OURS: Mapping[str, Any] = {
    "spec": {
        "containers": [
            {
                "name": CONTAINER,
                "image": "the section image",
                "command": "job.command",
                "args": "job.args and job.training",
                "env": [{"name": name, "value": key} for name, key in STACKS_OWN.items()],
                "resources": {
                    kind: {
                        "cpu": f"job.resources{inner}.cpu",
                        "memory": f"job.resources{inner}.memory",
                        "nvidia.com/gpu": "job.resources.gpu",
                    }
                    for kind, inner in (("limits", ""), ("requests", ".requests"))
                },
                "securityContext": {"readOnlyRootFilesystem": "job.readOnlyRoot"},
            }
        ],
        "volumes": [
            {"name": "models", "persistentVolumeClaim": {"claimName": "the section storage"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "job.data"}},
        ],
        "securityContext": {"runAsUser": "job.user"},
        "restartPolicy": "job.restartPolicy",
        "activeDeadlineSeconds": "job.runPolicy.activeDeadlineSeconds",
    }
}
"""The fields of a pod that other keys of the stack file set; the value of each field is the name of its key."""


def _part(spec: Mapping[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    """A pod template with fields of its spec and of its container."""
    own = [{"name": CONTAINER, **container}] if container else []
    return {"spec": {**(spec or {}), **({"containers": own} if own else {})}}


def _shm(size: Any) -> dict[str, Any]:
    volume = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    return _part({"volumes": [volume]}, volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}])


def _nccl(given: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "socketInterface": "NCCL_SOCKET_IFNAME",
        "debug": "NCCL_DEBUG",
        "disableInfiniband": "NCCL_IB_DISABLE",
        "disablePeerToPeer": "NCCL_P2P_DISABLE",
    }
    env = [
        {"name": names[key], "value": "1" if value is True else str(value)}
        for key, value in given.items()
        if value is not False
    ]
    return _part(env=env)


MOVED: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "priorityClass": lambda name: _part({"priorityClassName": name}),
    "imagePullSecrets": lambda names: _part({"imagePullSecrets": [{"name": name} for name in names]}),
    "shmSize": _shm,
    "nccl": _nccl,
    "nodeSelector": lambda labels: _part({"nodeSelector": labels}),
    "tolerations": lambda given: _part({"tolerations": [{"operator": "Exists", **each} for each in given]}),
    "runtimeClass": lambda name: _part({"runtimeClassName": name}),
    "spread": lambda on: _part({} if on else {"topologySpreadConstraints": [{"$patch": "replace"}]}),
}
"""Former keys of a job, which `pod` has replaced -> the part of a pod template with the same effect."""


def ensure_none_is_a_pods(given: Any, known: Container[str]) -> Any:
    """`given`, the keys of a job in a stack file, unchanged.

    Raises a refusal with the lines to write if a key has moved into `pod`, or is a field of pods.

    Parameters:
        known: the keys that a job can have.
    """
    keys = [key for key in given if key not in known] if isinstance(given, Mapping) else []
    found = {key: part for key in keys if (part := _place(key))}
    if not found:
        return given
    pod: dict[str, Any] = {}
    for key, part in found.items():
        try:
            pod = _joined(pod, part(given[key]))
        except (AttributeError, KeyError, TypeError):  # the value was also wrong before
            pod = _joined(pod, _part())
    there = given.get("pod")
    pod = _joined(pod, there if isinstance(there, Mapping) else {})
    text = yaml.safe_dump(pod, default_flow_style=True, width=10**6, sort_keys=False).strip()
    names = " and ".join(found)
    fix = f"remove {names}, and write `pod: {text}`" if pod["spec"] or len(pod) > 1 else f"remove {names}"
    first = next(iter(found))
    raise refusal("nothing: write each field of a pod template in the key `pod`", fix, first, given[first])


def _place(key: str) -> Callable[[Any], dict[str, Any]] | None:
    """Makes a part of a pod template from the value of `key`; None if `key` is not a field of pods."""
    if key in MOVED:
        return MOVED[key]
    if key in pod_schema.fields("V1PodSpec"):
        return lambda value: _part({key: value})
    return (lambda value: _part(**{key: value})) if key in pod_schema.fields("V1Container") else None


def _joined(one: Any, other: Any) -> Any:
    """Two parts of a pod template as one."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        both = {name: _joined(one[name], other[name]) for name in one if name in other}
        return {**one, **other, **both}
    if isinstance(one, list) and isinstance(other, list):
        same = [each for each in other if isinstance(each, Mapping) and each.get("name") == CONTAINER]
        own = [_joined(each, same[0]) if same and each.get("name") == CONTAINER else each for each in one]
        is_there = same and any(each.get("name") == CONTAINER for each in one)
        return [*own, *(each for each in other if not (is_there and each in same))]
    return other


def _checked(pod: dict[str, Any]) -> dict[str, Any]:
    for path, value, allowed in pod_schema.problems(pod):
        raise refusal(allowed, "see `kubectl explain pod`", path, value)
    for path, value, key in _changed(OURS, merged(OURS, pod)):
        fix = "remove it from pod" + ("" if key == ITSELF else f"; set {key}")
        raise refusal(f"fields that the stack does not set: {key} sets this one", fix, path, value)
    return pod


def _changed(ours: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, str]]:
    """Path, new value and key of each value of OURS that the patch changes."""
    if isinstance(ours, Mapping):
        for name, each in ours.items():
            inner = now.get(name) if isinstance(now, Mapping) else None
            yield from _changed(each, inner, f"{path}.{name}" if path else name)
    elif isinstance(ours, list):
        named = {each["name"]: each for each in now or []}
        for each in ours:
            yield from _changed(each, named.get(each["name"]), f"{path}[{each['name']}]")
    elif ours != now:
        yield path, "(removed)" if now is None else now, ours


Pod = Annotated[dict[str, Any], AfterValidator(_checked)]
