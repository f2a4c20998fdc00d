"""What is refused of a patch of a pod template, and with which words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from infra.config.pod_schema import MERGE_KEYS, UNUSABLE, fields, problems
from infra.upstream import vendored

GOOD = """
{}
---
metadata: {labels: {team: vision, old: null}, annotations: {$patch: replace, note: x}}
---
spec:
  automountServiceAccountToken: true
  terminationGracePeriodSeconds: null
  nodeSelector: {$patch: delete}
  tolerations: [{key: gpu, operator: Exists, tolerationSeconds: 5}]
---
spec:
  containers:
    - {name: sidecar, $patch: delete}
    - name: pytorch
      command: [python, "3"]
      env: [{name: A, value: "1"}, {$patch: replace}]
      resources: {limits: {cpu: "2", memory: null}}
      livenessProbe: {httpGet: {port: metrics}}
      startupProbe: {httpGet: {port: 80}, exec: null}
      ports: [{containerPort: 80}]
      volumeMounts: [{mountPath: /x, name: x}]
  volumes:
    - {name: x, projected: {sources: [{configMap: {name: x, items: [{key: a, path: b, mode: 256}]}}]}}
    - name: y
      ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {resources: {requests: {storage: 1Gi}}}}}
  securityContext: {$patch: replace, supplementalGroups: [1, 2]}
  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}}
