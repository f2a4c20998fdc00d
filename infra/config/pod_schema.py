"""The fields and types of a pod template, as the Kubernetes client knows them, and where a patch breaks them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cache

from infra.agreed import listed

DIRECTIVE, DELETE, REPLACE = "$patch", "delete", "replace"
# The lists that Kubernetes merges, and the field that identifies their entries: `patchMergeKey` in
# k8s.io/api/core/v1/types.go, `x-kubernetes-patch-merge-key` in an API server's OpenAPI document.
MERGE_KEYS = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers", "env"), "name"),
    **dict.fromkeys(("volumes", "imagePullSecrets", "resourceClaims", "schedulingGates"), "name"),
    "hostAliases": "ip",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
}
# Model of the client -> fields that a job's pods never get. An API server drops them without a message,
# because PyTorchJob's CRD lacks them; it refuses ephemeral containers in a template.
UNUSABLE = {
    "V1ClusterTrustBundleProjection": {"user"},
    "V1ConfigMapVolumeSource": {"defaultUser"},
    "V1Container": {"restartPolicyRules"},
    "V1DownwardAPIVolumeFile": {"user"},
    "V1DownwardAPIVolumeSource": {"defaultUser"},
    "V1EmptyDirVolumeSource": {"mode"},
    "V1EnvVarSource": {"fileKeyRef"},
    "V1GRPCAction": {"mode"},
    "V1HTTPGetAction": {"protocol"},
    "V1KeyToPath": {"user"},
    "V1Lifecycle": {"stopSignal"},
    "V1PodSecurityContext": {"seLinuxChangePolicy"},
    "V1PodSpec": {
        "ephemeralContainers",
        "evictionResponders",
        "hostnameOverride",
        "resources",
        "schedulingGroup",
    },
    "V1ProjectedVolumeSource": {"defaultUser"},
    "V1SecretVolumeSource": {"defaultUser"},
    "V1ServiceAccountTokenProjection": {"user"},
    "V1VolumeMount": {"bindMountOptions"},
    "V1VolumeProjection": {"podCertificate"},
}
PLAIN: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number without quotes"),
    "object": ((int, str), "a whole number, or text"),
    "str": ((str,), "text; quote a number, true and false"),
}
QUANTITIES = (".limits", ".requests")
"""Mappings whose values Kubernetes takes as whole numbers, too."""
SHOWN = 8


def problems(patch: object) -> Iterator[tuple[str, object, str]]:
    """Each place where `patch` is not a strategic merge patch of a PodTemplateSpec. Needs no network.

    Checks only that each field exists, and its type. null removes a field.

    Yields:
        The path, `spec.containers[0].image`, which is empty for `patch` itself; the value there, or `(absent)`;
        what is allowed there.
    """
    if patch is None:
        yield "", patch, "a mapping with metadata and spec"
    yield from _of(patch, "V1PodTemplateSpec", "")


@cache
def fields(model: str) -> dict[str, str]:
    """Field -> type, `V1Probe` or `List[str]`, of a class of the Kubernetes client."""
    from kubernetes.client import models  # a second or more, which only a stack with a patch pays for

    known = getattr(models, model)
    found = {known.attribute_map[name]: kind for name, kind in known.openapi_types.items()}
    # Kubernetes takes no more than these from the metadata of a template.
    return {name: found[name] for name in ("annotations", "labels")} if model == "V1ObjectMeta" else found


def _of(value: object, kind: str, path: str) -> Iterator[tuple[str, object, str]]:
    outer, _, inner = kind.removesuffix("]").partition("[")
    if value is None:
        return
    if outer == "List":
        yield from _of_list(value, inner, path)
    elif outer in PLAIN:
        types, words = PLAIN[outer]
        if not isinstance(value, types) or (isinstance(value, bool) and outer != "bool"):
            yield path, value, words
    elif not isinstance(value, Mapping):
        yield path, value, "a mapping"
    else:
        for name, each in value.items():
            yield from _of_field(name, each, kind, f"{path}.{name}".removeprefix("."))


def _of_field(name: object, value: object, kind: str, path: str) -> Iterator[tuple[str, object, str]]:
    known = {str(name): "str"} if kind.startswith("Dict") else fields(kind)
    if name == DIRECTIVE:
        if value not in (DELETE, REPLACE):
            yield path, value, f"{DELETE}, {REPLACE}"
    elif not isinstance(name, str):
        yield path, value, "a key in quotes: keys are text"
    elif name.startswith("$"):
        yield path, value, f"only the directive {DIRECTIVE}, with {DELETE} or {REPLACE}"
    elif name not in known:
        usable = sorted(set(known) - UNUSABLE.get(kind, set()))
        near = difflib.get_close_matches(name, usable, 3, 0.5)
        names = [*near, *(each for each in usable if each not in near)]
        yield path, value, f"a field of {kind.removeprefix('V1')}: {listed(names, SHOWN)}"
    elif name in UNUSABLE.get(kind, ()):
        yield path, value, f"no value: a job's pods cannot have {name} of {kind.removeprefix('V1')}"
    elif not (type(value) is int and path.rpartition(".")[0].endswith(QUANTITIES)):
        yield from _of(value, known[name], path)


def _of_list(value: object, kind: str, path: str) -> Iterator[tuple[str, object, str]]:
    if not isinstance(value, list):
        yield path, value, "a list"
        return
    merge_key = MERGE_KEYS.get(path.rpartition(".")[2])
    for number, each in enumerate(value):
        place = f"{path}[{number}]"
        entry = each if isinstance(each, Mapping) else {}
        directive = entry.get(DIRECTIVE)
        if each is None:
            yield place, each, PLAIN[kind][1] if kind in PLAIN else "a mapping"
        elif directive and not merge_key:
            yield f"{place}.{DIRECTIVE}", directive, "no directive: a patch replaces this list as a whole"
        elif directive == REPLACE:
            if len(entry) > 1:
                yield (
                    place,
                    each,
                    f"`{DIRECTIVE}: {REPLACE}` alone: the other entries here replace the template's list",
                )
        elif isinstance(each, Mapping) and merge_key and each.get(merge_key) is None:
            yield f"{place}.{merge_key}", "(absent)", f"a value: entries are merged by {merge_key}"
        else:
            yield from _of(each, kind, place)