"""
TEXT = "text; quote a number, true and false"
WHOLE = "a whole number without quotes"
BAD: dict[str, tuple[str, str, object, str]] = {
    "no mapping": ("[]", "", [], "a mapping"),
    "null": ("null", "", None, "a mapping with metadata and spec"),
    "a field beside spec": ("status: {}", "status", {}, "a field of PodTemplateSpec: metadata, spec"),
    "metadata of an object": (
        "metadata: {name: x}",
        "metadata.name",
        "x",
        "a field of ObjectMeta: annotations, labels",
    ),
    "a label that is no text": ("metadata: {labels: {a: true}}", "metadata.labels.a", True, TEXT),
    "a misspelt field": (
        "spec: {containers: [{name: x, imagePullPolice: Always}]}",
        "spec.containers[0].imagePullPolice",
        "Always",
        "a field of Container: imagePullPolicy, image, args, command, env, envFrom, lifecycle, livenessProbe"
        " and 16 more",
    ),
    "a label whose key is no text": (
        "metadata: {labels: {1: x}}",
        "metadata.labels.1",
        "x",
        "a key in quotes: keys are text",
    ),
    "a field that is no text": (
        "spec: {affinity: {1: x}}",
        "spec.affinity.1",
        "x",
        "a key in quotes: keys are text",
    ),
    "text for a list": (
        "spec: {containers: [{name: x, command: python}]}",
        "spec.containers[0].command",
        "python",
        "a list",
    ),
    "a mapping for a list": ("spec: {tolerations: {key: x}}", "spec.tolerations", {"key": "x"}, "a list"),
    "a list for a mapping": ("spec: {nodeSelector: [x]}", "spec.nodeSelector", ["x"], "a mapping"),
    "text for a mapping": ("spec: {containers: [x]}", "spec.containers[0]", "x", "a mapping"),
    "null for an entry": ("spec: {tolerations: [null]}", "spec.tolerations[0]", None, "a mapping"),
    "null for a word": (
        "spec: {containers: [{name: x, args: [null]}]}",
        "spec.containers[0].args[0]",
        None,
        TEXT,
    ),
    "text for a number": ('spec: {priority: "1"}', "spec.priority", "1", WHOLE),
    "true for a number": ("spec: {priority: true}", "spec.priority", True, WHOLE),
    "a broken number": ("spec: {priority: 1.5}", "spec.priority", 1.5, WHOLE),
    "text for true": ('spec: {hostNetwork: "true"}', "spec.hostNetwork", "true", "true or false"),
    "a number for text": (
        "spec: {containers: [{name: x, env: [{name: A, value: 1}]}]}",
        "spec.containers[0].env[0].value",
        1,
        TEXT,
    ),
    "a fraction for a quantity": (
        "spec: {containers: [{name: x, resources: {limits: {cpu: 2.5}}}]}",
        "spec.containers[0].resources.limits.cpu",
        2.5,
        TEXT,
    ),
    "a number for a volume's size": (
        "spec: {volumes: [{name: x, emptyDir: {sizeLimit: 5}}]}",
        "spec.volumes[0].emptyDir.sizeLimit",
        5,
        TEXT,
    ),
    "a broken port": (
        "spec: {containers: [{name: x, livenessProbe: {tcpSocket: {port: 1.5}}}]}",
        "spec.containers[0].livenessProbe.tcpSocket.port",
        1.5,
        "a whole number, or text",
    ),
    "a field that PyTorchJob drops": (
        "spec: {resources: {}}",
        "spec.resources",
        {},
        "nothing: a job's pods cannot have resources of PodSpec",
    ),
    "a directive of another list": (
        "spec: {tolerations: [{$patch: replace}]}",
        "spec.tolerations[0].$patch",
        "replace",
        "no directive: a patch replaces this list as a whole",
    ),
    "a directive that merges": ("spec: {$patch: merge}", "spec.$patch", "merge", "delete, replace"),
    "a directive of kubectl": (
        "spec: {volumes: [{name: x, $retainKeys: [name]}]}",
        "spec.volumes[0].$retainKeys",
        ["name"],
        "one directive: $patch, with delete or replace",
    ),
    "an order": (
        "spec: {$setElementOrder/containers: []}",
        "spec.$setElementOrder/containers",
        [],
        "one directive: $patch, with delete or replace",
    ),
    "an entry that replaces the list": (
        "spec: {containers: [{name: x, $patch: replace}]}",
        "spec.containers[0]",
        {"name": "x", "$patch": "replace"},
        "`$patch: replace` alone: the list's other entries replace it",
    ),
    "a deleted entry without its key": (
        "spec: {containers: [{$patch: delete}]}",
        "spec.containers[0].name",
        "(absent)",
        "the name by which entries are merged",
    ),
    **{
        f"an entry of {name} without its key": (
            f"spec: {{containers: [{{name: x, {name}: [{{}}]}}]}}",
            f"spec.containers[0].{name}[0].{MERGE_KEYS[name]}",
            "(absent)",
            f"the {MERGE_KEYS[name]} by which entries are merged",
        )
        for name in sorted(fields("V1Container").keys() & MERGE_KEYS.keys())
    },
    **{
        f"an entry of {name} without its key": (
            f"spec: {{{name}: [{{{MERGE_KEYS[name]}: null}}]}}",
            f"spec.{name}[0].{MERGE_KEYS[name]}",
            "(absent)",
            f"the {MERGE_KEYS[name]} by which entries are merged",
        )
        for name in sorted(fields("V1PodSpec").keys() & MERGE_KEYS.keys() - UNUSABLE["V1PodSpec"])
    },
}


@pytest.mark.parametrize("patch", GOOD.split("---"))
def test_finds_nothing_in_a_good_patch(patch: str) -> None:
    assert list(problems(yaml.safe_load(patch))) == []


@pytest.mark.parametrize("name", BAD)
def test_names_the_place_the_value_and_what_is_allowed(name: str) -> None:
    patch, *wanted = BAD[name]
    assert list(problems(yaml.safe_load(patch))) == [tuple(wanted)]


def test_finds_each_fault() -> None:
    found = problems({"specs": {}, "spec": {"containers": [{"image": 1}, {"name": 2, "tty": 3}]}})
    assert [path for path, _, _ in found] == [
        "specs",
        "spec.containers[0].name",
        "spec.containers[1].name",
        "spec.containers[1].tty",
    ]


def missing(model: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Model and field, of the fields of the client that a CRD's `schema` lacks."""
    for field, kind in fields(model).items():
        inner = re.sub(r"^List\[(.*)]$", r"\1", kind)
        if field not in schema["properties"]:
            yield model, field
        elif "V1" in inner:
            found = schema["properties"][field]
            yield from missing(inner, found.get("items", found))


@pytest.mark.parametrize("project", ["training-operator", "trainer"])
def test_no_operator_drops_a_field_that_may_be_set(project: str) -> None:
    """A server drops the fields that a CRD lacks without a word."""
    kinds = {"training-operator": "PyTorchJob", "trainer": "TrainingRuntime"}
    (crd,) = [
        each
        for each in vendored.objects(project)
        if each["kind"] == "CustomResourceDefinition" and each["spec"]["names"]["kind"] == kinds[project]
    ]
    (version,) = crd["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    if project == "trainer":
        jobs = spec["template"]["properties"]["spec"]["properties"]["replicatedJobs"]["items"]
        template = jobs["properties"]["template"]["properties"]["spec"]["properties"]["template"]
    else:
        template = spec["pytorchReplicaSpecs"]["additionalProperties"]["properties"]["template"]
    reachable = {each for each in missing("V1PodTemplateSpec", template) if each[0] != "V1EphemeralContainer"}
    unusable = {(model, field) for model, names in UNUSABLE.items() for field in names}
    if project == "trainer":
        # what PyTorchJob lacks as a whole needs no place for its parts
        assert reachable <= unusable | {("V1PodCertificateProjection", "user")}
    else:
        assert reachable == unusable - {("V1PodSpec", "ephemeralContainers")}
